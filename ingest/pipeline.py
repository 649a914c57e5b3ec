"""The ingest path on one page: scan, load and cut, embed, commit; one result for each file.

In: files as they are found, and the parts built by the command line. Out: `Progress` and `FileResult` values, as they
come. Must not: print, read settings, or stop for one bad file.

Stages overlap: processes load and cut (parsers/pool.py), one thread embeds and one writes vectors (embedding_stage.py),
and this thread, the only one that touches the catalog, decides and commits. What is under way is bounded (under_way.py).

The commit protocol of one document (nothing is lost or doubled, whatever is killed when):
  1. note the new version as loose, then write its vectors into Chroma;
  2. one SQLite transaction makes it live and the old version loose;
  3. delete the old version's vectors from Chroma and forget that they were loose.
A killed run leaves loose versions behind: the next one reuses the vectors that are already there, and `sweep` at its end
deletes the rest. Retrieval takes only what is live in the catalog, so none of this is ever visible.
"""

import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ingest.discover import Found, Refused, discover, has_vanished, is_missing
from ingest.documents import normalise_text
from ingest.embedding_stage import EMBED_AT_ONCE, EmbeddingStage
from ingest.maintenance.rebuild import drop_replaced
from ingest.maintenance.restore import restore
from ingest.parsing import Parsed
from ingest.prune import Kept, Roots, Unwanted, below, gone_below, no_document_is, unwanted_below
from ingest.refusals import explained, may_pass
from ingest.results import FileResult, FileStatus, Progress
from ingest.scan import Scan, Target
from ingest.structure import making_of
from ingest.under_way import Job, Loaded, Parsers, UnderWay
from rag_service.errors import LoadFailed
from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.embeddings import Embedder
from rag_service.index.rows import DocumentRow
from rag_service.index.vector_store import VectorStore

Outcome = Progress | FileResult


def never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The parts, built in one place and passed in. The caller holds the writer's lock.

    `stop` is asked between files: once it says so, documents whose vectors are being made are finished, and no other is.
    """

    collection: str
    catalog: CatalogWriter
    store: VectorStore
    model: Embedder
    parsers: Parsers
    scan: Scan
    batch: int = EMBED_AT_ONCE
    stop: Callable[[], bool] = never

    def run(
        self,
        paths: Sequence[Path],
        *,
        items: Iterable[Found | Refused | FileResult] | None = None,
        prune: bool = True,
        prune_empty: bool = False,
        unwanted: Unwanted = no_document_is,
    ) -> Iterator[Outcome]:
        """Bring the index up to date with `paths`. Raises IndexUnusable when the index itself fails.

        `items` are what was found there and elsewhere; without them, everything below `paths`. With `prune`, documents whose
        file has vanished from below a given folder are deleted; a folder that is missing, or in which no file is left at all,
        deletes nothing (an unmounted share looks like that) unless `prune_empty`. Those that are `unwanted` there go too.
        """
        self.open()
        self.store.remake_if_damaged(self.collection)  # `_restore` fills it
        roots = Roots(path.resolve() for path in paths if path.is_dir() or is_missing(path))
        there = [path for path in paths if not is_missing(path)]
        found = discover(there, leave_out=self.catalog.path.parent) if items is None else items
        yield from self._take_in(found, roots)
        self.scan.flush()
        if prune and not self.stop():
            yield from self._prune(roots, unwanted, sure=prune_empty)
        self.sweep()
        if not self.stop():
            yield from self._restore()
        if not self.stop():
            self.catalog.finish_run(self.collection)

    def open(self) -> None:
        """Make the collection in both stores, or check that it is ours. Raises FingerprintMismatch, IndexUnusable."""
        self.catalog.open_collection(self.collection, self.model.fingerprint)
        self.store.open_collection(self.collection, self.catalog.place(self.collection))

    def delete(self, document: DocumentRow, reason: str | None = None) -> FileResult:
        """Take one document out of the index, vectors and all."""
        self._forget_vectors(self.catalog.delete(document))
        self.catalog.clear_problem(self.collection, document.uri)
        return FileResult(document.uri, "deleted", reason)

    def sweep(self) -> None:
        """Delete what is not live for good: vectors that killed runs and half-done deletions left, words of deleted texts."""
        for version in self.catalog.loose_versions(self.collection):
            self._forget_vectors(version)
        drop_replaced(self.store, self.collection, self.catalog.place(self.collection))
        self.catalog.scrub(self.collection)

    # -- files, one after the other, many at a time

    def _take_in(self, found: Iterable[Found | Refused | FileResult], roots: Roots) -> Iterator[Outcome]:
        half_written = set(self.catalog.loose_versions(self.collection))
        with self._under_way() as work:
            for item in found:
                if self.stop():
                    work.give_up_waiting()
                    break
                roots.saw(item.uri)
                outcome = self._look(item)
                if isinstance(outcome, FileResult):
                    if isinstance(item, Found):
                        item.discard()
                    yield outcome
                else:
                    while not work.has_room_for(outcome):
                        yield from self._advance(work, half_written, wait=True)
                    yield from self._begin(work, outcome)
                yield from self._advance(work, half_written, wait=False)
            while len(work):
                if self.stop():
                    work.give_up_waiting()
                yield from self._advance(work, half_written, wait=True)

    def _under_way(self) -> UnderWay:
        events: queue.Queue[object] = queue.Queue()
        stage = EmbeddingStage(self.collection, self.model, self.store, events, self.batch)
        return UnderWay(self.parsers, stage, events)

    def _look(self, item: Found | Refused | FileResult) -> FileResult | Target:
        """What is known of a file without loading it: most often, that it is unchanged."""
        if isinstance(item, FileResult):
            return item
        if isinstance(item, Refused):
            return self._refuse(item.uri, item.status, item.reason)
        try:
            target = self.scan.look(item)
        except (LoadFailed, OSError) as error:
            return self._refuse(item.uri, *explained(error))
        if isinstance(target, Target) and target.known:
            return self._share(target)
        return target

    def _begin(self, work: UnderWay, target: Target) -> Iterator[FileResult]:
        if self.catalog.version_is_live(self.collection, target.document.version):  # committed while this one waited
            yield self._share(target)
        else:
            work.begin(target)

    def _advance(self, work: UnderWay, half_written: set[str], *, wait: bool) -> Iterator[Outcome]:
        """Whatever has been read goes to the model, whatever has its vectors is committed."""
        loaded = work.next(wait=wait)
        good: list[tuple[Job, Parsed]] = []
        for item in loaded:
            if isinstance(item.outcome, Parsed) and item.outcome.chunks:
                good.append((item.job, item.outcome))
            else:
                work.drop(item.job)
                yield from self._told(item)
        if good:
            with self.catalog.transaction():
                for job, _ in good:
                    self.catalog.begin(self.collection, job.version)
        for job, parsed in good:
            job.parsed = parsed
            there = self.store.ids_of(self.collection, job.version) if job.version in half_written else set()
            work.embed(job, [chunk for chunk in parsed.chunks if chunk.id not in there])
        if stored := work.take_stored():
            yield stored
        if ready := work.take_ready():
            for job in ready:
                work.drop(job)
            yield from self._commit(ready)

    def _commit(self, ready: Sequence[Job]) -> list[FileResult]:
        """Steps 2 and 3, for all that is ready together."""
        results: list[FileResult] = []
        replaced: list[str | None] = []
        with self.catalog.transaction():
            for job in ready:
                assert job.parsed is not None  # noqa: S101  it has its vectors, so it was read
                result, old = self._make_live(job.target, job.parsed, job.made)
                results.append(result)
                replaced.append(old)
        for version in replaced:
            self._forget_vectors(version)
        for job in ready:
            job.target.found.discard()
            results.extend(self._share(copy) for copy in job.copies)
        return results

    def _make_live(self, target: Target, parsed: Parsed, made: int) -> tuple[FileResult, str | None]:
        loaded, uri = parsed.document, target.found.uri
        status = self._status_of(uri)
        document = replace(
            target.document,
            id=self.scan.id_for(uri, target.document.content_hash),
            media_type=loaded.media_type,
            metadata={**loaded.metadata, **target.document.given},
        )
        making = making_of(loaded, target.recipe)
        replaced = self.catalog.commit(document, loaded.text, loaded.pages, loaded.notes, parsed.chunks, making)
        self.catalog.clear_problem(self.collection, uri)
        seconds = round(time.monotonic() - target.started, 3)
        notes = [*filter(None, [target.anew]), *loaded.notes]
        return FileResult(uri, status, "; ".join(notes) or None, made, seconds), replaced

    def _share(self, target: Target) -> FileResult:
        """A copy, a moved file, or other metadata: its content is indexed already, so nothing is loaded or embedded."""
        uri, version = target.found.uri, target.document.version
        status = self._status_of(uri)
        twins = self.catalog.documents_with_content(self.collection, target.document.content_hash)
        media_type = next(twin.media_type for twin in twins if twin.version == version)
        made = self.catalog.making(self.collection, version)
        document = replace(
            target.document,
            id=self.scan.id_for(uri, target.document.content_hash),
            media_type=media_type,
            metadata={**made.metadata, **target.document.given},
        )
        self._forget_vectors(self.catalog.share(document))
        self.catalog.clear_problem(self.collection, uri)
        target.found.discard()
        return FileResult(uri, status, "same content as an indexed document; nothing embedded")

    def _status_of(self, uri: str) -> FileStatus:
        return "indexed" if self.catalog.document_at(self.collection, uri) is None else "updated"

    def _told(self, item: Loaded) -> Iterator[FileResult]:
        """A file that could not be read, or has nothing to read; the same for its copies."""
        for target in (item.job.target, *item.job.copies):
            if isinstance(item.outcome, Parsed):
                yield self._skip_empty(target, "; ".join(item.outcome.document.notes))
            else:
                attempt = None if may_pass(item.outcome) else target.attempt
                yield self._refuse(target.found.uri, *explained(item.outcome), attempt)
            target.found.discard()

    def _skip_empty(self, target: Target, notes: str) -> FileResult:
        """Nothing to index. An earlier version with text must not go on answering for a file that is empty now."""
        reason = notes or "it has no text"
        earlier = self.catalog.document_at(self.collection, target.found.uri)
        if earlier is not None:
            self.delete(earlier)
            reason += "; its earlier version was removed"
        return self._refuse(target.found.uri, "skipped", reason, target.attempt)

    def _refuse(self, uri: str, status: FileStatus, reason: str, attempt: str | None = None) -> FileResult:
        """A file that is not taken keeps the version it has, if any: a broken save must not take an answer away."""
        reason = normalise_text(reason)  # a parser's message may hold what neither SQLite nor a terminal takes
        self.catalog.note_problem(self.collection, uri, status, reason, attempt)
        return FileResult(uri, status, reason)

    def _forget_vectors(self, version: str | None) -> None:
        if version is not None:
            self.store.delete_version(self.collection, version)
            self.catalog.settled(self.collection, version)

    # -- what has vanished

    def _prune(self, roots: Roots, unwanted: Unwanted, *, sure: bool) -> Iterator[FileResult]:
        for root, is_alive in roots.seen.items():
            for item in gone_below(root, self.catalog, self.collection, is_alive=is_alive, sure=sure):
                if isinstance(item, Kept):
                    yield FileResult(item.uri, item.status, item.reason)
                else:
                    yield self.delete(item)
            for document, reason in unwanted_below(root, self.catalog, self.collection, unwanted):
                yield self.delete(document, reason)
            for problem in self.catalog.problems(self.collection):
                is_there = problem.uri.startswith(below(root))
                if is_there and (has_vanished(problem.uri) or unwanted(root, problem.uri)):
                    self.catalog.clear_problem(self.collection, problem.uri)

    def _restore(self) -> Iterator[Outcome]:
        """Make anew the vectors of live chunks that Chroma has lost: its folder was deleted, or put back from a backup."""
        if self.store.count(self.collection) < self.catalog.counts(self.collection).chunks:
            yield from restore(self.collection, self.catalog, self.store, self.model, self.batch)
