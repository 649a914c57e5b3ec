"""Two runs at once, and runs whose process or Chroma is killed or missing."""

import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from ingest.cli import INTERRUPTED, UNUSABLE
from ingest.report import STOPPING
from rag_service.local.state import ServerState
from tests.support.ingest_cli import by_name, lock_held, parse, start, uris
from tests.support.service import run_ingest


def test_br_02_a_second_run_is_refused_or_waits(home: Path, corpus: Path) -> None:
    with lock_held(home) as first:
        refused = run_ingest(home, "run", str(corpus / "hr"))
        assert refused.returncode == UNUSABLE
        assert f"process {first.pid}" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
        assert refused.stdout == ""
        with start(home, "run", str(corpus / "hr"), "--wait", "100") as waiting:
            assert waiting.stdout is not None
            assert waiting.stderr is not None
            assert waiting.stderr.readline() == f"Waiting for process {first.pid}, which is writing to this index.\n"
            assert first.stdin is not None
            first.stdin.close()
            assert {*by_name(waiting.stdout.read()).values()} == {"unchanged"}
        assert waiting.returncode == 0


def test_an_interrupted_run_says_so_with_exit_code_130(home: Path, corpus: Path) -> None:
    with lock_held(home), start(home, "run", str(corpus), "--wait", "100") as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("Waiting for process")
        waiting.send_signal(signal.SIGINT)
        assert waiting.stderr.read() == "Interrupted. What was indexed stays; the next run goes on from here.\n"
    assert waiting.returncode == INTERRUPTED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_stop_finishes_what_it_has_in_hand(tmp_path: Path, number: signal.Signals) -> None:
    docs, home = tmp_path / "docs", tmp_path / "home"
    docs.mkdir()
    for name in range(12):
        sections = "".join(f"# {part}\n\nRoom {name} has {part} seats.\n\n" for part in range(12))
        (docs / f"{name}.md").write_text(sections)
    with start(home, "run", str(docs)) as stopped:
        assert stopped.stdout is not None
        assert stopped.stderr is not None
        first = stopped.stdout.readline()
        stopped.send_signal(number)
        rest, told = stopped.stdout.read(), stopped.stderr.read()
    assert stopped.returncode == INTERRUPTED, told
    assert told.splitlines() == [STOPPING, "Interrupted. What was indexed stays; the next run goes on from here."]
    lines, summary = parse(first + rest)
    assert summary["indexed"] == len(lines) == len(uris(home))


def test_br_03_a_killed_run_and_a_killed_chroma_are_made_good_by_the_next_run(tmp_path: Path) -> None:
    docs, home = tmp_path / "docs", tmp_path / "home"
    docs.mkdir()
    for number in range(6):
        (docs / f"{number}.md").write_text(f"The room number {number} has {number + 10} seats.\n")
    with start(home, "run", str(docs)) as killed:
        assert killed.stdout is not None
        assert json.loads(killed.stdout.readline())["status"] == "indexed"
        killed.kill()
    with start(home, "run", str(docs)) as robbed:
        assert robbed.stdout is not None
        assert robbed.stderr is not None
        assert json.loads(robbed.stdout.readline())["status"] == "unchanged"
        state = ServerState.read(home / "run" / "chroma.json")
        assert state is not None
        with suppress(ProcessLookupError):
            os.kill(state.server, signal.SIGKILL)
        robbed.stdout.read()
        told = robbed.stderr.read()
    assert robbed.returncode in (0, UNUSABLE), told
    assert "Traceback" not in told
    third = run_ingest(home, "run", str(docs))
    assert third.returncode == 0, third.stderr
    assert [*by_name(third.stdout)] == [f"{number}.md" for number in range(6)]
    last = run_ingest(home, "run", str(docs), EMBEDDINGS__DEVICE="no-such-device")
    assert parse(last.stdout)[1]["unchanged"] == 6
    assert last.returncode == 0


def test_no_chroma_at_the_configured_address_is_told_before_any_model_is_loaded(tmp_path: Path, corpus: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = run_ingest(tmp_path / "home", "run", str(corpus), CHROMA__URL=url, EMBEDDINGS__DEVICE="no-such-device")
    assert done.returncode == UNUSABLE
    assert "RAG_CHROMA__URL" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
