"""One /metrics for several workers: each writes its numbers to files in a shared folder, and any of them adds all up.

In: the folder that the parent process has made for this run. Out: Prometheus text of all workers. Must not: make or remove
the folder (the parent does), or count a gauge of a worker that has died.

It is prometheus_client's multiprocess mode: counters and histograms of a dead worker stay in the sums, so that no rate jumps;
its gauges go. That mode is switched on for a whole process, by PROMETHEUS_MULTIPROC_DIR, when prometheus_client is imported;
this module keeps the same folder for what the library leaves to its user: to say which workers are dead. A lock on a file
tells it, because the kernel drops that however a process ends; a process id may belong to somebody else by now.
"""

import fcntl
import os
from pathlib import Path
from typing import IO

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SUFFIX = ".alive"


class Workers:
    """This process as one of several that share `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        own = folder / f"{os.getpid()}{SUFFIX}"
        # Locked before it has its name: another worker never finds it unlocked while this one lives.
        new = own.with_suffix(".new")
        self._lock: IO[bytes] = new.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(own)

    def text(self) -> bytes:
        """The metrics of all workers together. Reads files: not for the event loop."""
        self._forget_the_dead()
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self._folder))  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def _forget_the_dead(self) -> None:
        for path in self._folder.glob(f"*{SUFFIX}"):
            try:
                with path.open("rb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue  # it lives, or another worker has just forgotten it
            mark_process_dead(path.stem, str(self._folder))  # type: ignore[no-untyped-call]
            path.unlink(missing_ok=True)


workers: Workers | None = None


def join_workers(folder: Path) -> None:
    """From now on this process is one of the workers that share `folder`. Call it before metrics are made."""
    global workers
    workers = Workers(folder)


def joined() -> Workers | None:
    """The workers that this process is one of; None where it is alone."""
    return workers
