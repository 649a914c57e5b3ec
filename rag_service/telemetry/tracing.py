"""OpenTelemetry spans of a request, for those who have asked for them (the extra `otel`).

In: names, times, counts, and the caller's `traceparent`. Out: spans to an OTLP collector, and the headers that carry the trace
on. Must not: import OpenTelemetry or cost anything before `start_tracing`; take a question, an answer, a document's text or an
error's message into an attribute; set OpenTelemetry's global provider, through which libraries would send spans of their own.

A span is made the current one only where nothing is yielded meanwhile: an asynchronous generator may be closed from another
context than it began in. https://opentelemetry.io/docs/specs/semconv/gen-ai/ has the attributes `gen_ai.…`.
"""

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rag_service.errors import InvalidSettings, RagError
from rag_service.events import Usage

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span

STOP_S = 3.0  # that the last spans may take on their way when the service ends
Attributes = Mapping[str, Any]


class Tracing:
    """What is there once traces are on."""

    def __init__(self, processor: "SpanProcessor") -> None:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        ours = {"service.name": "rag-service", "service.version": version("rag-service")}
        resource = Resource.create(ours).merge(OTELResourceDetector().detect())
        self.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.provider.add_span_processor(processor)
        self.tracer = self.provider.get_tracer("rag_service", ours["service.version"])
        self.propagator = TraceContextTextMapPropagator()
        self.kinds = SpanKind
        self.error = StatusCode.ERROR


_tracing: Tracing | None = None


def start_tracing(endpoint: str | None, processor: "SpanProcessor | None" = None) -> None:
    """Send spans to `endpoint` from now on; None leaves the place to OTEL_EXPORTER_OTLP_ENDPOINT and its like, which hold for
    everything else too (headers, sampling, the service's name). Raises InvalidSettings when the extra is not installed."""
    global _tracing
    _tracing = Tracing(processor or _exporting(endpoint))


def stop_tracing() -> None:
    """Send what is left, and no more than STOP_S long. Not for the event loop."""
    global _tracing
    if _tracing is None:
        return
    ending = threading.Thread(target=_tracing.provider.shutdown, name="tracing-ends", daemon=True)
    _tracing = None
    ending.start()
    ending.join(STOP_S)


def require_exporter() -> None:
    """Raises InvalidSettings when the extra is not installed."""
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError:
        raise InvalidSettings(
            "RAG_TELEMETRY__OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT asks for traces, but what sends them is not"
            " installed. Install it with `pip install 'rag-service[otel]'`, or unset the variable."
        ) from None


def _exporting(endpoint: str | None) -> "SpanProcessor":
    require_exporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    path = "/v1/traces"
    url = None if endpoint is None else endpoint.rstrip("/").removesuffix(path) + path
    return BatchSpanProcessor(OTLPSpanExporter(endpoint=url))


def trace_headers() -> dict[str, str]:
    """What a request to another server carries so that its spans join this trace."""
    headers: dict[str, str] = {}
    if _tracing is not None:
        _tracing.propagator.inject(headers)
    return headers


@contextmanager
def request_span(method: str, headers: Mapping[str, str]) -> "Iterator[Span | None]":
    """The span of a whole request, in the trace that its `traceparent` names. None where traces are off."""
    if _tracing is None:
        yield None
        return
    with _tracing.tracer.start_as_current_span(
        method,
        context=_tracing.propagator.extract(headers),
        kind=_tracing.kinds.SERVER,
        attributes={"http.request.method": method},
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except BaseException as error:
            note_failure(current, error)
            raise


@contextmanager
def span(name: str) -> Iterator[None]:
    """A span around the body, which must not yield to anybody else's code."""
    if _tracing is None:
        yield
        return
    with _tracing.tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as current:
        try:
            yield
        except BaseException as error:
            note_failure(current, error)
            raise


def past_span(name: str, seconds: float, attributes: Attributes | None = None) -> None:
    """A span that ends now and began `seconds` ago."""
    if _tracing is None:
        return
    now = time.time_ns()
    _tracing.tracer.start_span(name, start_time=now - int(seconds * 1e9), attributes=attributes).end(now)


def note_failure(span: "Span", error: BaseException | str) -> None:
    """The kind of a failure, never its message: that may quote what the caller wrote."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        span.set_attribute("rag.cancelled", True)
        return
    kind = error if isinstance(error, str) else error.code if isinstance(error, RagError) else type(error).__name__
    span.set_attribute("error.type", kind)
    if _tracing is not None:
        span.set_status(_tracing.error)


class ModelCall:
    """The span of one call of the model. It is not the current one, but in `sending`: the answer's events are yielded in it."""

    def __init__(self, request: Attributes) -> None:
        self._span: Span | None = None
        self._asked = time.perf_counter()
        if _tracing is None:
            return
        told = {f"gen_ai.request.{name}": value for name, value in request.items() if value is not None}
        self._span = _tracing.tracer.start_span(
            "chat",
            kind=_tracing.kinds.CLIENT,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "vllm",
                "gen_ai.request.stream": True,
                **told,
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._span is not None:
            if error is not None:
                note_failure(self._span, error)
            self._span.end()

    def sending(self) -> AbstractContextManager[object]:
        """Within it `trace_headers` names this span."""
        if self._span is None:
            return nullcontext()
        from opentelemetry.trace import use_span

        return use_span(self._span, record_exception=False, set_status_on_exception=False)

    def opened(self, model: str) -> None:
        """The endpoint answers, and this is the model that was asked for."""
        if self._span is not None:
            self._span.update_name(f"chat {model}")
            self._span.set_attribute("gen_ai.request.model", model)

    def first_token(self) -> float:
        """The first text is there. Seconds since the call began."""
        seconds = time.perf_counter() - self._asked
        if self._span is not None:
            self._span.set_attribute("gen_ai.response.time_to_first_chunk", seconds)
        return seconds

    def ended(self, finish_reason: str, usage: Usage | None) -> None:
        """The answer is whole."""
        if self._span is None:
            return
        self._span.set_attribute("gen_ai.response.finish_reasons", [finish_reason])
        if usage is not None:
            self._span.set_attribute("gen_ai.usage.input_tokens", usage.prompt_tokens)
            self._span.set_attribute("gen_ai.usage.output_tokens", usage.completion_tokens)
