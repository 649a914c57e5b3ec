"""Builds the parts of ingest runs, and closes them: the only place that does.

In: settings. Out: an open `Pipeline`, or a read-only catalog. Must not: print; waiting is told through a callback.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ingest.chunker import Chunker
from ingest.disk import named_when_full
from ingest.maintenance.index import Index
from ingest.parsers.pool import ParserPool
from ingest.parsing import ParserSetup
from ingest.pipeline import Pipeline, never
from ingest.scan import Given, Scan, nothing_given
from ingest.settings import IngestSettings
from rag_service.index.catalog import Catalog
from rag_service.index.catalog_checks import CatalogChecks
from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.embeddings import Embedder, open_embedder
from rag_service.index.schema import require_catalog
from rag_service.index.vector_store import VectorStore
from rag_service.index.writer_lock import writer_lock
from rag_service.local.chroma import chroma_folder, chroma_server


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is dear to make and may serve several runs, one after the other: the model, the processes that read files, and
    where Chroma is (a local one is started, or shared, only when it is needed)."""

    model: Embedder
    parsers: ParserPool
    chroma: Callable[[], str]


@contextmanager
def loaded(settings: IngestSettings) -> Iterator[Loaded]:
    """Raises InvalidSettings, EmbeddingsUnavailable: a missing model is told before anything is made."""
    with ExitStack() as stack:
        model = open_embedder(settings.embeddings)
        stack.callback(model.close)
        model.fingerprint.id  # noqa: B018  reads its files
        chroma = _address(settings, stack)
        chunks, limits = settings.chunks, settings.load
        setup = ParserSetup(settings.embeddings, chunks.max_tokens, chunks.overlap_tokens, settings.load_options)
        parsers = stack.enter_context(
            ParserPool(setup, processes=limits.processes, timeout_s=limits.timeout_s, memory_mb=limits.memory_mb)
        )
        yield Loaded(model, parsers, chroma)


@contextmanager
def opened(
    settings: IngestSettings,
    wait_s: float,
    on_wait: Callable[[str], None],
    *,
    stop: Callable[[], bool] = never,
    given: Given = nothing_given,
    retry: bool = False,
    parts: Loaded | None = None,
) -> Iterator[Pipeline]:
    """The pipeline, with the writer's lock held. A local Chroma is started, or shared, only when it is needed, and so are
    the processes that read files.

    `given` brings metadata from outside a file; `retry` reads files again that failed before; `parts` are those of an
    earlier run, which stay open. Raises IndexLocked, InvalidSettings, CatalogUnavailable, EmbeddingsUnavailable.
    """
    with ExitStack() as stack:
        if parts is None:
            parts = stack.enter_context(loaded(settings))
        model = parts.model
        stack.enter_context(writer_lock(settings.home, wait_s, on_wait))
        stack.enter_context(named_when_full(settings.home))
        catalog = CatalogWriter(settings.catalog_path)
        stack.callback(catalog.close)
        store = VectorStore(settings.chroma, parts.chroma)
        stack.callback(store.close)
        scan = Scan(
            settings.collection,
            catalog,
            embedder=model.fingerprint.id,
            chunker=chunker_for(settings, model).fingerprint,
            options=settings.load_options,
            limits=repr(settings.load),
            given=given,
            retry=retry,
        )
        yield Pipeline(settings.collection, catalog, store, model, parts.parsers, scan, stop=stop)


@contextmanager
def opened_index(settings: IngestSettings, wait_s: float, on_wait: Callable[[str], None]) -> Iterator[Index]:
    """The parts that maintenance needs, with the writer's lock held. Raises as `opened` does, and CatalogUnavailable when there
    is no catalog yet."""
    with ExitStack() as stack:
        model = open_embedder(settings.embeddings)
        stack.callback(model.close)
        model.fingerprint.id  # noqa: B018  reads its files
        require_catalog(settings.catalog_path)
        stack.enter_context(writer_lock(settings.home, wait_s, on_wait))
        stack.enter_context(named_when_full(settings.home))
        catalog = CatalogChecks(settings.catalog_path)
        stack.callback(catalog.close)
        store = VectorStore(settings.chroma, _address(settings, stack))
        stack.callback(store.close)
        yield Index(
            settings.collection,
            catalog,
            store,
            model,
            chunker_for(settings, model),
            settings.home,
            chroma_folder(settings.home) if settings.chroma.url is None else None,
        )


@contextmanager
def opened_catalog(settings: IngestSettings) -> Iterator[Catalog]:
    """The catalog alone, for reading. Raises CatalogUnavailable when there is none yet."""
    catalog = Catalog(settings.catalog_path)
    try:
        yield catalog
    finally:
        catalog.close()


def chunker_for(settings: IngestSettings, model: Embedder) -> Chunker:
    """The one that cuts in a run, and so the one whose fingerprint tells what is up to date."""
    chunks = settings.chunks
    counter = settings.embeddings.tokenizer or ""
    return Chunker(model.count_tokens, model.max_tokens, chunks.max_tokens, chunks.overlap_tokens, counter)


def _address(settings: IngestSettings, stack: ExitStack) -> Callable[[], str]:
    if settings.chroma.url is not None:
        url = str(settings.chroma.url)
        return lambda: url
    server = chroma_server(settings.home)
    stack.callback(server.release)
    return server.acquire  # becomes a user on the first call; later it only looks whether the server is alive
