"""Logs, timings, metrics and spans: what they show, and what they never do."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rag_service import __main__ as entry
from rag_service.admission import Admission
from rag_service.app import create_app
from rag_service.errors import InvalidSettings, UpstreamError
from rag_service.index.query_embeddings import QueryEmbeddings
from rag_service.index.remote_embeddings import RemoteEmbeddings
from rag_service.index.settings import EmbeddingsSettings
from rag_service.settings import ServerSettings, Settings
from rag_service.telemetry import (
    Clock,
    Metrics,
    Observation,
    Observed,
    configure_logging,
    log,
    observation,
    request_id,
    start_tracing,
    stop_tracing,
    trace_headers,
)
from rag_service.telemetry import clock as clock_module
from rag_service.telemetry.clock import GAPS, UPSTREAM_CODES
from tests.api.by_hand import HandClient
from tests.e2e.corpus import LEAVE, LEAVE_QUESTION
from tests.e2e.routes import citing
from tests.support.fake_embeddings import FakeEmbeddings
from tests.support.fake_vllm import END, FakeVllm, Reset, Role, Stall, Token


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


SECRET = "canary-91"


def fail(secret: str) -> None:
    question = f"question {secret}"
    raise ValueError(f"about {len(question)} characters")


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_br_62_a_traceback_shows_no_values(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    configure_logging(ServerSettings.model_validate({"log_format": log_format}))
    try:
        fail(SECRET)
    except ValueError:
        log.exception("answer_failed")
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    told = capsys.readouterr().err
    assert "in fail" in told
    assert "ValueError: about 18 characters" in told
    assert SECRET not in told


def test_lines_are_json_with_the_request_they_belong_to(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(ServerSettings(log_format="json", log_level="INFO"))
    token = request_id.set("r-1")
    log.info("answered", finish_reason="stop", lines="a\nb")
    logging.getLogger("uvicorn.error").warning("of a library")
    log.debug("not shown")
    request_id.reset(token)
    log.info("outside")
    first, second, third = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["event"], first["request_id"], first["level"], first["lines"]) == ("answered", "r-1", "info", "a\nb")
    assert (second["event"], second["request_id"], second["level"]) == ("of a library", "r-1", "warning")
    assert "request_id" not in third


def test_the_clock_counts_from_when_it_was_asked() -> None:
    clock = Clock(queued_s=2.0)
    with clock.stage("embed"):
        pass
    clock.mark("first_token")
    first = clock.timings_ms["first_token"]
    clock.mark("first_token")
    assert clock.timings_ms["queue"] == 2000.0
    assert clock.timings_ms["first_token"] == first >= 2000.0
    assert clock.timings_ms["embed"] >= 0.0


def test_a_stage_that_fails_is_measured_too() -> None:
    clock = Clock()
    with pytest.raises(ValueError, match="broken"), clock.stage("search"):
        raise ValueError("broken")
    assert "search" in clock.timings_ms


async def test_gauges_show_what_the_admission_holds() -> None:
    metrics, admission = Metrics(), Admission(1, 1)
    metrics.watch(admission)

    def shown() -> tuple[bool, bool]:
        text = generate_latest(metrics.registry).decode()
        return "rag_in_flight 1.0" in text, "rag_queued 1.0" in text

    assert shown() == (False, False)
    async with admission.join():
        assert shown() == (True, False)
        async with admission.join():
            assert shown() == (True, True)
    assert shown() == (False, False)


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    found = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            found[sample.name, *(sample.labels[name] for name in sorted(sample.labels))] = sample.value
    return found


def test_names_follow_prometheus_conventions() -> None:
    for family in text_string_to_metric_families(generate_latest(Metrics().registry).decode()):
        assert family.name.startswith("rag_")
        assert family.documentation
        assert family.type in ("gauge", "counter", "histogram")
        if family.type == "histogram":
            assert family.name.endswith("_seconds")


def test_what_can_be_counted_is_there_from_the_start_with_nothing() -> None:
    found = samples(Metrics())
    assert {kind.code for kind in UpstreamError.__subclasses__()} == set(UPSTREAM_CODES)
    for key in (
        ("rag_upstream_errors_total", "disconnected"),
        ("rag_upstream_errors_total", "context_too_long"),
        ("rag_client_aborts_total", "prefill"),
        ("rag_citations_total", "misattributed"),
        ("rag_tokens_total", "prompt"),
        ("rag_refused_total", "overloaded"),
        ("rag_answers_total", "failed"),
        ("rag_stage_seconds_count", "retrieval"),
        ("rag_upstream_retries_total",),
    ):
        assert found[key] == 0.0


class HandTurned:
    """A clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(clock_module.time, "perf_counter", lambda: self.now)


def test_gaps_between_tokens_are_those_of_each_read_shared_by_its_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    time, metrics, seen = HandTurned(monkeypatch), Metrics(), Observation()
    token = observation.set(seen)
    clock = Clock(queued_s=0.5)
    observation.reset(token)
    time.now = 101.0
    clock.text(1)
    for at, tokens in ((101.004, 1), (101.031, 3), (103.031, 1), (121.031, 1), (122.0, 0)):
        time.now = at
        clock.text(tokens)
    metrics.record(seen)
    found = samples(metrics)
    counts = {0.005: 1, 0.01: 3, 2.5: 1, float("inf"): 1}
    bounds = (*GAPS, float("inf"))
    for bound, total in zip(bounds, accumulate(counts.get(bound, 0) for bound in bounds), strict=True):
        assert found["rag_inter_token_latency_seconds_bucket", "+Inf" if bound > 10 else str(bound)] == total
    assert found["rag_inter_token_latency_seconds_count",] == 6
    assert found["rag_inter_token_latency_seconds_sum",] == pytest.approx(20.031)
    assert found["rag_time_to_first_token_seconds_sum",] == pytest.approx(1.5)
    assert clock.timings_ms["first_token"] == 1500.0


def test_an_answer_without_text_has_no_first_token() -> None:
    metrics, seen = Metrics(), Observation()
    token = observation.set(seen)
    with Clock().stage("prompt", told=False):
        pass
    observation.reset(token)
    metrics.record(seen)
    found = samples(metrics)
    assert found["rag_time_to_first_token_seconds_count",] == 0
    assert found["rag_stage_seconds_count", "prompt"] == 1
    assert seen.clock is not None
    assert "prompt" not in seen.clock.timings_ms


def test_an_error_that_is_told_is_noted_for_the_request_in_hand() -> None:
    metrics, seen = Metrics(), Observation()
    metrics.error_told("not_found")
    token = observation.set(seen)
    metrics.error_told("upstream_timeout")
    observation.reset(token)
    metrics.record(seen)
    found = samples(metrics)
    assert (seen.error, seen.refused) == ("upstream_timeout", None)
    assert found["rag_upstream_errors_total", "timeout"] == 1
    assert (found["rag_errors_total", "not_found"], found["rag_errors_total", "upstream_timeout"]) == (1, 1)
    seen.failed("overloaded")
    assert seen.refused == "overloaded"


# -- the edge


def replying(status: int, body: bytes, tags: tuple[str, ...] = ()) -> Any:
    """An app with one answer."""

    class Route:
        path = "/somewhere"

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["route"] = Route()
        scope["route"].tags = list(tags)
        await send({"type": "http.response.start", "status": status, "headers": []})
        if body:
            await send({"type": "http.response.body", "body": body, "more_body": status == 200})

    return app


@pytest.mark.parametrize(
    ("status", "code", "counted"),
    [
        (401, "unauthorized", True),
        (403, "forbidden", True),
        (413, "body_too_large", True),
        (429, "overloaded", True),
        (429, "upstream_rate_limited", False),
        (503, "shutting_down", True),
        (503, "upstream_unavailable", False),
        (503, "vector_store_unavailable", False),
        (404, "not_found", False),
    ],
)
async def test_refusals_are_counted_by_reason(status: int, code: str, counted: bool) -> None:
    metrics = Metrics()
    body = json.dumps({"error": {"code": code, "message": "no"}}).encode()
    client = await HandClient(Observed(replying(status, body), lambda: metrics), "/rag-query").start()
    await client.finished()
    found = samples(metrics)
    assert {key[1]: value for key, value in found.items() if key[0] == "rag_refused_total" and value} == (
        {code: 1.0} if counted else {}
    )


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"error": {}}', b'{"error": {"code": 7}}'])
async def test_a_refusal_that_is_not_ours_is_not_counted(body: bytes) -> None:
    metrics = Metrics()
    client = await HandClient(Observed(replying(429, body), lambda: metrics), "/rag-query").start()
    await client.finished()
    assert not any(value for key, value in samples(metrics).items() if key[0] == "rag_refused_total")


@pytest.mark.parametrize(("tags", "aborts"), [(("answers",), 1.0), (("documents",), 0.0)])
async def test_an_answer_that_is_not_finished_was_left(tags: tuple[str, ...], aborts: float) -> None:
    metrics = Metrics()
    client = await HandClient(Observed(replying(200, b"half", tags), lambda: metrics), "/rag-query").start()
    await client.finished()
    assert samples(metrics)["rag_client_aborts_total", "queue"] == aborts


# -- spans


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    start_tracing(None, SimpleSpanProcessor(exporter))
    yield exporter
    stop_tracing()


TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


async def answered(home: Path, fake: FakeVllm, body: dict[str, Any], *, leave_at: bytes = b"") -> HandClient:
    """One question to the whole app in this process, in the trace TRACE; the client leaves once it has read `leave_at`."""
    settings = Settings.model_validate({"home": home, "llm": {"base_url": fake.base_url}})
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        client = HandClient(Observed(app, lambda: app.state.parts.metrics), "/rag-query", body)
        client._scope["headers"].append((b"traceparent", f"00-{TRACE}-{PARENT}-01".encode()))  # type: ignore[attr-defined]  # noqa: SLF001
        await client.start()
        if leave_at:
            await client.until(lambda: any(leave_at in message.get("body", b"") for message in client.sent))
            client.leave()
        await client.finished()
    return client


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    found = exporter.get_finished_spans()
    assert len({span.name for span in found}) == len(found)
    return {span.name: span for span in found}


def parent_of(span: ReadableSpan) -> str:
    assert span.parent is not None
    return f"{span.parent.span_id:016x}"


def id_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


async def test_one_trace_leads_from_the_callers_span_to_vllm(
    home: Path, fake: FakeVllm, spans: InMemorySpanExporter
) -> None:
    fake.respond(citing(LEAVE))
    await answered(home, fake, {"question": LEAVE_QUESTION, "temperature": 0.2, "max_tokens": 99})
    found = by_name(spans)
    request = found["POST /rag-query"]
    assert {f"{span.context.trace_id:032x}" for span in found.values() if span.context} == {TRACE}
    assert (parent_of(request), request.kind) == (PARENT, SpanKind.SERVER)
    parents = {"retrieval": request, "embed": found["retrieval"], "search": found["retrieval"]}
    parents |= {"dense": found["search"], "bm25": found["search"]}
    for name in ("queue", "prompt", "chat fake-model", "citations"):
        parents[name] = request
    for name, parent in parents.items():
        assert parent_of(found[name]) == id_of(parent), name
    chat = found["chat fake-model"]
    assert fake.requests[0].headers["traceparent"] == f"00-{TRACE}-{id_of(chat)}-01"
    assert chat.kind is SpanKind.CLIENT
    told = dict(chat.attributes or {})
    assert told.pop("gen_ai.response.time_to_first_chunk") > 0
    assert told.pop("gen_ai.usage.output_tokens") == fake.requests[0].tokens_sent
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "fake-model",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.max_tokens": 99,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
    }
    citations = dict(found["citations"].attributes or {})
    assert (citations["rag.citations.verified"], citations["rag.citations.unsupported"]) == (1, 0)
    whole = dict(request.attributes or {})
    assert (whole["http.route"], whole["http.response.status_code"]) == ("/rag-query", 200)
    assert whole["rag.request_id"] == fake.requests[0].headers["x-request-id"]


async def test_br_62_no_span_holds_a_question_an_answer_or_a_document(
    home: Path, fake: FakeVllm, spans: InMemorySpanExporter
) -> None:
    fake.script([Role(), Token("Leave is 25 days"), Token(" a year."), Reset()])
    await answered(home, fake, {"question": LEAVE_QUESTION})
    told = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "chat fake-model" in told
    for text in ("annual", "25 days", "Full-time", "leave.md", "Müller"):
        assert text not in told


async def test_a_failure_is_told_by_its_kind(home: Path, fake: FakeVllm, spans: InMemorySpanExporter) -> None:
    fake.script([Role(), Token("Leave"), Reset()])
    await answered(home, fake, {"question": LEAVE_QUESTION})
    found = by_name(spans)
    for name in ("POST /rag-query", "chat fake-model"):
        assert found[name].status.status_code is StatusCode.ERROR
        assert found[name].status.description is None
        assert (found[name].attributes or {})["error.type"] == "upstream_disconnected"
        assert found[name].events == ()
    assert found["retrieval"].status.status_code is StatusCode.UNSET


async def test_a_reader_that_leaves_is_no_error(home: Path, fake: FakeVllm, spans: InMemorySpanExporter) -> None:
    fake.script([Role(), Token("Leave is"), Stall(), *END])
    await answered(home, fake, {"question": LEAVE_QUESTION}, leave_at=b"Leave")
    found = by_name(spans)
    assert (found["POST /rag-query"].attributes or {})["rag.left_in"] == "decode"
    assert (found["chat fake-model"].attributes or {})["rag.cancelled"] is True
    assert {span.status.status_code for span in found.values()} == {StatusCode.UNSET}


async def test_the_trace_goes_on_to_the_embeddings_endpoint(spans: InMemorySpanExporter) -> None:
    with FakeEmbeddings() as fake:
        settings = EmbeddingsSettings.model_validate({"base_url": fake.base_url})
        model = await asyncio.to_thread(RemoteEmbeddings, settings, headers=trace_headers)
        await asyncio.to_thread(model.warm_up)
        assert not [seen for seen in fake.seen if "traceparent" in {name.lower() for name in seen.headers}]
        embeddings = QueryEmbeddings(model)
        with Clock().stage("embed"):
            inside = trace_headers()["traceparent"]
            await embeddings.aembed("How many days?")
        await embeddings.close()
        await asyncio.to_thread(model.close)
    sent = {name.lower(): value for name, value in fake.seen[-1].headers.items()}
    assert sent["traceparent"] == inside


async def test_spans_of_answers_at_the_same_time_do_not_mix(spans: InMemorySpanExporter) -> None:
    async def one() -> str:
        clock = Clock()
        with clock.stage("embed"):
            await asyncio.sleep(0)
            inside = trace_headers()["traceparent"]
            await asyncio.sleep(0)
            assert trace_headers()["traceparent"] == inside
        assert trace_headers() == {}
        return inside

    assert len(set(await asyncio.gather(*(one() for _ in range(5))))) == 5


def test_without_a_place_for_traces_nothing_of_opentelemetry_is_imported_or_sent() -> None:
    assert trace_headers() == {}
    program = (
        "import sys, rag_service.telemetry as t; t.Clock().stage('embed').__enter__();"
        " print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_traces_without_the_extra_name_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(InvalidSettings, match=r"OTEL_EXPORTER_OTLP_ENDPOINT.*rag-service\[otel\]"):
        start_tracing("http://127.0.0.1:4318")


@pytest.mark.parametrize(
    ("variable", "wanted"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", True),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", True),
        ("RAG_TELEMETRY__OTLP_ENDPOINT", True),
        ("OTEL_SERVICE_NAME", False),
    ],
)
def test_traces_are_on_where_a_place_for_them_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, wanted: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in entry.OTLP_ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    assert entry.wants_traces(entry.load_settings()) is False
    monkeypatch.setenv(variable, "http://127.0.0.1:4318")
    assert entry.wants_traces(entry.load_settings()) is wanted
