"""Builds the parts of an ingest run, and closes them: the only place that does.

In: settings. Out: an open `Pipeline`, or a read-only catalog. Must not: print; waiting is told through a callback.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from ingest.chunker import Chunker
from ingest.pipeline import Pipeline
from ingest.settings import IngestSettings
from rag_service.index.catalog import Catalog
from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.vector_store import VectorStore
from rag_service.index.writer_lock import writer_lock
from rag_service.local.chroma import chroma_server


@contextmanager
def opened(settings: IngestSettings, wait_s: float, on_wait: Callable[[str], None]) -> Iterator[Pipeline]:
    """The pipeline, with the writer's lock held. A local Chroma is started, or shared, only when it is needed.

    Raises IndexLocked, InvalidSettings, CatalogUnavailable, EmbeddingsUnavailable.
    """
    with ExitStack() as stack:
        model = EmbeddingModel(settings.embeddings)  # first: a missing model is told before anything is made
        model.fingerprint  # noqa: B018  reads its files
        stack.enter_context(writer_lock(settings.home, wait_s, on_wait))
        catalog = CatalogWriter(settings.catalog_path)
        stack.callback(catalog.close)
        store = VectorStore(settings.chroma, _address(settings, stack))
        stack.callback(store.close)
        chunker = Chunker(
            model.count_tokens, model.max_tokens, settings.chunks.max_tokens, settings.chunks.overlap_tokens
        )
        yield Pipeline(settings.collection, catalog, store, model, chunker)


@contextmanager
def opened_catalog(settings: IngestSettings) -> Iterator[Catalog]:
    """The catalog alone, for reading. Raises CatalogUnavailable when there is none yet."""
    catalog = Catalog(settings.catalog_path)
    try:
        yield catalog
    finally:
        catalog.close()


def _address(settings: IngestSettings, stack: ExitStack) -> Callable[[], str]:
    if settings.chroma.url is not None:
        url = str(settings.chroma.url)
        return lambda: url
    server = chroma_server(settings.home)
    stack.callback(server.release)
    return server.acquire  # becomes a user on the first call; later it only looks whether the server is alive
