"""What a run would do, found out without doing it.

In: files as they are found, a catalog that is only read. Out: a `FileResult` for each file, as a run would give it as far as
that is known without loading: a file that is to be read may still turn out to be broken or empty. Must not: write, start
Chroma, or load the model's weights.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from ingest.build import chunker_for
from ingest.discover import Found, Refused, is_missing
from ingest.prune import Kept, Roots, Unwanted, gone_below, unwanted_below
from ingest.refusals import explained
from ingest.results import FileResult
from ingest.scan import Given, Scan
from ingest.settings import IngestSettings
from rag_service.errors import LoadFailed
from rag_service.index.catalog import Catalog
from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.embeddings import open_embedder
from rag_service.index.rows import Stamp


class Onlooker(Catalog):
    """A catalog that is read, whatever it is told to remember."""

    def put_stamps(self, collection: str, stamps: Mapping[str, Stamp]) -> None:
        """Files that were hashed are hashed again in the run itself."""

    def clear_problem(self, collection: str, uri: str) -> None:
        """A problem that is over stays told until the run."""


class DryRun:
    """Used once. `bytes` are of the files that would be read: the most that a run has to load."""

    def __init__(self, collection: str, catalog: Catalog, scan: Scan) -> None:
        self._collection = collection
        self._catalog = catalog
        self._scan = scan
        self.bytes = 0
        self._moved: set[str] = set()  # ids of documents that a file at another place takes along

    def run(
        self,
        paths: Sequence[Path],
        items: Iterable[Found | Refused | FileResult],
        *,
        prune: bool,
        prune_empty: bool,
        unwanted: Unwanted,
    ) -> Iterator[FileResult]:
        """As `Pipeline.run`."""
        roots = Roots(path.resolve() for path in paths if path.is_dir() or is_missing(path))
        for item in items:
            roots.saw(item.uri)
            yield self._look(item)
        for root, is_alive in roots.seen.items() if prune else ():
            for gone in gone_below(root, self._catalog, self._collection, is_alive=is_alive, sure=prune_empty):
                if isinstance(gone, Kept):
                    yield FileResult(gone.uri, gone.status, gone.reason)
                elif gone.id not in self._moved:
                    yield FileResult(gone.uri, "deleted")
            for document, reason in unwanted_below(root, self._catalog, self._collection, unwanted):
                yield FileResult(document.uri, "deleted", reason)

    def _look(self, item: Found | Refused | FileResult) -> FileResult:
        if isinstance(item, FileResult):
            return item
        if isinstance(item, Refused):
            return FileResult(item.uri, item.status, item.reason)
        try:
            seen = self._scan.look(item)
        except (LoadFailed, OSError) as error:
            return FileResult(item.uri, *explained(error))
        if isinstance(seen, FileResult):
            return seen
        self.bytes += 0 if seen.known else item.size
        earlier = self._scan.id_for(item.uri, seen.document.content_hash)
        if self._catalog.has_document(earlier):
            self._moved.add(earlier)
        is_new = self._catalog.document_at(self._collection, item.uri) is None
        return FileResult(
            item.uri,
            "indexed" if is_new else "updated",
            "nothing to embed: its content is known" if seen.known else seen.anew,
        )


@contextmanager
def opened_dry_run(settings: IngestSettings, *, given: Given, retry: bool) -> Iterator[DryRun]:
    """Raises CatalogUnavailable, EmbeddingsUnavailable, FingerprintMismatch."""
    model = open_embedder(settings.embeddings)
    try:
        with _catalog(settings.catalog_path) as catalog:
            stored = catalog.fingerprint(settings.collection)
            if stored is not None:
                model.fingerprint.require(stored, settings.collection)
            scan = Scan(
                settings.collection,
                cast("CatalogWriter", catalog),  # of a writer, a scan calls only what an Onlooker has
                embedder=model.fingerprint.id,
                chunker=chunker_for(settings, model).fingerprint,
                options=settings.load_options,
                limits=repr(settings.load),
                given=given,
                retry=retry,
            )
            yield DryRun(settings.collection, catalog, scan)
    finally:
        model.close()


@contextmanager
def _catalog(path: Path) -> Iterator[Catalog]:
    """The catalog for reading; where there is none yet, an empty one elsewhere."""
    with tempfile.TemporaryDirectory() as folder:
        if not path.is_file():
            path = Path(folder) / "catalog.sqlite3"
            CatalogWriter(path).close()
        catalog = Onlooker(path)
        try:
            yield catalog
        finally:
            catalog.close()
