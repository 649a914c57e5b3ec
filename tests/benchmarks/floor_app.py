"""The floor: what no Python service under uvicorn gets below: a bare protocol to the endpoint, a bare ASGI app, no parsing.

In: POST /ask {"question"}. Out: the endpoint's body as it came, its chunk framing included. Must not: look at the bytes beyond
the response's head, or do anything that a service would need (errors, time limits, a reader that leaves).
"""

import asyncio
import json
import os
from typing import Any
from urllib.parse import urlsplit

LLM = urlsplit(os.environ["LLM_URL"])


class Upstream(asyncio.Protocol):
    """One answer: what has come since the last look, and a future for who waits for more."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._pieces: list[bytes] = []
        self._in_body = self._over = False
        self._waiting: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: Any) -> None:
        head = f"POST {LLM.path}/chat/completions HTTP/1.1\r\nhost: {LLM.netloc}\r\nconnection: close\r\n"
        fields = f"content-type: application/json\r\ncontent-length: {len(self._body)}\r\n\r\n"
        transport.write((head + fields).encode() + self._body)

    def data_received(self, data: bytes) -> None:
        if not self._in_body:
            _, found, data = data.partition(b"\r\n\r\n")  # a head on loopback comes in one piece
            self._in_body = bool(found)
        if data:
            self._pieces.append(data)
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None:
            self._waiting.set_result(None)
            self._waiting = None

    async def read(self) -> bytes:
        """All that has come; nothing at the end."""
        if not self._pieces and not self._over:
            self._waiting = self._loop.create_future()
            await self._waiting
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return data


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        raise RuntimeError("only HTTP is served")
    asked = b""
    while True:
        message = await receive()
        asked += message.get("body", b"")
        if not message.get("more_body"):
            break
    messages = [{"role": "user", "content": json.loads(asked)["question"]}]
    payload = json.dumps({"model": "scripted-model", "messages": messages, "stream": True}).encode()
    loop = asyncio.get_running_loop()
    _, upstream = await loop.create_connection(lambda: Upstream(payload), str(LLM.hostname), LLM.port or 80)
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while data := await upstream.read():
        await send({"type": "http.response.body", "body": data, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
