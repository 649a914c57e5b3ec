"""What is to be done with a file: nothing, a note, a new name for known content, or work.

In: files as they are found, and the catalog. Out: a `FileResult` where nothing is to be loaded, else a `Target`.
Must not: load, embed, or trust a file's time alone: a stamp counts only with the size, the change time and the inode.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ingest.discover import Found, content_hash, has_vanished
from ingest.documents import LOADERS, family_for, unsupported
from ingest.loaders.options import LoadOptions
from ingest.results import FileResult, FileStatus
from rag_service.index.catalog_writer import CatalogWriter, now
from rag_service.index.chunks import digest, document_id
from rag_service.index.rows import DocumentRow, MetadataValue, Recipe, Stamp

STAMPS_AT_ONCE = 500
SETTLED_NS = 2_000_000_000  # a file changed less than 2 s ago could change once more without a new time

Given = Callable[[Found], dict[str, MetadataValue]]


def nothing_given(found: Found) -> dict[str, MetadataValue]:
    return {}


@dataclass(frozen=True, slots=True)
class Target:
    """A file that is to be in the index as `document`, which lacks what only loading tells. `known` says that its content
    is live already, so that nothing is loaded; `attempt` names what is tried and how; `anew` says why a file that is as it
    was is read again."""

    found: Found
    document: DocumentRow
    recipe: Recipe
    attempt: str
    started: float
    known: bool = False
    anew: str | None = None


class Scan:
    """Looks at one file at a time. Raises OSError for what cannot be read, LoadFailed for what is no document."""

    def __init__(
        self,
        collection: str,
        catalog: CatalogWriter,
        *,
        embedder: str,
        chunker: str,
        options: LoadOptions,
        limits: str = "",
        given: Given = nothing_given,
        retry: bool = False,
    ) -> None:
        """`limits` changes when a file that was stopped may come through now; `retry` tries all such files again."""
        self._collection = collection
        self._catalog = catalog
        self._embedder = embedder
        self._chunker = chunker
        self._options = options
        self._limits = limits
        self._given = given
        self._retry = retry
        self._stamps: dict[str, Stamp] = {}

    def look(self, found: Found) -> FileResult | Target:
        started = time.monotonic()
        stamp = self._stamp(found)
        recipe = self._recipe(found, stamp)
        given = self._given(found)
        current = self._catalog.document_at(self._collection, found.uri)
        if current is not None and self._is_current(current, stamp, recipe):
            if current.given == given and current.title == found.title:
                self._catalog.clear_problem(self._collection, found.uri)
                return FileResult(found.uri, "unchanged")
            return self._target(found, stamp, recipe, given, started, version=current.version)
        target = self._target(found, stamp, recipe, given, started)
        if current is not None and current.content_hash == stamp.content_hash:
            target = replace(target, anew=self._why_anew(current, recipe))
        if target.known or (told := self._told_before(target)) is None:
            return target
        return told

    def would_change(self, document: DocumentRow, found: Found) -> bool:
        """Whether a document whose content is as it was, which `found` stands for unread, would be made otherwise now."""
        loader = self._catalog.making(self._collection, document.version).recipe.loader
        if loader not in LOADERS or self._given(found) != document.given:
            return True
        stamp = Stamp(found.mark, found.device, document.content_hash, loader)
        return not self._is_current(document, stamp, self._recipe(found, stamp))

    def flush(self) -> None:
        """Remember the stamps of the files looked at."""
        self._catalog.put_stamps(self._collection, self._stamps)
        self._stamps.clear()

    def id_for(self, uri: str, content: str) -> str:
        """The id that a document has, or will have. A moved file keeps its id, so links to it stay good."""
        current = self._catalog.document_at(self._collection, uri)
        if current is not None:
            return current.id
        for twin in self._catalog.documents_with_content(self._collection, content):
            if has_vanished(twin.uri):
                return twin.id  # same content, and the old place is empty: this file was moved here
        salt = 0
        while self._catalog.has_document(document_id(self._collection, uri, salt)):
            salt += 1  # the id belongs to a document that was moved away from this very place
        return document_id(self._collection, uri, salt)

    # -- parts

    def _stamp(self, found: Found) -> Stamp:
        """The file's content and loader; read from the file unless it is as it was."""
        stored = self._catalog.stamp(self._collection, found.uri)
        if stored is not None and stored.mark == found.mark and stored.loader in LOADERS:
            return stored
        family = family_for(found.path, self._options)
        if family is None:
            raise unsupported(found.path)
        stamp = Stamp(found.mark, found.device, content_hash(found.path), family.fingerprint)
        if not found.temporary and time.time_ns() - found.changed_ns > SETTLED_NS:
            self._stamps[found.uri] = stamp
            if len(self._stamps) >= STAMPS_AT_ONCE:
                self.flush()
        return stamp

    def _recipe(self, found: Found, stamp: Stamp) -> Recipe:
        ocr = self._options.ocr.fingerprint if LOADERS[stamp.loader].reads_images else ""
        return Recipe(stamp.loader, self._chunker, ocr)

    def _is_current(self, current: DocumentRow, stamp: Stamp, recipe: Recipe) -> bool:
        """Whether reading the file again would bring what is there. Another OCR setting matters only to pages without
        text."""
        if current.content_hash != stamp.content_hash:
            return False
        if current.version == recipe.version_id(stamp.content_hash, self._embedder):
            return True
        made = self._catalog.making(self._collection, current.version)
        return made.unread == 0 and replace(made.recipe, ocr=recipe.ocr) == recipe

    def _why_anew(self, current: DocumentRow, recipe: Recipe) -> str:
        made = self._catalog.making(self._collection, current.version).recipe
        if made.loader != recipe.loader:
            return "not changed, but read by a newer loader"
        if made.chunker != recipe.chunker:
            return "not changed, but cut anew (other RAG_CHUNKS__… settings, or a newer version)"
        return "not changed, but OCR may read more of it now"

    def _target(
        self,
        found: Found,
        stamp: Stamp,
        recipe: Recipe,
        given: dict[str, MetadataValue],
        started: float,
        version: str | None = None,
    ) -> Target:
        planned = recipe.version_id(stamp.content_hash, self._embedder)
        document = DocumentRow(
            id="",  # given at the commit: a file that moves within this run takes its id along
            collection=self._collection,
            uri=found.uri,
            title=found.title,
            media_type="",
            size=found.size,
            content_hash=stamp.content_hash,
            version=version or planned,
            metadata={},
            indexed_at=now(),
            given=given,
        )
        known = self._catalog.version_is_live(self._collection, document.version)
        return Target(found, document, recipe, digest(planned, self._limits), started, known)

    def _told_before(self, target: Target) -> FileResult | None:
        """The result of an earlier run for the very same content and recipe."""
        problem = self._catalog.problem(self._collection, target.found.uri)
        if self._retry or problem is None or problem.attempt != target.attempt:
            return None
        status: FileStatus = "skipped" if problem.status == "skipped" else "failed"
        return FileResult(target.found.uri, status, problem.reason)
