"""A real vLLM on CPU for the tests of this folder.

In: RAG_TEST_VLLM=1 (`make test-vllm` sets it) lets these tests run; RAG_TEST_VLLM_URL names an endpoint that already
runs, such as http://127.0.0.1:8001/v1. Out: `vllm_url`, the base URL. Must not: leave a process behind.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.service import free_port

HERE = Path(__file__).parent
SCRIPT = HERE.parent.parent / "scripts" / "vllm_cpu.py"
START_LIMIT_S = 300.0
STOP_LIMIT_S = 20.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark this folder's tests; the first to ask for the server also waits for it, which the usual limit forbids."""
    absent = pytest.mark.skip(reason="needs a real vLLM on CPU: run `make test-vllm`, which sets RAG_TEST_VLLM=1")
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.vllm)
        item.add_marker(pytest.mark.timeout(START_LIMIT_S + 120))
        if os.environ.get("RAG_TEST_VLLM") != "1":
            item.add_marker(absent)


@pytest.fixture(scope="session")
def vllm_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a vLLM that serves one small model. Its `/health` has answered."""
    if url := os.environ.get("RAG_TEST_VLLM_URL"):
        yield url.rstrip("/")
        return
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    port = free_port()
    with log.open("wb") as output:
        command = [sys.executable, str(SCRIPT), "serve", "--port", str(port)]
        # A session of its own, so that vLLM's engine processes can be ended with it.
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        wait_until_healthy(server, port, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        end_group(server)


def wait_until_healthy(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Ask `/health` until it answers. Raises with the end of the server's log when it dies or takes too long."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except OSError:  # the port is closed until the model is loaded
            pass
        try:
            status = server.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"vLLM ended with status {status}:\n{tail(log)}")
    raise RuntimeError(f"vLLM did not answer /health within {START_LIMIT_S:.0f} s:\n{tail(log)}")


def tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:])


def end_group(server: "subprocess.Popen[bytes]") -> None:
    """Let vLLM stop its engine by itself, then end whatever is left of its process group."""
    server.terminate()
    try:
        server.wait(timeout=STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    with contextlib.suppress(ProcessLookupError):  # nothing is left: the usual case
        os.killpg(server.pid, signal.SIGKILL)
