"""One writer at a time, and a dead one blocks nobody."""

import subprocess
import sys
from pathlib import Path

import pytest

from rag_service.errors import IndexLocked, InvalidSettings
from rag_service.index.writer_lock import writer_lock

ROOT = Path(__file__).resolve().parents[2]

HOLDER = """
import sys
from pathlib import Path
from rag_service.index.writer_lock import writer_lock
with writer_lock(Path(sys.argv[1]), 0, print):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(home: Path) -> "subprocess.Popen[str]":
    """Another process that has the lock until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_br_02_the_second_writer_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    waited: list[str] = []
    with hold(tmp_path) as first:
        with pytest.raises(IndexLocked, match=f"process {first.pid}"), writer_lock(tmp_path, 0, waited.append):
            pass
        assert waited == []
        with pytest.raises(IndexLocked), writer_lock(tmp_path, 0.1, waited.append):
            pass
        assert waited == [f"process {first.pid}"]
    with writer_lock(tmp_path, 0, waited.append):
        pass


def test_br_02_a_waiting_writer_goes_on_when_the_first_has_ended(tmp_path: Path) -> None:
    waited: list[str] = []
    first = hold(tmp_path)

    def let_go(holder: str) -> None:
        waited.append(holder)
        assert first.stdin is not None
        first.stdin.close()

    with first, writer_lock(tmp_path, 60, let_go):
        assert waited == [f"process {first.pid}"]


def test_br_02_the_lock_of_a_killed_writer_is_free(tmp_path: Path) -> None:
    with hold(tmp_path) as first:
        first.kill()
        first.wait()
        with writer_lock(tmp_path, 0, print):
            pass


def test_br_90_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(InvalidSettings, match=r"RAG_HOME: .*file/home"),
        writer_lock(tmp_path / "file" / "home", 0, print),
    ):
        pass
