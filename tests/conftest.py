"""What all tests share: an environment without settings of the person who runs them, an index, and a scripted model.

In: tests/e2e/corpus.py. Out: `home`, `fake`; both are made when a test asks for them. Must not: cost other tests anything.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.corpus import CORPUS
from tests.support.fake_vllm import FakeVllm
from tests.support.service import ingested


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that wants a setting says so; RAG_TEST_ names are for the tests themselves."""
    for name in list(os.environ):
        if name.startswith("RAG_") and not name.startswith("RAG_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RAG_HOME with the corpus in it. Tests read it; who writes, does so to a collection of its own."""
    return ingested(tmp_path_factory.mktemp("served"), CORPUS)


@pytest.fixture(scope="session")
def fake_server() -> Iterator[FakeVllm]:
    with FakeVllm.in_thread() as fake:
        yield fake


@pytest.fixture
def fake(fake_server: FakeVllm) -> FakeVllm:
    """The scripted model, as new."""
    fake_server.requests.clear()
    fake_server.pace = 0.0
    fake_server.models_status = None
    fake_server.answer("Hello from the fake model.")
    return fake_server
