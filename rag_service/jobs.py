"""Jobs: what the service has rag-ingest do for callers, kept as files, so that every worker and the next start sees them.

In: uploads and deletions to be done. Out: `Job` values. Must not: run anything, or use a caller's name as a path.

    RAG_HOME/uploads/incoming/ID/   being written; nobody looks at it
    RAG_HOME/uploads/pending/ID/    job.json and the files 0, 1, …; there by one rename, so always whole
    RAG_HOME/uploads/ended/ID.json  how it ended; kept for a while
    RAG_HOME/uploads/runner.lock    held by the one process that runs jobs

Ids begin with the time, so that their order is the order in which the jobs came.
"""

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal

from rag_service.errors import NotFound

JobKind = Literal["upload", "delete"]
JobState = Literal["queued", "running", "done", "failed", "interrupted"]
ENDED: tuple[JobState, ...] = ("done", "failed")
JOB_ID = re.compile(r"[0-9a-f]{32}")
STALE_S = 3600.0  # what is still incoming after that was left by a process that died


@dataclass(frozen=True, slots=True)
class JobDocument:
    """One document of a job. `status` is queued, running, or what rag-ingest told: indexed, updated, unchanged, skipped,
    failed, deleted; `absent` where there was nothing to delete. `reason` is for people, `chunks` counts new ones."""

    name: str
    uri: str
    document_id: str
    status: str = "queued"
    reason: str | None = None
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """`interrupted`: the service was stopped meanwhile; the next start goes on. `reason` says why it failed. Times are ISO
    8601 in UTC. `starts` counts how often it was begun and not stopped in order."""

    id: str
    kind: JobKind
    collection: str
    documents: tuple[JobDocument, ...]
    created_at: str
    state: JobState = "queued"
    title: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    started_at: str | None = None
    ended_at: str | None = None
    reason: str | None = None
    starts: int = 0

    def with_document(self, number: int, document: JobDocument) -> "Job":
        documents = (*self.documents[:number], document, *self.documents[number + 1 :])
        return replace(self, documents=documents)


def new_id() -> str:
    return f"{time.time_ns():016x}{secrets.token_hex(8)}"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def new_job(
    kind: JobKind,
    collection: str,
    documents: tuple[JobDocument, ...],
    title: str | None = None,
    metadata: Sequence[tuple[str, str]] = (),
) -> Job:
    return Job(new_id(), kind, collection, documents, now(), title=title, metadata=tuple(metadata))


class JobStore:
    """The jobs of one home. Every method blocks on files, briefly. Raises OSError where they cannot be written."""

    def __init__(self, home: Path) -> None:
        self.folder = home.absolute() / "uploads"
        self._incoming = self.folder / "incoming"
        self._pending = self.folder / "pending"
        self._ended = self.folder / "ended"

    def add(self, job: Job, files: Sequence[IO[bytes]] = ()) -> None:
        """Keep the job and its files, all or nothing; from now on it may be run."""
        for folder in (self._incoming, self._pending, self._ended):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        incoming = self._incoming / job.id
        incoming.mkdir(mode=0o700)
        try:
            for number, file in enumerate(files):
                with (incoming / str(number)).open("xb") as target:
                    shutil.copyfileobj(file, target, 1 << 20)
                    target.flush()
                    os.fsync(target.fileno())
            write(incoming / "job.json", job)
            incoming.rename(self._pending / job.id)
        except BaseException:
            shutil.rmtree(incoming, ignore_errors=True)
            raise

    def file(self, job: Job, number: int) -> Path:
        return self._pending / job.id / str(number)

    def log(self, job: Job) -> Path:
        """Where what rag-ingest wrote to standard error is kept: it may quote documents, and is not for callers."""
        return self._ended / f"{job.id}.log"

    def update(self, job: Job) -> None:
        """Write the new state of a pending job. A file whose document is through is removed."""
        write(self._pending / job.id / "job.json", job)
        for number, document in enumerate(job.documents):
            if document.status not in ("queued", "running"):
                self.file(job, number).unlink(missing_ok=True)

    def end(self, job: Job) -> None:
        """The job is over: its record is kept, its files go."""
        write(self._ended / f"{job.id}.json", job)
        shutil.rmtree(self._pending / job.id, ignore_errors=True)

    def get(self, job_id: str) -> Job:
        """Raises NotFound."""
        if JOB_ID.fullmatch(job_id):
            pending, ended = self._pending / job_id / "job.json", self._ended / f"{job_id}.json"
            for path in (ended, pending, ended):  # twice, since it may end in between
                if (job := read(path)) is not None:
                    return job
        raise NotFound("There is no such job. Jobs are forgotten some time after they have ended.")

    def pending(self) -> list[Job]:
        """Jobs that are not over, in the order in which they came."""
        return [job for name in names(self._pending) if (job := read(self._pending / name / "job.json")) is not None]

    def recent(self, limit: int) -> list[Job]:
        """The newest jobs, newest first."""
        waiting = {job.id: job for job in self.pending()}
        over = [name.removesuffix(".json") for name in names(self._ended) if name.endswith(".json")]
        chosen = sorted({*waiting, *over}, reverse=True)[:limit]
        found = (read(self._ended / f"{job_id}.json") or waiting.get(job_id) for job_id in chosen)
        return [job for job in found if job is not None]

    def recover(self) -> None:
        """For the process that has just become the runner: what another one left in the midst is queued again."""
        over = {name.removesuffix(".json") for name in names(self._ended)}
        for job in self.pending():
            if job.id in over:
                shutil.rmtree(self._pending / job.id, ignore_errors=True)
            elif job.state != "queued":
                begun = (replace(each, status="queued") if each.status == "running" else each for each in job.documents)
                self.update(replace(job, state="queued", documents=tuple(begun)))

    def sweep(self, keep_s: float) -> None:
        """Forget jobs that ended more than `keep_s` seconds ago, and uploads that were never complete."""
        moment = time.time()
        for folder, age_s in ((self._ended, keep_s), (self._incoming, STALE_S)):
            for name in names(folder):
                path = folder / name
                with suppress(OSError):
                    if moment - path.stat().st_mtime > age_s:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()


def names(folder: Path) -> Iterator[str]:
    try:
        yield from sorted(os.listdir(folder))  # noqa: PTH208  names are enough
    except FileNotFoundError:
        return


def write(path: Path, job: Job) -> None:
    """As a whole or not at all, and on the disk when this returns."""
    partial = path.with_name(path.name + ".new")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(asdict(job), file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read(path: Path) -> Job | None:
    """None where there is no such file, or it is from another version of this program."""
    try:
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        documents = tuple(JobDocument(**document) for document in fields.pop("documents"))
        metadata = tuple((key, value) for key, value in fields.pop("metadata"))
        return Job(**fields, documents=documents, metadata=metadata)
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError):
        return None
