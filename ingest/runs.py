"""Runs as the command line asks for them: one, or one after the other as folders change.

In: sources and options, parts that build.py opens. Out: what a report is told. Must not: print by itself, or hold the writer's
lock between runs.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ingest.build import Loaded, loaded, opened
from ingest.discover import Found, Refused, discover, is_missing, path_of
from ingest.exits import warn
from ingest.facts import Tally
from ingest.metadata import Metadata
from ingest.pipeline import Pipeline
from ingest.prune import Kept, Roots, gone_below
from ingest.report import Report
from ingest.results import FileResult, Progress
from ingest.selection import Selection
from ingest.settings import IngestSettings
from ingest.sources import Intake, Item, Sources, run_sources
from ingest.stopping import Stopping
from ingest.targets import NotWanted
from ingest.watch import EVERYTHING, Changes, Following
from rag_service.errors import EmbeddingsUnavailable, IndexLocked, LocalServerFailed

RETRY_S = 5.0  # between tries while another run has the lock, or the embedding endpoint is away


@dataclass(frozen=True, slots=True)
class Options:
    """What holds for every run. `include` and `exclude` are patterns; the rest as in `Pipeline.run` and `opened`."""

    include: Sequence[str]
    exclude: Sequence[str]
    given: Metadata
    retry: bool
    prune: bool
    prune_empty: bool
    stream: Callable[[], BinaryIO]

    def selection(self) -> Selection:
        return Selection(self.include, self.exclude)


class Runs:
    """Of one command. `new_report` makes the report of one run."""

    def __init__(
        self,
        settings: IngestSettings,
        sources: Sources,
        options: Options,
        new_report: Callable[[], Report],
        stopping: Stopping,
    ) -> None:
        self._settings = settings
        self._sources = sources
        self._options = options
        self._new_report = new_report
        self._stopping = stopping
        self._home = settings.catalog_path.parent
        self._seen = self._roots()
        self._was_cut = self._is_running = False

    def once(self, wait_s: float, parts: Loaded | None = None, changes: Changes = EVERYTHING) -> Tally:
        """One run to its end, told."""
        options, settings, tally, report = self._options, self._settings, Tally(), self._new_report()
        selection = options.selection()
        with report, ExitStack() as stack:
            if report.counts_first and changes.is_everything:
                report.expect(*counted(discover(self._paths(), self._home, options.selection())))
            pipeline = stack.enter_context(
                opened(
                    settings,
                    wait_s,
                    report.note,
                    stop=self._stopping.asked,
                    given=options.given,
                    retry=options.retry,
                    parts=parts,
                )
            )
            if settings.chunks.max_tokens > pipeline.model.max_tokens and parts is None:
                warn(
                    f"RAG_CHUNKS__MAX_TOKENS is {settings.chunks.max_tokens}, but {settings.embeddings.model} reads no more"
                    f" than {pipeline.model.max_tokens} tokens, so chunks have at most those."
                )
            with self._stopping.gently(report.stopping):
                run = self._everything if changes.is_everything else self._changed
                tell(run(pipeline, selection, report, changes), report, tally)
                self._was_cut = self._stopping.asked()
                report.summary(tally.summary(selection.ignored))
                stack.close()  # a signal that comes now has nothing to cut
        return tally

    def watch(self, wait_s: float) -> bool:
        """Until Ctrl-C or SIGTERM. Between two runs that is the normal end; False when it cut one short."""
        with loaded(self._settings) as parts:
            following = Following(self._sources.paths, self._home, self._settings.watch)
            first = True
            with closing(following.changes()) as coming:
                try:
                    for changes in coming:
                        # A folder was empty or away, so what it lost was not deleted: look at everything.
                        sure = all(self._seen.seen.values())
                        self._through(wait_s, parts, changes if sure else EVERYTHING, first=first)
                        if self._stopping.asked():
                            return not self._was_cut
                        first = False
                except KeyboardInterrupt:
                    if self._is_running:
                        raise
        return True

    def _through(self, wait_s: float, parts: Loaded, changes: Changes, *, first: bool) -> None:
        """Run, and try again while something else is in the way: only the very first run may end it all."""
        told = ""
        while True:
            try:
                self._is_running = True
                self.once(wait_s, parts, changes)
            except (IndexLocked, EmbeddingsUnavailable, LocalServerFailed) as error:
                if first:
                    raise
                if error.message != told:
                    warn(f"{error.message} Trying again until it goes.")
                    told = error.message
            else:
                self._is_running = False
                return
            self._is_running = False
            time.sleep(RETRY_S)

    def _paths(self) -> list[Path]:
        return [path for path in self._sources.paths if not is_missing(path)]

    def _roots(self) -> Roots:
        return Roots(path.resolve() for path in self._sources.paths if path.is_dir() or is_missing(path))

    def _found(self, selection: Selection) -> Iterator[Found | Refused]:
        """All files; which folders are empty is known afterwards."""
        self._seen = self._roots()
        for item in discover(self._paths(), self._home, selection):
            self._seen.saw(item.uri)
            yield item

    def _everything(
        self, pipeline: Pipeline, selection: Selection, report: Report, changes: Changes
    ) -> Iterator[Progress | FileResult]:
        options, settings = self._options, self._settings
        intake = Intake(
            settings.web_options,
            settings.load_options.max_file_bytes,
            options.stream,
            lambda items: told(items, report),
        )
        files = options.given.checked(self._found(selection))
        return run_sources(
            pipeline,
            self._sources,
            files,
            intake,
            prune=options.prune,
            prune_empty=options.prune_empty,
            unwanted=NotWanted(selection),
        )

    def _changed(
        self, pipeline: Pipeline, selection: Selection, report: Report, changes: Changes
    ) -> Iterator[Progress | FileResult]:
        items = told(
            self._options.given.checked(self._touched(pipeline, selection, changes.paths or frozenset())), report
        )
        return pipeline.run([], items=items, prune=False)

    def _touched(self, pipeline: Pipeline, selection: Selection, changed: frozenset[Path]) -> Iterator[Item]:
        """Files that changed, by the same rules as in a whole run, and after them what has vanished."""
        for item in self._found(selection):
            path = path_of(item.uri)
            if path in changed or not changed.isdisjoint(path.parents):
                yield item
        if not self._options.prune:
            return
        roots, dead = self._seen, set[Path]()
        for path in sorted(changed):
            if not is_missing(path) or pipeline.stop():
                continue
            homes = [root for root in roots.seen if path.is_relative_to(root)]
            is_alive = any(roots.seen[root] for root in homes)
            if not is_alive and homes:
                dead.update(homes)
                continue
            yield from self._vanished(pipeline, path, is_alive=is_alive)
        for root in sorted(dead):
            yield from self._vanished(pipeline, root, is_alive=False)

    def _vanished(self, pipeline: Pipeline, path: Path, *, is_alive: bool) -> Iterator[FileResult]:
        sure = self._options.prune_empty
        for gone in gone_below(path, pipeline.catalog, pipeline.collection, is_alive=is_alive, sure=sure):
            if isinstance(gone, Kept):
                yield FileResult(gone.uri, gone.status, gone.reason)
            else:
                yield pipeline.delete(gone)


def tell(outcomes: Iterable[Progress | FileResult], report: Report, tally: Tally) -> None:
    for item in outcomes:
        if isinstance(item, Progress):
            report.progress(item)
        else:
            report.result(item)
            tally.add(item)


def told(items: Iterable[Item], report: Report) -> Iterator[Item]:
    """The items as they come; the report learns which results to wait for."""
    for item in items:
        if isinstance(item, Found):
            report.found(item)
        yield item


def counted(items: Iterable[Item]) -> tuple[int, int]:
    """Files, and their bytes."""
    files = size = 0
    for item in items:
        if isinstance(item, Found):
            files, size = files + 1, size + item.size
    return files, size
