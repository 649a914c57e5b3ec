"""What a run and the index are told as: numbers of results, and the facts of `status`.

In: results, a catalog. Out: plain mappings. Must not: print.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any

from ingest.results import STATUSES, FileResult
from ingest.settings import IngestSettings
from rag_service.index.catalog import Catalog


class Tally:
    """The numbers of one run."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.chunks = 0

    def add(self, item: FileResult) -> None:
        self._counts[item.status] += 1
        self.chunks += item.chunks

    @property
    def failed(self) -> bool:
        return self._counts["failed"] > 0

    def summary(self, ignored: int = 0, more: Mapping[str, int] | None = None) -> dict[str, int]:
        """`ignored` files and folders were passed over by rules."""
        counts: dict[str, int] = {name: self._counts[name] for name in STATUSES}
        return {**counts, "ignored": ignored, "chunks": self.chunks, **(more or {})}


def facts(catalog: Catalog, settings: IngestSettings) -> dict[str, Any]:
    """What `status` tells. Sizes in bytes."""
    counts = catalog.counts(settings.collection)
    fingerprint = catalog.fingerprint(settings.collection)
    return {
        "collection": settings.collection,
        "home": str(settings.home),
        "documents": counts.documents,
        "versions": counts.versions,
        "chunks": counts.chunks,
        "bytes": bytes_below(settings.home),
        "made_with": catalog.made_with(settings.collection),
        "embedding_model": fingerprint.model if fingerprint else None,
        "fingerprint": fingerprint.id if fingerprint else None,
        "last_run": catalog.last_run(settings.collection),
        "unread_pages": catalog.unread_pages(settings.collection),
        "problems": [
            {"uri": problem.uri, "status": problem.status, "reason": problem.reason}
            for problem in catalog.problems(settings.collection)
        ],
        "uris": [document.uri for document in catalog.each_document(settings.collection)],
    }


def bytes_below(folder: Path) -> int:
    """Bytes of all files; those that come and go meanwhile (SQLite's logs) may be missed."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):
            status = file.lstat()
            total += status.st_size if S_ISREG(status.st_mode) else 0
    return total
