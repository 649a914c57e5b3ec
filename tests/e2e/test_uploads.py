"""Documents over HTTP: uploaded, found, replaced, listed, deleted; hostile ones, full queues, and a service that is stopped.

Real uploads to a real service, which runs the real rag-ingest. To see what happens meanwhile, a test holds the writer's lock.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rag_service.index.writer_lock import writer_lock
from tests.e2e.conftest import client_of
from tests.e2e.corpus import CORPUS, LEAVE, LEAVE_QUESTION
from tests.e2e.routes import JSON, SSE, citing, live, refused
from tests.support.fake_vllm import FakeVllm
from tests.support.service import Running, ingested, service_process, wait_until

OTTER = "The otter called Otto eats 3 trout a day."
OTTER_HUNGRIER = "The otter called Otto eats 5 trout a day."
GONER = "The goner called Gina is a plover with 4 rings."
GONER_QUESTION = "What is the goner called Gina?"
TWIN = "The twins called Tara and Tom are swifts and sleep for 9 hours."
TWIN_QUESTION = "How long do the twins called Tara and Tom sleep?"
OTTER_QUESTION = "How many trout does the otter called Otto eat a day?"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of this module's own, which it changes."""
    return ingested(tmp_path_factory.mktemp("uploads"), {"leave.md": CORPUS["leave.md"]})


@pytest.fixture(scope="module")
def uploading(home: Path, fake_server: FakeVllm) -> Iterator[Running]:
    limits = {"UPLOADS__MAX_MB": "1", "UPLOADS__MAX_QUEUED": "3", "SERVER__MAX_BODY_BYTES": "20000"}
    with service_process(home, fake_server.base_url, **limits) as running:
        yield running


@pytest.fixture
def client(uploading: Running, fake: FakeVllm) -> Iterator[httpx2.Client]:
    with client_of(uploading) as client:
        yield client


def upload(client: httpx2.Client, *files: tuple[str, bytes], **fields: str) -> str:
    """Upload, check the answer, and return the job's address."""
    response = client.post("/documents", files=[("file", file) for file in files], data=fields)
    assert response.status_code == 202, response.text
    accepted = response.json()
    assert response.headers["location"] == accepted["status_url"] == f"/jobs/{accepted['job_id']}"
    assert len(accepted["documents"]) == len(files)
    return str(accepted["status_url"])


def ended(client: httpx2.Client, url: str) -> dict[str, Any]:
    """The job once it is over."""
    told: dict[str, Any] = {}

    def over() -> bool:
        told.update(client.get(url).raise_for_status().json())
        return told["status"] in ("done", "failed")

    wait_until(over, f"{url} ends")
    return told


def passages(client: httpx2.Client, question: str, **fields: Any) -> str:
    response = client.post("/retrieve", json={"question": question, **fields}).raise_for_status()
    return "\n".join(source["text"] for source in response.json()["sources"])


@contextmanager
def another_run(home: Path) -> Iterator[None]:
    """As long as this holds, no job can get any further than being begun."""

    def in_the_way(holder: str) -> None:
        """Whoever had the lock is about to end."""

    with writer_lock(home, 60, in_the_way):
        yield


def test_an_upload_is_answered_from_replaced_listed_and_deleted(
    client: httpx2.Client, fake: FakeVllm, home: Path
) -> None:
    said = {"title": "About otters", "metadata": '{"team": ["zoo", "lab"], "year": 2026}'}
    job = ended(client, upload(client, ("otter.md", OTTER.encode()), **said))
    assert (job["status"], job["kind"], job["reason"], job["position"]) == ("done", "upload", None, None)
    [document] = job["documents"]
    assert (document["name"], document["uri"], document["status"]) == ("otter.md", "upload:///otter.md", "indexed")
    assert document["chunks"] == 1
    assert passages(client, OTTER_QUESTION, filter={"team": "lab", "year": 2026}) == OTTER
    fake.respond(citing(OTTER))
    answer = JSON.ask(client, OTTER_QUESTION).body
    [citation] = answer["citations"]
    assert (citation["status"], citation["source"]["title"]) == ("verified", "About otters")
    assert citation["source"]["document_id"] == document["document_id"]

    [again] = ended(client, upload(client, ("zoo/otter.md", OTTER_HUNGRIER.encode())))["documents"]
    assert (again["status"], again["document_id"]) == ("updated", document["document_id"])
    assert OTTER not in passages(client, OTTER_QUESTION)
    assert OTTER_HUNGRIER in passages(client, OTTER_QUESTION)
    [same] = ended(client, upload(client, ("otter.md", OTTER_HUNGRIER.encode())))["documents"]
    assert (same["status"], same["chunks"]) == ("unchanged", 0)
    assert not any((home / "uploads" / "pending").iterdir()), "an upload is not kept once it is in the index"

    listed = client.get("/documents", params={"q": "OTTER"}).raise_for_status().json()
    assert (listed["total"], listed["next_cursor"]) == (1, None)
    assert (listed["documents"][0]["id"], listed["documents"][0]["chunks"]) == (document["document_id"], 1)
    first = client.get("/documents", params={"limit": 1}).json()
    rest = client.get("/documents", params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert first["total"] == 2
    assert {first["documents"][0]["uri"], rest["documents"][0]["uri"]} >= {"upload:///otter.md"}
    assert rest["next_cursor"] is None

    path = f"/documents/{document['document_id']}"
    assert client.delete(path).status_code == 204
    refused(client.delete(path), 404, "not_found")
    refused(client.get(path), 404, "not_found")
    assert OTTER_HUNGRIER not in passages(client, OTTER_QUESTION)
    assert LEAVE in passages(client, LEAVE_QUESTION)
    newest = client.get("/jobs", params={"limit": 2}).json()["jobs"]
    assert [(job["kind"], job["status"]) for job in newest] == [("delete", "done"), ("upload", "done")]


def test_br_11_what_cannot_be_used_is_told_with_its_reason(client: httpx2.Client, home: Path) -> None:
    job = ended(
        client, upload(client, ("../broken.pdf", b"%PDF-1.7\nnothing"), ("CON", OTTER.encode()), ("e.txt", b""))
    )
    broken, good, empty = job["documents"]
    assert job["status"] == "done"
    assert broken["status"] == "failed"
    assert "broken" in broken["reason"]
    assert (good["name"], good["status"]) == ("CON", "indexed")
    assert empty["status"] == "skipped"
    problems = client.get("/problems", params={"q": "e.txt"}).raise_for_status().json()
    [problem] = problems["problems"]
    assert (problem["uri"], problem["status"]) == ("upload:///e.txt", "skipped")
    assert "text" in problem["reason"]
    assert client.get("/documents", params={"q": "broken"}).json()["problems"] == 1
    told = client.get("/jobs").text + client.get("/problems").text
    assert str(home) not in told, "BR-62"
    assert "Traceback" not in told
    assert not [path for path in home.parent.rglob("*") if path.name in ("broken.pdf", "CON", "e.txt")], "BR-29"
    assert client.delete(f"/documents/{good['document_id']}").status_code == 204


def test_br_44_limits_are_those_of_uploads_and_hold_without_a_length_too(client: httpx2.Client) -> None:
    boundary = {"content-type": "multipart/form-data; boundary=x"}
    large = [b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n', *[b"y" * 100_000] * 11]
    for content in (b"".join(large), iter(large)):
        error = refused(client.post("/documents", content=content, headers=boundary), 413, "body_too_large")
        assert "RAG_UPLOADS__MAX_MB" in error["message"]
    twice = [("file", ("a.md", b"x" * 400_000))] * 2
    assert "two files" in refused(client.post("/documents", files=twice), 422, "invalid_request")["message"]
    other = refused(client.post("/rag-query", json={"question": "x" * 30_000}), 413, "body_too_large")
    assert "RAG_SERVER__MAX_BODY_BYTES" in other["message"]
    many = [("file", (f"{number}.md", b"x")) for number in range(21)]
    refused(client.post("/documents", files=many), 400, "bad_request")
    assert client.get("/jobs").json()["jobs"] == [] or all(
        job["status"] in ("done", "failed") for job in client.get("/jobs").json()["jobs"]
    )


def test_a_wrong_upload_is_refused_before_it_is_a_job(client: httpx2.Client) -> None:
    before = client.get("/jobs").json()
    file = {"file": ("a.md", b"x")}
    refused(client.post("/documents", json={}), 415, "unsupported_media_type")
    refused(
        client.post("/documents", content=b"x", headers={"content-type": "multipart/form-data"}), 400, "bad_request"
    )
    cut = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/documents", content=b"--x\r\nnonsense", headers=cut).status_code in (400, 422)
    refused(client.post("/documents", data={"title": "x"}, files={"other": b"x"}), 422, "invalid_request")
    refused(client.post("/documents", files={"file": ("..", b"x")}), 422, "invalid_request")
    refused(client.post("/documents", files=file, data={"metadata": "{"}), 422, "invalid_request")
    refused(client.post("/documents", files=file, data={"collection": "nowhere"}), 404, "not_found")
    refused(client.get("/documents", params={"collection": "nowhere"}), 404, "not_found")
    refused(client.get("/documents", params={"cursor": "%"}), 422, "invalid_request")
    refused(client.get("/documents", params={"limit": 201}), 422, "invalid_request")
    for missing in ("/documents/x", "/documents/..%2f..%2fx", "/jobs/x", "/jobs/..%2f..%2fx"):
        call = client.delete if missing.startswith("/documents") else client.get
        refused(call(missing), 404, "not_found")
    forged = {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}
    refused(client.post("/documents", files=file, headers=forged), 403, "forbidden")
    assert client.get("/jobs").json() == before


def test_br_08_answers_go_on_while_jobs_wait_and_a_full_queue_is_told(
    client: httpx2.Client, fake: FakeVllm, home: Path
) -> None:
    fake.respond(citing(LEAVE))
    [goner] = ended(client, upload(client, ("goner.md", GONER.encode())))["documents"]
    assert GONER in passages(client, GONER_QUESTION)
    with another_run(home):
        first = upload(client, ("first.md", b"The first of the queue is a heron."))
        wait_until(lambda: client.get(first).json()["status"] == "running", "the first job runs")
        second = upload(client, ("second.md", b"The second of the queue is a stork."))
        deletion = client.delete(f"/documents/{goner['document_id']}", params={"wait_s": 0})
        assert deletion.status_code == 202
        third = upload(client, ("first.md", b"The last of the queue is a crane."))
        waiting = [second, deletion.headers["location"], third]
        assert [client.get(url).json()["position"] for url in waiting] == [1, 2, 3]
        for response in (
            client.post("/documents", files={"file": ("fourth.md", b"x")}),
            client.delete(f"/documents/{goner['document_id']}"),
        ):
            error = refused(response, 429, "overloaded")
            assert "RAG_UPLOADS__MAX_QUEUED" in error["message"]
            assert int(response.headers["retry-after"]) >= 1
        with SSE.open(client, LEAVE_QUESTION) as stream:
            assert client.get("/health").status_code == 200
            assert [event["type"] for event in live(stream)][-1] == "done"
    assert [ended(client, url)["status"] for url in (first, *waiting)] == ["done"] * 4
    last = ended(client, third)["documents"][0]
    assert last["status"] == "updated", "jobs run in the order in which they came"
    assert "crane" in passages(client, "What is the last of the queue?")
    assert GONER not in passages(client, GONER_QUESTION)
    assert LEAVE in passages(client, LEAVE_QUESTION)


def test_the_same_content_twice_is_one_passage_that_names_both_places(client: httpx2.Client) -> None:
    twins = ended(client, upload(client, ("twin-a.md", TWIN.encode()), ("twin-b.md", TWIN.encode())))["documents"]
    assert [twin["chunks"] for twin in twins] == [1, 0], "embedded once"
    found = client.post("/retrieve", json={"question": TWIN_QUESTION}).raise_for_status().json()["sources"]
    [source] = [source for source in found if source["text"] == TWIN]
    assert {source["uri"], *source["also_at"]} == {"upload:///twin-a.md", "upload:///twin-b.md"}
    assert client.delete(f"/documents/{twins[0]['document_id']}").status_code == 204
    found = client.post("/retrieve", json={"question": TWIN_QUESTION}).raise_for_status().json()["sources"]
    [source] = [source for source in found if source["text"] == TWIN]
    assert (source["uri"], source["also_at"]) == ("upload:///twin-b.md", [])
    assert client.delete(f"/documents/{twins[1]['document_id']}").status_code == 204


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_br_46_a_job_survives_the_service_and_every_worker_sees_it(
    tmp_path: Path, fake_server: FakeVllm, number: signal.Signals
) -> None:
    home = tmp_path / "home"
    with another_run(home):
        with service_process(home, fake_server.base_url) as running, client_of(running) as client:
            assert client.get("/documents").json()["documents"] == [], "nothing is there yet, and that is no failure"
            url = upload(client, ("otter.md", OTTER.encode()))
            wait_until(lambda: client.get(url).json()["status"] == "running", "the job runs")
            wait_until(lambda: runs_on(home), "rag-ingest runs")
            os.kill(running.process.pid, number)
            assert running.process.wait(30) == (0 if number == signal.SIGTERM else -number)
        wait_until(lambda: not runs_on(home), "rag-ingest has gone with the service")
        [record] = (home / "uploads" / "pending").glob("*/job.json")
        assert f'"state": "{"interrupted" if number == signal.SIGTERM else "running"}"' in record.read_text()
    with service_process(home, fake_server.base_url, SERVER__WORKERS="2") as running:
        wait_until(lambda: listens(running), "a worker listens")
        with client_of(running) as client:
            assert ended(client, url)["documents"][0]["status"] == "indexed"
            assert passages(client, OTTER_QUESTION) == OTTER
        for _ in range(8):  # each over a connection of its own, so that both workers are met
            with client_of(running) as client:
                assert client.get(url).json()["status"] == "done"


def listens(running: Running) -> bool:
    """Its address is told before its workers have started."""
    try:
        with client_of(running) as client:
            return client.get("/health").status_code == 200
    except httpx2.TransportError:
        return False


def runs_on(home: Path) -> list[int]:
    """Processes of rag-ingest that work on this home."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                b"\0ingest\0run\0" in (folder / "cmdline").read_bytes()
                and os.fsencode(home) in (folder / "environ").read_bytes()
            ):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_where_everybody_is_let_in_nobody_writes_unless_it_is_said(home: Path, fake_server: FakeVllm) -> None:
    with (
        service_process(home, fake_server.base_url, SERVER__ALLOW_OPEN="true") as running,
        client_of(running) as client,
    ):
        response = client.post("/documents", files={"file": ("a.md", b"x")})
        assert "RAG_UPLOADS__ENABLED" in refused(response, 403, "forbidden")["message"]
        refused(client.delete("/documents/x"), 403, "forbidden")
        assert client.get("/documents").status_code == 200
