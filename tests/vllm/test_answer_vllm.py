"""The whole answer path against a real vLLM: ingested files, real Chroma, the service on a socket, streamed and cited.

In: `vllm_url`. Out: facts about the joined parts. Must not: judge the model's words beyond what it copies from its sources.
"""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import httpx2
import pytest

from tests.support.readers import check_log, native_sse
from tests.support.service import run_ingest, running_service, wait_until

CORPUS = Path(__file__).parents[2] / "data" / "corpus" / "hr"
QUESTION = {"question": "What is the notice period during probation?", "temperature": 0, "max_tokens": 48}


@pytest.fixture(scope="module")
def service_url(vllm_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("vllm-answers") / "home"
    done = run_ingest(home, "run", str(CORPUS))
    assert done.returncode == 0, done.stdout + done.stderr
    with running_service(home, vllm_url) as url:
        yield url


def running_requests(vllm_url: str) -> float:
    """vLLM's own count of the answers that it works on."""
    with urlopen(vllm_url.removesuffix("/v1") + "/metrics") as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("vllm:num_requests_running{"))


def test_an_answer_is_streamed_and_its_citation_verified(service_url: str) -> None:
    with (
        httpx2.Client(base_url=service_url, timeout=120) as client,
        client.stream("POST", "/rag-query", json=QUESTION) as response,
    ):
        assert response.status_code == 200
        events = native_sse(response.iter_raw())

    def text_of(document: str) -> str:
        found = httpx2.get(f"{service_url}/documents/{document}", headers={"Accept": "application/json"}).json()
        assert (found["offset"], found["length"]) == (0, len(found["text"]))
        return str(found["text"])

    check_log(events, text_of)
    assert sum(event["type"] == "delta" for event in events) > 3
    assert events[-1]["type"] == "done"
    assert events[-1]["usage"]["completion_tokens"] > 0
    verified = [event for event in events if event["type"] == "citation" and event["status"] == "verified"]
    assert verified, events
    assert "notice" in verified[0]["source"]["quote"]


def test_br_06_a_closed_client_stops_the_work_in_vllm(service_url: str, vllm_url: str) -> None:
    address = urlsplit(service_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)
    body = json.dumps({"question": "Tell all about annual leave, at length.", "max_tokens": 1500})
    connection.request("POST", "/rag-query", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    while not response.readline().startswith(b"event: delta"):
        pass
    assert running_requests(vllm_url) == 1
    connection.close()
    response.close()
    wait_until(lambda: running_requests(vllm_url) == 0, "vLLM runs nothing for a client that has left")
