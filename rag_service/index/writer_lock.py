"""One writer at a time: the lock that an ingest run holds on RAG_HOME.

In: the folder. Out: a context in which this process is the only writer. Must not: wait silently, or trust a dead holder (the
kernel drops the lock with its process, so there is nothing to clean up).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from rag_service.errors import IndexLocked, InvalidSettings


@contextmanager
def writer_lock(home: Path, wait_s: float, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock. When another process has it, IndexLocked is raised after `wait_s` seconds; `on_wait` is told who it
    waits for, once, unless that is 0.

    Raises InvalidSettings when `home` cannot be written.
    """
    holder = home / "ingest.pid"
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = FileLock(home / "ingest.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if not wait_s:
                raise
            on_wait(_named(holder))
            lock.acquire(timeout=wait_s)
    except Timeout as error:
        raise IndexLocked(
            f"Another ingest run ({_named(holder)}) is writing to {home}. Wait for it to end, or raise --wait."
        ) from error
    except OSError as error:
        raise InvalidSettings(
            f"RAG_HOME: {home} cannot be written by user {os.getuid()} ({error.strerror}). Choose another folder or change"
            " its owner."
        ) from error
    try:
        holder.write_text(str(os.getpid()), encoding="ascii")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _named(holder: Path) -> str:
    try:
        return f"process {holder.read_text(encoding='ascii').strip()}"
    except OSError:
        return "another process"
