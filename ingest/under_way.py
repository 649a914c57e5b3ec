"""Documents between being found and being committed: read by the parsers, then waiting for their vectors.

In: targets. Out: `Loaded` when a parser is done with one, `Ready` when all its vectors are stored. Must not: touch the catalog,
or let more come under way than the limits say: memory stays flat however large the corpus is.
"""

import queue
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from ingest.embedding_stage import Broke, EmbeddingStage, Stored
from ingest.parsing import Parsed
from ingest.results import Progress
from ingest.scan import Target
from rag_service.index.chunks import Chunk

MAX_DOCUMENTS = 256  # enough small ones to fill a batch of the model
MAX_BYTES = 16_000_000  # of files and texts together; a larger file is under way alone


class Parsers(Protocol):
    """What reads files: a pool of processes."""

    @property
    def processes(self) -> int: ...
    def submit(self, path: Path, version: str, content_hash: str) -> "Future[Parsed]": ...


@dataclass(slots=True)
class Job:
    """One version in the making, for the target that it was begun for and for `copies` of equal content found meanwhile."""

    target: Target
    copies: list[Target] = field(default_factory=list)
    parsed: Parsed | None = None
    missing: int = 0
    made: int = 0

    @property
    def version(self) -> str:
        return self.target.document.version

    @property
    def weight(self) -> int:
        """Bytes that it keeps in memory, roughly."""
        return max(self.target.found.size, len(self.parsed.document.text) if self.parsed is not None else 0)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A parser is done: the document, or the error that it ended with."""

    job: Job
    outcome: Parsed | BaseException


class UnderWay:
    """Used by one thread; a context manager that ends the threads it started."""

    def __init__(self, parsers: Parsers, stage: EmbeddingStage, events: "queue.Queue[object]") -> None:
        self._parsers = parsers
        self._stage = stage
        self._events = events
        self._jobs: dict[str, Job] = {}
        self._to_parse: deque[Job] = deque()
        self._parsing: dict[str, Future[Parsed]] = {}
        self._ready: list[Job] = []
        self._stored = 0
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for future in self._parsing.values():
            future.cancel()
        self._stage.close()

    def __len__(self) -> int:
        return len(self._jobs)

    def has_room_for(self, target: Target) -> bool:
        held = sum(job.weight for job in self._jobs.values())
        fits = len(self._jobs) < MAX_DOCUMENTS and held + target.found.size <= MAX_BYTES
        return fits or not self._jobs or target.document.version in self._jobs

    def begin(self, target: Target) -> None:
        """Have it read; a copy of what is under way waits for that."""
        job = self._jobs.get(target.document.version)
        if job is not None:
            job.copies.append(target)
            return
        job = self._jobs[target.document.version] = Job(target)
        self._to_parse.append(job)
        self._feed()

    def give_up_waiting(self) -> None:
        """Drop what no parser has begun to read, and what is read but of which the model has not begun anything."""
        for job in self._to_parse:
            del self._jobs[job.version]
        self._to_parse.clear()
        unbegun = {job.version: job.missing for job in self._jobs.values() if job.missing and job.missing == job.made}
        for version in self._stage.give_up(unbegun):
            del self._jobs[version]

    def embed(self, job: Job, missing: Sequence[Chunk]) -> None:
        """Make the vectors that are not stored yet; the caller has noted the version as loose."""
        job.missing = job.made = len(missing)
        if missing:
            self._stage.add(missing)
        else:
            self._ready.append(job)

    def drop(self, job: Job) -> None:
        """It is committed, or it is not to be."""
        del self._jobs[job.version]

    def next(self, *, wait: bool) -> list[Loaded]:
        """Take in what has happened; with `wait`, until something has. Raises what ended a thread."""
        loaded: list[Loaded] = []
        block = wait and not self._ready
        while True:
            try:
                event = self._events.get(block=block)
            except queue.Empty:
                break
            block = False
            match event:
                case Loaded():
                    self._parsing.pop(event.job.version, None)
                    loaded.append(event)
                case Stored():
                    self._count(event)
                case Broke():
                    raise event.error
        self._feed()
        return loaded

    def take_ready(self) -> list[Job]:
        ready, self._ready = self._ready, []
        return ready

    def take_stored(self) -> Progress | None:
        """Chunks stored since it was last asked; None when there are none."""
        stored, self._stored = self._stored, 0
        return Progress(self._last, stored, self._stage.waiting) if stored else None

    def _count(self, stored: Stored) -> None:
        for version, count in stored.counts.items():
            self._stored += count
            job = self._jobs.get(version)
            if job is not None:
                self._last = job.target.found.uri
                job.missing -= count
                if job.missing == 0:
                    self._ready.append(job)

    def _feed(self) -> None:
        """Two files for each parser: one in hand, one at the door."""
        while self._to_parse and len(self._parsing) < 2 * self._parsers.processes:
            job = self._to_parse.popleft()
            document = job.target.document
            future = self._parsers.submit(job.target.found.path, document.version, document.content_hash)
            self._parsing[job.version] = future
            future.add_done_callback(lambda done, job=job: self._events.put(Loaded(job, outcome_of(done))))  # type: ignore[misc]


def outcome_of(done: "Future[Parsed]") -> Parsed | BaseException:
    error = done.exception() if not done.cancelled() else InterruptedError("cancelled")
    return error if error is not None else done.result()
