"""Many readers at once on raw sockets, in a process of their own: cheap while they read, exact about it afterwards.

    python -m tests.benchmarks.load_generator < job.json     # a `Job` as JSON

In: one job. Out: one JSON line, a `Reading`. Must not: parse anything while it reads; or count an answer that did not come
whole: it ends with an error where one has not all the text and the service's own end mark.
"""

import asyncio
import gc
import json
import os
import sys
from array import array
from bisect import bisect_right
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import orjson
import uvloop

from tests.benchmarks import scripted_answer

LIMIT_S = 240.0
CPU_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
LEAST_WINDOW_S = 1.0
MARKER = (b" [1]", b"[1]")  # whole; the endpoint sends it in three tokens

# What a read holds when it brings text.
TEXT_MARKS = {"native": b'"type":"delta"', "text": b"data: "} | dict.fromkeys(
    ("openai", "framed"), b'"delta":{"content":"'
)


@dataclass(frozen=True)
class Job:
    """`form` is what the service sends: `native` (WIRE.md), `text` (text in `data:` lines), `openai` (the endpoint's events) or
    `framed` (those with the endpoint's chunk framing). `pid` is the process whose CPU is measured, None for none.
    """

    port: int
    path: str
    body: dict[str, Any]
    form: str
    streams: int
    tokens: int
    pid: int | None = None


@dataclass(frozen=True)
class Reading:
    """Seconds, tokens and CPU seconds: of the whole, and from the time on when all streams had their first token (`steady`)."""

    seconds: float
    tokens: int
    cpu_s: float
    ramp_s: float
    steady_tokens: float
    steady_cpu_s: float
    delivered_per_s: float  # while all streams run
    gap_p50_ms: float
    gap_p99_ms: float
    steady_gap_p99_ms: float
    unheld_gap_p99_ms: float  # without the gaps before a marker, which a service may hold until it is whole
    generator_cpu_s: float
    verified: int  # citations, where the form has them


def cpu_seconds(pid: int | None) -> float:
    """User and system time of a process so far, all threads (proc(5), fields 14 and 15)."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * CPU_TICK_S


class Run:
    """All readers of one job, and the moments that matter."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.loop = asyncio.get_running_loop()
        self.mark = TEXT_MARKS[job.form]
        self.done = self.loop.create_future()
        self._waiting = self._reading = job.streams
        self.all_begun = 0.0
        self.first_end = 0.0
        self.cpu_at_begin = 0.0

    def begun(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            self.all_begun, self.cpu_at_begin = perf_counter(), cpu_seconds(self.job.pid)

    def ended(self) -> None:
        self.first_end = self.first_end or perf_counter()
        self._reading -= 1
        if not self._reading and not self.done.done():
            self.done.set_result(None)


class Reader(asyncio.Protocol):
    """One answer: what was read, and when."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._begun = False
        self.times = array("d")
        self.reads: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.times.append(perf_counter())
        self.reads.append(data)
        if not self._begun and self._run.mark in data:
            self._begun = True
            self._run.begun()

    def connection_lost(self, exc: Exception | None) -> None:
        self._run.ended()

    def texts(self) -> list[int]:
        """The reads that brought text."""
        return [index for index, data in enumerate(self.reads) if self._run.mark in data]

    def share(self, start: float, end: float) -> float:
        """Which part of the answer came between two times, the first token excluded."""
        first = next(index for index, data in enumerate(self.reads) if self._run.mark in data)
        sizes = [len(data) for data in self.reads[first:]]
        low, high = (bisect_right(self.times, moment, first) - first for moment in (start, end))
        return sum(sizes[low:high]) / sum(sizes)


async def run(job: Job) -> Reading:
    this = Run(job)
    body = json.dumps(job.body).encode()
    head = (
        f"POST {job.path} HTTP/1.1\r\nhost: 127.0.0.1:{job.port}\r\nconnection: close\r\naccept: text/event-stream\r\n"
    )
    request = f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    readers = [Reader(this) for _ in range(job.streams)]
    for reader in readers:
        await this.loop.create_connection(partial(identity, reader), "127.0.0.1", job.port)
    gc.disable()
    cpu_s, started = cpu_seconds(job.pid), perf_counter()
    for reader in readers:
        reader.transport.write(request)
    async with asyncio.timeout(LIMIT_S):
        await this.done
    ended, cpu_at_end = perf_counter(), cpu_seconds(job.pid)
    own = os.times()
    verified = sum(checked(reader, job) for reader in readers)
    tokens = job.streams * job.tokens
    window = (this.all_begun, this.first_end)
    if window[1] - window[0] < LEAST_WINDOW_S:  # never all at once: the whole is all there is
        window = (started, ended)
    within = sum(reader.share(*window) for reader in readers) * job.tokens
    gaps = gaps_of(readers, 0.0)
    return Reading(
        seconds=ended - started,
        tokens=tokens,
        cpu_s=cpu_at_end - cpu_s,
        ramp_s=this.all_begun - started,
        steady_tokens=sum(reader.share(this.all_begun, ended) for reader in readers) * job.tokens,
        steady_cpu_s=cpu_at_end - this.cpu_at_begin,
        delivered_per_s=within / (window[1] - window[0]),
        gap_p50_ms=gaps[len(gaps) // 2] * 1e3 if gaps else 0.0,
        gap_p99_ms=p99_ms(gaps),
        steady_gap_p99_ms=p99_ms(gaps_of(readers, this.all_begun)),
        unheld_gap_p99_ms=p99_ms(gaps_of(readers, 0.0, held=False)),
        generator_cpu_s=own.user + own.system,
        verified=verified,
    )


def identity(reader: Reader) -> Reader:
    return reader


def gaps_of(readers: list[Reader], after: float, *, held: bool = True) -> list[float]:
    """Seconds between two reads with text of one stream, for all streams, in order of size; where not `held`, without those
    before text that begins with a whole marker (after a stall, text begins anywhere).
    """
    found: list[float] = []
    for reader in readers:
        for earlier, later in pairwise(reader.texts()):
            if reader.times[earlier] >= after and (held or not marker_first(reader.reads[later])):
                found.append(reader.times[later] - reader.times[earlier])
    return sorted(found)


def marker_first(data: bytes) -> bool:
    return data.partition(b'"text":"')[2].startswith(MARKER)


def p99_ms(gaps: list[float]) -> float:
    """0 where there are none: every answer came in one read."""
    return gaps[len(gaps) * 99 // 100] * 1e3 if gaps else 0.0


def checked(reader: Reader, job: Job) -> int:
    """Raise unless the answer came whole. The verified citations in it."""
    head, _, body = b"".join(reader.reads).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head + body[:500]
    content = unframed(body)
    if job.form == "framed":
        content = unframed(content)
    text, verified = TEXTS[job.form](content.split(b"\n"))
    expected = "".join(scripted_answer.tokens(job.tokens))
    assert text == expected, f"{len(text)} of {len(expected)} characters: {text[:80]!r} … {text[-80:]!r}"
    return verified


def unframed(body: bytes) -> bytes:
    """The body without its chunk framing. Raises unless it ends with the last chunk."""
    pieces: list[bytes] = []
    at = 0
    while True:
        line_end = body.index(b"\r\n", at)
        size = int(body[at:line_end], 16)
        if not size:
            assert body[line_end:] == b"\r\n\r\n", "bytes after the end"
            return b"".join(pieces)
        pieces.append(body[line_end + 2 : line_end + 2 + size])
        at = line_end + 2 + size + 2


def native_text(lines: list[bytes]) -> tuple[str, int]:
    events = [orjson.loads(line[6:]) for line in lines if line.startswith(b"data: ")]
    assert events[-1]["type"] == "done", events[-1]
    text = "".join(event["text"] for event in events if event["type"] == "delta")
    return text, sum(event["type"] == "citation" and event["status"] == "verified" for event in events)


def plain_text(lines: list[bytes]) -> tuple[str, int]:
    data = [line[6:] for line in lines if line.startswith(b"data: ")]
    return b"".join(data).removesuffix(b"[DONE]").decode(), 0


def openai_text(lines: list[bytes]) -> tuple[str, int]:
    data = [line[6:] for line in lines if line.startswith(b"data: ")]
    assert data.pop() == b"[DONE]"
    choices = [orjson.loads(chunk)["choices"] for chunk in data]
    assert any(choice and choice[0]["finish_reason"] == "stop" for choice in choices[-2:])
    return "".join(choice[0]["delta"]["content"] for choice in choices if choice), 0


TEXTS = {"native": native_text, "text": plain_text, "openai": openai_text, "framed": openai_text}


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(run(Job(**json.load(sys.stdin)))))))
