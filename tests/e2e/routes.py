"""Every way to ask for an answer, behind one form, so that a case can be tried on each of them.

In: a question. Out: an `Outcome`, read strictly. Must not: hide a status, or take half an answer for a whole one.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.support.fake_vllm import Responder, prompt_of
from tests.support.readers import Event, SseReader, answer_text, native_event, native_sse, ndjson


@dataclass
class Outcome:
    """What came of it. `ended` is done, error or none (the stream broke off); `code` is of an error, however it was told."""

    status: int
    headers: dict[str, str]
    text: str = ""
    ended: str = "none"
    code: str = ""
    finish_reason: str = ""
    events: list[Event] = field(default_factory=list)
    body: dict[str, Any] = field(default_factory=dict)
    raw: bytes = b""


@dataclass(frozen=True)
class Route:
    """A way to ask. `grounded` ones retrieve; `streamed` ones send the answer as it comes."""

    name: str
    grounded: bool
    streamed: bool
    request: Callable[[str], dict[str, Any]]
    read: Callable[[Outcome], None]

    def open(self, client: httpx2.Client, question: str) -> AbstractContextManager[httpx2.Response]:
        return client.stream("POST", **self.request(question))

    def ask(self, client: httpx2.Client, question: str) -> Outcome:
        with self.open(client, question) as response:
            raw = response.read()
        outcome = Outcome(response.status_code, dict(response.headers), raw=raw)
        if response.status_code != 200:
            outcome.body = json.loads(raw)
            outcome.ended, outcome.code = "error", outcome.body["error"]["code"]
        else:
            self.read(outcome)
        return outcome

    def __str__(self) -> str:
        return self.name


def read_events(outcome: Outcome, events: list[Event]) -> None:
    outcome.events, outcome.text = events, answer_text(events)
    last = events[-1] if events else {}
    if last.get("type") in ("done", "error"):
        outcome.ended = last["type"]
        outcome.code, outcome.finish_reason = last.get("code", ""), last.get("finish_reason", "")


def read_sse(outcome: Outcome) -> None:
    assert outcome.headers["content-type"] == "text/event-stream; charset=utf-8"
    read_events(outcome, native_sse([outcome.raw]))


def read_ndjson(outcome: Outcome) -> None:
    assert outcome.headers["content-type"] == "application/x-ndjson"
    read_events(outcome, ndjson([outcome.raw]))


def read_json(outcome: Outcome) -> None:
    outcome.body, outcome.ended = json.loads(outcome.raw), "done"
    outcome.text = outcome.body["response"]
    outcome.finish_reason = outcome.body["finish_reason"]


def read_partial_results(outcome: Outcome) -> None:
    lines = ndjson([outcome.raw])
    assert {line["status"] for line in lines[:-1]} <= {"PARTIAL_RESULT"}
    outcome.text = "".join(line["result"] for line in lines if line["status"] == "PARTIAL_RESULT")
    last = lines[-1]["status"]
    outcome.ended = {"DONE": "done", "ERROR": "error"}.get(last, "none")


def rag(accept: str, **fields: Any) -> Callable[[str], dict[str, Any]]:
    return lambda question: {
        "url": "/rag-query",
        "json": {"question": question, **fields},
        "headers": {"accept": accept},
    }


def generate(**fields: Any) -> Callable[[str], dict[str, Any]]:
    return lambda question: {"url": "/generate", "json": {"prompt": question, **fields}}


def llm_request(question: str) -> dict[str, Any]:
    asked = {"messages": [{"role": "user", "content": question}], "temperature": 0.2, "top_p": 0.9}
    return {"url": "/api/llm-request", "data": {"data": json.dumps(asked)}}


ROUTES = (
    Route("sse", True, True, rag("text/event-stream"), read_sse),
    Route("ndjson", True, True, rag("application/x-ndjson"), read_ndjson),
    Route("json", True, False, rag("application/json"), read_json),
    Route("generate", False, False, generate(), read_json),
    Route("generate-sse", False, True, generate(stream=True), read_sse),
    Route("llm-request", False, True, llm_request, read_partial_results),
)
SSE, NDJSON, JSON, GENERATE, GENERATE_SSE, LLM_REQUEST = ROUTES
GROUNDED = tuple(route for route in ROUTES if route.grounded)
STREAMED = tuple(route for route in ROUTES if route.streamed)


def live(response: httpx2.Response) -> Iterator[Event]:
    """The native events of an SSE answer, each as soon as it is there."""
    reader, n = SseReader(), 0
    for piece in response.iter_bytes():
        for sent in reader.feed(piece):
            n += 1
            yield native_event(sent, n)


def number_of(fact: str, body: dict[str, Any]) -> int:
    """The number that the prompt in this request gave to the source in which `fact` stands."""
    before, found, _ = prompt_of(body).partition(fact)
    assert found, f"the prompt does not hold {fact!r}"
    return int(re.findall(r'<source id="(\d+)"', before)[-1])


def citing(fact: str) -> Responder:
    """A model that repeats `fact` and cites the number printed beside it."""
    return lambda body: f"{fact.rstrip('.')} [{number_of(fact, body)}]."


def refused(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The error of a response that must be this refusal, in the one form that errors have."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error: dict[str, Any] = response.json()["error"]
    assert (error["code"], error["request_id"]) == (code, response.headers["x-request-id"])
    assert set(error) <= {"code", "message", "request_id", "details"}
    return error
