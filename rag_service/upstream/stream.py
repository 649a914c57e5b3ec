"""The body of one completion as deltas: coalesced by arrival, paced, and bounded in time.

In: an open response. Out: an async iterator of `ModelDelta`; the answer is whole when it ends, and any fault is raised
after everything that had arrived before it. Must not: open or close the response (client.py does), or make a timer or a
task for each token.

Cost. While a paced stream naps nobody waits on aiohttp's reader, so that a token costs one append to its buffer and the
whole flush one wake-up. Timeouts are one timer a stream that looks at a deadline when it is due, and a read only moves
the deadline; on the reader it sets an exception, which wakes the reading task without a cancellation.
"""

import asyncio
import math
from collections.abc import AsyncIterator

import aiohttp

from rag_service.errors import UpstreamTimeout
from rag_service.upstream.faults import transport_fault
from rag_service.upstream.parser import ChunkParser, ModelDelta

# After the finish reason only the usage and the end mark can come; the answer is whole without them.
AFTER_FINISH_S = 2.0


class ModelStream(AsyncIterator[ModelDelta]):
    """One answer. Iterate once; the last delta has the finish reason. Raises UpstreamError."""

    def __init__(
        self,
        content: aiohttp.StreamReader,
        parser: ChunkParser,
        *,
        flush_interval_s: float,
        first_token_due: float,
        token_timeout_s: float,
        total_due: float,
        model: str = "",
    ) -> None:
        """`first_token_due` and `total_due` are times of the loop's clock; 0 s of `flush_interval_s` mean no pacing."""
        self.model = model  # that was asked for
        self._loop = asyncio.get_running_loop()
        self._content = content
        self._parser = parser
        self._flush_interval_s = flush_interval_s
        self._first_token_due = first_token_due
        self._token_timeout_s = token_timeout_s
        self._total_due = total_due
        self._heard = -math.inf  # when something came
        self._progress = -math.inf  # when the model itself sent something
        self._resumed = -math.inf  # when the reader came back: its own time between two deltas is not the model's
        self._next_flush = -math.inf
        self._dense = False  # more than one read a flush: nap first, then take what has come
        self._nap_over: asyncio.Future[None] | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._watch_due = math.inf
        self._in_text = False  # the timer knows that the model has begun
        self._reading = False
        content.on_eof(self._wake)

    @property
    def complete(self) -> bool:
        """Whether the endpoint has said that the answer is whole."""
        return self._parser.ended

    async def __anext__(self) -> ModelDelta:
        parser = self._parser
        self._resumed = self._loop.time()
        while (delta := parser.take()) is None:
            if parser.fault is not None:
                raise parser.fault
            if parser.ended:
                raise StopAsyncIteration
            await self._fill()
        self._next_flush = self._heard + self._flush_interval_s
        return delta

    def close(self) -> None:
        """Drop the timer. The response is the caller's to close."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def _fill(self) -> None:
        """Feed the parser what the next delta has to show; an end or a break of the body is fed too."""
        self._reading = True
        if self._watch is None:
            self._arm()
        try:
            if self._dense:
                await self._nap()
                if data := self._content.read_nowait():
                    self._feed(data)
                    return
                self._dense = False
            data = await self._content.readany()
            if not data:
                self._parser.close()
                return
            self._feed(data)
            if self._heard < self._next_flush and self._may_be_held():
                self._dense = True
                await self._nap()
                self._feed(self._content.read_nowait())
        except (aiohttp.ClientError, OSError, UpstreamTimeout) as error:
            self._break(error)
        except RuntimeError as error:
            # What aiohttp raises once broken framing has made it close the connection.
            if "closed" not in str(error):
                raise
            self._break(error)
        finally:
            self._reading = False

    def _feed(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if data and self._parser.feed(data):
            self._progress = self._heard
            if not self._in_text or self._parser.finish_reason is not None:
                self._in_text = self._parser.started
                self._arm()

    def _break(self, error: Exception) -> None:
        """The connection broke. What came before is still in aiohttp's reader, which only hides it behind `error`."""
        self._content.set_exception(None)  # type: ignore[arg-type]
        if data := self._content.read_nowait():
            self._parser.feed(data)
        self._content.set_exception(error)
        if self._parser.finish_reason is not None:
            self._parser.close()
        elif self._parser.fault is None and not self._parser.ended:
            self._parser.fault = transport_fault(error)

    def _may_be_held(self) -> bool:
        """Whether what was read may wait for the next flush. The end never is held, nor is a break."""
        parser = self._parser
        return parser.finish_reason is None and not parser.ended and parser.fault is None

    async def _nap(self) -> None:
        """Wait until the next flush is due or the body ends."""
        delay = self._next_flush - self._loop.time()
        if delay <= 0 or self._content.is_eof() or self._content.exception() is not None:
            return
        self._nap_over = self._loop.create_future()
        timer = self._loop.call_later(delay, self._wake)
        try:
            await self._nap_over
        finally:
            timer.cancel()
            self._nap_over = None

    def _wake(self) -> None:
        if self._nap_over is not None and not self._nap_over.done():
            self._nap_over.set_result(None)

    def _due(self) -> float:
        """When the model will have been silent for too long, or the answer takes too long."""
        due, since = self._first_token_due, max(self._progress, self._resumed)
        if self._parser.finish_reason is not None:
            due = since + min(AFTER_FINISH_S, self._token_timeout_s)
        elif self._parser.started:
            due = since + self._token_timeout_s
        return min(due, self._total_due)

    def _arm(self) -> None:
        """See that the timer is due no later than the deadline. Each token moves that; the timer looks when it is due."""
        due = self._due()
        if self._watch is None or due < self._watch_due:
            self.close()
            self._watch, self._watch_due = self._loop.call_at(due, self._look), due

    def _look(self) -> None:
        self._watch = None
        if not self._reading:
            return  # nobody waits for the model; the next read arms it again
        now = self._loop.time()
        if now < self._due():
            self._arm()
            return
        if now >= self._total_due:
            message = "The answer took longer than RAG_LLM__TOTAL_TIMEOUT_S allows."
        elif self._parser.started:
            message = "The language model stopped sending in the middle of the answer. Try again."
        else:
            message = "The language model sent no first token in time. Try again later."
        self._content.set_exception(UpstreamTimeout(message))
        self._wake()
