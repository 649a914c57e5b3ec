"""Overload as clients see it: callers in turn, and who cannot have a place in time is refused with one typed error."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from rag_service.admission import Admission, Ticket
from rag_service.api.dependencies import Parts
from tests.api.by_hand import HandClient, others
from tests.e2e.corpus import LEAVE_QUESTION
from tests.support.fake_vllm import FakeVllm, Role, Token
from tests.support.readers import native_sse

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = {"question": LEAVE_QUESTION}
JSON_ASKED = {**ASKED, "stream": False}
SSE = "text/event-stream"


@asynccontextmanager
async def one_place_taken(app: FastAPI, queued: int, queue_timeout_s: float = 60.0) -> AsyncIterator[Ticket]:
    """The app with one place, which is taken, and answers that are known to take next to no time."""
    parts: Parts = app.state.parts
    admission = Admission(1, queued, queue_timeout_s)
    for _ in range(200):
        async with admission.join():
            pass
    before = others()
    app.state.parts = replace(parts, admission=admission)
    try:
        async with admission.join("an earlier one") as ticket:
            yield ticket
    finally:
        app.state.parts = parts
    assert (admission.running, admission.queued) == (0, 0)
    assert others() <= before


def from_address(app: ASGIApp, address: str) -> ASGIApp:
    async def direct(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "client": (address, 1)}, receive, send)

    return direct


def through_proxy(app: ASGIApp, address: str) -> ASGIApp:
    """As uvicorn serves it behind a proxy on this machine."""
    served: Any = ProxyHeadersMiddleware(cast("Any", app), trusted_hosts="127.0.0.1")  # it has its own types for ASGI

    async def proxied(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [*scope["headers"], (b"x-forwarded-for", address.encode())]
        await served({**scope, "headers": headers}, receive, send)

    return proxied


def told(client: HandClient) -> list[int]:
    """The places in the queue that the client was told."""
    return [event["position"] for event in native_sse([client.body]) if event.get("stage") == "queued"]


async def waiting(app: ASGIApp, place: int) -> HandClient:
    client = await HandClient(app, "/rag-query", ASKED, SSE).start()
    await client.until(lambda: client.body)
    assert told(client) == [place]
    return client


@pytest.mark.parametrize("connected", [from_address, through_proxy])
async def test_callers_take_turns(app: FastAPI, fake: FakeVllm, connected: Callable[[ASGIApp, str], ASGIApp]) -> None:
    many, one = connected(app, "192.0.2.1"), connected(app, "192.0.2.2")
    async with one_place_taken(app, queued=10) as ticket:
        first, second, third = [await waiting(many, place) for place in (1, 2, 3)]
        other = await waiting(one, 2)
        await third.until(lambda: told(third)[-1] == 4)
        await ticket.__aexit__(None, None, None)
        for client in (first, second, third, other):
            await client.finished()
    assert [told(client) for client in (first, other)] == [[1], [2, 1]]
    assert told(second)[:2] == [2, 3]
    for client in (first, second, third, other):
        assert native_sse([client.body])[-1]["type"] == "done"


@pytest.mark.parametrize("body", [ASKED, JSON_ASKED], ids=["stream", "json"])
async def test_who_could_not_start_in_time_is_told_so_at_once(app: FastAPI, body: dict[str, object]) -> None:
    parts: Parts = app.state.parts
    app.state.parts = replace(parts, admission=Admission(1, 10, 2.0))  # an answer is assumed to take 5 s
    try:
        async with app.state.parts.admission.join("an earlier one"):
            client = await HandClient(app, "/rag-query", body).start()
            await client.finished()
    finally:
        app.state.parts = parts
    error = json.loads(client.body)["error"]
    assert (client.status, error["code"]) == (429, "overloaded")
    assert "RAG_ADMISSION__QUEUE_TIMEOUT_S" in error["message"]
    assert dict(client.sent[0]["headers"])[b"retry-after"] == str(int(error["details"]["retry_after_s"])).encode()


async def test_who_waited_too_long_is_told_by_the_last_event_of_the_stream(app: FastAPI) -> None:
    async with one_place_taken(app, queued=10, queue_timeout_s=0.1):
        client = await HandClient(app, "/rag-query", ASKED, SSE).start()
        await client.finished()
        events = native_sse([client.body])
        assert [event["type"] for event in events] == ["status", "error"]
        assert (events[1]["code"], events[1]["retryable"]) == ("overloaded", True)
        assert "Try again in " in events[1]["message"]
        assert client.complete


async def test_who_waited_too_long_for_one_json_answer_gets_a_real_status(app: FastAPI) -> None:
    async with one_place_taken(app, queued=10, queue_timeout_s=0.1):
        client = await HandClient(app, "/rag-query", JSON_ASKED).start()
        await client.finished()
        error = json.loads(client.body)["error"]
        assert (client.status, error["code"]) == (429, "overloaded")
        assert int(dict(client.sent[0]["headers"])[b"retry-after"]) >= 1


async def test_the_newest_of_the_biggest_caller_gives_way(app: FastAPI, fake: FakeVllm) -> None:
    many, one = from_address(app, "192.0.2.1"), from_address(app, "192.0.2.2")
    async with one_place_taken(app, queued=3) as ticket:
        first, second, third = [await waiting(many, place) for place in (1, 2, 3)]
        other = await waiting(one, 2)
        await third.finished()
        assert [event["type"] for event in native_sse([third.body])] == ["status", "error"]
        await ticket.__aexit__(None, None, None)
        for client in (first, second, other):
            await client.finished()
            assert native_sse([client.body])[-1]["type"] == "done"


async def test_a_failed_answer_is_none_that_took_no_time(app: FastAPI, fake: FakeVllm) -> None:
    parts: Parts = app.state.parts
    app.state.parts = replace(parts, admission=Admission(1, 0))
    fake.script([Role(), Token("Leave")])  # and breaks off
    try:
        for _ in range(3):
            client = await HandClient(app, "/rag-query", ASKED, SSE).start()
            await client.finished()
            assert native_sse([client.body])[-1]["type"] == "error"
        async with app.state.parts.admission.join("an earlier one"):
            refused = await HandClient(app, "/rag-query", ASKED).start()
            await refused.finished()
    finally:
        app.state.parts = parts
    assert dict(refused.sent[0]["headers"])[b"retry-after"] == b"15"  # three times the 5 s that are assumed
