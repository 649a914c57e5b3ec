"""The embedding model: texts to unit vectors, and the tokenizer that says how much of a text it reads.

In: texts. Out: float32 vectors of length 1, token counts, the model's fingerprint. Must not: fetch anything from a network
(remote_embeddings.py asks an endpoint, if one is configured), or load the weights before the first vector is asked for: an
ingest run in which nothing changed never pays for them.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from rag_service.errors import EmbeddingsUnavailable
from rag_service.index.fingerprint import Fingerprint
from rag_service.index.model_files import (
    cpu_computes_bfloat16,
    dimension,
    max_sequence,
    model_folder,
    open_tokenizer,
    own_prefixes,
    weights_digest,
)
from rag_service.index.passes import Passes
from rag_service.index.settings import EmbeddingsSettings

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """What makes vectors: a model in this process or an endpoint. Not thread-safe: one thread owns it at a time.

    Everything raises EmbeddingsUnavailable for what is missing, with what to do about it.
    """

    @property
    def fingerprint(self) -> Fingerprint: ...

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that are read, without special ones and prefixes. What is beyond is lost or refused."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text as the model would see it, or more; special tokens and prefixes left out."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Passages: unit vectors, shape (len(texts), dimension), float32."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Questions: the same, with what the model wants before a question."""
        ...

    def warm_up(self) -> None:
        """Do now what the first text would wait for."""
        ...

    def close(self) -> None:
        """End its threads and connections."""
        ...


def open_embedder(settings: EmbeddingsSettings, headers: Callable[[], Mapping[str, str]] = dict) -> Embedder:
    """The configured endpoint, or the model in this process. Nothing is loaded or asked yet. `headers` go along with each
    request to the endpoint."""
    if settings.base_url is None:
        return EmbeddingModel(settings)
    from rag_service.index.remote_embeddings import RemoteEmbeddings

    return RemoteEmbeddings(settings, headers=headers)


class EmbeddingModel:
    """One sentence-transformers model on this machine; an `Embedder`.

    Equal texts get equal vectors but for the last bits: bfloat16 sums in another order when a pass has another shape
    (cosine 0.9999 and more).
    """

    def __init__(self, settings: EmbeddingsSettings) -> None:
        self._settings = settings
        self.folder = model_folder(settings.model)

    @functools.cached_property
    def fingerprint(self) -> Fingerprint:
        """From the model's files alone. Raises EmbeddingsUnavailable when they are not those of a model."""
        query, passage = self._prefixes
        return Fingerprint(
            model=self._settings.model,
            weights=weights_digest(self.folder),
            dimension=dimension(self.folder),
            query_prefix=query,
            passage_prefix=passage,
        )

    @functools.cached_property
    def max_tokens(self) -> int:
        """Tokens of a text that the model reads, without special ones and the prefix. What is beyond is silently lost."""
        taken = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        if prefix := self._prefixes[1]:
            taken += (
                self.count_tokens([prefix])[0] + 1
            )  # its end and the text's beginning may be cut otherwise together
        return max(1, max_sequence(self.folder) - taken)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text as the model would see it, special tokens left out."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Passages: unit vectors, shape (len(texts), dimension), float32. Raises EmbeddingsUnavailable."""
        return self._embed(texts, self._prefixes[1])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Questions: the same, with what the model wants before a question."""
        return self._embed(texts, self._prefixes[0])

    def warm_up(self) -> None:
        """Load the weights and run one pass, so that the first question does not pay for it."""
        self.embed(["warm up"])

    def close(self) -> None:
        """End its threads; it can be used again."""
        if "_passes" in vars(self):
            self._passes.close()

    def _embed(self, texts: Sequence[str], prefix: str) -> Vectors:
        if not texts:
            return np.empty((0, self.fingerprint.dimension), dtype=np.float32)
        try:
            vectors = self._passes.run(texts, prefix)
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

    @functools.cached_property
    def _prefixes(self) -> tuple[str, str]:
        """Before questions, before passages."""
        query, passage = own_prefixes(self.folder)
        configured = self._settings
        return (
            query if configured.query_prefix is None else configured.query_prefix,
            passage if configured.passage_prefix is None else configured.passage_prefix,
        )

    @functools.cached_property
    def _tokenizer(self) -> Tokenizer:
        path = self.folder / "tokenizer.json"
        if not path.is_file():
            raise EmbeddingsUnavailable(
                f"The embedding model in {self.folder} has no tokenizer.json. Save it again with a current"
                " sentence-transformers, or choose another RAG_EMBEDDINGS__MODEL."
            )
        return open_tokenizer(path)

    @functools.cached_property
    def _passes(self) -> Passes:
        # Imported here: torch takes seconds, and most runs of rag-ingest and every error path do not need it.
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # type: ignore[no-untyped-call]  # its bar would run through ours
        settings = self._settings
        if settings.threads:
            torch.set_num_threads(settings.threads)
        dtype = torch.bfloat16 if self._wants_bfloat16() else torch.float32
        model = SentenceTransformer(
            str(self.folder), device=settings.device, local_files_only=True, model_kwargs={"dtype": dtype}
        ).eval()
        return Passes(model, self.folder / "tokenizer.json", max_texts=settings.batch_size, threads=settings.threads)

    def _wants_bfloat16(self) -> bool:
        if self._settings.dtype != "auto":
            return self._settings.dtype == "bfloat16"
        return self._settings.device.startswith("cuda") or cpu_computes_bfloat16()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "no message")[:200]
