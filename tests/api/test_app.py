"""The whole app by hand: clients that leave at a chosen moment, faults inside, and an event loop that is never blocked."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from blockbuster import BlockingError, blockbuster_ctx
from fastapi import FastAPI

from rag_service.api.dependencies import Parts
from rag_service.index.embeddings import EmbeddingModel, Vectors
from tests.api.by_hand import HandClient, eventually, others
from tests.e2e.corpus import LEAVE, LEAVE_QUESTION, TYRE, TYRE_QUESTION
from tests.e2e.routes import citing
from tests.support.fake_vllm import FakeVllm, Role, Stall, Token
from tests.support.readers import answer_text, native_sse

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = {"question": LEAVE_QUESTION}
PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "sse": ("/rag-query", ASKED),
    "json": ("/rag-query", {**ASKED, "stream": False}),
    "retrieve": ("/retrieve", ASKED),
}
every_path = pytest.mark.parametrize(("path", "body"), PATHS.values(), ids=PATHS)


class Gate:
    """An embedding model that waits in its thread until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.texts: list[str] = []
        embed = EmbeddingModel.embed_queries

        def gated(model: EmbeddingModel, texts: Sequence[str]) -> Vectors:
            self.texts += texts
            self.entered.set()
            self.open.wait(30)
            return embed(model, texts)

        monkeypatch.setattr(EmbeddingModel, "embed_queries", gated)

    async def reached(self) -> None:
        await asyncio.to_thread(self.entered.wait, 30)


def parts_of(app: FastAPI) -> Parts:
    parts: Parts = app.state.parts
    return parts


@asynccontextmanager
async def nothing_left(app: FastAPI) -> AsyncIterator[None]:
    """After the body, every place is free and no task of it remains."""
    before = others()
    yield
    assert (parts_of(app).admission.running, parts_of(app).admission.queued) == (0, 0)
    assert others() <= before


@every_path
async def test_br_06_a_client_that_leaves_during_retrieval(
    app: FastAPI, fake: FakeVllm, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, object]
) -> None:
    gate = Gate(monkeypatch)
    try:
        async with nothing_left(app):
            client = await HandClient(app, path, body).start()
            await gate.reached()
            assert parts_of(app).admission.running == 1
            client.leave()
            await client.finished()
    finally:
        gate.open.set()
    assert fake.requests == []


async def test_br_06_a_question_whose_client_has_left_is_not_embedded(
    app: FastAPI, fake: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    try:
        async with nothing_left(app):
            first = await HandClient(app, "/retrieve", ASKED).start()
            await gate.reached()
            leaver = await HandClient(app, "/retrieve", {"question": "Nobody waits for this."}).start()
            stayer = await HandClient(app, "/retrieve", {"question": TYRE_QUESTION}).start()
            await eventually(lambda: parts_of(app).admission.running == 3)
            leaver.leave()
            await leaver.finished()
            gate.open.set()
            await first.finished()
            await stayer.finished()
    finally:
        gate.open.set()
    assert gate.texts == [LEAVE_QUESTION, TYRE_QUESTION]
    assert TYRE in stayer.body.decode()


@pytest.mark.parametrize("script", [[Stall()], [Role(), Stall()], [Role(), Token("Leave"), Stall()]])
@pytest.mark.parametrize("stream", [True, False])
async def test_br_06_a_client_that_leaves_while_the_model_works(
    app: FastAPI, fake: FakeVllm, script: list[Stall], stream: bool
) -> None:
    fake.script(script)
    async with nothing_left(app):
        client = await HandClient(app, "/rag-query", {**ASKED, "stream": stream}).start()
        await eventually(lambda: fake.requests)
        client.leave()
        await client.finished()
    assert await asyncio.to_thread(fake.requests[0].gone_sync.wait, 20)


async def test_br_06_a_client_that_left_before_it_was_read(app: FastAPI, fake: FakeVllm) -> None:
    async with nothing_left(app):
        client = HandClient(app, "/rag-query", ASKED)
        client.leave()
        await client.start()
        await client.finished()


@every_path
async def test_br_62_a_fault_of_our_own_is_told_as_one_and_no_more(
    app: FastAPI, fake: FakeVllm, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, object]
) -> None:
    def broken(_model: EmbeddingModel, texts: Sequence[str]) -> Vectors:
        raise ValueError(f"canary {texts}")

    monkeypatch.setattr(EmbeddingModel, "embed_queries", broken)
    async with nothing_left(app):
        client = await HandClient(app, path, body).start()
        await client.finished()
    error = json.loads(client.body)["error"]
    headers = dict(client.sent[0]["headers"])
    assert (client.status, error["code"]) == (500, "internal_error")
    assert error["request_id"].encode() == headers[b"x-request-id"]
    assert b"content-security-policy" in headers
    assert b"canary" not in client.body


async def test_br_62_a_fault_in_a_plain_route_is_told_the_same_way(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_parts: Parts, _work: object) -> object:
        raise ValueError("canary")

    monkeypatch.setattr(Parts, "admitted", broken)
    client = await HandClient(app, "/rag-query", ASKED).start()
    await client.finished()
    error = json.loads(client.body)["error"]
    assert (client.status, error["code"]) == (500, "internal_error")
    assert error["request_id"].encode() == dict(client.sent[0]["headers"])[b"x-request-id"]
    assert b"canary" not in client.body


async def test_br_08_nothing_blocks_the_event_loop(app: FastAPI, fake: FakeVllm) -> None:
    fake.respond(citing(LEAVE))
    for _ in range(2):  # the first question opens connections, and closes none
        with blockbuster_ctx(["rag_service"]):
            clients = [await HandClient(app, path, body).start() for path, body in PATHS.values()]
            clients.append(await HandClient(app, "/rag-query", {"question": LEAVE_QUESTION + " x" * 15_000}).start())
            await asyncio.gather(*(client.finished() for client in clients))
        assert [client.status for client in clients[:3]] == [200, 200, 200]
        assert clients[3].status == 413


async def test_br_08_what_blocks_is_noticed(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test before this one is worth something."""

    def blocking(*_: object, **__: object) -> None:
        time.sleep(0)

    seen: list[BaseException | None] = []
    monkeypatch.setattr("rag_service.answer.build_prompt", blocking)
    monkeypatch.setattr("rag_service.answer.log.exception", lambda *_, **__: seen.append(sys.exc_info()[1]))
    with blockbuster_ctx(["rag_service"]):
        client = await HandClient(app, "/rag-query", ASKED).start()
        await client.finished()
    assert [type(error) for error in seen] == [BlockingError]


async def test_br_08_a_slow_embedding_delays_nobody_else(
    app: FastAPI, fake: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that has begun goes on to its end while another question sits in the embedding model."""
    fake.answer("one two three")
    gate = Gate(monkeypatch)
    try:
        async with nothing_left(app):
            slow = await HandClient(app, "/retrieve", ASKED).start()
            await gate.reached()
            plain = await HandClient(app, "/generate", {"prompt": "Hi", "stream": True}).start()
            await plain.finished()
            assert answer_text(native_sse([plain.body])) == "one two three"
            assert slow.sent == []
            gate.open.set()
            await slow.finished()
            assert slow.status == 200
    finally:
        gate.open.set()
