"""Deleted text gone from every file of the index, and the files as small as what they hold.

In: an open index. Out: what was freed, and what could not be. Must not: delete what is live, or stop the service.

The catalog is written anew and its log emptied. The vectors are copied into the collection's next generation, since Chroma
keeps deleted ones in the files of a collection for as long as that is there; then Chroma's own database is written anew.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from ingest.facts import bytes_below
from ingest.maintenance.index import Index
from ingest.maintenance.rebuild import Plan, Rebuilt, rebuild
from ingest.results import Progress
from rag_service.index import chroma_files

LEFTOVERS = "incoming"  # where runs keep what they receive until it is read; a killed one leaves it there

READER = (
    "Another process has been reading catalog.sqlite3 all the time, so deleted text may still be in it and in"
    " catalog.sqlite3-wal. Run `rag-ingest compact` again; if this comes again, with the service stopped."
)
NOT_OURS = (
    "The Chroma server of RAG_CHROMA__URL keeps its files itself: the collection was copied and the old one deleted there, but"
    " ids and vectors (no text) stay in free pages of its chroma.sqlite3, and the folder of the old collection beside it. Its"
    " operator can stop it and run `chroma vacuum --path FOLDER`."
)
OTHERS = (
    "Deleted text is gone in all collections, deleted vectors in this one only. Run `rag-ingest compact` with RAG_COLLECTION"
    " set to each of the others too: {names}."
)


@dataclass(frozen=True, slots=True)
class Compacted:
    """Bytes of RAG_HOME before and after. `undone` is what could not be done, as sentences; `notes` what is left to others."""

    before: int
    after: int
    undone: tuple[str, ...]
    notes: tuple[str, ...]


def compact(index: Index) -> Iterator[Progress | Compacted]:
    """Raises as `rebuild` does."""
    before = bytes_below(index.home)
    for item in rebuild(index, copy=True):
        if not isinstance(item, Plan | Rebuilt):
            yield item
    shutil.rmtree(index.home / LEFTOVERS, ignore_errors=True)
    undone = () if index.catalog.compact() else (READER,)
    if index.chroma is not None:
        chroma_files.drop_orphans(index.chroma)
        chroma_files.vacuum(index.chroma)
    yield Compacted(before, bytes_below(index.home), undone, tuple(left_to_others(index)))


def left_to_others(index: Index) -> Iterator[str]:
    if index.chroma is None:
        yield NOT_OURS
    others = [name for name in index.catalog.collections() if name != index.collection]
    if others:
        yield OTHERS.format(names=", ".join(others))
