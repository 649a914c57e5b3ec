"""A real service on a real socket: `rag-service` in a process of its own, on a home folder of the test's.

In: a home, environment settings. Out: its URL. Must not: share anything with other tests but the local Chroma of the same
home, which is started and shared as in real life.
"""

import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STARTED = re.compile(rb"Uvicorn running on (http://127\.0\.0\.1:\d+)")
START_LIMIT_S = 180.0


def clean_environment(home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without any RAG_ setting, and with those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    return {**kept, "RAG_HOME": str(home), "PYTHONUNBUFFERED": "1", **settings}


@dataclass(frozen=True)
class Running:
    """A service that listens at `url`."""

    url: str
    process: "subprocess.Popen[bytes]"
    log_path: Path

    def log(self) -> str:
        return self.log_path.read_text()


@contextmanager
def running_service(home: Path, llm_url: str, **settings: str) -> Iterator[str]:
    """`service_process`, for tests that only need its address."""
    with service_process(home, llm_url, **settings) as running:
        yield running.url


@contextmanager
def service_process(home: Path, llm_url: str, **settings: str) -> Iterator[Running]:
    """Start `rag-service` on a free port and wait until it listens; SIGTERM it in the end, if it still runs.

    `settings` are environment names without `RAG_`: `STREAM__PING_INTERVAL_S="0.2"`.
    """
    chosen = {f"RAG_{name}": value for name, value in settings.items()}
    environment = clean_environment(home, {"RAG_LLM__BASE_URL": llm_url, "RAG_SERVER__PORT": "0", **chosen})
    handle, name = tempfile.mkstemp(prefix=f"{home.name}-service-", suffix=".log", dir=home.parent)
    os.close(handle)
    log_path = Path(name)
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "rag_service"], env=environment, stdout=log, stderr=log, cwd=home.parent
        )
    try:
        yield Running(wait_until_started(process, log_path), process, log_path)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the service did not stop within 20 s:\n{log_path.read_text()}") from None


def wait_until_started(process: "subprocess.Popen[bytes]", log_path: Path) -> str:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if (found := STARTED.search(log_path.read_bytes())) is not None:
            return found[1].decode()
        if process.poll() is not None:
            break
        select.select([], [], [], 0.05)
    raise AssertionError(f"the service did not start:\n{log_path.read_text()}")


def wait_until(condition: Callable[[], object], name: str) -> None:
    """Wait for what another process does in its own time, and fail with its name when it does not come."""
    deadline = time.monotonic() + START_LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"this did not happen: {name}"
        select.select([], [], [], 0.02)


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_ingest(home: Path, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """Run `rag-ingest` to its end in a process of its own."""
    chosen = {f"RAG_{name}": value for name, value in settings.items()}
    return subprocess.run(
        [sys.executable, "-m", "ingest", *arguments],
        env=clean_environment(home, chosen),
        cwd=home.parent,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def ingested(root: Path, corpus: Mapping[str, str]) -> Path:
    """A home in `root` whose index holds these documents, file names to texts."""
    folder = root / "documents"
    folder.mkdir()
    for name, text in corpus.items():
        (folder / name).write_text(text, encoding="utf-8")
    done = run_ingest(root / "home", "run", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return root / "home"
