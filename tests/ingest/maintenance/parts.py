"""An index as `ingest.build.opened_index` opens it, with a model whose calls can be counted.

In: a home, the address of a Chroma. Out: an `Index`, and its last outcome. Must not: stand in for anything but the model.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ingest.chunker import Chunker
from ingest.maintenance.index import Index
from rag_service.index.catalog_checks import CatalogChecks
from rag_service.index.settings import ChromaSettings
from rag_service.index.vector_store import VectorStore
from tests.support.ingest_parts import BATCH, HashEmbedder

Made = TypeVar("Made")


@contextmanager
def index_on(
    home: Path,
    url: str,
    collection: str,
    model: HashEmbedder,
    *,
    max_tokens: int = 8,
    chroma: Path | None = None,
    address: Callable[[], str] | None = None,
    catalog: Callable[[Path], CatalogChecks] = CatalogChecks,
    store: Callable[[ChromaSettings, Callable[[], str]], VectorStore] = VectorStore,
) -> Iterator[Index]:
    writer = catalog(home / "catalog.sqlite3")
    vectors = store(ChromaSettings(), address or (lambda: url))
    try:
        chunker = Chunker(model.count_tokens, model.max_tokens, max_tokens)
        yield Index(collection, writer, vectors, model, chunker, home, chroma, BATCH)
    finally:
        vectors.close()
        writer.close()


def last_of(outcomes: Iterable[Any], kind: type[Made]) -> Made:
    """Do all of it; the last outcome, which must be of that kind."""
    *_, last = outcomes
    assert isinstance(last, kind)
    return last
