"""Jobs as files: whole or not there, seen by every worker, and picked up after a crash."""

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest

from rag_service.errors import NotFound
from rag_service.jobs import Job, JobDocument, JobState, JobStore, new_job


def job_of(*names: str) -> Job:
    documents = tuple(JobDocument(name, f"upload:///{name}", f"id-{name}") for name in names)
    return new_job("upload", "documents", documents, "A title", [("team", "hr"), ("team", "it")])


def added(store: JobStore, *names: str) -> Job:
    job = job_of(*names)
    store.add(job, [io.BytesIO(name.encode()) for name in names])
    return job


class Breaking(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(28, "No space left on device")


def test_a_job_is_the_same_for_everyone_who_looks(tmp_path: Path) -> None:
    job = added(JobStore(tmp_path), "a", "b")
    other = JobStore(tmp_path)
    assert other.get(job.id) == job
    assert other.pending() == [job]
    assert [other.file(job, number).read_bytes() for number in (0, 1)] == [b"a", b"b"]


def test_jobs_wait_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    jobs = [added(store, str(number)) for number in range(20)]
    assert store.pending() == jobs
    store.end(replace(jobs[3], state="done"))
    assert [job.id for job in store.recent(18)] == [job.id for job in reversed(jobs)][:18]
    assert store.recent(18)[16].state == "done"


def test_a_file_that_cannot_be_kept_leaves_no_job(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        store.add(job_of("a", "b"), [io.BytesIO(b"a"), Breaking()])
    assert store.pending() == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_goes_as_soon_as_its_document_is_through(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    job = added(store, "a", "b")
    job = job.with_document(0, replace(job.documents[0], status="indexed"))
    store.update(replace(job, state="running"))
    assert not store.file(job, 0).exists()
    assert store.file(job, 1).exists()
    store.end(replace(job, state="done"))
    assert store.pending() == []
    assert store.get(job.id).state == "done"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{job.id}.json"]


@pytest.mark.parametrize("state", ["running", "interrupted"])
def test_br_46_what_was_in_hand_is_queued_again_and_what_is_through_stays(tmp_path: Path, state: JobState) -> None:
    store = JobStore(tmp_path)
    job = added(store, "a", "b")
    begun = replace(job.documents[1], status="running")
    job = job.with_document(0, replace(job.documents[0], status="indexed")).with_document(1, begun)
    store.update(replace(job, state=state, starts=1))
    JobStore(tmp_path).recover()
    found = store.get(job.id)
    assert (found.state, found.starts) == ("queued", 1)
    assert [document.status for document in found.documents] == ["indexed", "queued"]
    assert store.file(job, 1).exists()


def test_one_that_died_between_its_last_two_steps_is_over(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    job = added(store, "a")
    record = (store.folder / "pending" / job.id / "job.json").read_text().replace('"queued"', '"done"', 1)
    (store.folder / "ended" / f"{job.id}.json").write_text(record)
    store.recover()
    assert store.pending() == []
    assert store.get(job.id).id == job.id


def test_what_is_old_is_forgotten(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    old, new = added(store, "old"), added(store, "new")
    for job in (old, new):
        store.end(replace(job, state="done"))
        store.log(job).write_text("said")
    for path in (store.folder / "ended").glob(f"{old.id}*"):
        os.utime(path, (1, 1))
    halfway = store.folder / "incoming" / "x"
    halfway.mkdir()
    os.utime(halfway, (1, 1))
    store.sweep(3600)
    assert [job.id for job in store.recent(9)] == [new.id]
    assert sorted(path.name for path in store.folder.rglob("*") if old.id in path.name or path == halfway) == []
    with pytest.raises(NotFound):
        store.get(old.id)


@pytest.mark.parametrize(
    "job_id", ["", ".", "..", "../x", "/etc/passwd", "0" * 31, "0" * 32, "0" * 33, "x" * 32, "0" * 31 + "\n"]
)
def test_br_29_an_id_is_no_path(tmp_path: Path, job_id: str) -> None:
    store = JobStore(tmp_path)
    added(store, "a")
    with pytest.raises(NotFound):
        store.get(job_id)


def test_before_the_first_job_there_is_nothing_and_nothing_is_made(tmp_path: Path) -> None:
    store = JobStore(tmp_path / "home")
    store.recover()
    store.sweep(0)
    assert (store.pending(), store.recent(5)) == ([], [])
    assert list(tmp_path.iterdir()) == []
