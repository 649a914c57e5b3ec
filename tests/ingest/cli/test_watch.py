"""`rag-ingest run --watch` as a process: one that lives through all that may happen to its folder, with the real model."""

import json
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.exits import USAGE
from tests.support.ingest_cli import start, uris
from tests.support.service import run_ingest

LIMIT_S = 90.0


class Watching:
    """Its output, line by line, each with a deadline."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def run(self) -> dict[str, str]:
        """The next run to its summary: names and statuses."""
        found: dict[str, str] = {}
        while "summary" not in (line := self._line()):
            found[line["uri"].rpartition("/")[2]] = line["status"]
        return found

    def until(self, **wanted: str) -> int:
        """Runs until all these were told, whether in one or in several. Returns how many that took."""
        missing, runs = {name.replace("_", "."): status for name, status in wanted.items()}, 0
        while missing:
            runs += 1
            for name, status in self.run().items():
                if missing.get(name) == status:
                    del missing[name]
        return runs

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        code = self.process.wait(LIMIT_S)
        self._thread.join()
        return code

    def _line(self) -> Any:
        try:
            return json.loads(self._lines.get(timeout=LIMIT_S))
        except queue.Empty:
            self.process.kill()
            raise AssertionError("nothing more was told") from None


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "leave.md").write_text("Annual leave is 25 days.\n")
    return folder


@pytest.fixture
def watching(tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    # clean_environment drops RAG_ settings of the caller, so they come from the file in the working folder.
    (tmp_path / ".env").write_text("RAG_WATCH__SETTLE_S=0.3\n")
    with start(tmp_path / "home", "run", str(docs), "--watch") as process:
        seen = Watching(process)
        try:
            yield seen
        finally:
            if process.poll() is None:
                process.kill()


def test_br_19_what_happens_in_the_folder_reaches_the_index(watching: Watching, docs: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert watching.run() == {"leave.md": "indexed"}
    (docs / "sick.md").write_text("Tell us by nine.\n")
    assert watching.run() == {"sick.md": "indexed"}
    (docs / "sick.md").write_text("Tell us by eight.\n")
    assert watching.run() == {"sick.md": "updated"}
    (docs / "sick.md").rename(docs / "ill.md")
    watching.until(ill_md="indexed")  # the same document in another place, so nothing is deleted
    (docs / "hr").mkdir()
    (docs / "leave.md").rename(docs / "hr" / "leave.md")
    watching.until(leave_md="indexed")
    (docs / "hr").rename(docs / "people")
    watching.until(leave_md="indexed")
    assert uris(home) == [(docs / "ill.md").as_uri(), (docs / "people" / "leave.md").as_uri()]
    for number in range(50):
        (docs / f"room {number}.md").write_text(f"The room number {number} has {number + 10} seats.\n")
    assert watching.until(**{f"room%20{number}.md": "indexed" for number in range(50)}) <= 5
    other = run_ingest(home, "run", str(docs / "ill.md"))  # nobody holds the lock between two runs
    assert other.returncode == 0, other.stderr
    shutil.rmtree(docs)
    assert "deleted" not in watching.run().values()  # like a share that is not mounted
    docs.mkdir()
    (docs / "ill.md").write_text("Tell us by seven.\n")
    watching.until(ill_md="updated")
    while uris(home) != [(docs / "ill.md").as_uri()]:
        watching.run()
    assert watching.end(signal.SIGINT) == 0
    assert watching.process.stderr is not None
    assert "Traceback" not in watching.process.stderr.read()


def test_sigterm_between_two_runs_is_the_normal_end(watching: Watching) -> None:
    assert watching.run() == {"leave.md": "indexed"}
    assert watching.end(signal.SIGTERM) == 0


def test_watching_needs_a_folder(tmp_path: Path) -> None:
    done = run_ingest(tmp_path / "home", "run", "https://example.com/", "--watch")
    assert done.returncode == USAGE
    assert "--watch" in done.stderr
