"""What the service tells about itself: health, metrics, its own API, and the pages that it serves."""

import re
from typing import Any

import httpx2
from fastapi.openapi.models import OpenAPI
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.corpus import CORPUS, LEAVE_QUESTION, OFF_TOPIC
from tests.e2e.routes import SSE, citing
from tests.support.fake_vllm import FakeVllm, Reset, Role, Token

HOST = re.compile(r"""(?:src|href|action|url)\s*[=(]\s*["']?(?:https?:)?//""", re.IGNORECASE)


def test_a_whole_service_is_alive_and_ready(client: httpx2.Client) -> None:
    assert client.get("/health").raise_for_status().json() == {"status": "ok"}
    told = client.get("/ready").raise_for_status().json()
    assert told["ready"] is True
    assert told["checks"] == {
        name: {"ok": True, "problem": None} for name in ("chroma", "catalog", "fingerprint", "llm")
    }


def test_info_says_what_the_page_shows(client: httpx2.Client) -> None:
    told = client.get("/info").raise_for_status().json()
    assert (told["collection"], told["model"], told["documents"]) == ("documents", "fake-model", len(CORPUS))
    assert (told["demo"], told["notice"]) == (False, None)


def samples(client: httpx2.Client) -> dict[tuple[str, ...], float]:
    response = client.get("/metrics").raise_for_status()
    assert response.headers["content-type"].startswith("text/plain")
    found = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            found[sample.name, *(sample.labels[name] for name in sorted(sample.labels))] = sample.value
    return found


def test_metrics_count_answers_citations_tokens_and_failures(client: httpx2.Client, fake: FakeVllm) -> None:
    before = samples(client)
    fake.respond(citing("Full-time staff have 25 days of annual leave a year."))
    SSE.ask(client, LEAVE_QUESTION)
    SSE.ask(client, OFF_TOPIC)
    fake.script([Role(), Token("Leave"), Reset()])
    SSE.ask(client, LEAVE_QUESTION)
    client.post("/rag-query", json={"question": " "})
    grown = {key: value - before.get(key, 0.0) for key, value in samples(client).items()}
    assert grown["rag_answers_total", "stop"] == 1
    assert grown["rag_answers_total", "no_sources"] == 1
    assert grown["rag_answers_total", "failed"] == 1
    assert grown["rag_errors_total", "upstream_disconnected"] == 1
    assert grown["rag_errors_total", "invalid_request"] == 1
    assert grown["rag_citations_total", "verified"] == 1
    assert grown["rag_tokens_total", "completion"] > 0
    assert grown["rag_stage_seconds_count", "first_token"] == 1
    assert grown["rag_stage_seconds_count", "queue"] == 2
    assert (grown["rag_in_flight",], grown["rag_queued",]) == (0, 0)


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references(value)]
    return [found for value in node for found in references(value)] if isinstance(node, list) else []


def test_the_schema_is_valid_and_names_what_there_is(client: httpx2.Client) -> None:
    schema = client.get("/openapi.json").raise_for_status().json()
    OpenAPI.model_validate(schema)
    assert schema["openapi"].startswith("3.1")
    for reference in references(schema):
        node = schema
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    paths = {"/rag-query", "/retrieve", "/generate", "/api/llm-request", "/health", "/ready", "/metrics", "/info"}
    assert paths <= set(schema["paths"])
    query = schema["paths"]["/rag-query"]["post"]
    assert set(query["responses"]["200"]["content"]) == {
        "text/event-stream",
        "application/x-ndjson",
        "application/json",
    }
    assert query["security"]
    assert "security" not in schema["paths"]["/health"]["get"]
    operations = [operation["operationId"] for path in schema["paths"].values() for operation in path.values()]
    assert len(set(operations)) == len(operations)


def test_the_documentation_needs_no_other_host_and_no_inline_script(client: httpx2.Client) -> None:
    page = client.get("/docs").raise_for_status()
    assert page.headers["content-type"].startswith("text/html")
    assert "'unsafe" not in page.headers["content-security-policy"]
    named = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert named
    for path in named:
        assert path.startswith("/")
        assert client.get(path).raise_for_status().content
    assert not re.search(r"<script>|<style|\sstyle=|\son\w+=", page.text)
    start = client.get("/docs/start.js")
    assert start.headers["content-type"].startswith("text/javascript")
    assert "validatorUrl: null" in start.text
    assert client.get("/docs/swagger-ui.css").headers["content-type"].startswith("text/css")
    for text in (page.text, start.text, client.get("/").text):
        assert not HOST.search(text)
        assert "//" not in text.replace("<!--", "")
