"""A full disk, told as such: SQLite and Chroma each have their own words for it, and Chroma's says nothing.

In: the folder of the index. Out: errors with the cause in their message. Must not: hide any other error.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_service.errors import IndexUnusable

LEAST_FREE_BYTES = 5_000_000  # with less, a write that failed has most likely failed for want of room


@contextmanager
def named_when_full(home: Path) -> Iterator[None]:
    """Raises what was raised inside, with the reason put first when `home` has no room left."""
    try:
        yield
    except IndexUnusable as error:
        free = shutil.disk_usage(home).free
        if free > LEAST_FREE_BYTES:
            raise
        raise type(error)(
            f"The disk is full: {free / 1e6:.1f} MB are left where RAG_HOME is ({home}). Make room there and run again; what"
            f" was indexed stays. ({error.message})",
            details=error.details,
        ) from error
