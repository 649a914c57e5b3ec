"""`make run` as a person sees it: the real script, the real demo model, from an empty folder to Ctrl-C."""

import signal
import subprocess
import sys
from pathlib import Path

import httpx2

from tests.support.service import clean_environment, free_port, wait_until

SCRIPT = Path(__file__).parents[2] / "scripts" / "try_it.py"


def processes_of(home: Path) -> list[str]:
    """Command lines of the processes that name this home."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if str(home) in command:
            found.append(command)
    return found


def test_make_run_answers_with_a_verified_citation_serves_and_leaves_nothing_behind(tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    log = tmp_path / "output.txt"
    environment = clean_environment(home, {"RAG_SERVER__PORT": str(port), "NO_COLOR": "1", "COLUMNS": "200"})
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, str(SCRIPT)], env=environment, stdout=output, stderr=output)
        try:
            wait_until(
                lambda: "The chat page is at" in log.read_text() or process.poll() is not None, "make run serves"
            )
            told = log.read_text()
            assert process.poll() is None, told
            assert "a toy of 135M parameters" in told
            assert "verified" in told, told
            page = httpx2.get(f"http://127.0.0.1:{port}/")
            assert page.status_code == 200
            assert httpx2.get(f"http://127.0.0.1:{port}/info").json()["demo"] is True
            assert processes_of(home)
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(60)
    assert code == 0, log.read_text()
    assert processes_of(home) == []
