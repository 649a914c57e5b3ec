"""One run of `rag-ingest` as a process of its own: what parses a caller's file can crash or hang without the service.

In: arguments, a file for its standard input. Out: how it ended. Must not: import ingest, or outlive the service (the process
dies with its parent, and whoever is cancelled here ends it first).
"""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from rag_service.local import child
from rag_service.settings import Settings

COMMAND = (sys.executable, "-P", "-m", "ingest")  # -P: no folder called ingest of the current directory
OUTPUT_BYTES = 256_000  # of each stream are kept, the last ones
STOP_S = 5.0  # from SIGTERM to SIGKILL
NICENESS = 5  # answers go before
REASON_CHARS = 500
SERVICE_ONLY = ("RAG_LLM__", "RAG_SERVER__")  # settings, keys among them, that a parser's process has no use for
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class Ended:
    """`code` is its exit code, negative for a signal, None when it was ended at the time limit. `results` are its JSON lines;
    `errors` the end of its standard error."""

    code: int | None
    results: tuple[dict[str, Any], ...]
    errors: str

    def of(self, uri: str) -> dict[str, Any] | None:
        """What became of this document. That a run has mended the index on the way (`restored`) is no answer to that."""
        told = (line for line in reversed(self.results) if line.get("uri") == uri)
        return next((line for line in told if line.get("status") != "restored"), None)

    def told(self, hidden: Mapping[str, str]) -> str | None:
        """The last thing that it said to people, for a caller: without the texts in `hidden`, cut. None: it said nothing that
        was meant for people (a traceback is not)."""
        said = [line for line in self.errors.splitlines() if line.startswith("rag-ingest: ")]
        return clean(said[-1].removeprefix("rag-ingest: "), hidden) if said else None


def clean(text: str, hidden: Mapping[str, str]) -> str:
    """One printable line of bounded length, with the texts in `hidden` replaced."""
    for secret, shown in hidden.items():
        text = text.replace(secret, shown)
    text = " ".join(UNPRINTABLE.sub(" ", text).split())
    return text if len(text) <= REASON_CHARS else f"{text[:REASON_CHARS]}…"


async def run_ingest(
    settings: Settings, collection: str, arguments: tuple[str, ...], source: Path | None, limit_s: float
) -> Ended:
    """Run it to its end, for at most `limit_s` seconds. Cancelled, it is ended before this returns."""
    given = await asyncio.to_thread(source.open, "rb") if source is not None else None
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", child.__file__, str(os.getpid())),
            *(*COMMAND, *arguments),
            stdin=given if given is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(settings, collection),
            start_new_session=True,  # a Ctrl-C is for the service, which ends this in order
        )
    finally:
        if given is not None:
            given.close()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
    assert process.stdout is not None  # noqa: S101  both are pipes
    assert process.stderr is not None  # noqa: S101
    output = asyncio.gather(last_bytes(process.stdout), last_bytes(process.stderr), process.wait())
    code: int | None = None
    try:
        async with asyncio.timeout(limit_s):
            out, err, code = await asyncio.shield(output)
    except TimeoutError:
        await stop(process)
        out, err, _ = await output
    except asyncio.CancelledError:
        await asyncio.shield(stop(process))
        await asyncio.gather(output, return_exceptions=True)
        raise
    finally:
        kill(process, signal.SIGKILL)  # what is left of its group: a parser's process, say
    return Ended(code, tuple(json_lines(out)), err.decode("utf-8", "replace"))


async def stop(process: asyncio.subprocess.Process) -> None:
    kill(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        pass
    kill(process, signal.SIGKILL)
    await process.wait()


def kill(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS: the latter for a group of zombies
        os.killpg(process.pid, number)


async def last_bytes(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    while piece := await stream.read(65_536):
        kept = (kept + piece)[-OUTPUT_BYTES:]
    return kept


def json_lines(output: bytes) -> list[dict[str, Any]]:
    found = []
    for line in output.splitlines():
        with suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict):
                found.append(value)
    return found


def environment(settings: Settings, collection: str) -> dict[str, str]:
    """The caller's, with the index that this service has, however its settings were made; without the service's keys."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(SERVICE_ONLY)}
    index = {"RAG_HOME": str(settings.home.absolute()), "RAG_COLLECTION": collection}
    for name in ("chroma", "embeddings"):
        section: BaseModel = getattr(settings, name)
        for field in section.model_fields_set:
            value = getattr(section, field)
            if value is not None:
                plain = value.get_secret_value() if isinstance(value, SecretStr) else value
                index[f"RAG_{name.upper()}__{field.upper()}"] = str(plain)
    return {**kept, **index}
