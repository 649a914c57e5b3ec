"""What the service tells about itself: log lines, request ids, metrics, stage timings.

In: settings, and measurements from the serve path. Out: structured logs on standard error, Prometheus metrics.
Must not: see questions, answers, document texts or keys.
"""

import contextvars
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from rag_service.admission import Admission
from rag_service.settings import ServerSettings

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="-")

log: structlog.stdlib.BoundLogger = structlog.get_logger("rag_service")

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """One registry per process, so that two apps in one test process do not meet."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._in_flight = Gauge("rag_in_flight", "Answers in work", registry=self.registry)
        self._queued = Gauge("rag_queued", "Requests waiting for a place", registry=self.registry)
        self.answers = Counter("rag_answers", "Answers by how they ended", ["outcome"], registry=self.registry)
        self.errors = Counter("rag_errors", "Errors told to callers, by code", ["code"], registry=self.registry)
        self.citations = Counter("rag_citations", "Citations by status", ["status"], registry=self.registry)
        self.tokens = Counter("rag_tokens", "Tokens as the endpoint counted them", ["kind"], registry=self.registry)
        self.stage_seconds = Histogram(
            "rag_stage_seconds",
            "Seconds in each stage of an answer",
            ["stage"],
            buckets=SECONDS,
            registry=self.registry,
        )

    def watch(self, admission: Admission) -> None:
        """Show what this admission holds whenever the metrics are read."""
        self._in_flight.set_function(lambda: admission.running)
        self._queued.set_function(lambda: admission.queued)


class Clock:
    """Milliseconds of one answer's stages, from when it was asked: `queued_s` seconds ago."""

    def __init__(self, queued_s: float = 0.0) -> None:
        self._start = time.perf_counter() - queued_s
        self.timings_ms: dict[str, float] = {"queue": round(queued_s * 1000, 1)}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the body as stage `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.timings_ms[name] = round((time.perf_counter() - start) * 1000, 1)

    def mark(self, name: str) -> None:
        """Note the time since the start as `name`; the first mark of a name counts."""
        self.timings_ms.setdefault(name, round((time.perf_counter() - self._start) * 1000, 1))


def configure_logging(settings: ServerSettings) -> None:
    """Log lines for people on a terminal, JSON otherwise; libraries' own lines go the same way."""
    as_text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        _with_request_id,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Plain tracebacks in both: the default for terminals shows local variables, which hold questions and keys.
    renderers: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if as_text
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *renderers,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level)
    for noisy in ("httpx", "httpcore", "chromadb", "sentence_transformers", "urllib3", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))


def _with_request_id(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    current = request_id.get()
    if current != "-":
        event["request_id"] = current
    return event
