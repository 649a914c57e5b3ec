"""One request and one answer as they are measured: where it is, how long each stage took, how its tokens came.

In: marks from the serve path. Out: timings for the caller, and an `Observation` that metrics.py reads when the request is
over; spans on the way, where traces are on. Must not: do more for a token than add to integers.
"""

import time
from bisect import bisect_left
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from rag_service.errors import Overloaded, ShuttingDown, UpstreamError
from rag_service.events import CitationCounts, Usage
from rag_service.telemetry.tracing import ModelCall, past_span, span

# Upper bounds of the gaps between two tokens, in seconds: finest where models write.
GAPS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Where an answer can be. "prefill" is the time from sending the prompt to the first token, "decode" what follows.
STAGES = ("queue", "retrieval", "embed", "search", "prompt", "prefill", "decode")

Result = TypeVar("Result")

UPSTREAM_CODES = tuple(kind.code for kind in UpstreamError.__subclasses__())


class Observation:
    """What is seen of one request. edge.py makes it; whoever works for the request finds it in `observation`."""

    __slots__ = ("clock", "error", "left", "refused", "stage", "upstream_error", "upstream_retries")

    def __init__(self) -> None:
        self.stage: str | None = None  # of STAGES; None while it is no answer
        self.clock: Clock | None = None
        self.error: str | None = None  # code of what it failed with
        self.refused: str | None = None  # code of what it was turned away with
        self.left: str | None = None  # the stage it was in when its reader left
        self.upstream_error: str | None = None
        self.upstream_retries = 0

    def failed(self, code: str) -> None:
        """Its caller is told an error of this code."""
        self.error = code
        if code in (Overloaded.code, ShuttingDown.code):
            self.refused = code
        elif code in UPSTREAM_CODES:
            self.upstream_error = upstream_kind(code)


observation: ContextVar[Observation | None] = ContextVar("observation", default=None)


def upstream_kind(code: str) -> str:
    """An UpstreamError's code as a label."""
    return code.removeprefix("upstream_")


class Clock:
    """Milliseconds of one answer's stages, from when it was asked: `queued_s` seconds ago."""

    def __init__(self, queued_s: float = 0.0) -> None:
        self._start = time.perf_counter() - queued_s
        self.timings_ms: dict[str, float] = {"queue": round(queued_s * 1000, 1)}
        self.untold_s: dict[str, float] = {}  # stages that only the metrics show
        self.first_token_s: float | None = None
        self.gaps = [0] * (len(GAPS) + 1)
        self.gaps_s = 0.0
        self._last_token = 0.0
        self._call: ModelCall | None = None
        self._seen = observation.get() or Observation()
        self._seen.clock = self
        past_span("queue", queued_s)

    @contextmanager
    def stage(self, name: str, *, told: bool = True) -> Iterator[None]:
        """Measure the body as stage `name`; `told` to the caller, or shown in the metrics only."""
        self._seen.stage = name
        start = time.perf_counter()
        try:
            with span(name):
                yield
        finally:
            seconds = time.perf_counter() - start
            if told:
                self.timings_ms[name] = round(seconds * 1000, 1)
            else:
                self.add(name, seconds)

    async def timed(self, name: str, work: Awaitable[Result]) -> Result:
        """What comes of `work`, one of several parts of a stage that run at the same time; only the metrics show it."""
        start = time.perf_counter()
        try:
            with span(name):
                return await work
        finally:
            self.add(name, time.perf_counter() - start)

    def mark(self, name: str) -> None:
        """Note the time since the start as `name`; the first mark of a name counts."""
        self.timings_ms.setdefault(name, round((time.perf_counter() - self._start) * 1000, 1))

    def add(self, name: str, seconds: float) -> None:
        """Count `seconds` to the stage `name`, which only the metrics show."""
        self.untold_s[name] = self.untold_s.get(name, 0.0) + seconds

    @contextmanager
    def model(self, request: dict[str, object]) -> Iterator[ModelCall]:
        """The call of the model, from the prompt to the end of the answer. `request` are attributes of its span."""
        self._seen.stage = "prefill"
        with ModelCall(request) as self._call:
            yield self._call

    def text(self, tokens: int) -> None:
        """One read has brought the text of `tokens` tokens."""
        now = time.perf_counter()
        if self.first_token_s is None:
            self.first_token_s = now - self._start
            self._seen.stage = "decode"
            self.mark("first_token")
            if self._call is not None:
                self.add("prefill", self._call.first_token())
        elif tokens:
            gap = now - self._last_token
            self.gaps[bisect_left(GAPS, gap / tokens)] += tokens
            self.gaps_s += gap
        self._last_token = now

    def model_ended(self, finish_reason: str, usage: Usage | None) -> None:
        """The model's answer is whole."""
        if self._call is not None:
            self._call.ended(finish_reason, usage)

    def checked(self, counts: CitationCounts, seconds: float) -> None:
        """The answer's citations are checked, which took `seconds` in all."""
        self.add("citations", seconds)
        asked = self._start if self.first_token_s is None else self._start + self.first_token_s
        names = ("verified", "weak", "misattributed", "unsupported", "dropped_markers")
        attributes = {f"rag.citations.{name}": getattr(counts, name) for name in names}
        past_span("citations", time.perf_counter() - asked, {**attributes, "rag.citations.seconds": seconds})
