"""The parts of an index that maintenance works on, built in one place (build.py) and passed in.

In: the parts. Out: a frozen value. Must not: do anything.
"""

from dataclasses import dataclass
from pathlib import Path

from ingest.chunker import Chunker
from ingest.embedding_stage import EMBED_AT_ONCE
from rag_service.errors import NotFound
from rag_service.index.catalog_checks import CatalogChecks
from rag_service.index.embeddings import Embedder
from rag_service.index.vector_store import VectorStore


@dataclass(frozen=True, slots=True)
class Index:
    """The caller holds the writer's lock. `chroma` is the folder of a local Chroma; None for a server of someone else."""

    collection: str
    catalog: CatalogChecks
    store: VectorStore
    model: Embedder
    chunker: Chunker
    home: Path
    chroma: Path | None = None
    batch: int = EMBED_AT_ONCE

    def require_collection(self) -> None:
        """Raises NotFound where there is nothing to maintain."""
        if self.catalog.fingerprint(self.collection) is None:
            raise NotFound(
                f"There is no collection {self.collection!r} in {self.catalog.path}. Check RAG_HOME and RAG_COLLECTION, or run"
                " `rag-ingest run FOLDER` first."
            )

    def require_model(self) -> None:
        """Raises FingerprintMismatch when the configured model is not the collection's."""
        stored = self.catalog.fingerprint(self.collection)
        if stored is not None:
            self.model.fingerprint.require(stored, self.collection)
