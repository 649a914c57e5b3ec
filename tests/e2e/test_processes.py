"""Starting: what a service needs, what it can wait for, and what it refuses."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import client_of
from tests.e2e.corpus import LEAVE_QUESTION
from tests.e2e.routes import ROUTES, SSE
from tests.support.fake_vllm import FakeVllm
from tests.support.service import clean_environment, free_port, service_process

TRY_IT = Path(__file__).parents[2] / "scripts" / "try_it.py"


def test_br_51_a_service_starts_before_its_model_and_outlives_it(home: Path) -> None:
    port = free_port()
    with (
        service_process(home, f"http://127.0.0.1:{port}/v1", LLM__MODEL="fake-model") as running,
        client_of(running) as client,
    ):

        def absent() -> None:
            assert client.get("/health").status_code == 200
            told = client.get("/ready")
            assert told.status_code == 503
            wrong = {name: check["problem"] for name, check in told.json()["checks"].items() if not check["ok"]}
            assert list(wrong) == ["llm"]
            assert "RAG_LLM__BASE_URL" in wrong["llm"]
            for route in ROUTES:
                outcome = route.ask(client, LEAVE_QUESTION)
                assert (outcome.status, outcome.code) == (503, "upstream_unavailable")
                assert int(outcome.headers["retry-after"]) >= 1
            assert client.get("/info").json()["model"] is None
            assert client.post("/retrieve", json={"question": LEAVE_QUESTION}).status_code == 200

        absent()
        with FakeVllm.in_thread(port=port):
            assert client.get("/ready").status_code == 200
            assert all(route.ask(client, LEAVE_QUESTION).ended == "done" for route in ROUTES)
        absent()
        with FakeVllm.in_thread(port=port, models=["another-model"]):
            told = client.get("/ready").json()["checks"]["llm"]["problem"]
            outcome = SSE.ask(client, LEAVE_QUESTION)
            assert (outcome.status, outcome.code) == (502, "upstream_model_not_found")
            for text in (told, outcome.body["error"]["message"]):  # BR-74
                assert "'fake-model'" in text
                assert "'another-model'" in text


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"RAG_SERVER__HOST": "0.0.0.0"}, "RAG_SERVER__API_KEY"),
        ({"RAG_SERVER__HOST": "0.0.0.0", "RAG_SERVER__API_KEY": ""}, "RAG_SERVER__API_KEY"),
        ({"RAG_SERVER__API_KEY": "  "}, "RAG_SERVER__API_KEY"),
        ({"RAG_ADMISSION__MAX_RUNNING": "0", "RAG_LLM__BASE_URL": "gpu box"}, "RAG_ADMISSION__MAX_RUNNING"),
    ],
)
def test_br_05_a_service_that_would_be_open_or_wrong_does_not_start(
    tmp_path: Path, settings: dict[str, str], named: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rag_service"],
        env=clean_environment(tmp_path / "home", settings),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "home").exists()


def test_br_63_a_model_that_is_not_on_this_machine_is_told_in_one_line(tmp_path: Path) -> None:
    environment = clean_environment(tmp_path / "home", {"RAG_EMBEDDINGS__MODEL": "nobody/no-such-model"})
    command = [sys.executable, "-m", "rag_service", "--port", "0"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3
    assert "rag-service cannot start: The embedding model 'nobody/no-such-model'" in done.stderr
    assert "hf download nobody/no-such-model" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [((sys.executable, "-m", "rag_service"), 2), ((sys.executable, str(TRY_IT)), 1)],
    ids=["rag-service", "make run"],
)
def test_a_port_that_is_taken_is_named_at_once(tmp_path: Path, command: tuple[str, ...], code: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        environment = clean_environment(tmp_path / "home", {"RAG_SERVER__PORT": str(port), "COLUMNS": "200"})
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
    told = done.stdout + done.stderr
    assert done.returncode == code
    assert f"RAG_SERVER__PORT={port + 1}" in told
    assert "Traceback" not in told
    assert not (tmp_path / "home" / "run").exists(), "nothing was started"
