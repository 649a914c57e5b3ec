"""A client made of a hand-written receive and send: the test decides when the client leaves, and sees every message.

In: an ASGI app, a request. Out: the messages that it sent. Must not: use a test client, which hides when a client leaves.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message


class HandClient:
    """One request. Start it, wait for what matters, leave, and wait until the app has returned."""

    def __init__(
        self,
        app: ASGIApp,
        path: str,
        body: dict[str, Any] | bytes = b"",
        accept: str = "",
        method: str = "POST",
        content_type: str = "application/json",
        more_body: bool = False,
    ) -> None:
        self.sent: list[Message] = []
        self._changed = asyncio.Event()
        self._app = app
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self._reading = asyncio.Event()
        self._reading.set()
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._incoming.put_nowait({"type": "http.request", "body": content, "more_body": more_body})
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"content-type", content_type.encode()), (b"accept", accept.encode())],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
            "state": {},
        }
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> "HandClient":
        self.task = asyncio.create_task(self._run(), name="hand-client")
        return self

    async def _run(self) -> None:
        await self._app(self._scope, self._incoming.get, self._send)

    async def _send(self, message: Message) -> None:
        await self._reading.wait()
        self.sent.append(message)
        self._changed.set()

    def leave(self) -> None:
        """What the server tells when the connection is gone."""
        self._incoming.put_nowait({"type": "http.disconnect"})

    def stop_reading(self) -> None:
        """From now on, whatever is sent waits."""
        self._reading.clear()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a message after which the condition holds."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def finished(self) -> None:
        """Wait until the app has returned; raises what it raised."""
        assert self.task is not None
        await self.task

    @property
    def status(self) -> int | None:
        return next((message["status"] for message in self.sent if message["type"] == "http.response.start"), None)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent if message["type"] == "http.response.body")

    @property
    def complete(self) -> bool:
        """Whether the response was ended in order, and only once."""
        ends = [m for m in self.sent if m["type"] == "http.response.body" and not m.get("more_body", False)]
        return len(ends) == 1 and self.sent[-1] is ends[0]


def others() -> set[asyncio.Task[Any]]:
    """All tasks of the loop but the test's own."""
    return asyncio.all_tasks() - {asyncio.current_task()}


async def eventually(condition: Callable[[], object]) -> None:
    """Let the loop turn until the condition holds; the test's own time limit ends it."""
    while not condition():  # noqa: ASYNC110  what is waited for sets no event
        await asyncio.sleep(0.001)
