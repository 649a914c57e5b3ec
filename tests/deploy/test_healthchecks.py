"""The health checks of docker-compose.yml and the Dockerfile, run as Docker would run them.

In: their commands, with the port exchanged for one of this machine. Out: healthy exactly when the server answers 200.
Must not: need Docker; the commands use only what the images are known to have (bash in Chroma's, Python in the others).
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
PATHS = {"vllm": "/health", "chroma": "/api/v2/heartbeat", "image": "/health"}
START_LIMIT_S = 60.0


def command_of(name: str) -> list[str]:
    """The check's words. "image" is the Dockerfile's own, the others are services of docker-compose.yml."""
    if name == "image":
        found = re.search(r"^HEALTHCHECK[^\n]*\n +CMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        assert found is not None
        return [str(word) for word in json.loads(found[1])]
    test = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"][name]["healthcheck"]["test"]
    assert test[0] == "CMD"
    return [word.replace("$$", "$") for word in test[1:]]


def is_healthy(name: str, port: int) -> bool:
    words = [word.replace("8000", str(port)) for word in command_of(name)]
    words[0] = sys.executable if words[0].startswith("python") else words[0]
    environment = {name: value for name, value in os.environ.items() if name != "RAG_SERVER__PORT"}
    return subprocess.run(words, env=environment, capture_output=True, timeout=30, check=False).returncode == 0


@contextmanager
def answering(status: int) -> Iterator[tuple[int, list[str]]]:
    """A server that answers everything with one status: its port, and the paths it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(("status", "healthy"), [(200, True), (404, False), (500, False), (503, False)])
def test_healthy_means_the_status_200(name: str, status: int, healthy: bool) -> None:
    with answering(status) as (port, asked):
        assert is_healthy(name, port) is healthy
    assert asked == [PATHS[name]]


@pytest.mark.parametrize("name", PATHS)
def test_br_51_a_closed_port_is_not_healthy(name: str) -> None:
    with answering(200) as (port, _):
        pass
    assert not is_healthy(name, port)


def test_a_real_chroma_becomes_healthy(tmp_path: Path) -> None:
    with answering(200) as (port, _):
        pass
    chroma = Path(sys.executable).parent / "chroma"
    command = [str(chroma), "run", "--path", str(tmp_path), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while not is_healthy("chroma", port):
            assert server.poll() is None
            assert time.monotonic() < deadline
    finally:
        server.terminate()
        server.wait()
