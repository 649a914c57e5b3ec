"""`make run`: ingest the sample corpus, start the service, ask one question, then serve until Ctrl-C.

In: the settings of the environment (RAG_LLM__BASE_URL for a real vLLM). Out: a conversation on the terminal. Must not: leave
a process behind, whatever ends it.
"""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.text import Text

from rag_service.errors import InvalidSettings
from rag_service.settings import Settings, load_settings

CORPUS = Path(__file__).parent.parent / "data" / "corpus"
QUESTION = "What is the notice period during probation?"
START_LIMIT_S = 180
BIN = Path(sys.executable).parent

STYLES = {"verified": "green", "weak": "yellow", "misattributed": "magenta", "unsupported": "red"}

console = Console(highlight=False)


def main() -> int:
    try:
        settings = load_settings()
    except InvalidSettings as error:
        console.print(f"[red]{error.message}[/red]")
        return 2
    signal.signal(signal.SIGTERM, interrupt)  # a supervisor's SIGTERM ends everything just as Ctrl-C does
    try:
        with service(settings) as process:
            step(2, f"Ingesting {CORPUS.parent.name}/{CORPUS.name} (what is unchanged is not embedded again)")
            subprocess.run([BIN / "rag-ingest", "run", CORPUS], check=True)
            step(3, "Waiting until the service is ready")
            wait_until_ready(settings, process)
            step(4, f"Asking: {QUESTION}")
            ask(settings)
            base = f"http://{settings.server.host}:{settings.server.port}"
            console.print(f"\nThe chat page is at [bold]{base}/[/bold]  (API: {base}/docs)  Ctrl-C ends everything.")
            process.wait()
            return process.returncode
    except KeyboardInterrupt:
        console.print("Stopped.")
        return 0
    except (StartError, subprocess.CalledProcessError) as error:
        console.print(Text(str(error), style="red"))
        return 1


def step(number: int, text: str) -> None:
    console.print(f"[bold cyan][{number}/4][/bold cyan] {text}")


def interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class StartError(Exception):
    """The service did not come up; the message has the end of its log."""


@contextmanager
def service(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """Run rag-service; in the end wait until it has stopped, and with it the child servers that it alone used."""
    if settings.llm.base_url is None:
        step(1, "Starting Chroma, the service and the demo model")
        console.print("      The demo model is a toy of 135M parameters; for real answers set RAG_LLM__BASE_URL.")
    else:
        step(1, f"Starting Chroma and the service; answers come from {settings.llm.base_url}")
    if port_is_taken(settings):  # or the answers below would be another service's
        port = settings.server.port
        raise StartError(
            f"Port {port} is taken by another program. Choose another one: RAG_SERVER__PORT={port + 1} make run"
        )
    settings.home.mkdir(parents=True, exist_ok=True)
    with log_path(settings).open("wb") as log:
        # A session of its own: Ctrl-C reaches only this script, which then stops the service in order.
        process = subprocess.Popen([BIN / "rag-service"], stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(settings.server.shutdown_grace_s + 20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def port_is_taken(settings: Settings) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((settings.server.host, settings.server.port)) == 0


def log_path(settings: Settings) -> Path:
    return settings.home / "service.log"


def wait_until_ready(settings: Settings, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    missing = "no answer yet"
    with console.status("loading models") as spinner:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                tail = "\n".join(log_path(settings).read_text(errors="replace").splitlines()[-8:])
                raise StartError(f"rag-service ended with code {process.returncode}. The end of its log:\n{tail}")
            try:
                status, content = get(settings, "/ready")
            except OSError:
                status, content = 0, {}
            if status == 200:
                return
            missing = (
                "; ".join(check["problem"] for check in content.get("checks", {}).values() if check["problem"])
                or missing
            )
            if content:
                spinner.update(Text(missing))
            threading.Event().wait(0.25)
    raise StartError(f"The service is not ready after {START_LIMIT_S} s: {missing} (log: {log_path(settings)})")


def headers(settings: Settings) -> dict[str, str]:
    key = settings.server.api_key
    return {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}


def get(settings: Settings, path: str) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection(settings.server.host, settings.server.port, timeout=10)
    try:
        connection.request("GET", path, headers=headers(settings))
        response = connection.getresponse()
        content: dict[str, Any] = json.loads(response.read())
        return response.status, content
    finally:
        connection.close()


def ask(settings: Settings) -> None:
    """POST /rag-query and show the answer as it arrives, then its citations."""
    connection = HTTPConnection(settings.server.host, settings.server.port, timeout=600)
    # The demo model's first paragraph; what it adds after that is seldom worth reading.
    body = json.dumps({"question": QUESTION, "temperature": 0, "max_tokens": 61})
    connection.request("POST", "/rag-query", body, {"Content-Type": "application/json", **headers(settings)})
    response = connection.getresponse()
    if response.status != 200:
        console.print(Text(json.loads(response.read())["error"]["message"], style="red"))
        return
    citations = []
    console.print()
    for line in response:
        if not line.startswith(b"data: "):
            continue
        event = json.loads(line.removeprefix(b"data: "))
        if event["type"] == "delta":
            console.print(Text(event["text"]), end="", soft_wrap=True)
        elif event["type"] == "citation":
            citations.append(event)
        elif event["type"] == "error":
            console.print(Text(f"\n{event['message']}", style="red"))
        elif event["type"] == "done":
            console.print("\n")
            show(citations, event)
    connection.close()


def show(citations: list[dict[str, Any]], done: dict[str, Any]) -> None:
    for citation in citations:
        source = citation["source"]
        page = f", p. {source['page_start']}" if source["page_start"] else ""
        line = Text(f"  [{citation['n']}] ")
        line.append(citation["status"], style=STYLES[citation["status"]])
        line.append(f"  {source['title']}{page}")
        if source["quote"]:
            line.append(f"  “{' '.join(source['quote'].split())}”", style="dim")
        console.print(line)
    timings = done["timings_ms"]
    first = timings.get("first_token")
    told = f"first token after {first / 1000:.1f} s, " if first is not None else ""
    console.print(Text(f"  {told}{timings['total'] / 1000:.1f} s in all", style="dim"))


if __name__ == "__main__":
    sys.exit(main())
