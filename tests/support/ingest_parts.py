"""The ingest path in one process: a real catalog and a real Chroma, with an embedder whose calls can be counted.

In: a home folder, the address of a Chroma. Out: a `Pipeline`, and what its index holds in a form that can be compared.
Must not: stand in for anything but the model.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from ingest.chunker import Chunker
from ingest.loaders.options import DEFAULT_OPTIONS, LoadOptions
from ingest.parsing import Parsed, parse
from ingest.pipeline import Pipeline, never
from ingest.results import FileResult
from ingest.scan import Given, Scan, nothing_given
from rag_service.index.catalog import Catalog
from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.chunks import digest
from rag_service.index.embeddings import Embedder, Vectors
from rag_service.index.fingerprint import Fingerprint
from rag_service.index.settings import ChromaSettings
from rag_service.index.vector_store import VectorStore

BATCH = 4  # chunks embedded and stored at a time: few, so that a document takes several


@dataclass
class HashEmbedder:
    """An EmbeddingModel without a model: a word is a token, a text's hash its unit vector.

    `calls` counts calls of `embed`, `embedded` the texts; the call number `fail_on` (from 1) fails.
    """

    name: str = "hash"
    dimension: int = 8
    fail_on: int | None = None
    calls: int = 0
    embedded: list[str] = field(default_factory=list)
    max_tokens: int = 254

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.name, digest(self.name), self.dimension)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(re.findall(r"\w+|[^\w\s]", text)) for text in texts]

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        if self.calls == self.fail_on:
            raise RuntimeError("the embedder was told to fail here")
        self.embedded.extend(texts)
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") for text in texts]
        rows = np.array([np.random.default_rng(seed).normal(size=self.dimension) for seed in seeds], dtype=np.float32)
        rows = rows.reshape(len(texts), self.dimension)
        unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.embed(texts)

    def warm_up(self) -> None:
        pass

    def close(self) -> None:
        pass


class InlineParsers:
    """Reads each file at once, in this process, where a HashEmbedder can count its words. Results come in order."""

    processes = 1

    def __init__(self, chunker: Chunker) -> None:
        self._chunker = chunker
        self.read: list[Path] = []

    def submit(self, path: Path, version: str, content_hash: str) -> "Future[Parsed]":
        self.read.append(path)
        future: Future[Parsed] = Future()
        try:
            future.set_result(parse(path, version, content_hash, self._chunker, DEFAULT_OPTIONS))
        except Exception as error:  # noqa: BLE001  the future carries it, as that of a pool does
            future.set_exception(error)
        return future


@contextmanager
def pipeline_on(
    home: Path,
    url: str,
    collection: str,
    model: HashEmbedder,
    *,
    max_tokens: int = 8,
    address: Callable[[], str] | None = None,
    catalog: Callable[[Path], CatalogWriter] = CatalogWriter,
    store: Callable[[ChromaSettings, Callable[[], str]], VectorStore] = VectorStore,
    given: Given = nothing_given,
    retry: bool = False,
    stop: Callable[[], bool] = never,
    options: LoadOptions = DEFAULT_OPTIONS,
) -> Iterator[Pipeline]:
    """As `ingest.build.opened` builds it; `catalog` and `store` may be subclasses that watch or die.

    `address` takes the place of `url` where the server may move.
    """
    home.mkdir(parents=True, exist_ok=True)
    writer = catalog(home / "catalog.sqlite3")
    vectors = store(ChromaSettings(), address or (lambda: url))
    try:
        chunker = Chunker(model.count_tokens, model.max_tokens, max_tokens)
        scan = Scan(
            collection,
            writer,
            embedder=model.fingerprint.id,
            chunker=chunker.fingerprint,
            options=options,
            given=given,
            retry=retry,
        )
        yield Pipeline(collection, writer, vectors, cast("Embedder", model), InlineParsers(chunker), scan, BATCH, stop)
    finally:
        vectors.close()
        writer.close()


def results(pipeline: Pipeline, *paths: Path, **options: bool) -> list[FileResult]:
    """Run it and leave the progress out."""
    return [item for item in pipeline.run(paths, **options) if isinstance(item, FileResult)]


def statuses(pipeline: Pipeline, *paths: Path, **options: bool) -> dict[str, str]:
    """Run it: the last part of each URI, and the status."""
    return {result.uri.rsplit("/", 1)[-1]: result.status for result in results(pipeline, *paths, **options)}


def live_texts(catalog: Catalog, collection: str) -> dict[str, list[str]]:
    """For each URI the texts of its live chunks, as a reader sees them at one moment."""
    found: dict[str, list[str]] = {}
    with catalog.snapshot():
        for document in catalog.documents(collection):
            ids = [chunk.id for chunk in catalog.chunks_of(collection, document.version)]
            live = catalog.live_chunks(collection, ids)
            found[document.uri] = [live[chunk].text for chunk in ids if chunk in live]
    return found


def index_of(pipeline: Pipeline) -> dict[str, Any]:
    """Everything in the index but times and the ids of documents, which hold the collection's name."""
    catalog, collection = pipeline.catalog, pipeline.collection
    documents = catalog.documents(collection)
    versions = {document.version for document in documents}
    return {
        "documents": [(d.uri, d.version, d.title, d.media_type, d.content_hash, d.size, d.metadata) for d in documents],
        "texts": {version: catalog.text(collection, version) for version in versions},
        "chunks": {version: catalog.chunks_of(collection, version) for version in versions},
        "vectors": {version: pipeline.store.ids_of(collection, version) for version in versions},
        "stored": pipeline.store.count(collection),
        "counts": catalog.counts(collection),
        "loose": catalog.loose_versions(collection),
        "problems": catalog.problems(collection),
    }


def assert_consistent(pipeline: Pipeline) -> None:
    """Catalog and Chroma hold the same chunks, and nothing else is in either."""
    index = index_of(pipeline)
    for version, chunks in index["chunks"].items():
        assert index["vectors"][version] == {chunk.id for chunk in chunks}
        assert all(chunk.span.of(index["texts"][version][0]) == chunk.text for chunk in chunks)
    assert index["stored"] == index["counts"].chunks == sum(map(len, index["chunks"].values()))
    assert index["loose"] == []


def facts(count: int, value: str = "10 EUR") -> str:
    """A text of `count` sentences, each of which is a chunk of its own at 8 tokens."""
    return "".join(f"Item {number} has the price {value}.\n" for number in range(count))
