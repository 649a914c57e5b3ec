"""Traces of a real service on their way: to a collector over OTLP/HTTP, and on to the model's endpoint."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.e2e.conftest import client_of
from tests.e2e.corpus import LEAVE, LEAVE_QUESTION
from tests.e2e.routes import SSE, citing
from tests.support.fake_vllm import FakeVllm
from tests.support.service import clean_environment, free_port, service_process, wait_until

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector:
    """Takes OTLP over HTTP in a thread of its own, and keeps every span."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.headers: list[dict[str, str]] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        sent = ExportTraceServiceRequest.FromString(await request.read())
        self.headers.append(dict(request.headers))
        for group in sent.resource_spans:
            self.services |= {
                item.value.string_value for item in group.resource.attributes if item.key == "service.name"
            }
            self.spans += [span for scope in group.scope_spans for span in scope.spans]
        return web.Response(content_type="application/x-protobuf")

    async def serve(self, started: threading.Event, stop: asyncio.Event) -> None:
        app = web.Application()
        app.router.add_post("/v1/traces", self.take)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            started.set()
            await stop.wait()
        finally:
            await runner.cleanup()

    def named(self, name: str) -> Span:
        return next(span for span in self.spans if span.name == name)


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector, started, stop = Collector(), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(collector.serve(started, stop)))
    thread.start()
    assert started.wait(30)
    yield collector
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def attributes(span: Span) -> dict[str, str]:
    return {item.key: str(item.value) for item in span.attributes}


def test_a_trace_goes_from_the_caller_to_the_collector_and_to_vllm(
    home: Path, fake: FakeVllm, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    fake.respond(citing(LEAVE))
    with (
        service_process(home, fake.base_url, TELEMETRY__OTLP_ENDPOINT=collector.url) as running,
        client_of(running, traceparent=f"00-{TRACE}-{PARENT}-01") as client,
    ):
        assert SSE.ask(client, LEAVE_QUESTION).ended == "done"
        assert client.get("/health").status_code == 200
        wait_until(lambda: any(span.name == "POST /rag-query" for span in collector.spans), "the spans arrive")
    chat, request = collector.named("chat fake-model"), collector.named("POST /rag-query")
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    assert request.parent_span_id.hex() == PARENT
    assert fake.requests[0].headers["traceparent"] == f"00-{TRACE}-{chat.span_id.hex()}-01"
    assert {span.name for span in collector.spans} >= {"queue", "retrieval", "embed", "search", "prompt", "citations"}
    assert not {span.name for span in collector.spans if "health" in span.name}
    assert collector.services == {"rag-service"}
    assert collector.headers[0]["x-tenant"] == "blue"
    for span in collector.spans:
        told = " ".join(attributes(span).values())
        assert "annual" not in told
        assert "Full-time" not in told


def test_the_standard_variables_are_enough(
    home: Path, fake: FakeVllm, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "answers-of-the-library")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with service_process(home, fake.base_url) as running, client_of(running) as client:
        SSE.ask(client, LEAVE_QUESTION)
        wait_until(lambda: any(span.name == "POST /rag-query" for span in collector.spans), "the spans arrive")
    assert collector.services == {"answers-of-the-library"}
    assert collector.named("POST /rag-query").parent_span_id == b""


def test_a_collector_that_is_away_costs_no_answer_and_no_end(
    home: Path, fake: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    nobody = f"http://127.0.0.1:{free_port()}"
    with service_process(home, fake.base_url, TELEMETRY__OTLP_ENDPOINT=nobody) as running:
        with client_of(running) as client:
            for _ in range(3):
                assert SSE.ask(client, LEAVE_QUESTION).ended == "done"
            assert client.get("/ready").status_code == 200
        wait_until(lambda: "exporting spans batch" in running.log(), "the log says so")
    assert LEAVE_QUESTION not in running.log()


def test_traces_without_the_extra_stop_the_start_with_what_to_install(tmp_path: Path) -> None:
    blocked = "import sys; sys.modules['opentelemetry.exporter.otlp.proto.http.trace_exporter'] = None\n"
    (tmp_path / "entry.py").write_text(f"{blocked}from rag_service.__main__ import main\nmain()\n")
    settings = {"RAG_SERVER__PORT": "0", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "entry.py")],
        env=clean_environment(tmp_path / "home", settings),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install 'rag-service[otel]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "home").exists()
