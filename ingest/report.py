"""How an ingest run is told: a progress bar and a table for people, JSON lines for programs.

In: `Progress`, `FileResult`, summaries. Out: text on a stream. Must not: decide anything.
"""

import json
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from ingest.discover import STEERING, path_of, title_of
from ingest.pipeline import FileResult, Progress


class Report(Protocol):
    """What the command line needs of either form."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def note(self, holder: str) -> None:
        """Another run, `holder`, has the lock; this one waits."""

    def progress(self, item: Progress) -> None: ...
    def result(self, item: FileResult) -> None: ...
    def summary(self, numbers: dict[str, int]) -> None: ...
    def status(self, facts: dict[str, Any]) -> None: ...


class JsonLines:
    """One JSON object a line; each is flushed, so that a reader follows along. `notes` takes what is no result."""

    def __init__(self, stream: TextIO, notes: TextIO) -> None:
        self._stream = stream
        self._notes = notes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.flush()

    def note(self, holder: str) -> None:
        self._notes.write(f"{waiting_for(holder)}\n")
        self._notes.flush()

    def progress(self, item: Progress) -> None:
        """Programs count results; they need no bar."""

    def result(self, item: FileResult) -> None:
        reason = {} if item.reason is None else {"reason": item.reason}
        self._write({"uri": item.uri, "status": item.status, **reason, "chunks": item.chunks, "seconds": item.seconds})

    def summary(self, numbers: dict[str, int]) -> None:
        self._write({"summary": numbers})

    def status(self, facts: dict[str, Any]) -> None:
        self._write(facts)

    def _write(self, line: dict[str, Any]) -> None:
        self._stream.write(json.dumps(line) + "\n")  # ASCII, which every stream's encoding can hold
        self._stream.flush()


class Terminal:
    """A bar with the file in hand, a line for each file that changed something, and a table of what was not taken."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),  # a file name may hold brackets
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("chunks"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("Looking for documents", total=None)
        self._refused: list[FileResult] = []

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def note(self, holder: str) -> None:
        self._console.print(waiting_for(holder))

    def progress(self, item: Progress) -> None:
        self._bar.update(self._task, description=name_of(item.uri), completed=item.done, total=item.total)

    def result(self, item: FileResult) -> None:
        if item.status in ("skipped", "failed"):
            self._refused.append(item)
        elif item.status != "unchanged":
            mark, style = ("+", "green") if item.status == "indexed" else ("-", "yellow")
            reason = f"  ({one_line(item.reason)})" if item.reason else ""
            line = Text(f"{mark} {name_of(item.uri)}", style=style)
            line.append(f"  {item.chunks} chunks, {item.seconds:.1f} s{reason}", style="dim")
            self._console.print(line)

    def summary(self, numbers: dict[str, int]) -> None:
        self._bar.stop()
        if self._refused:
            table = Table("", "file", "reason", title="Not in the index", title_justify="left", box=None)
            for item in self._refused:
                table.add_row(item.status, Text(name_of(item.uri)), Text(one_line(item.reason or "")))
            self._console.print(table)
        told = ", ".join(f"{count} {name}" for name, count in numbers.items() if count and name != "chunks")
        self._console.print(f"{told or 'Nothing to do'}; {numbers['chunks']} new chunks.")

    def status(self, facts: dict[str, Any]) -> None:
        table = Table.grid(padding=(0, 2))
        shown = {
            "collection": facts["collection"],
            "folder": facts["home"],
            "documents": facts["documents"],
            "chunks": facts["chunks"],
            "size": f"{facts['bytes'] / 1e6:.1f} MB",
            "embedding model": facts["embedding_model"] or "none yet",
            "last run": facts["last_run"] or "none yet",
        }
        for name, value in shown.items():
            table.add_row(Text(name, style="dim"), Text(str(value)))
        self._console.print(table)
        for problem in facts["problems"]:
            self._console.print(
                Text(f"{problem['status']}: {name_of(problem['uri'])}: {one_line(problem['reason'])}", style="yellow")
            )


def name_of(uri: str) -> str:
    """The last part of a URI, as people know the file."""
    return title_of(path_of(uri).name) or uri


def one_line(text: str) -> str:
    """A reason may quote a file, and must not steer the terminal."""
    return STEERING.sub("\ufffd", " ".join(text.split()))


def waiting_for(holder: str) -> str:
    return f"Waiting for {holder}, which is writing to this index."
