"""One request from its arrival to its end, seen from outside of the app: what it was turned away with, whether its reader left.

In: ASGI messages. Out: the same, untouched; an `Observation` for whoever works on the request, which goes into the metrics when
it is over; the request's span; the server's own `send` in the scope, for the pieces of a streamed body. Must not: read a body
that is not one of our own error documents, or put a coroutine of its own between the app and the wire.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson

from rag_service.telemetry.clock import UPSTREAM_CODES, Observation, observation
from rag_service.telemetry.logs import request_id
from rag_service.telemetry.metrics import Metrics
from rag_service.telemetry.tracing import note_failure, request_span, stop_tracing

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

TURNED_AWAY = (401, 403, 413, 429, 503)
OF_503 = ("overloaded", "shutting_down")  # the other codes of that status tell of what the service needs
ANSWERS = "answers"  # the tag of the routes on which an answer is waited for
WIRE = "rag_service.wire"  # in the scope: the server's own `send`, for the pieces of a body that no layer has to see
UNTRACED = ("/health", "/ready", "/metrics")  # asked every few seconds by machines


class Observed:
    """`app` with its requests observed. `metrics` is asked for when a request is over; the app has made them by then."""

    def __init__(self, app: App, metrics: Callable[[], Metrics]) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            try:
                await self._app(scope, receive, send)
            finally:
                await asyncio.to_thread(stop_tracing)
            return
        if scope["type"] != "http" or scope["path"] in UNTRACED:
            await self._app(scope, receive, send)
            return
        seen = Observation()
        watched = Watched(send, seen, self._metrics)
        scope[WIRE] = send
        token = observation.set(seen)
        try:
            await self._follow(scope, receive, watched, seen)
        finally:
            observation.reset(token)
            watched.record()

    async def _follow(self, scope: Scope, receive: Receive, watched: "Watched", seen: Observation) -> None:
        carried = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with request_span(scope["method"], carried) as span:
            await self._app(scope, receive, watched)
            route = scope.get("route")
            if not watched.complete and ANSWERS in getattr(route, "tags", ()):
                seen.left = seen.stage or "queue"
            if span is None:
                return
            if route is not None:
                span.update_name(f"{scope['method']} {route.path}")
                span.set_attribute("http.route", route.path)
            span.set_attribute("http.response.status_code", watched.status)
            span.set_attribute("rag.request_id", watched.request_id)
            if seen.left is not None:
                span.set_attribute("rag.left_in", seen.left)
            if seen.error is not None or watched.status >= 500:
                note_failure(span, seen.error or str(watched.status))


class Watched:
    """`send`, with a look at what passes. Calling it makes no coroutine: it hands on the one of the server."""

    def __init__(self, send: Send, seen: Observation, metrics: Callable[[], Metrics]) -> None:
        self._send = send
        self._seen = seen
        self._metrics = metrics
        self._recorded = False
        self.status = 0
        self.request_id = "-"
        self.complete = False

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.request_id = request_id.get()
        elif not message.get("more_body", False):
            self.complete = True
            if self.status in TURNED_AWAY:
                self._seen.refused = refusal(self.status, message.get("body", b""))
            self.record()  # before the end is sent: who has read it finds it counted
        return self._send(message)

    def record(self) -> None:
        """Put what was seen into the metrics, once."""
        if not self._recorded:
            self._recorded = True
            self._metrics().record(self._seen)


def refusal(status: int, body: bytes) -> str | None:
    """The code of an error document that says that this service did not want the request; else None."""
    try:
        code = orjson.loads(body)["error"]["code"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if not isinstance(code, str) or code in UPSTREAM_CODES or (status == 503 and code not in OF_503):
        return None
    return code
