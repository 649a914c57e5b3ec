"""The services that the relay benchmark measures, each a process of its own in front of the scripted upstream.

In: the upstream's address. Out: where each listens, its process, what it takes and what it sends. Must not: differ in what
uvicorn is told: one process, uvloop, httptools, no access log.
"""

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.benchmarks.load_generator import Job, Reading
from tests.benchmarks.scripted_answer import QUESTION
from tests.support.ingest_cli import ROOT
from tests.support.service import clean_environment, free_port, service_process, wait_until

STREAMS_AT_MOST = 256


@dataclass(frozen=True)
class Service:
    """What answers at `port`; `form` is what it sends (load_generator.py). No `pid`: its CPU is nobody's business here."""

    name: str
    port: int
    path: str
    body: dict[str, Any]
    form: str
    pid: int | None

    def read(self, streams: int, tokens: int) -> Reading:
        """Let so many readers have an answer of so many tokens each, all at once."""
        job = Job(self.port, self.path, self.body, self.form, streams, tokens, self.pid)
        command = [sys.executable, "-m", "tests.benchmarks.load_generator"]
        done = subprocess.run(
            command, input=json.dumps(asdict(job)), cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{self.name}: {done.stderr[-2_000:]}"
        return Reading(**json.loads(done.stdout))


@dataclass(frozen=True)
class ScriptedUpstream:
    """scripted_upstream.py, or what paces its answers in another way, running."""

    port: int

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def plan(self, rate: float, tokens: int) -> None:
        self._get(f"plan/{rate}/{tokens}")

    def stats(self) -> dict[str, float]:
        return self._get("stats")

    def directly(self) -> Service:
        """The upstream itself, as a service that costs nothing."""
        body = {"model": "scripted-model", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
        return Service("the upstream, read directly", self.port, "/v1/chat/completions", body, "openai", None)

    def _get(self, path: str) -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=30) as response:
            found: dict[str, float] = json.load(response)
        return found


@contextmanager
def scripted_upstream(module: str = "scripted_upstream") -> Iterator[ScriptedUpstream]:
    """`module` is of this folder: the one of that name, or one that paces the same answers in another way."""
    command = [sys.executable, "-m", f"tests.benchmarks.{module}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield ScriptedUpstream(int(process.stdout.readline()))
        finally:
            process.terminate()


@contextmanager
def baseline(name: str, app: str, form: str, upstream: ScriptedUpstream) -> Iterator[Service]:
    """One of the *_app.py beside this file."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", f"tests.benchmarks.{app}:app", "--port", str(port)]
    options = ["--loop", "uvloop", "--http", "httptools", "--log-level", "warning", "--no-access-log"]
    environment = {**clean_environment(Path(), {}), "LLM_URL": upstream.base_url}
    with subprocess.Popen([*command, *options], cwd=ROOT, env=environment) as process:
        try:
            wait_until(lambda: listens(port) or process.poll() is not None, f"{app} listens")
            assert process.poll() is None, f"{app} did not start"
            yield Service(name, port, "/ask", {"question": QUESTION}, form, process.pid)
        finally:
            process.terminate()


@contextmanager
def rag_service(home: Path, upstream: ScriptedUpstream) -> Iterator[Service]:
    """The product, all of it on, over an index at `home`."""
    admission = {"ADMISSION__MAX_RUNNING": str(STREAMS_AT_MOST)}
    with service_process(home, upstream.base_url, **admission) as running:
        port = urlsplit(running.url).port
        assert port is not None
        body = {"question": QUESTION}
        yield Service("rag-service, retrieval and citations", port, "/rag-query", body, "native", running.process.pid)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
