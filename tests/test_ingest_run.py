"""rag-ingest as a process of its own: whatever it does, the service goes on, knows how it ended, and leaves nothing behind."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from rag_service import ingest_run
from rag_service.ingest_run import REASON_CHARS, Ended, clean, environment, run_ingest
from rag_service.settings import Settings

URI = "upload:///a.md"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate({"home": tmp_path / "home", "chroma": {"token": "sk-CANARY"}})


def instead(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Run this in the place of rag-ingest, with the same arguments."""
    monkeypatch.setattr(ingest_run, "COMMAND", (sys.executable, "-c", script))


async def test_results_arguments_and_standard_input_go_through(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "0"
    source.write_bytes(b"\x00\xff" * 300_000)
    instead(
        monkeypatch,
        "import json, sys\n"
        "print('no json'); print('[1]')\n"
        f"print(json.dumps({{'uri': {URI!r}, 'status': 'indexed', 'n': len(sys.stdin.buffer.read()), 'a': sys.argv[1:]}}))",
    )
    ended = await run_ingest(settings, "documents", ("run", "-"), source, 60)
    assert ended.code == 0
    assert ended.of(URI) == {"uri": URI, "status": "indexed", "n": 600_000, "a": ["run", "-"]}
    assert ended.of("upload:///other") is None


async def test_one_that_takes_too_long_is_ended(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, "import time; time.sleep(600)")
    assert (await run_ingest(settings, "documents", (), None, 0.2)).code is None


async def test_br_46_whoever_is_cancelled_ends_it_with_all_its_processes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ingest_run, "STOP_S", 0.2)
    instead(
        monkeypatch,
        "import os, pathlib, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"os.fork(); pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()\n"
        "time.sleep(600)",
    )
    task = asyncio.create_task(run_ingest(settings, "documents", (), None, 600))
    while len(pids := [int(name) for name in os.listdir(tmp_path)]) < 2:  # noqa: ASYNC110, PTH208  other processes make them
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert [pid for pid in pids if is_running(pid)] == []


async def test_a_crash_is_told_by_its_signal(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, "import os, sys; sys.stderr.write('x' * 3_000_000 + 'last'); sys.stderr.flush(); os.abort()")
    ended = await run_ingest(settings, "documents", (), None, 60)
    assert ended.code == -signal.SIGABRT
    assert ended.errors.endswith("last")
    assert len(ended.errors) <= ingest_run.OUTPUT_BYTES


async def test_br_62_it_gets_the_index_and_no_key_of_the_service(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAG_LLM__API_KEY", "RAG_SERVER__API_KEY", "RAG_CHUNKS__MAX_TOKENS"):
        monkeypatch.setenv(name, "77")
    instead(monkeypatch, "import json, os; print(json.dumps({'uri': 'x', **os.environ}))")
    told = (await run_ingest(settings, "other", (), None, 60)).of("x")
    assert told is not None
    assert not {"RAG_LLM__API_KEY", "RAG_SERVER__API_KEY"} & told.keys()
    assert (told["RAG_COLLECTION"], told["RAG_HOME"]) == ("other", str(settings.home))
    assert (told["RAG_CHROMA__TOKEN"], told["RAG_CHUNKS__MAX_TOKENS"]) == ("sk-CANARY", "77")


def test_the_environment_says_only_what_was_set(tmp_path: Path) -> None:
    plain = environment(Settings.model_validate({"home": tmp_path}), "documents")
    assert {name for name in plain if name.startswith("RAG_")} == {"RAG_HOME", "RAG_COLLECTION"}


def test_br_62_only_what_is_meant_for_people_is_told_and_no_path_of_an_upload() -> None:
    errors = "rag-ingest: first\nTraceback (most recent call last):\nValueError: sk-CANARY in /srv/rag/uploads/7/0\n"
    hidden = {"/srv/rag/uploads": "RAG_HOME/uploads", "/srv/rag": "RAG_HOME"}
    assert Ended(1, (), errors).told(hidden) == "first"
    assert Ended(1, (), errors.removeprefix("rag-ingest: first\n")).told(hidden) is None
    said = Ended(3, (), "rag-ingest: /srv/rag/uploads/7/0 and /srv/rag:\x1b[2J\u202egone").told(hidden)
    assert said == "RAG_HOME/uploads/7/0 and RAG_HOME: [2J gone"
    assert len(clean("x" * 10_000, {})) == REASON_CHARS + 1


def is_running(pid: int) -> bool:
    """Whether this process is there and no zombie."""
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_what_became_of_a_document_is_not_that_its_vectors_were_restored() -> None:
    unchanged, restored = {"uri": URI, "status": "unchanged"}, {"uri": URI, "status": "restored"}
    assert Ended(0, (unchanged, restored), "").of(URI) == unchanged
    assert Ended(0, (restored,), "").of(URI) is None
