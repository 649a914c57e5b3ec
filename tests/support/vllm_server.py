"""The server behind FakeVllm (see fake_vllm.py, which is what tests import).

In: steps, from a script or a responder. Out: HTTP on a loopback socket, and a `Request` for each completion asked for.
Must not: import the package under test.
"""

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from tests.support.vllm_script import (
    Eof,
    OneByteWrites,
    Request,
    Reset,
    Stall,
    Status,
    Step,
    Token,
    Wait,
    Wire,
    completion_document,
    error_document,
    prompt_of,
    step_bytes,
    whole,
)

Responder = Callable[[dict[str, Any]], "str | Sequence[Step]"]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


class FakeVllm:
    """See fake_vllm.py. `models` are listed; `count_tokens` measures prompts against `max_model_len` (None: any)."""

    def __init__(
        self,
        *,
        models: Sequence[str] = ("fake-model",),
        max_model_len: int | None = None,
        count_tokens: Callable[[str], int] = lambda text: len(text.split()),
        pace: float = 0.0,
        port: int = 0,
    ) -> None:
        self.models = list(models)
        self.max_model_len = max_model_len
        self.count_tokens = count_tokens
        self.pace = pace
        self.port = port
        self.model_lists = 0  # requests for /v1/models
        self.models_status: Status | None = None  # answered instead of the list, if set
        self.requests: list[Request] = []
        self.connections = 0  # open now
        self.accepted = 0  # ever
        self.in_flight = 0
        self._respond: Responder = lambda _body: whole("Hello from the fake model.")
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._arrival = asyncio.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def answer(self, text: str, *, size: int = 4) -> None:
        """Answer every request from now on with `text` in tokens of `size` characters, well formed."""
        self._respond = lambda _body: whole(text, size)

    def script(self, steps: Sequence[Step]) -> None:
        """Play these steps for every request from now on. A script that just ends is closed as HTTP asks."""
        self._respond = lambda _body: steps

    def respond(self, responder: Responder) -> None:
        """Ask `responder` with the request's JSON: it returns the answer's text, or steps."""
        self._respond = responder

    async def request(self, index: int = 0) -> Request:
        """The request of that index, waiting for it to arrive."""
        while len(self.requests) <= index:
            self._arrival.clear()
            await self._arrival.wait()
        return self.requests[index]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @classmethod
    @contextmanager
    def in_thread(cls, **options: Any) -> Iterator["FakeVllm"]:
        """A fake in an event loop and thread of its own, for tests that are not async or run a real server."""
        fake, ready = cls(**options), threading.Event()
        handles: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

        async def serve() -> None:
            stop = asyncio.Event()
            async with fake:
                handles.append((asyncio.get_running_loop(), stop))
                ready.set()
                await stop.wait()

        def run() -> None:
            try:
                asyncio.run(serve())
            finally:
                ready.set()

        thread = threading.Thread(target=run, name="fake-vllm")
        thread.start()
        ready.wait()
        assert handles, "the fake did not start; its thread's traceback says why"
        loop, stop = handles[0]
        try:
            yield fake
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.accepted += 1
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self.connections -= 1
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its response; False when the connection is not to be used again."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        if method == "GET" and path == "/v1/models":
            self.model_lists += 1
            await _send_status(writer, self.models_status or Status(200, self._model_list()))
        elif method == "GET" and path == "/health":
            await _send_status(writer, Status(200))
        elif method == "POST" and path == "/v1/chat/completions":
            return await self._completion(Request(json.loads(raw), headers), reader, writer)
        else:
            await _send_status(writer, Status(404, {"detail": "Not Found"}))
        return True

    async def _completion(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self.requests.append(request)
        self.in_flight += 1
        self._arrival.set()
        play = asyncio.create_task(self._play(request, writer))
        # A caller sends nothing while it waits for its answer, so that anything read here is its leaving.
        left = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait({play, left}, return_when=asyncio.FIRST_COMPLETED)
            if play.done() and not isinstance(play.exception(), ConnectionError):
                return play.result()
            request.leave()
            return False
        finally:
            self.in_flight -= 1
            for task in (play, left):
                task.cancel()
            await asyncio.gather(play, left, return_exceptions=True)
            request.end()

    async def _play(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        if (refusal := self._refuse(request.body)) is not None:
            await _send_status(writer, refusal)
            return True
        answer = self._respond(request.body)
        steps = whole(answer) if isinstance(answer, str) else answer
        if not request.body.get("stream"):
            await _send_status(writer, Status(200, completion_document(steps, request.body)))
            return True
        opened = False
        for step in steps:
            match step:
                case Status():
                    await _send_status(writer, step)
                    return True
                case Wait(until=asyncio.Event() as signal):
                    await signal.wait()
                    continue
                case Wait(until=threading.Event() as signal):
                    while not signal.is_set():  # noqa: ASYNC110 - another thread's event cannot be awaited
                        await asyncio.sleep(0.005)
                    continue
                case Wait(until=float() | int() as seconds):
                    await asyncio.sleep(seconds)
                    continue
            if not opened and not isinstance(step, Reset | Eof):
                writer.write(HEAD)
                opened = True
            if not await self._step(step, request, writer):
                return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _step(self, step: Step, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Play one step of an open stream; False when the connection has ended with it."""
        match step:
            case Reset():
                # Closing with a linger time of 0 s sends RST. What was written goes out first.
                await writer.drain()
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return False
            case Eof():
                return False
            case Stall():
                await asyncio.Event().wait()
            case OneByteWrites(data):
                for i in range(len(data)):
                    await _send_body(writer, data[i : i + 1])
                    await asyncio.sleep(0)
            case Wire(data):
                writer.write(data)
                await writer.drain()
            case Token():
                if self.pace:
                    await asyncio.sleep(self.pace)
                await _send_body(writer, step_bytes(step, request.tokens_sent))
                request.tokens_sent += 1
            case _:
                await _send_body(writer, step_bytes(step, request.tokens_sent))
        return True

    def _refuse(self, body: dict[str, Any]) -> Status | None:
        """vLLM's own checks: the model's name, and prompt and answer against the window."""
        if body.get("model") not in self.models:
            return Status(
                404, error_document(f"The model `{body.get('model')}` does not exist.", "NotFoundError", 404, "model")
            )
        if self.max_model_len is None:
            return None
        prompt, limit = self.count_tokens(prompt_of(body)), self.max_model_len
        asked = body.get("max_tokens") or 1
        if prompt + asked <= limit:
            return None
        message = (
            f"This model's maximum context length is {limit} tokens. However, you requested {prompt + asked} tokens"
            f" ({prompt} in the messages, {asked} in the completion). Please reduce the length of the messages or"
            " completion."
        )
        return Status(400, error_document(message, "BadRequestError", 400))

    def _model_list(self) -> dict[str, Any]:
        entry = {"object": "model", "created": 1, "owned_by": "vllm", "max_model_len": self.max_model_len or 4096}
        return {"object": "list", "data": [{"id": name, **entry} for name in self.models]}


async def _send_status(writer: asyncio.StreamWriter, status: Status) -> None:
    body = status.body
    kind = "application/json" if isinstance(body, dict) else "text/html"
    data = json.dumps(body).encode() if isinstance(body, dict) else body.encode() if isinstance(body, str) else body
    headers = {"content-type": kind, "content-length": str(len(data))} | {
        k.lower(): v for k, v in status.headers.items()
    }
    lines = [f"HTTP/1.1 {status.code} Fake", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
    await writer.drain()


async def _send_body(writer: asyncio.StreamWriter, data: bytes) -> None:
    if data:
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
