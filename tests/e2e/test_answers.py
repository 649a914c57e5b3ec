"""Whole answers of a running service: what the model says is what comes, on every route, with citations that are true."""

import re
import threading
from collections.abc import Callable

import httpx2
import pytest

from tests.e2e.corpus import (
    INJECTION,
    LEAVE,
    LEAVE_QUESTION,
    LIGHTHOUSE,
    LIGHTHOUSE_QUESTION,
    OFF_TOPIC,
    PEARS,
    PEARS_QUESTION,
    TEMPLATE_QUESTION,
    TEMPLATES,
    TYRE,
    TYRE_QUESTION,
)
from tests.e2e.routes import GROUNDED, JSON, ROUTES, SSE, Route, citing, live, number_of, rag
from tests.support.fake_vllm import (
    END,
    Chunk,
    Done,
    FakeVllm,
    Finish,
    OneByteWrites,
    Raw,
    Reasoning,
    Role,
    Step,
    Token,
    UsageChunk,
    Wait,
    content_event,
)
from tests.support.readers import answer_text, check_log

TextOf = Callable[[str], str]
every_route = pytest.mark.parametrize("route", ROUTES, ids=str)
grounded_routes = pytest.mark.parametrize("route", GROUNDED, ids=str)


@pytest.mark.parametrize(
    ("question", "fact"), [(LEAVE_QUESTION, LEAVE), (TYRE_QUESTION, TYRE), (PEARS_QUESTION, PEARS)]
)
@grounded_routes
def test_br_24_the_number_in_the_prompt_is_the_number_of_the_source(
    client: httpx2.Client, fake: FakeVllm, text_of: TextOf, route: Route, question: str, fact: str
) -> None:
    fake.respond(citing(fact))
    outcome = route.ask(client, question)
    events = outcome.events
    sources = outcome.body["sources"] if outcome.body else next(e for e in events if e["type"] == "sources")["sources"]
    citations = outcome.body.get("citations") or [event for event in events if event["type"] == "citation"]
    n = number_of(fact, fake.requests[0].body)
    assert fact in next(source for source in sources if source["n"] == n)["text"]
    assert [(citation["n"], citation["status"]) for citation in citations] == [(n, "verified")]
    assert citations[0]["source"]["quote"] in fact
    if events:
        assert check_log(events, text_of) == outcome.text


@grounded_routes
def test_br_13_numbers_that_name_no_source_are_dropped_and_counted(
    client: httpx2.Client, fake: FakeVllm, route: Route
) -> None:
    said = "A [1]. B [7]. C [0]. D [1,3]. E [1-4]. F [\u2460]. G \u30101\u3011. H [source 2]"
    fake.answer(said, size=1)
    accept = route.request("")["headers"]["accept"]
    limited = Route(route.name, True, route.streamed, rag(accept, top_k=4), route.read)
    outcome = limited.ask(client, LEAVE_QUESTION)
    assert outcome.text == "A [1]. B. C. D [1][3]. E [1][2][3][4]. F [1]. G [1]. H [2]"
    counts = outcome.body["citation_counts"] if outcome.body else outcome.events[-1]["citations"]
    assert counts["dropped_markers"] == 2
    citations = outcome.body.get("citations") or [event for event in outcome.events if event["type"] == "citation"]
    assert {citation["n"] for citation in citations} <= {1, 2, 3, 4}


@grounded_routes
def test_br_14_nothing_relevant_means_no_model_and_no_sources(
    client: httpx2.Client, fake: FakeVllm, text_of: TextOf, route: Route
) -> None:
    outcome = route.ask(client, OFF_TOPIC)
    assert outcome.finish_reason == "no_sources"
    assert "could not find" in outcome.text
    assert fake.requests == []
    if outcome.events:
        check_log(outcome.events, text_of)
        assert [event["sources"] for event in outcome.events if event["type"] == "sources"] == [[]]
    else:
        assert (outcome.body["sources"], outcome.body["citations"]) == ([], [])


@every_route
def test_br_25_nothing_in_a_document_or_a_question_is_a_template(
    client: httpx2.Client, fake: FakeVllm, route: Route
) -> None:
    question = f"{TEMPLATE_QUESTION} Is it {{question}}, {{0}}, {{{{x}}}}, %(a)s, ${{HOME}} or {{#each}}?"
    assert route.ask(client, question).ended == "done"
    prompt = fake.requests[0].prompt
    assert question in prompt
    if route.grounded:
        assert TEMPLATES in prompt
        assert "widget {question} %s.txt" in prompt


def test_br_26_a_document_stays_data_in_the_users_message(client: httpx2.Client, fake: FakeVllm) -> None:
    SSE.ask(client, LIGHTHOUSE_QUESTION)
    body = fake.requests[0].body
    system, user = body["messages"][0], body["messages"][-1]
    assert (system["role"], user["role"]) == ("system", "user")
    assert not any(INJECTION in message["content"] for message in body["messages"] if message["role"] == "system")
    blocks = re.findall(r'<source id="(\d+)".*?</source>', user["content"], flags=re.DOTALL)
    assert blocks == [str(n) for n in range(1, len(blocks) + 1)]
    assert len(re.findall(r"<\s*/\s*source", user["content"], re.IGNORECASE)) == len(blocks)
    holder = next(text for text in user["content"].split("</source>") if LIGHTHOUSE in text)
    assert INJECTION in holder
    assert "forged" in holder
    assert user["content"].rindex("</source>") < user["content"].rindex(LIGHTHOUSE_QUESTION)


AWKWARD = [
    "| a | b |\n",
    "|---|---|\n",
    "| 1 | 2 |",
    "\n",
    "\n\n",
    " ",
    "",
    "```py\n\nx = 1\r\n```",
    "\n",
    "data: x",
    "\nevent: y\n\n",
    "id: 7\n",
    ": ping\n",
    "\u2028a\u2029b\u0085c",
    '"quoted" \\ back',
    "\ttab\x0b\x0c\x1c.",
]


@every_route
def test_br_31_newlines_inside_tokens_come_out_as_they_went_in(
    client: httpx2.Client, fake: FakeVllm, route: Route
) -> None:
    fake.script([Role(), *(Token(text) for text in AWKWARD), *END])
    outcome = route.ask(client, LEAVE_QUESTION)
    assert (outcome.text, outcome.ended) == ("".join(AWKWARD), "done")


def choice(delta: dict[str, str | None], reason: str | None = None) -> Chunk:
    return Chunk({"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


ODD_CHUNKS: dict[str, list[Step]] = {
    "usage with empty choices": [Role(), Token("All good."), Finish(), UsageChunk(5, 2), Done()],
    "null, empty, role only": [choice({"role": "assistant"}), Token(None), Token(""), Token("All good."), *END],
    "no done": [Role(), Token("All good."), Finish()],
    "done twice": [Role(), Token("All good."), *END, Done()],
    "comments": [Raw(b": ping\n\n"), Role(), Raw(b":\n\n"), Token("All good."), *END],
    "finish with content": [Role(), Token("All "), choice({"content": "good."}, "stop"), Done()],
    "no choices at all": [Role(), Chunk({"id": "x"}), Token("All good."), *END],
}


@pytest.mark.parametrize("script", ODD_CHUNKS.values(), ids=ODD_CHUNKS)
@every_route
def test_br_32_odd_chunks_break_nothing(
    client: httpx2.Client, fake: FakeVllm, route: Route, script: list[Step]
) -> None:
    fake.script(script)
    outcome = route.ask(client, LEAVE_QUESTION)
    assert (outcome.text, outcome.ended) == ("All good.", "done")


@every_route
def test_br_47_characters_cut_at_every_byte_come_out_whole(client: httpx2.Client, fake: FakeVllm, route: Route) -> None:
    text = "假期 إجازة 👩‍👩‍👧‍👦 \U0001f30d 𝒯 end."
    fake.script([Role(), OneByteWrites(content_event(text)), *END])
    assert route.ask(client, LEAVE_QUESTION).text == text


@pytest.mark.parametrize("route", [route for route in ROUTES if route.name != "llm-request"], ids=str)
def test_br_48_an_answer_cut_by_max_tokens_says_so(client: httpx2.Client, fake: FakeVllm, route: Route) -> None:
    fake.script([Role(), *(Token(f"w{i} ") for i in range(20)), Finish("length"), UsageChunk(), Done()])
    outcome = route.ask(client, LEAVE_QUESTION)
    assert (outcome.finish_reason, outcome.ended) == ("length", "done")


@every_route
@pytest.mark.parametrize("where", ["reasoning", "reasoning_content", "<think>"])
def test_br_50_reasoning_never_becomes_the_answer(
    client: httpx2.Client, fake: FakeVllm, route: Route, where: str
) -> None:
    thought = ["Let me see: [1] says ", "25 days [2]."] * 100
    thoughts: list[Step] = [Reasoning(text, where) for text in thought]
    if where == "<think>":
        thoughts = [Token("<thi"), Token("nk>"), *(Token(text) for text in thought), Token("</think>\n\n")]
    fake.script([Role(), *thoughts, *(Token(f"word{i}, ") for i in range(20)), Token("end."), *END])
    outcome = route.ask(client, LEAVE_QUESTION)
    assert outcome.text == "".join(f"word{i}, " for i in range(20)) + "end."
    assert b"Let me see" not in outcome.raw
    if outcome.events:
        assert [event["stage"] for event in outcome.events if event["type"] == "status"] == ["thinking"]
        assert outcome.events[-1]["citations"]["dropped_markers"] == 0


@pytest.mark.parametrize("route", ["/rag-query", "/generate"])
def test_br_52_tokens_pass_one_by_one(client: httpx2.Client, fake: FakeVllm, route: str) -> None:
    # Each token is sent when the one before it has been read here: whatever waits for more would wait for ever.
    came = [threading.Event() for _ in range(30)]
    fake.script([Role(), *(step for i in range(30) for step in (Token(f"token{i},"), Wait(came[i]))), *END])
    field = {"/rag-query": "question", "/generate": "prompt"}[route]
    deltas: list[str] = []
    with client.stream("POST", route, json={field: LEAVE_QUESTION, "stream": True}) as response:
        for event in live(response):
            if event["type"] == "delta":
                came[len(deltas)].set()
                deltas.append(event["text"])
    assert deltas == [f"token{i}," for i in range(30)]


def test_br_52_a_citation_comes_while_the_answer_goes_on(client: httpx2.Client, fake: FakeVllm) -> None:
    cited = threading.Event()
    fake.respond(
        lambda body: [Role(), Token(f"{LEAVE.rstrip('.')} [{number_of(LEAVE, body)}]. And"), Wait(cited), *END]
    )
    with SSE.open(client, LEAVE_QUESTION) as response:
        types = []
        for event in live(response):
            types.append(event["type"])
            if event["type"] == "citation":
                cited.set()
    assert types == ["sources", "delta", "citation", "done"]


@pytest.mark.parametrize(("accept", "content_type"), [("text/event-stream", "text/event-stream; charset=utf-8")])
def test_br_49_no_proxy_may_hold_the_stream_back(
    client: httpx2.Client, fake: FakeVllm, accept: str, content_type: str
) -> None:
    headers = {"accept": accept, "accept-encoding": "gzip, br", "x-request-id": "from-the-caller.1"}
    response = client.post("/rag-query", json={"question": LEAVE_QUESTION}, headers=headers)
    assert response.headers["content-type"] == content_type
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["x-request-id"] == fake.requests[0].headers["x-request-id"] == "from-the-caller.1"
    assert "content-encoding" not in response.headers
    assert "content-length" not in response.headers


def test_the_three_forms_of_an_answer_agree(client: httpx2.Client, fake: FakeVllm, text_of: TextOf) -> None:
    fake.respond(citing(TYRE))
    first, second, folded = (route.ask(client, TYRE_QUESTION) for route in GROUNDED)
    plain = [event for event in first.events if event["type"] != "done"]
    assert answer_text(plain) == second.text
    assert folded.body["answer"] == folded.body["response"] == check_log(first.events, text_of)
    assert folded.body["sources"] == first.events[0]["sources"]
    told = [{k: v for k, v in event.items() if k != "type"} for event in first.events if event["type"] == "citation"]
    assert folded.body["citations"] == told
    assert folded.headers["server-timing"].startswith("queue;dur=")
    assert set(folded.body["timings_ms"]) == {"queue", "embed", "search", "first_token", "total"}


def test_sampling_reaches_the_model(client: httpx2.Client, fake: FakeVllm) -> None:
    wanted = {"temperature": 0.7, "top_p": 0.5, "max_tokens": 33, "seed": -7}
    client.post("/rag-query", json={"prompt": LEAVE_QUESTION, "stream": False, **wanted}).raise_for_status()
    client.post("/generate", json={"prompt": "Hi", "temperature": 1.1, "max_tokens": 2000}).raise_for_status()
    JSON.ask(client, LEAVE_QUESTION)
    asked, plain, default = (request.body for request in fake.requests)
    assert {name: asked[name] for name in wanted} == wanted
    assert (plain["temperature"], plain["max_tokens"]) == (1.1, 2000)
    assert (default["temperature"], default["max_tokens"]) == (0.1, 768)
    assert "seed" not in default


def test_br_58_history_reaches_the_model_as_turns_and_leads_the_search(client: httpx2.Client, fake: FakeVllm) -> None:
    turns = [{"role": "user", "content": TYRE_QUESTION}, {"role": "assistant", "content": "It is 18 euros."}]
    asked = {"question": "And for a full yearly service?", "history": turns, "stream": False}
    answer = client.post("/rag-query", json=asked).raise_for_status().json()
    messages = fake.requests[0].body["messages"]
    assert messages[1:-1] == turns
    assert "And for a full yearly service?" in messages[-1]["content"]
    assert answer["sources"][0]["title"] in ("service.md", "tyre.md")
    assert "95 euros" in fake.requests[0].prompt
