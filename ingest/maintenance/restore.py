"""Vectors made anew from the catalog's texts, where Chroma has lost them: the one way to mend, for `run` and `verify`.

In: the catalog and what Chroma holds. Out: the same vectors as before, and what was done. Must not: delete anything.
"""

from collections.abc import Iterator, Sequence

from ingest.results import FileResult, Progress
from rag_service.index.catalog import Catalog
from rag_service.index.chunks import Chunk
from rag_service.index.embeddings import Embedder
from rag_service.index.vector_store import VectorStore


def restore(
    collection: str, catalog: Catalog, store: VectorStore, model: Embedder, batch: int
) -> Iterator[Progress | FileResult]:
    """Vectors of live chunks that are missing, or stand there under another version."""
    restored: set[str] = set()
    for document in catalog.each_document(collection):
        if document.version in restored:
            continue
        restored.add(document.version)
        there = store.ids_of(collection, document.version)
        chunks = catalog.chunks_of(collection, document.version)
        missing = [chunk for chunk in chunks if chunk.id not in there]
        for first in range(0, len(missing), batch):
            part = missing[first : first + batch]
            embed(collection, store, model, part)
            yield Progress(document.uri, len(part), len(missing) - first - len(part))
        if missing:
            yield FileResult(document.uri, "restored", "Chroma had lost its vectors; made anew", len(missing))


def embed(collection: str, store: VectorStore, model: Embedder, chunks: Sequence[Chunk]) -> None:
    """Make the vectors of some chunks, and write them over whatever is there."""
    vectors = model.embed([chunk.embedded_text for chunk in chunks])
    store.upsert(collection, [chunk.id for chunk in chunks], [chunk.version for chunk in chunks], vectors)
