"""The run files: a state survives its file, rubbish is no state, locks and ports exclude each other."""

import os
import socket
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rag_service.local.state import LOOPBACK, RunFiles, ServerState, is_free, is_served, lock, open_lock, reserve_port

pids = st.integers(1, 2**22)
states = st.builds(
    ServerState,
    port=st.integers(1, 65_535),
    keeper=pids,
    server=pids,
    started=st.floats(0, 4e9),
    data=st.none() | st.tuples(st.integers(0, 2**64), st.integers(0, 2**64)),
)


@given(states)
def test_a_state_comes_back_as_it_was_written(tmp_path_factory, state: ServerState) -> None:
    path = tmp_path_factory.mktemp("state") / "x.json"
    state.write(path)
    assert ServerState.read(path) == state
    assert list(path.parent.iterdir()) == [path]


@given(st.text() | st.sampled_from(["{}", "[]", "null", '{"port": 1}', '{"port": null}']))
def test_rubbish_is_no_state(tmp_path_factory, text: str) -> None:
    path = tmp_path_factory.mktemp("state") / "x.json"
    path.write_text(text, encoding="utf-8")
    assert ServerState.read(path) is None


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert ServerState.read(tmp_path / "x.json") is None


def test_a_server_is_served_while_its_lock_is_held(tmp_path: Path) -> None:
    files = RunFiles(tmp_path, "x")
    assert not is_served(files)
    descriptor = open_lock(files.serving)
    assert not is_served(files)
    assert lock(descriptor, shared=False)
    assert is_served(files)
    os.close(descriptor)
    assert not is_served(files)


def test_reserved_ports_differ_and_can_be_listened_on() -> None:
    ports = [reserve_port() for _ in range(100)]
    assert len(set(ports)) == len(ports)
    assert all(is_free(port) for port in ports)


def test_a_port_that_is_listened_on_is_not_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        assert not is_free(server.getsockname()[1])
