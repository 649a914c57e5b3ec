"""Two vLLMs behind one router: what docker-compose.yml starts, and that answers go on when one of them dies.

The second part runs the real router, where it is installed (`pip install vllm-router` in an environment of its own), or where
RAG_TEST_VLLM_ROUTER says it is.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest
import yaml

from tests.e2e.conftest import client_of
from tests.e2e.corpus import LEAVE, LEAVE_QUESTION
from tests.e2e.routes import SSE, citing
from tests.support.fake_vllm import FakeVllm, Role, Stall, Token
from tests.support.service import free_port, service_process, wait_until

ROOT = Path(__file__).parent.parent.parent
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
ROUTER = os.environ.get("RAG_TEST_VLLM_ROUTER") or shutil.which("vllm-router")

needs_router = pytest.mark.skipif(ROUTER is None, reason="vllm-router is not installed")


def test_the_replica_is_the_same_vllm_on_another_gpu() -> None:
    first, second = SERVICES["vllm"], SERVICES["vllm-2"]
    assert {key: value for key, value in second.items() if key not in ("profiles", "deploy")} == {
        key: value for key, value in first.items() if key != "deploy"
    }
    devices = [service["deploy"]["resources"]["reservations"]["devices"][0] for service in (first, second)]
    assert devices[0]["count"] == "${VLLM_GPUS:-1}"
    assert devices[1]["device_ids"] == ["${VLLM_2_GPU:-1}"]


def test_the_router_leads_to_both_and_has_the_version_that_is_built() -> None:
    command = SERVICES["router"]["command"]
    assert command[command.index("--worker-urls") + 1 :][:2] == ["http://vllm:8000", "http://vllm-2:8000"]
    built = (ROOT / SERVICES["router"]["build"] / "Dockerfile").read_text(encoding="utf-8")
    version = re.search(r"vllm-router==(\S+)", built)
    assert version is not None
    assert SERVICES["router"]["image"].endswith(f":{version[1]}")
    assert "ports" not in SERVICES["router"]


@needs_router
def test_the_router_knows_its_options() -> None:
    assert ROUTER is not None
    told = subprocess.run([ROUTER, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    options = [word.split("=") for word in SERVICES["router"]["command"] if word.startswith("--")]
    assert [name for name, *_ in options if f"{name} " not in told] == []
    policies = re.search(r"--policy \{([^}]*)\}", told)
    assert policies is not None
    assert dict(option for option in options if len(option) == 2)["--policy"] in policies[1].split(",")


@contextmanager
def routed(*replicas: FakeVllm) -> Iterator[str]:
    """The router as docker-compose.yml runs it, before these; its address as RAG_LLM__BASE_URL wants it."""
    assert ROUTER is not None
    changed = {"--host": "127.0.0.1", "--port": str(free_port()), "--prometheus-port": str(free_port())}
    changed["--prometheus-host"] = "127.0.0.1"
    words = [word for word in SERVICES["router"]["command"][1:] if word.startswith("--") and "=" in word]
    options = dict(word.split("=") for word in words) | changed
    command = [ROUTER, *(f"{name}={value}" for name, value in options.items()), "--worker-urls"]
    process = subprocess.Popen(
        [*command, *(fake.base_url.removesuffix("/v1") for fake in replicas)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{changed['--port']}/v1"

    def listens() -> bool:
        assert process.poll() is None
        try:
            return httpx2.get(f"{url}/models", timeout=5, trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False

    try:
        wait_until(listens, "the router listens")
        yield url
    finally:
        process.terminate()
        process.wait(20)


@needs_router
def test_answers_go_on_when_a_replica_dies(home: Path) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(FakeVllm.in_thread())
        life = ExitStack()
        second = stack.enter_context(life).enter_context(FakeVllm.in_thread())
        url = stack.enter_context(routed(first, second))
        running = stack.enter_context(service_process(home, url))
        client = stack.enter_context(client_of(running))
        for fake in (first, second):
            fake.respond(citing(LEAVE))

        def asked() -> bool:
            outcome = SSE.ask(client, LEAVE_QUESTION)
            assert outcome.ended == "done", outcome.body or outcome.events
            assert outcome.text.startswith(LEAVE.rstrip("."))
            return bool(first.requests and second.requests)

        wait_until(asked, "both replicas have answered")
        before = len(first.requests)
        life.close()
        for _ in range(6):
            asked()
        assert len(first.requests) == before + 6
        wait_until(lambda: client.get("/ready").status_code == 200, "the router asks the living one for its models")


@needs_router
def test_br_06_a_reader_that_leaves_stops_the_replica_behind_the_router(home: Path) -> None:
    with (
        FakeVllm.in_thread() as first,
        FakeVllm.in_thread() as second,
        routed(first, second) as url,
        service_process(home, url, LLM__API_KEY="key-of-the-model") as running,
        client_of(running) as client,
    ):
        for fake in (first, second):
            fake.script([Role(), Token("Leave is"), Stall()])
        with SSE.open(client, LEAVE_QUESTION) as response:
            assert any(b"Leave is" in piece for piece in response.iter_bytes())
        (request,) = first.requests + second.requests
        assert request.gone_sync.wait(20)
        assert request.headers["authorization"] == "Bearer key-of-the-model"
