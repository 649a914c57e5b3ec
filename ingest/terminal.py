"""How an ingest run is told to people: a bar with the file in hand, a line for each file that changed something, and a
table of what was not taken.

In: `Progress`, `FileResult`, summaries. Out: text on a terminal. Must not: decide anything, or let a file's name steer the
terminal.
"""

import os
import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column, Table
from rich.text import Text

from ingest.discover import STEERING, Found, path_of, title_of
from ingest.report import STOPPING, waiting_for
from ingest.results import FileResult, Progress

MOST_TOLD = 40  # files in the table; `status` has all of them
FILE_WEIGHT = 4_096  # a file takes time even if it is tiny
RATE_S = 15.0  # what "a second" is measured over
MARKS = {
    "indexed": ("+", "green"),
    "updated": ("~", "green"),
    "restored": ("~", "green"),
    "deleted": ("-", "yellow"),
    "unchanged": ("=", "dim"),
}
PLANNED = {"indexed": "new", "updated": "changed", "deleted": "would be deleted", "unchanged": "unchanged"}


class Terminal:
    """`quiet` leaves out the bar and all but what failed; `verbose` adds the files that are unchanged. With `planned`, the
    results are what a run would do."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False, planned: bool = False) -> None:
        self.counts_first = not quiet and not planned
        self._console = Console(highlight=False)
        self._quiet = quiet
        self._verbose = verbose
        self._planned = planned
        self._pace = _Pace()
        self._bar = _Display(self._pace, self._console)
        self._task = self._bar.add_task("Looking for documents", total=None)
        self._sizes: dict[str, int] = {}
        self._refused: dict[str, list[FileResult]] = {"failed": [], "skipped": []}
        self._refusals = 0

    def __enter__(self) -> Self:
        if not self._quiet:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def note(self, holder: str) -> None:
        self._console.print(waiting_for(holder))

    def expect(self, files: int, size: int) -> None:
        self._pace.expected = files
        self._bar.update(self._task, description="Reading documents", total=size + files * FILE_WEIGHT)

    def found(self, item: Found) -> None:
        self._pace.found += 1
        self._sizes[item.uri] = item.size

    def progress(self, item: Progress) -> None:
        self._pace.stored(item)
        self._bar.update(self._task, description=short_name_of(item.uri))

    def result(self, item: FileResult) -> None:
        size = self._sizes.pop(item.uri, None)
        if size is not None:
            self._pace.done += 1
            self._bar.update(self._task, advance=size + FILE_WEIGHT)
        if item.status in ("skipped", "failed"):
            self._refusals += 1
            if len(kept := self._refused[item.status]) < MOST_TOLD:
                kept.append(item)
        elif not self._quiet and (self._verbose or item.status != "unchanged"):
            self._console.print(self._line(item), soft_wrap=True)

    def stopping(self) -> None:
        self._pace.stopping = True  # the bar's own thread shows it
        if self._quiet:
            os.write(self._console.file.fileno(), f"{STOPPING}\n".encode())  # below Python's buffers

    def summary(self, numbers: dict[str, int]) -> None:
        self._bar.stop()
        self._print_refused()
        if self._quiet:
            return
        told = ", ".join(
            f"{count:,} {self._word(name)}"
            for name, count in numbers.items()
            if count and name not in ("chunks", "bytes", "dry_run")
        )
        if self._planned:
            self._console.print(f"{told or 'Nothing to do'}; {_size(numbers['bytes'])} to read. Nothing was changed.")
        else:
            self._console.print(f"{told or 'Nothing to do'}; {_chunks(numbers['chunks'], 'new ')}.")

    def status(self, facts: dict[str, Any]) -> None:
        table = Table.grid(padding=(0, 2))
        shown = {
            "collection": facts["collection"],
            "folder": facts["home"],
            "documents": f"{facts['documents']:,}",
            "versions": f"{facts['versions']:,} (equal files share one)",
            "chunks": f"{facts['chunks']:,}",
            "size": _size(facts["bytes"]),
            "embedding model": facts["embedding_model"] or "none yet",
            "fingerprint": facts["fingerprint"] or "none yet",
            "last run": " with ".join(filter(None, (facts["last_run"], facts["made_with"]))) or "none yet",
        }
        if facts["unread_pages"]:
            shown["unread pages"] = f"{facts['unread_pages']:,} (RAG_OCR__ENABLED, RAG_OCR__MAX_PAGES)"
        for name, value in shown.items():
            table.add_row(Text(name, style="dim"), Text(str(value), overflow="fold"))
        self._console.print(table)
        self._print_problems(facts["problems"])

    def _line(self, item: FileResult) -> Text:
        mark, style = MARKS[item.status]
        reason = f"  ({one_line(item.reason)})" if item.reason else ""
        line = Text(f"{mark} {name_of(item.uri)}", style=style)
        if self._planned:
            line.append(f"  {PLANNED[item.status]}{reason}", style="dim")
        elif item.status in ("indexed", "updated", "restored"):
            line.append(f"  {_chunks(item.chunks)}{reason}", style="dim")
        else:
            line.append(reason, style="dim")
        return line

    def _word(self, name: str) -> str:
        return PLANNED.get(name, name) if self._planned else name

    def _print_refused(self) -> None:
        refused = [*self._refused["failed"], *([] if self._quiet else self._refused["skipped"])][:MOST_TOLD]
        if not refused:
            return
        table = Table("", "file", "reason", title="Not in the index", title_justify="left", box=None)
        for item in refused:
            table.add_row(item.status, _folded(name_of(item.uri)), _folded(one_line(item.reason or "")))
        self._console.print(table)
        if not self._quiet and self._refusals > len(refused):
            self._console.print(f"… and {self._refusals - len(refused):,} more: `rag-ingest status --json` has all.")

    def _print_problems(self, problems: list[dict[str, str]]) -> None:
        """By status and reason, since many files often share one."""
        groups: dict[tuple[str, str], list[str]] = {}
        for problem in problems:
            groups.setdefault((problem["status"], one_line(problem["reason"])), []).append(name_of(problem["uri"]))
        for (status, reason), names in sorted(groups.items()):
            self._console.print(
                Text(f"{len(names):,} {status}: {reason}", style="red" if status == "failed" else "yellow")
            )
            for name in names[:5]:
                self._console.print(Text(f"    {name}"), soft_wrap=True)
            if len(names) > 5:
                self._console.print(f"    … and {len(names) - 5:,} more: `rag-ingest status --json` has all.")
        if any(status == "failed" for status, _ in groups):
            self._console.print(
                "A file that failed is read again once it changes; after other settings or on `rag-ingest run --retry …`"
                " all of them are."
            )


class _Pace:
    """What the bar tells of how fast it goes. Written by one thread, read by the one that draws."""

    def __init__(self) -> None:
        self.expected = 0
        self.found = 0
        self.done = 0
        self.waiting = 0
        self.stopping = False
        self._stored: deque[tuple[float, int]] = deque()

    def stored(self, item: Progress) -> None:
        self.waiting = item.waiting
        self._stored.append((time.monotonic(), item.chunks))
        while len(self._stored) > 2 and self._stored[0][0] < time.monotonic() - RATE_S:
            self._stored.popleft()

    def told(self, files_left: float | None) -> str:
        if not self.expected and not self.found:
            return ""
        parts = [f"{self.done:,}/{max(self.expected, self.found):,} files"]
        stored = [*self._stored]
        if len(stored) > 1:
            rate = sum(chunks for _, chunks in stored[1:]) / max(0.1, time.monotonic() - stored[0][0])
            parts.append(f"{rate:,.0f} chunks/s")
            if files_left is not None and rate >= 1:
                files_left = max(files_left, self.waiting / rate)
        if files_left is not None and len(stored) > 1:
            parts.append(f"{_minutes(files_left)} left")
        return ", ".join(parts)


class _Told(ProgressColumn):
    def __init__(self, pace: _Pace) -> None:
        super().__init__(Column(no_wrap=True))
        self._pace = pace

    def render(self, task: Task) -> Text:
        return Text(self._pace.told(task.time_remaining))


class _Display(Bar):
    """The bar, and below it that it is ending."""

    def __init__(self, pace: _Pace, console: Console) -> None:
        self._pace = pace
        super().__init__(
            TextColumn("{task.description}", markup=False, table_column=Column(ratio=2, no_wrap=True)),  # "[" in names
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=6)),
            _Told(pace),
            console=console,
            transient=True,
            expand=True,
            speed_estimate_period=30,
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self._pace.stopping:
            yield Text(STOPPING)


def name_of(uri: str) -> str:
    """What people know a file by: its folder and name, or its address."""
    if not uri.startswith("file:"):
        return one_line(uri)
    parts = path_of(uri).parts[-2:]
    return "/".join(title_of(part) for part in parts if part != "/") or uri


def short_name_of(uri: str) -> str:
    return name_of(uri).rstrip("/").rpartition("/")[2]


def one_line(text: str) -> str:
    """A reason may quote a file, and must not steer the terminal."""
    return STEERING.sub("\ufffd", " ".join(text.split()))


def _folded(text: str) -> Text:
    return Text(text, overflow="fold")


def _size(number: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"


def _chunks(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}chunk{'' if count == 1 else 's'}"


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return (
        f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}" if whole >= 3600 else f"{whole // 60}:{whole % 60:02}"
    )
