"""What an ingest run tells as it goes.

In: nothing. Out: frozen values that the command line and the service's jobs read. Must not: print.
"""

from dataclasses import dataclass
from typing import Literal, get_args

FileStatus = Literal["indexed", "updated", "unchanged", "skipped", "failed", "deleted", "restored"]
STATUSES: tuple[FileStatus, ...] = get_args(FileStatus)


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one file. `reason` is for people; `chunks` counts those made in this run; `seconds` of wall time.

    `indexed` is new in the index, `updated` was there with other content, text or metadata. `restored` comes in addition to
    what became of the file: the index had lost vectors of its document, which were made anew.
    """

    uri: str
    status: FileStatus
    reason: str | None = None
    chunks: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """So many more chunks are embedded and stored; `waiting` are cut and wait for that. `uri` is a file in hand."""

    uri: str
    chunks: int
    waiting: int
