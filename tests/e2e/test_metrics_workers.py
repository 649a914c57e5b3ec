"""Several workers show one set of metrics, whichever of them is asked, and whatever becomes of the others (BR-72)."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.e2e.conftest import client_of
from tests.e2e.corpus import LEAVE_QUESTION
from tests.e2e.routes import SSE
from tests.e2e.test_metrics import samples
from tests.support.fake_vllm import FakeVllm, Role, Stall, Token
from tests.support.service import Running, service_process, wait_until

WORKERS = 2
ASKED = 6


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the service makes its folder for the metrics."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def running(home: Path, fake: FakeVllm, folder: Path) -> Iterator[Running]:
    with service_process(home, fake.base_url, SERVER__WORKERS=str(WORKERS)) as running:
        wait_until(lambda: len(started(running)) == WORKERS, "all workers listen")
        yield running


def started(running: Running) -> list[int]:
    """Process ids of the workers that have started, in order. A worker's line tells it before it can answer."""
    lines = running.log()
    ids = re.findall(r"Started server process \[(\d+)\]", lines)
    return [int(found) for found in ids][: lines.count("Application startup complete.")]


def scraped(running: Running, times: int = 8) -> list[dict[tuple[str, ...], float]]:
    """Several looks, each over a connection of its own, so that more than one worker is asked."""
    found = []
    for _ in range(times):
        with client_of(running) as client:
            found.append(samples(client))
    return found


def ask(running: Running) -> None:
    with client_of(running) as client:
        assert SSE.ask(client, LEAVE_QUESTION).ended == "done"


def test_br_72_every_worker_shows_the_sum_and_a_dead_one_only_what_it_has_done(
    running: Running, fake: FakeVllm, folder: Path
) -> None:
    for _ in range(ASKED):
        ask(running)
    for found in scraped(running):
        assert found["rag_answers_total", "stop"] == ASKED
        assert found["rag_time_to_first_token_seconds_count",] == ASKED
        assert found["rag_stage_seconds_count", "prompt"] == ASKED
    # Counters are right at once; gauges are looked at by a timer, which may have found an answer in work a moment ago.
    wait_until(lambda: scraped(running, 1)[0]["rag_in_flight",] == 0, "no answer is shown in work")
    assert {(found["rag_in_flight",], found["rag_queued",]) for found in scraped(running)} == {(0, 0)}

    fake.script([Role(), Token("Leave is"), Stall()])
    with ExitStack() as stack:
        for _ in range(4):
            client = stack.enter_context(client_of(running))
            stack.enter_context(SSE.open(client, LEAVE_QUESTION))
        wait_until(lambda: scraped(running, 1)[0]["rag_in_flight",] == 4, "all four answers are shown")
        assert {found["rag_in_flight",] for found in scraped(running)} == {4}
        for worker in started(running):
            os.kill(worker, signal.SIGKILL)
    wait_until(lambda: len(started(running)) == 2 * WORKERS, "new workers have taken their place")
    assert [path.name for path in folder.glob("rag-service-metrics-*/gauge_*")]
    for found in scraped(running):
        assert found["rag_in_flight",] == 0
        assert found["rag_answers_total", "stop"] == ASKED
    fake.answer("Hello.")
    ask(running)
    assert {found["rag_answers_total", "stop"] for found in scraped(running)} == {ASKED + 1}


def test_the_folder_goes_with_the_run(home: Path, fake: FakeVllm, folder: Path) -> None:
    with service_process(home, fake.base_url, SERVER__WORKERS=str(WORKERS)) as running:
        wait_until(lambda: len(started(running)) == WORKERS, "all workers listen")
        assert len(list(folder.glob("rag-service-metrics-*"))) == 1
    assert list(folder.glob("rag-service-metrics-*")) == []


def test_a_single_worker_needs_no_folder(home: Path, fake: FakeVllm, folder: Path) -> None:
    with service_process(home, fake.base_url) as running, client_of(running) as client:
        SSE.ask(client, LEAVE_QUESTION)
        assert samples(client)["rag_answers_total", "stop"] == 1
        assert isinstance(client, httpx2.Client)
        assert list(folder.glob("rag-service-metrics-*")) == []
