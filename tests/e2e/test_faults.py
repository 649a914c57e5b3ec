"""What goes wrong at the model's endpoint is told: by a status before the first byte, by an event after it."""

import re

import httpx2
import pytest

from tests.e2e.conftest import KEY, SECRET, client_of
from tests.e2e.corpus import LEAVE, LEAVE_QUESTION
from tests.e2e.routes import ROUTES, STREAMED, Route
from tests.support.fake_vllm import END, Eof, FakeVllm, Finish, Reset, Role, Stall, Status, Step, Token, Wait
from tests.support.service import Running

every_route = pytest.mark.parametrize("route", ROUTES, ids=str)
BEGUN: list[Step] = [Role(), *(Token(text) for text in ["Leave", " is", " twenty", "-five", " days"])]


@pytest.mark.parametrize("end", [[Reset()], [Eof()], []], ids=["reset", "fin", "clean end"])
@every_route
def test_br_07_an_answer_that_breaks_off_never_looks_whole(
    client: httpx2.Client, fake: FakeVllm, route: Route, end: list[Step]
) -> None:
    fake.script([*BEGUN, *end])
    outcome = route.ask(client, LEAVE_QUESTION)
    assert outcome.ended == "error"
    if route.streamed:
        assert (outcome.status, outcome.text) == (200, "Leave is twenty-five days")
    else:
        assert outcome.status == 502
    if outcome.code:
        assert outcome.code == "upstream_disconnected"


@every_route
def test_br_07_a_model_that_stalls_is_given_up(narrow_client: httpx2.Client, fake: FakeVllm, route: Route) -> None:
    fake.script([*BEGUN, Stall()])
    outcome = route.ask(narrow_client, LEAVE_QUESTION)
    assert (outcome.status, outcome.ended) == (200 if route.streamed else 504, "error")
    assert outcome.code in ("upstream_timeout", "")
    assert fake.requests[0].gone_sync.wait(10)


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_br_07_an_answer_that_vllm_aborts_is_no_answer(client: httpx2.Client, fake: FakeVllm, reason: str) -> None:
    fake.script([*BEGUN, Finish(reason), *END[1:]])
    for route in ROUTES:
        assert route.ask(client, LEAVE_QUESTION).ended == "error"


@pytest.mark.parametrize("route", STREAMED, ids=str)
def test_br_70_an_error_after_a_ping_is_told_inside_the_stream(
    narrow_client: httpx2.Client, fake: FakeVllm, route: Route
) -> None:
    fake.script([Wait(0.7), Status(500, {"error": {"message": "engine died"}})])
    outcome = route.ask(narrow_client, LEAVE_QUESTION)
    assert (outcome.status, outcome.ended) == (200, "error")
    assert re.match(rb"(: ping\n)?\n", outcome.raw)
    assert outcome.text == ""


@pytest.mark.parametrize("route", STREAMED, ids=str)
def test_br_70_pings_fill_the_silence_between_tokens(
    narrow_client: httpx2.Client, fake: FakeVllm, route: Route
) -> None:
    fake.script([Role(), Token("Leave"), Wait(0.7), Token(" it."), *END])
    outcome = route.ask(narrow_client, LEAVE_QUESTION)
    assert (outcome.text, outcome.ended) == ("Leave it.", "done")
    assert b": ping\n\n" in outcome.raw or b"\n\n" in outcome.raw


HTML = "<html><body><h1>502 Bad Gateway</h1><hr>nginx on gpu-box.internal</body></html>"
LEAK = f"Incorrect API key provided: {SECRET}, see http://gpu-box.internal:8000/v1"
FAULTS = {
    "400": (Status(400, {"error": {"message": LEAK}}), 502, "upstream_rejected"),
    "401": (Status(401, {"error": {"message": LEAK}}), 502, "upstream_rejected"),
    "404": (Status(404, {"error": {"message": LEAK}}), 502, "upstream_rejected"),
    "429": (Status(429, {"error": {"message": LEAK}}, {"Retry-After": "7"}), 429, "upstream_rate_limited"),
    "500": (Status(500, {"error": {"message": LEAK}}), 502, "upstream_rejected"),
    "503": (Status(503, {"error": {"message": LEAK}}), 503, "upstream_unavailable"),
    "html": (Status(502, HTML), 502, "upstream_rejected"),
    "not a stream": (Status(200, HTML), 502, "upstream_rejected"),
}


@pytest.mark.parametrize(("reply", "status", "code"), FAULTS.values(), ids=FAULTS)
@every_route
def test_br_16_a_refusal_upstream_is_a_real_status(
    client: httpx2.Client, fake: FakeVllm, route: Route, reply: Status, status: int, code: str
) -> None:
    fake.script([reply])
    outcome = route.ask(client, LEAVE_QUESTION)
    assert (outcome.status, outcome.code) == (status, code)
    assert outcome.headers["content-type"] == "application/json"
    error = outcome.body["error"]
    assert set(error) <= {"code", "message", "request_id", "details"}
    assert error["request_id"] == outcome.headers["x-request-id"]
    assert 20 < len(error["message"]) < 400
    for private in ("<", "nginx", SECRET, "gpu-box", "http://", LEAVE):
        assert private not in outcome.raw.decode()
    if status == 429:
        assert outcome.headers["retry-after"] == "7"
    elif status == 503:
        assert int(outcome.headers["retry-after"]) >= 1
    else:
        assert "retry-after" not in outcome.headers


def test_br_09_a_prompt_that_the_endpoint_finds_too_long(client: httpx2.Client, fake: FakeVllm) -> None:
    message = "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens"
    fake.script([Status(400, {"error": {"message": message, "code": 400}})])
    for route in ROUTES:
        outcome = route.ask(client, LEAVE_QUESTION)
        assert (outcome.status, outcome.code) == (413, "context_too_long")
        assert outcome.body["error"]["details"] == {"max_model_len": 2048}


def test_br_62_no_log_and_no_error_holds_a_secret_a_question_or_a_document(
    narrow_service: Running, narrow_client: httpx2.Client, fake: FakeVllm
) -> None:
    question = f"{LEAVE_QUESTION} canary-question-81c7"
    bodies = []
    for reply, _, _ in FAULTS.values():
        fake.script([reply])
        bodies += [route.ask(narrow_client, question).raw for route in ROUTES]
    fake.script([*BEGUN, Token(" canary-answer-42f0"), Reset()])
    bodies += [route.ask(narrow_client, question).raw for route in ROUTES if not route.streamed]
    wrong = {"question": 7, "canary-value-90aa": "canary-question-81c7", "top_k": "canary-question-81c7"}
    bodies.append(narrow_client.post("/rag-query", json=wrong).content)
    bodies.append(narrow_client.post("/rag-query", content=b'{"question": "canary-question-81c7').content)
    bodies.append(narrow_client.post("/api/llm-request", data={"data": '{"messages": "canary-question-81c7"}'}).content)
    with client_of(narrow_service, Authorization=f"Bearer {SECRET}x") as stranger:
        bodies.append(stranger.get(f"/metrics?key={SECRET}").content)
    fake.answer("All is well: canary-answer-42f0.")
    assert ROUTES[0].ask(narrow_client, question).ended == "done"
    assert fake.requests[-1].headers["authorization"] == f"Bearer {SECRET}"
    told = b"\n".join(bodies).decode() + narrow_service.log()
    assert '"answered"' in told  # the log is there and talks
    for private in (SECRET, KEY, "canary-question-81c7", "canary-answer-42f0", LEAVE, "gpu-box", "Traceback"):
        assert private not in told, told[max(0, told.index(private) - 300) :][:600]
