"""One real service for most tests here: its own process, real Chroma, real MiniLM, over a small folder; a scripted model.

In: `home` and `fake` of tests/conftest.py. Out: `service`, `client`. Must not: let a test change what another one finds.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.fake_vllm import FakeVllm
from tests.support.service import Running, service_process

SECRET = "sk-CANARY-7f3a91"
KEY = "caller-key-5d2e"


@pytest.fixture(scope="session")
def service(home: Path, fake_server: FakeVllm) -> Iterator[Running]:
    """The service as it comes, but for the address of its model."""
    with service_process(home, fake_server.base_url) as running:
        yield running


@pytest.fixture(scope="session")
def narrow_service(home: Path, fake_server: FakeVllm) -> Iterator[Running]:
    """A service with one place, one waiting place, impatient, with keys on both sides, and talkative."""
    with service_process(
        home,
        fake_server.base_url,
        ADMISSION__MAX_RUNNING="1",
        ADMISSION__MAX_QUEUED="1",
        STREAM__PING_INTERVAL_S="0.2",
        LLM__TOKEN_TIMEOUT_S="1",
        LLM__FIRST_TOKEN_TIMEOUT_S="4",
        LLM__API_KEY=SECRET,
        SERVER__API_KEY=KEY,
        SERVER__LOG_LEVEL="DEBUG",
        SERVER__CORS_ORIGINS='["https://chat.example.org"]',
    ) as running:
        yield running


def client_of(running: Running, **headers: str) -> httpx2.Client:
    return httpx2.Client(base_url=running.url, timeout=60, trust_env=False, headers=headers)


@pytest.fixture
def client(service: Running, fake: FakeVllm) -> Iterator[httpx2.Client]:
    with client_of(service) as client:
        yield client


@pytest.fixture
def narrow_client(narrow_service: Running, fake: FakeVllm) -> Iterator[httpx2.Client]:
    with client_of(narrow_service, Authorization=f"Bearer {KEY}") as client:
        yield client


@pytest.fixture
def text_of(client: httpx2.Client) -> Callable[[str], str]:
    """The text of a document, through the service's own window on it."""
    texts: dict[str, str] = {}

    def read(document_id: str) -> str:
        if document_id not in texts:
            response = client.get(f"/documents/{document_id}", headers={"accept": "application/json"})
            document = response.raise_for_status().json()
            assert (document["offset"], len(document["text"])) == (0, document["length"])
            texts[document_id] = document["text"]
        return texts[document_id]

    return read
