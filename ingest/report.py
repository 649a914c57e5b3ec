"""How an ingest run is told to programs: JSON lines. For people there is terminal.py.

In: `Progress`, `FileResult`, summaries. Out: text on a stream. Must not: decide anything.
"""

import json
import os
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from ingest.discover import Found
from ingest.results import FileResult, Progress

STOPPING = "Stopping after the files in hand; Ctrl-C again stops at once."


class Report(Protocol):
    """What the command line needs of either form."""

    counts_first: bool

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def note(self, holder: str) -> None:
        """Another run, `holder`, has the lock; this one waits."""

    def expect(self, files: int, size: int) -> None:
        """So many files with so many bytes are going to be found, if nothing changes. Asked for by `counts_first`."""

    def found(self, item: Found) -> None:
        """A file whose result is going to come."""

    def progress(self, item: Progress) -> None: ...
    def result(self, item: FileResult) -> None: ...
    def stopping(self) -> None:
        """The first Ctrl-C came. Called inside a signal's handler: nothing that is in the midst of writing may be used."""

    def summary(self, numbers: dict[str, int]) -> None: ...
    def status(self, facts: dict[str, Any]) -> None: ...


class JsonLines:
    """One JSON object a line; each is flushed, so that a reader follows along. `notes` takes what is no result. With
    `quiet`, files that are not in order are all that is told before the summary."""

    counts_first = False

    def __init__(self, stream: TextIO, notes: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._notes = notes
        self._quiet = quiet

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.flush()

    def note(self, holder: str) -> None:
        self._notes.write(f"{waiting_for(holder)}\n")
        self._notes.flush()

    def expect(self, files: int, size: int) -> None:
        """Programs need no bar."""

    def found(self, item: Found) -> None:
        """Programs wait for the result."""

    def progress(self, item: Progress) -> None:
        """Programs count results; they need no bar."""

    def result(self, item: FileResult) -> None:
        if self._quiet and item.status != "failed":
            return
        reason = {} if item.reason is None else {"reason": item.reason}
        self._write({"uri": item.uri, "status": item.status, **reason, "chunks": item.chunks, "seconds": item.seconds})

    def stopping(self) -> None:
        os.write(self._notes.fileno(), f"{STOPPING}\n".encode())  # below Python's buffers, which may be in use

    def summary(self, numbers: dict[str, int]) -> None:
        self._write({"summary": numbers})

    def status(self, facts: dict[str, Any]) -> None:
        self._write(facts)

    def _write(self, line: dict[str, Any]) -> None:
        self._stream.write(json.dumps(line) + "\n")  # ASCII, which every stream's encoding can hold
        self._stream.flush()


def waiting_for(holder: str) -> str:
    return f"Waiting for {holder}, which is writing to this index."
