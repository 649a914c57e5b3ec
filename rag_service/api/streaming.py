"""The response that carries an answer: pulls events, writes bytes, and stops everything when the client leaves.

In: an asynchronous generator of events. Out: ASGI messages. Must not: leave the generator open, whatever happens.

It is the one place that watches for the client's leaving (`http.disconnect`), streamed or not, before the first byte too.
Nothing is sent before the first event: until then an error is a real status. Only after `ping_interval_s` of silence does the
response begin without one, so that no proxy gives up; from then on an error is an event.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from rag_service.api.encoders import Encoder, Fold
from rag_service.api.errors import body, error_response, status_of_code
from rag_service.api.write_turn import WriteTurn
from rag_service.errors import RagError, ShuttingDown
from rag_service.events import Event, Failed
from rag_service.settings import StreamSettings
from rag_service.telemetry import WIRE, log

Events = AsyncGenerator[Event, None]

STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


class AnswerResponse(Response):
    """Runs the answer in a task of its own and ends it when the client goes away."""

    def __init__(self, events: Events) -> None:
        super().__init__()
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = asyncio.create_task(self._guarded(scope, receive, send), name="answer")
        attendant = asyncio.create_task(self._attend(receive, send), name="attendant")
        stopped = False
        try:
            await asyncio.wait({writer, attendant}, return_when=asyncio.FIRST_COMPLETED)
            if not writer.done():
                log.info("client_left")
        except asyncio.CancelledError:
            # uvicorn cancels what still runs when the time after SIGTERM is over, and nobody else does. The client is told,
            # the response ends in order, and so does this task.
            stopped = True
        finally:
            # The attendant is still there in the usual case, the writer when the client has left: neither stays behind.
            attendant.cancel()
            writer.cancel()
            await asyncio.gather(writer, attendant, return_exceptions=True)
        if not writer.cancelled():
            writer.result()
        elif stopped:
            await self._fail(ShuttingDown("The service is shutting down. Try again in a moment."), scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events) as events:
            try:
                await self._write(events, scope, receive, send)
            except RagError as error:
                await self._fail(error, scope, receive, send)
            except OSError:
                log.info("client_left")  # uvicorn raises it from send() on a lost connection

    async def _write(self, events: Events, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the whole answer. Raises RagError where the events do."""
        raise NotImplementedError

    async def _fail(self, error: RagError, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell of an error and end the response."""
        await error_response(error)(scope, receive, send)

    async def _attend(self, receive: Receive, send: Send) -> None:
        """Return when the client has left."""
        while (await receive())["type"] != "http.disconnect":
            pass


class StreamedAnswer(AnswerResponse):
    """Events as they come, in the encoder's dialect, with pings in between. A reader that takes nothing for longer than the
    limit is taken for gone: it holds a place that others wait for."""

    def __init__(self, events: Events, encoder: Encoder, settings: StreamSettings, turn: WriteTurn) -> None:
        super().__init__(events)
        self._encoder = encoder
        self._settings = settings
        self._turn = turn
        self._started = False
        self._sending = False
        self._last_sent = time.monotonic()
        self._wire: Send | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The start and the end of the response pass through every layer; none of them looks at what comes in between.
        self._wire = scope.get(WIRE)
        await super().__call__(scope, receive, send)

    async def _write(self, events: Events, scope: Scope, receive: Receive, send: Send) -> None:
        async for event in events:
            await self._send(send, self._encoder.encode(event))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _fail(self, error: RagError, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._started:
            await super()._fail(error, scope, receive, send)
            return
        await self._send(send, self._encoder.encode(Failed(error.code, error.message, error.retryable)))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, data: bytes) -> None:
        self._last_sent = time.monotonic()
        self._sending = True
        if not self._started:
            self._started = True
            headers = {"content-type": self._encoder.content_type, **STREAM_HEADERS}
            raw = [(name.encode(), value.encode()) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": 200, "headers": raw})
        if data:
            await self._turn.end()
            await (self._wire or send)({"type": "http.response.body", "body": data, "more_body": True})
        self._sending = False

    async def _attend(self, receive: Receive, send: Send) -> None:
        """Return when the client has left, or takes nothing any more; ping whenever nothing was sent for the interval."""
        leaving = asyncio.create_task(super()._attend(receive, send), name="leaving")
        interval = self._settings.ping_interval_s
        try:
            while not leaving.done():
                silence = time.monotonic() - self._last_sent
                await asyncio.wait({leaving}, timeout=interval if self._sending else max(0.0, interval - silence))
                silence = time.monotonic() - self._last_sent
                if self._sending:
                    if silence >= self._settings.stall_limit_s:
                        log.info("reader_stalled")
                        return
                elif silence >= interval and not leaving.done():
                    await self._send(send, self._encoder.ping)
        finally:
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)


class FoldedAnswer(AnswerResponse):
    """All events added up into one JSON answer, made by `form` from the fold."""

    def __init__(self, events: Events, form: Callable[[Fold], dict[str, Any]]) -> None:
        super().__init__(events)
        self._form = form

    async def _write(self, events: Events, scope: Scope, receive: Receive, send: Send) -> None:
        fold = Fold()
        failed: Failed | None = None
        async for event in events:
            fold.add(event)
            if isinstance(event, Failed):
                failed = event
        if failed is not None:
            response = JSONResponse(body(failed.code, failed.message), status_of_code(failed.code))
        else:
            timing = ", ".join(f"{stage};dur={duration}" for stage, duration in fold.done.timings_ms.items())
            response = JSONResponse(self._form(fold), headers={"Server-Timing": timing})
        await response(scope, receive, send)
