"""An OpenAI-shaped endpoint that is no bottleneck itself: bytes made beforehand, one timer for all streams.

    python -m tests.benchmarks.scripted_upstream          # prints the port it took

In: HTTP on loopback. Out: /v1/models, /v1/chat/completions (streamed); GET /plan/RATE/TOKENS says how fast and how long the
answers from now on are, GET /stats what was sent. Must not: parse or make anything for a token.

As in vLLM, one step brings one token for each running stream. A step that came late is made up for, so that the offered rate
holds, and its tokens are counted as late: many of those would mean that this process, and no service, is the limit.
"""

import asyncio
import gc
import json
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import uvloop

from tests.benchmarks import scripted_answer

WINDOW = 32_768  # tokens, as /v1/models tells it
LATE_STEPS = 2  # timers have a grain of 1 ms; a step behind by more than this many is late


class Pace:
    """Every running stream, and the timer that feeds them all."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._streams: dict[Connection, int] = {}  # to the tokens sent
        self._timer: asyncio.TimerHandle | None = None
        self._begun = 0.0
        self._steps = 0  # made since the timer began
        self.sent = 0
        self.late = 0
        self.whole = 0  # answers sent to their end
        self.plan(50.0, 600)

    def plan(self, rate: float, count: int) -> None:
        self._rate, self._count = rate, count
        self._chunks = scripted_answer.token_chunks(count)
        self.sent = self.late = self.whole = 0
        gc.collect()
        gc.freeze()

    def add(self, connection: "Connection") -> None:
        connection.begin()
        self._streams[connection] = 0
        if self._timer is None:
            self._begun, self._steps = time.perf_counter(), 0
            self._next()

    def drop(self, connection: "Connection") -> None:
        self._streams.pop(connection, None)

    def _next(self) -> None:
        due = self._begun + (self._steps + 1) / self._rate
        self._timer = self._loop.call_later(max(0.0, due - time.perf_counter()), self._step)

    def _step(self) -> None:
        due = int((time.perf_counter() - self._begun) * self._rate)
        steps = due - self._steps
        self._steps = due
        if steps > 0:
            streams, chunks, count = self._streams, self._chunks, self._count
            if steps > LATE_STEPS:
                self.late += (steps - LATE_STEPS) * len(streams)
            for connection, at in list(streams.items()):
                until = min(at + steps, count)
                write = connection.write
                for index in range(at, until):
                    write(chunks[index])
                self.sent += until - at
                if until == count:
                    del streams[connection]
                    self.whole += 1
                    connection.finish(count)
                else:
                    streams[connection] = until
        if self._streams:
            self._next()
        else:
            self._timer = None

    def stats(self) -> dict[str, float]:
        times = os.times()
        cpu_s = times.user + times.system
        return {"tokens": self.sent, "late": self.late, "whole": self.whole, "open": len(self._streams), "cpu_s": cpu_s}


class Connection(asyncio.Protocol):
    """One caller: requests one after the other."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._read = b""
        self._close = self._with_usage = False

    def connection_made(self, transport: Any) -> None:
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport
        self.write = transport.write

    def connection_lost(self, exc: Exception | None) -> None:
        self._pace.drop(self)

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, found, rest = self._read.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        self._read = rest[length:]
        self._close = headers.get("connection", "").lower() == "close"
        method, path, _ = lines[0].split(" ")
        self._request(method, path, rest[:length])

    def begin(self) -> None:
        """The answer is about to come."""
        self.write(scripted_answer.head(close=self._close))

    def finish(self, count: int) -> None:
        """The answer is over."""
        self.write(scripted_answer.end(count, with_usage=self._with_usage))
        if self._close:
            self._transport.close()

    def _request(self, method: str, path: str, body: bytes) -> None:
        match [method, *path.strip("/").split("/")]:
            case ["POST", "v1", "chat", "completions"]:
                asked = json.loads(body)
                assert asked["stream"], "only streams are scripted"
                self._with_usage = bool((asked.get("stream_options") or {}).get("include_usage"))
                self._pace.add(self)
            case ["GET", "v1", "models"]:
                model = {"id": "scripted-model", "object": "model", "owned_by": "vllm", "max_model_len": WINDOW}
                self._reply({"object": "list", "data": [model]})
            case ["GET", "plan", rate, count]:
                self._pace.plan(float(rate), int(count))
                self._reply({})
            case ["GET", "stats"]:
                self._reply(self._pace.stats())
            case _:
                self._reply({"error": {"message": "no such path"}}, "404 Not Found")

    def _reply(self, document: dict[str, Any], status: str = "200 OK") -> None:
        body = json.dumps(document).encode()
        fields = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        if self._close:
            fields += "connection: close\r\n"
        self.write(f"HTTP/1.1 {status}\r\n{fields}\r\n".encode() + body)
        if self._close:
            self._transport.close()


async def serve(make_pace: Callable[[], Pace]) -> None:
    """Print the port, and serve until this process is ended."""
    pace = make_pace()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(pace), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(Pace))
