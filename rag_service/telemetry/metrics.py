"""Prometheus metrics: what there is, and how one request's measurements get into it.

In: measurements. Out: Prometheus text. Must not: have labels that callers choose, or cost anything for each token.
"""

import asyncio
from collections.abc import Sequence
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rag_service.admission import Admission
from rag_service.events import CitationStatus, FinishReason
from rag_service.telemetry.clock import GAPS, STAGES, UPSTREAM_CODES, Observation, observation, upstream_kind
from rag_service.telemetry.workers import joined

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
TIMED = (
    "queue",
    "retrieval",
    "embed",
    "search",
    "dense",
    "bm25",
    "prompt",
    "prefill",
    "first_token",
    "citations",
    "total",
)
REFUSALS = ("overloaded", "unauthorized", "forbidden", "body_too_large", "shutting_down")
SHOW_S = 1.0  # between two looks at the gauges, where several workers write them to files


class TalliedHistogram(Histogram):
    """A histogram that takes counts made elsewhere, so that a token costs an addition and not an observation."""

    def add(self, counts: Sequence[int], total: float) -> None:
        """`counts` for each bucket (the last is for what is above all bounds) and the sum of what was counted."""
        self._sum.inc(total)
        for bucket, count in zip(self._buckets, counts, strict=True):
            if count:
                bucket.inc(count)


class Metrics:
    """One registry per process, so that two apps in one test process do not meet."""

    def __init__(self) -> None:
        self._workers = joined()
        self.registry = CollectorRegistry()
        self._in_flight = self._gauge("rag_in_flight", "Answers in work")
        self._queued = self._gauge("rag_queued", "Requests waiting for a place")
        self.answers = self._counter(
            "rag_answers", "Answers by how they ended", "outcome", (*get_args(FinishReason), "failed")
        )
        self.errors = Counter("rag_errors", "Errors told to callers, by code", ["code"], registry=self.registry)
        self.refused = self._counter(
            "rag_refused", "Requests turned away before any work was done for them, by reason", "reason", REFUSALS
        )
        self.citations = self._counter("rag_citations", "Citations by status", "status", get_args(CitationStatus))
        self.tokens = self._counter(
            "rag_tokens", "Tokens as the endpoint counted them", "kind", ("prompt", "completion")
        )
        self.client_aborts = self._counter(
            "rag_client_aborts", "Answers whose reader left before the end, by the stage they were in", "stage", STAGES
        )
        self.upstream_errors = self._counter(
            "rag_upstream_errors",
            "Answers that the language model's endpoint failed, by kind",
            "kind",
            [upstream_kind(code) for code in UPSTREAM_CODES],
        )
        self.upstream_retries = Counter(
            "rag_upstream_retries",
            "Prompts sent once more because a kept connection to the endpoint had gone",
            registry=self.registry,
        )
        self.stage_seconds = Histogram(
            "rag_stage_seconds",
            "Seconds in each stage of an answer; first_token and total count from the request's arrival",
            ["stage"],
            buckets=SECONDS,
            registry=self.registry,
        )
        for stage in TIMED:
            self.stage_seconds.labels(stage)
        self.first_token_seconds = Histogram(
            "rag_time_to_first_token_seconds",
            "Seconds from a request's arrival to the first token of its answer, waiting included",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.token_gap_seconds = TalliedHistogram(
            "rag_inter_token_latency_seconds",
            "Seconds between two tokens of an answer, as they come from the language model",
            buckets=GAPS,
            registry=self.registry,
        )

    def watch(self, admission: Admission) -> None:
        """Show what this admission holds whenever the metrics are read."""
        if self._workers is None:
            self._in_flight.set_function(lambda: admission.running)
            self._queued.set_function(lambda: admission.queued)
            return
        loop = asyncio.get_running_loop()

        def show() -> None:
            self._in_flight.set(admission.running)
            self._queued.set(admission.queued)
            loop.call_later(SHOW_S, show)

        show()

    def error_told(self, code: str) -> None:
        """A caller is told an error of this code."""
        if (seen := observation.get()) is not None:
            seen.failed(code)
        self.errors.labels(code).inc()

    def record(self, seen: Observation) -> None:
        """Take in what was seen of one request, when it is over."""
        if seen.refused is not None:
            self.refused.labels(seen.refused).inc()
        if seen.upstream_retries:
            self.upstream_retries.inc(seen.upstream_retries)
        if seen.upstream_error is not None:
            self.upstream_errors.labels(seen.upstream_error).inc()
        if seen.left is not None:
            self.client_aborts.labels(seen.left).inc()
        clock = seen.clock
        if clock is None:
            return
        for stage, seconds in clock.untold_s.items():
            self.stage_seconds.labels(stage).observe(seconds)
        if clock.first_token_s is not None:
            self.first_token_seconds.observe(clock.first_token_s)
            self.token_gap_seconds.add(clock.gaps, clock.gaps_s)

    async def text(self) -> bytes:
        """All of it in Prometheus' text format; of all workers, where there are several."""
        if self._workers is None:
            return generate_latest(self.registry)
        return await asyncio.to_thread(self._workers.text)

    def _gauge(self, name: str, told: str) -> Gauge:
        return Gauge(name, told, registry=self.registry, multiprocess_mode="livesum")

    def _counter(self, name: str, told: str, label: str, known: Sequence[str]) -> Counter:
        """What is `known` is there from the start with 0: Prometheus sees no rate in a series that begins with 1."""
        counter = Counter(name, told, [label], registry=self.registry)
        for value in known:
            counter.labels(value)
        return counter
