"""The local Chroma, real, with its users in processes of their own."""

import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import chromadb
import pytest

from rag_service.local.chroma import chroma_server
from rag_service.local.state import RunFiles, ServerState

LOOPBACK_HEX = {"0100007F", "00000000", "0000000000000000FFFF00000100007F", "00000000000000000000000000000000"}


def collection(url: str) -> chromadb.Collection:
    address = urlsplit(url)
    client = chromadb.HttpClient(host=str(address.hostname), port=address.port or 0)
    return client.get_or_create_collection("documents", embedding_function=None)


def add(url: str, name: str) -> None:
    collection(url).upsert(ids=[name], embeddings=[[1.0, 2.0, 3.0]], documents=[f"text of {name}"])


def names(url: str) -> list[str]:
    found = collection(url).query(query_embeddings=[[1.0, 2.0, 3.0]], n_results=10)
    return sorted(found["ids"][0])


def test_two_processes_share_one_server_and_the_last_one_out_stops_it(start_user, state_of, is_alive) -> None:
    first, second = start_user(), start_user()
    assert first.line() == second.line()
    state = state_of("chroma")
    first.release()
    assert is_alive(state.server)
    assert state_of("chroma") == state
    second.release()
    assert not is_alive(state.server)
    assert not is_alive(state.keeper)


def test_br_01_what_one_process_adds_the_other_finds_at_once(start_user, home: Path) -> None:
    other = start_user()
    with chroma_server(home) as url:
        add(url, "before")
        assert names(url) == ["before"]
        assert other.line() == url
        add(other.ensure(), "after")
        assert names(url) == ["after", "before"]
        collection(url).delete(ids=["before"])
        assert names(other.ensure()) == ["after"]
        other.release()


def test_what_was_stored_is_there_for_the_next_users(home: Path) -> None:
    with chroma_server(home) as url:
        add(url, "kept")
    with chroma_server(home) as url:
        assert names(url) == ["kept"]


def test_the_server_ends_when_its_only_user_is_killed(start_user, state_of, is_alive, until) -> None:
    user = start_user()
    user.line()
    state = state_of("chroma")
    user.kill()
    until(lambda: not is_alive(state.server) and not is_alive(state.keeper), "server and keeper have ended")


def test_the_server_stays_when_one_of_two_users_is_killed(start_user, state_of, is_alive) -> None:
    killed, staying = start_user(), start_user()
    killed.line()
    url = staying.line()
    killed.kill()
    assert staying.ensure() == url
    staying.release()


def test_a_killed_server_is_replaced_and_its_data_is_there(home: Path, state_of, kill, until) -> None:
    server = chroma_server(home)
    add(server.acquire(), "kept")
    before = state_of("chroma")
    kill(before.server)
    until(lambda: (now := ServerState.read(RunFiles(home / "run", "chroma").state)) and now != before, "a new server")
    url = server.ensure()
    assert names(url) == ["kept"]
    assert urlsplit(url).port == before.port
    server.release()


def test_a_server_whose_keeper_was_killed_goes_with_it_and_is_replaced(
    home: Path, start_user, state_of, is_alive, kill, until
) -> None:
    other = start_user()
    other.line()
    server = chroma_server(home)
    add(server.acquire(), "kept")
    before = state_of("chroma")
    kill(before.keeper)
    until(lambda: not is_alive(before.server), "the server has died with its keeper")
    url = server.ensure()
    assert names(url) == ["kept"]
    assert other.ensure() == url
    server.release()
    assert other.ensure() == url
    other.release()


def test_eight_processes_at_once_start_one_server(start_user, state_of, home: Path) -> None:
    users = [start_user() for _ in range(8)]
    assert len({user.line() for user in users}) == 1
    # The log is begun anew with each keeper, and names the folder once for each server.
    assert (home / "run" / "chroma.log").read_text().count("Saving data to") == 1
    for user in users:
        user.release()


def test_the_state_of_a_dead_server_is_not_believed(home: Path, is_alive) -> None:
    (home / "run").mkdir(parents=True)
    files = RunFiles(home / "run", "chroma")
    dead = ServerState(port=9, keeper=2**22, server=2**22, started=1.0)
    dead.write(files.state)
    with chroma_server(home) as url:
        add(url, "new")
        now = ServerState.read(files.state)
        assert now is not None
        assert now != dead
        assert is_alive(now.server)


def test_br_103_nothing_is_heard_from_or_said_beyond_loopback(
    home: Path, state_of, socket_addresses: Callable[[int], set[str]]
) -> None:
    with chroma_server(home) as url:
        add(url, "a")
        assert names(url) == ["a"]
        found = socket_addresses(state_of("chroma").server)
        assert "0100007F" in found
        # The wildcard address stands where a listening socket has no remote end; as a local address it is ruled out
        # by the next assertion.
        assert found <= LOOPBACK_HEX
        assert "telemetry" not in (home / "run" / "chroma.log").read_text().lower()


def test_it_listens_on_loopback_only(home: Path, state_of) -> None:
    with chroma_server(home):
        state = state_of("chroma")
        port = f"{state.port:04X}"
        listening = set()
        for table in ("tcp", "tcp6"):
            for row in Path(f"/proc/{state.server}/net/{table}").read_text().splitlines()[1:]:
                address, _, number = row.split()[1].partition(":")
                if number == port and row.split()[3] == "0A":  # LISTEN
                    listening.add(address)
        assert listening == {"0100007F"}


def test_br_34_data_deleted_under_a_running_server_is_begun_anew(start_user, home: Path) -> None:
    with chroma_server(home) as url:
        add(url, "old")
        shutil.rmtree(home / "chroma")
        other = start_user()  # as the next ingest run would
        assert other.line() == url
        add(url, "new")
        assert names(url) == ["new"]
        other.release()


def test_br_34_a_home_deleted_under_its_users_is_begun_anew(start_user, home: Path, state_of, is_alive, until) -> None:
    first = start_user()
    first.line()
    before = state_of("chroma")
    shutil.rmtree(home)
    server = chroma_server(home)
    url = server.acquire()
    add(url, "new")
    assert first.ensure() == url
    until(
        lambda: not is_alive(before.server) and not is_alive(before.keeper), "the server of the deleted home has ended"
    )
    assert names(first.ensure()) == ["new"]
    server.release()
    assert names(first.ensure()) == ["new"]
    first.release()


@pytest.mark.parametrize("deleted", ["chroma", "run", "."])
def test_releasing_after_the_folder_is_gone_leaves_nothing_behind(home: Path, deleted: str, state_of, is_alive, until):
    server = chroma_server(home)
    server.acquire()
    before = state_of("chroma")
    shutil.rmtree(home / deleted)
    server.release()
    until(lambda: not is_alive(before.server) and not is_alive(before.keeper), "server and keeper have ended")
    assert not (home / "run" / "chroma.json").exists()
