"""/metrics after real requests: who was turned away and why, who left and when, how tokens came, what the endpoint did."""

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.conftest import client_of
from tests.e2e.corpus import LEAVE, LEAVE_QUESTION, OFF_TOPIC
from tests.e2e.routes import GENERATE_SSE, JSON, SSE, citing
from tests.support.fake_vllm import END, FakeVllm, Reset, Role, Stall, Status, Step, Token
from tests.support.service import Running, wait_until


def samples(client: httpx2.Client) -> dict[tuple[str, ...], float]:
    found = {}
    for family in text_string_to_metric_families(client.get("/metrics").raise_for_status().text):
        for sample in family.samples:
            found[sample.name, *(sample.labels[name] for name in sorted(sample.labels))] = sample.value
    return found


def grown(client: httpx2.Client, before: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """What is higher than before; nothing else is in it."""
    now = samples(client)
    return {key: value - before.get(key, 0.0) for key, value in now.items() if value != before.get(key, 0.0)}


@pytest.fixture(autouse=True)
def at_rest(client: httpx2.Client) -> None:
    wait_until(lambda: samples(client)["rag_in_flight",] == 0, "no place is taken")


def test_an_answer_shows_its_stages_its_first_token_and_the_gaps_between_tokens(
    client: httpx2.Client, fake: FakeVllm
) -> None:
    before = samples(client)
    fake.respond(citing(LEAVE))
    fake.pace = 0.02  # or all tokens come in one read, and there is no gap
    assert SSE.ask(client, LEAVE_QUESTION).ended == "done"
    more = grown(client, before)
    for stage in ("queue", "retrieval", "embed", "search", "prompt", "prefill", "first_token", "citations", "total"):
        assert more["rag_stage_seconds_count", stage] == 1, stage
    assert more["rag_time_to_first_token_seconds_count",] == 1
    assert 0 < more["rag_inter_token_latency_seconds_count",] < fake.requests[0].tokens_sent
    assert more["rag_citations_total", "verified"] == 1
    assert not {key for key in more if key[0] in ("rag_refused_total", "rag_client_aborts_total")}


def test_answers_without_a_model_or_without_sources_count_what_there_is(client: httpx2.Client, fake: FakeVllm) -> None:
    before = samples(client)
    SSE.ask(client, OFF_TOPIC)
    client.post("/retrieve", json={"question": LEAVE_QUESTION}).raise_for_status()
    GENERATE_SSE.ask(client, "Say hello.")
    more = grown(client, before)
    assert more["rag_stage_seconds_count", "retrieval"] == 2
    assert more["rag_time_to_first_token_seconds_count",] == 1
    assert ("rag_stage_seconds_count", "citations") not in more


def test_requests_turned_away_are_counted_by_reason(
    narrow_service: Running, narrow_client: httpx2.Client, fake: FakeVllm
) -> None:
    before = samples(narrow_client)
    with client_of(narrow_service) as stranger:
        assert stranger.post("/rag-query", json={"question": LEAVE_QUESTION}).status_code == 401
    assert narrow_client.post("/rag-query", content=b"x" * 1_000_001).status_code == 413
    forged = narrow_client.post("/generate", json={"prompt": "hi"}, headers={"sec-fetch-site": "cross-site"})
    assert forged.status_code == 403
    fake.script([Role(), Token("Leave"), Stall()])
    with SSE.open(narrow_client, LEAVE_QUESTION), SSE.open(narrow_client, LEAVE_QUESTION):
        assert JSON.ask(narrow_client, LEAVE_QUESTION).code == "overloaded"
    more = grown(narrow_client, before)
    reasons = {key[1]: value for key, value in more.items() if key[0] == "rag_refused_total"}
    assert reasons == {"unauthorized": 1, "body_too_large": 1, "forbidden": 1, "overloaded": 1}


@pytest.mark.parametrize(
    ("steps", "sees", "stage"),
    [([Stall()], b"", "prefill"), ([Role(), Token("Leave is"), Stall()], b"Leave is", "decode")],
)
def test_br_06_readers_that_leave_are_counted_by_the_stage_of_their_answer(
    client: httpx2.Client, fake: FakeVllm, steps: list[Step], sees: bytes, stage: str
) -> None:
    before = samples(client)
    fake.script(steps)
    if sees:
        with SSE.open(client, LEAVE_QUESTION) as response:
            assert any(sees in piece for piece in response.iter_bytes())
    else:
        with pytest.raises(httpx2.ReadTimeout):
            client.post("/rag-query", json={"question": LEAVE_QUESTION}, timeout=1.0)
    wait_until(lambda: ("rag_client_aborts_total", stage) in grown(client, before), "the reader's leaving is counted")
    aborts = {key[1]: value for key, value in grown(client, before).items() if key[0] == "rag_client_aborts_total"}
    assert aborts == {stage: 1}


def test_br_06_a_reader_that_leaves_the_queue_is_counted_there(narrow_client: httpx2.Client, fake: FakeVllm) -> None:
    before = samples(narrow_client)
    fake.script([Role(), Token("Leave is"), Stall()])
    with SSE.open(narrow_client, LEAVE_QUESTION) as running:
        pieces = running.iter_bytes()
        assert any(b"Leave is" in piece for piece in pieces)
        with SSE.open(narrow_client, LEAVE_QUESTION) as waiting:
            assert b"queued" in next(waiting.iter_bytes())
    wait_until(
        lambda: ("rag_client_aborts_total", "queue") in grown(narrow_client, before), "the reader's leaving is counted"
    )


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ([Status(429)], "rate_limited"),
        ([Status(503)], "unavailable"),
        ([Status(500)], "rejected"),
        ([Role(), Token("Leave"), Reset()], "disconnected"),
        ([Status(400, {"error": {"message": "maximum context length is 9 tokens", "code": 400}})], "context_too_long"),
    ],
)
def test_failures_of_the_endpoint_are_counted_by_kind(
    client: httpx2.Client, fake: FakeVllm, steps: list[Step], kind: str
) -> None:
    before = samples(client)
    fake.script(steps)
    SSE.ask(client, LEAVE_QUESTION)
    more = grown(client, before)
    assert {key[1]: value for key, value in more.items() if key[0] == "rag_upstream_errors_total"} == {kind: 1}
    assert not {key for key in more if key[0] == "rag_refused_total"}


def test_a_prompt_that_is_sent_again_is_counted(client: httpx2.Client, fake: FakeVllm) -> None:
    before = samples(client)
    assert SSE.ask(client, LEAVE_QUESTION).ended == "done"
    arrived = len(fake.requests)
    fake.respond(lambda _: [Reset()] if len(fake.requests) == arrived + 1 else [Role(), Token("Leave."), *END])
    assert SSE.ask(client, LEAVE_QUESTION).text.startswith("Leave.")
    more = grown(client, before)
    assert more["rag_upstream_retries_total",] == 1
    assert not {key for key in more if key[0] == "rag_upstream_errors_total"}
