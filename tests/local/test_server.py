"""Sharing, starting and stopping, where a server misbehaves: a stand-in that does what each test asks of it."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rag_service.errors import InvalidSettings, LocalServerFailed
from rag_service.local.chroma import chroma_server
from rag_service.local.server import ServerSpec, SharedServer
from rag_service.local.state import LOOPBACK, RunFiles, ServerState

HTTP_SERVER = """
import http.server, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(sys.argv[2])); self.send_header("content-length", "0"); self.end_headers()
if sys.argv[3:] == ["stubborn"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

Make = Callable[..., SharedServer]


@pytest.fixture
def stand_in(home: Path) -> Make:
    """SharedServers of a small HTTP server: status it answers with, further arguments, seconds to start."""

    def make(*arguments: str, status: int = 200, program: str = HTTP_SERVER, timeout_s: float = 30.0) -> SharedServer:
        command = (sys.executable, "-c", program, "{port}", str(status), *arguments)
        return SharedServer(ServerSpec("stand-in", command, "/", timeout_s, "The stand-in"), home / "run")

    return make


def test_several_objects_in_one_process_are_several_users(stand_in: Make, state_of, is_alive) -> None:
    first, second = stand_in(), stand_in()
    assert first.acquire() == second.acquire() == first.acquire()
    server = state_of("stand-in").server
    first.release()
    first.release()
    assert is_alive(server)
    second.release()
    assert not is_alive(server)


def test_a_released_server_can_be_acquired_again_but_not_ensured(stand_in: Make) -> None:
    server = stand_in()
    with server:
        assert server.ensure()
    with pytest.raises(LocalServerFailed, match="not in use by this process"):
        server.ensure()
    with server as url:
        assert url == server.ensure()


def test_users_that_come_and_go_at_once_never_meet_a_dead_server(stand_in: Make) -> None:
    def use(_: int) -> None:
        with stand_in() as url, socket.create_connection((LOOPBACK, int(url.rpartition(":")[2]))):
            pass

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(40)))


def test_the_last_of_several_that_leave_at_once_has_seen_the_server_end(stand_in: Make, state_of, is_alive) -> None:
    users = [stand_in() for _ in range(8)]
    for user in users:
        user.acquire()
    server = state_of("stand-in").server
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(SharedServer.release, users))
    assert not is_alive(server)


def test_signals_to_stop_do_not_take_the_server_from_its_users(stand_in: Make, state_of, until) -> None:
    with stand_in() as url:
        state = state_of("stand-in")
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(state.keeper, number)
        os.kill(state.server, signal.SIGTERM)
        server = stand_in()
        until(lambda: ServerState.read(RunFiles(server.log_path.parent, "stand-in").state) != state, "a new server")
        with server as again:
            assert again == url
        assert state_of("stand-in").keeper == state.keeper


def test_a_server_that_ignores_sigterm_is_killed(stand_in: Make, state_of, is_alive) -> None:
    server = stand_in("stubborn")
    server.acquire()
    state = state_of("stand-in")
    server.release()
    assert not is_alive(state.server)
    assert not is_alive(state.keeper)
    assert "was killed" in server.log_path.read_text()


def test_a_server_that_cannot_start_is_reported_with_its_log(stand_in: Make) -> None:
    server = stand_in(program="import sys; sys.exit('the disk is made of cheese')")
    with pytest.raises(LocalServerFailed, match=r"The stand-in did not start.*made of cheese") as raised:
        server.acquire()
    assert str(server.log_path) in raised.value.message
    assert "exit status 1" in raised.value.message


def test_a_server_that_is_never_ready_is_reported_and_stopped(stand_in: Make) -> None:
    with pytest.raises(LocalServerFailed, match="was not ready within 1 s"):
        stand_in(status=503, timeout_s=1.0).acquire()


def test_a_failed_start_can_be_tried_again(stand_in: Make) -> None:
    with pytest.raises(LocalServerFailed):
        stand_in(program="raise SystemExit(3)").acquire()
    with stand_in() as url:
        assert url


def test_a_server_finds_another_port_when_its_own_was_taken(stand_in: Make, state_of, until, kill) -> None:
    with stand_in() as url:
        state = state_of("stand-in")
        files = RunFiles(stand_in().log_path.parent, "stand-in")
        taken = threading.Event()

        def take() -> bool:
            try:
                held.append(socket.create_server((LOOPBACK, state.port)))
            except OSError:
                return False
            taken.set()
            return True

        held: list[socket.socket] = []
        kill(state.server)
        until(lambda: take() or (ServerState.read(files.state) or state) != state, "the port is free for a moment")
        until(lambda: (ServerState.read(files.state) or state) != state, "a new server")
        with stand_in() as again:
            assert (again != url) == taken.is_set()
        for listener in held:
            listener.close()


def test_settings_of_the_product_are_not_handed_to_the_server(stand_in: Make, state_of, monkeypatch) -> None:
    monkeypatch.setenv("RAG_LLM__API_KEY", "canary-key")
    with stand_in():
        for pid in (state_of("stand-in").keeper, state_of("stand-in").server):
            assert b"canary-key" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_relative_home_and_another_working_directory_are_the_same_server(home: Path, monkeypatch) -> None:
    home.mkdir()
    with chroma_server(home) as url:
        monkeypatch.chdir(home.parent)
        with chroma_server(Path(home.name)) as same:
            assert same == url


def test_files_in_the_working_directory_are_not_taken_for_modules(home: Path, stand_in: Make, monkeypatch) -> None:
    home.mkdir()
    for name in ("queue", "json", "http", "ctypes"):
        (home / f"{name}.py").write_text("raise SystemExit('a file of the user was run')")
    monkeypatch.chdir(home)
    with stand_in() as url:
        assert url


def test_br_90_a_home_that_cannot_be_made_is_named_with_the_uid(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    server = chroma_server(tmp_path / "file" / "home")
    with pytest.raises(InvalidSettings, match="RAG_HOME") as raised:
        server.acquire()
    assert str(tmp_path / "file" / "home" / "run") in raised.value.message
    assert f"uid {os.getuid()}" in raised.value.message


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_br_90_a_home_of_somebody_else_is_named_with_the_uid(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    program = (
        "import os, sys; from pathlib import Path; from rag_service.local.chroma import chroma_server\n"
        "server = chroma_server(Path(sys.argv[1])); os.setuid(65534)\n"
        "try: server.acquire()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(home)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("InvalidSettings RAG_HOME: ")
    assert "uid 65534" in done.stdout
