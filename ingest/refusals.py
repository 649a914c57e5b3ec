"""What an error means for one file: passed over or failed, in words, and whether another try may help.

In: the error that reading a file ended with. Out: a status and a reason for people. Must not: swallow an error that is no
matter of one file.
"""

from ingest.parsing import CHANGED
from ingest.results import FileStatus
from rag_service.errors import LoadFailed, UnsupportedType


def may_pass(error: BaseException) -> bool:
    """Whether the same file may well be read at the next run: it was being written, or could not be opened."""
    return not isinstance(error, LoadFailed) or error.message == CHANGED


def explained(error: BaseException) -> tuple[FileStatus, str]:
    """Raises what is no matter of one file."""
    match error:
        case UnsupportedType():
            return "skipped", error.message
        case LoadFailed():
            return "failed", error.message
        case FileNotFoundError():
            return "failed", "it vanished during the run"
        case OSError():
            return "failed", f"unreadable: {error.strerror or error}"
        case _:
            raise error
