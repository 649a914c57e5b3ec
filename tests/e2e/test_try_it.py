"""`make run` as a person sees it: the real script, the real demo model, from an empty folder to Ctrl-C."""

import signal
import subprocess
import sys
from pathlib import Path

import httpx2

from tests.support.readers import check_log, native_sse
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


def verified_quotes(url: str) -> list[str]:
    """Ask the same question as the script, check the whole log, and give the quotes of the verified citations."""
    body = {"question": "What is the notice period during probation?", "temperature": 0, "max_tokens": 61}
    with httpx2.stream("POST", f"{url}/rag-query", json=body, timeout=120) as response:
        events = native_sse(response.iter_raw())

    def text_of(document: str) -> str:
        found = httpx2.get(f"{url}/documents/{document}", headers={"Accept": "application/json"}).json()
        return str(found["text"])

    check_log(events, text_of)
    return [
        event["source"]["quote"] for event in events if event["type"] == "citation" and event["status"] == "verified"
    ]


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
            assert verified_quotes(f"http://127.0.0.1:{port}")
            assert processes_of(home)
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(60)
    assert code == 0, log.read_text()
    assert processes_of(home) == []
