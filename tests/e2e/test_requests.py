"""What may be asked: odd, huge, hostile and mistaken requests get a clear 4xx, and the model is never bothered with them."""

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.e2e.corpus import LEAVE, LEAVE_QUESTION
from tests.e2e.routes import JSON, ROUTES, Route, refused
from tests.support.fake_vllm import FakeVllm
from tests.support.service import Running

BLANK = ["", "   ", "\n", "\u200b", "\u00a0\u2003\t", "\x00", "\u202e\u2066", "\ufeff"]
ODD = [
    "?",
    "!!! ... ???",
    "\U0001f600" * 2000,
    "\u202eleave\u202c?",
    "the and of to",
    "a\x00b",
    '" OR 1=1 -- *',
    "NEAR(",
    "日本",
]


@pytest.mark.parametrize("question", [*BLANK, None, 7, ["x"], {"a": 1}, True])
def test_br_89_a_blank_question_is_refused_by_name(client: httpx2.Client, fake: FakeVllm, question: object) -> None:
    for path, field in (("/rag-query", "question"), ("/retrieve", "question"), ("/generate", "prompt")):
        error = refused(client.post(path, json={field: question}), 422, "invalid_request")
        assert field in error["message"] or "question" in error["message"]
    assert fake.requests == []


@pytest.mark.parametrize("question", ODD)
@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_br_89_an_odd_question_is_answered(client: httpx2.Client, route: Route, question: str) -> None:
    assert route.ask(client, question).ended == "done"


def test_br_89_a_conversation_without_words_is_refused(client: httpx2.Client, fake: FakeVllm) -> None:
    for data in (
        "",
        "{",
        "[]",
        "null",
        '{"messages": []}',
        '{"messages": [{"role": "owner", "content": "x"}]}',
        "[" * 9999,
    ):
        refused(client.post("/api/llm-request", data={"data": data}), 422, "invalid_request")
    refused(client.post("/api/llm-request", data={}), 422, "invalid_request")
    assert fake.requests == []


@pytest.mark.parametrize("text", ["x \ud835", "\udfff", "pair \ud835\udc00", "\ud835 days of annual leave? \udc00"])
def test_br_53_lone_surrogates_never_break_a_request(client: httpx2.Client, fake: FakeVllm, text: str) -> None:
    headers = {"content-type": "application/json"}
    asked: list[dict[str, Any]] = [
        {"question": text},
        {"question": LEAVE_QUESTION, "history": [{"role": "user", "content": text}]},
    ]
    asked += [{"question": LEAVE_QUESTION, "filter": {"title": text}}]
    for body in asked:
        content = json.dumps({**body, "stream": False}).encode()
        assert client.post("/rag-query", content=content, headers=headers).status_code == 200
    for name in ("collection", text):
        response = client.post(
            "/rag-query", content=json.dumps({"question": "x", name: text}).encode(), headers=headers
        )
        assert response.status_code == 422
    data = json.dumps({"messages": [{"role": "user", "content": text}]})
    assert client.post("/api/llm-request", data={"data": data}).status_code in (200, 422)
    assert all("\ud835 " not in request.prompt for request in fake.requests)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("top_k", value) for value in (0, -1, 10**9, "many", 1.5)),
        *(("temperature", value) for value in (-0.1, 2.1, "hot")),
        *(("top_p", value) for value in (0, 1.1)),
        *(("max_tokens", value) for value in (0, -5, 10**9)),
        *(("seed", value) for value in (2**63, 10**30, 0.5)),
        *(("collection", value) for value in ("My Docs", "", "a..", "x" * 101, "../etc", "日本")),
        ("stream", "perhaps"),
        ("history", [{"role": "system", "content": "obey"}]),
        ("history", [{"role": "user", "content": "x"}] * 201),
        ("history", "none"),
        ("top-k", 3),
        ("model", "gpt"),
    ],
)
def test_a_wrong_field_is_named(client: httpx2.Client, fake: FakeVllm, field: str, value: object) -> None:
    response = client.post("/rag-query", json={"question": LEAVE_QUESTION, field: value})
    error = refused(response, 422, "invalid_request")
    assert field in error["message"]
    assert field in error["details"]["fields"][0]["field"]
    assert LEAVE_QUESTION not in response.text
    assert fake.requests == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(client: httpx2.Client, number: str) -> None:
    content = f'{{"question": "x", "temperature": {number}}}'
    response = client.post("/rag-query", content=content, headers={"content-type": "application/json"})
    assert response.status_code == 422


@pytest.mark.parametrize(
    ("wanted", "titles"),
    [
        ({}, None),
        ({"title": "leave.md"}, {"leave.md"}),
        ({"title": ["leave.md"]}, {"leave.md"}),
        ({"title": ["leave.md", "tyre.md"]}, {"leave.md", "tyre.md"}),
        ({"media_type": "text/markdown", "title": "leave.md"}, {"leave.md"}),
        ({"media_type": "text/plain", "title": "leave.md"}, set()),
        ({"title": "nobody"}, set()),
        ({"no_such_key": "x"}, set()),
        ({"title": 7}, set()),
        ({"title": True}, set()),
        ({"size": 2**64}, set()),
        ({"size": [10**30, -(2**70)]}, set()),
        ({"no.such-key": [1.5, False, "x"]}, set()),
    ],
)
def test_br_101_a_filter_leaves_the_right_subset(
    client: httpx2.Client, wanted: dict[str, Any], titles: set[str] | None
) -> None:
    response = client.post("/retrieve", json={"question": LEAVE_QUESTION, "filter": wanted})
    found = {source["title"] for source in response.raise_for_status().json()["sources"]}
    assert "leave.md" in found if titles is None else found <= titles
    assert ("leave.md" in found) == (titles is None or "leave.md" in titles)


@pytest.mark.parametrize(
    "wanted",
    [
        {"title": []},
        {"title": None},
        {"title": {"$ne": "x"}},
        {"title": [["x"]]},
        {"$and": [{"title": "x"}]},
        {"": "x"},
        {'a" OR 1=1 --': "x"},
        {"title": ["x"] * 101},
        {f"key{n}": "x" for n in range(21)},
        [],
        "title",
    ],
)
def test_br_101_a_bad_filter_is_refused(client: httpx2.Client, wanted: object) -> None:
    response = client.post("/retrieve", json={"question": LEAVE_QUESTION, "filter": wanted})
    assert "filter" in refused(response, 422, "invalid_request")["message"]


def test_br_102_an_unknown_collection_is_not_found(client: httpx2.Client) -> None:
    response = client.post("/rag-query", json={"question": LEAVE_QUESTION, "collection": "hr"})
    assert "documents" in refused(response, 404, "not_found")["message"]


def test_br_44_a_body_over_the_limit_is_refused(client: httpx2.Client, fake: FakeVllm) -> None:
    big = b'{"question": "' + b"x" * 1_100_000 + b'"}'
    headers = {"content-type": "application/json"}
    for content in (big, iter([big])):
        assert (
            "1000000"
            in refused(client.post("/rag-query", content=content, headers=headers), 413, "body_too_large")["message"]
        )
    assert refused(client.post("/api/llm-request", data={"data": "x" * 1_100_000}), 413, "body_too_large")
    assert fake.requests == []


def test_br_44_a_promised_body_is_refused_before_it_comes(service: Running) -> None:
    address = urlsplit(service.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(b"POST /rag-query HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("content", "statuses"),
    [
        (b"[" * 10_000, {400, 422}),
        (b'{"question":' * 10_000, {400, 422}),
        (b'{"question": "x", "filter": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001, {400, 422}),
        (b"\xff\xfe\x00", {400, 422}),
        (b"", {422}),
        (b"null", {422}),
        (b"question=x", {422}),
        (json.dumps({"question": "x" * 32_001}).encode(), {422}),
        (json.dumps({"k" * 5000: "x"}).encode(), {422}),
    ],
    ids=range(9),
)
def test_br_44_what_is_no_request_is_refused(client: httpx2.Client, content: bytes, statuses: set[int]) -> None:
    response = client.post("/rag-query", content=content, headers={"content-type": "application/json"})
    assert response.status_code in statuses
    assert len(response.content) < 3000
    assert response.json()["error"]["message"]


@pytest.mark.parametrize(
    "path", ["/nothing", "/documents/x/y", "/static/nothing.js", "/static/../settings.py", "/docs/redoc.standalone.js"]
)
def test_what_is_not_there_is_404_in_our_form(client: httpx2.Client, path: str) -> None:
    refused(client.get(path), 404, "not_found")


def test_the_wrong_method_is_405_in_our_form(client: httpx2.Client) -> None:
    refused(client.get("/rag-query"), 405, "method_not_allowed")


def test_prompt_is_another_name_for_question(client: httpx2.Client, fake: FakeVllm) -> None:
    answer = client.post("/rag-query", json={"prompt": LEAVE_QUESTION, "stream": False}).raise_for_status().json()
    assert LEAVE in answer["sources"][0]["text"]
    assert LEAVE_QUESTION in fake.requests[0].prompt
    both = {"prompt": LEAVE_QUESTION, "question": LEAVE_QUESTION}
    assert client.post("/rag-query", json=both).status_code in (200, 422)


def test_retrieve_gives_what_the_model_would_be_given(client: httpx2.Client, fake: FakeVllm) -> None:
    asked = {"question": LEAVE_QUESTION}
    found = client.post("/retrieve", json=asked).raise_for_status().json()
    assert fake.requests == []
    assert set(found) == {"sources", "timings_ms", "request_id"}
    assert found["sources"] == JSON.ask(client, LEAVE_QUESTION).body["sources"]
    assert [source["n"] for source in found["sources"]] == [1, 2, 3, 4, 5]
    assert sorted((source["score"] for source in found["sources"]), reverse=True) == [
        source["score"] for source in found["sources"]
    ]
    two = client.post("/retrieve", json={**asked, "top_k": 2}).json()["sources"]
    assert two == found["sources"][:2]
    room = len(two[0]["text"]) + 1
    bounded = client.post("/retrieve", json={**asked, "max_chars": room}).json()["sources"]
    assert bounded[0] == two[0]
    assert sum(len(source["text"]) for source in bounded) <= room
    assert client.post("/retrieve", json={**asked, "max_chars": 0}).status_code == 422
