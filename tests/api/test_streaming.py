"""The response that carries an answer, with scripted events: whenever the client leaves, everything stops."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from rag_service.api.encoders import Encoder, Fold, NdjsonEncoder, PartialResultEncoder, SseEncoder
from rag_service.api.streaming import AnswerResponse, FoldedAnswer, StreamedAnswer
from rag_service.api.write_turn import WriteTurn
from rag_service.errors import Overloaded, UpstreamDisconnected
from rag_service.events import Delta, Done, Event, Failed, Sources
from rag_service.settings import StreamSettings
from tests.api.by_hand import HandClient, others
from tests.support.readers import SseReader, native_sse, ndjson

LONG = StreamSettings(ping_interval_s=300)
Build = Callable[[AsyncGenerator[Event, None]], AnswerResponse]

FORMS: dict[str, Build] = {
    "sse": lambda events: StreamedAnswer(events, SseEncoder(), LONG, WriteTurn()),
    "ndjson": lambda events: StreamedAnswer(events, NdjsonEncoder(), LONG, WriteTurn()),
    "partial": lambda events: StreamedAnswer(events, PartialResultEncoder(), LONG, WriteTurn()),
    "folded": lambda events: FoldedAnswer(events, Fold.answer),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


class Script:
    """Events that are scripted: `stuck` is set when they wait for ever, `closed` when they were closed."""

    def __init__(self, *events: Event, then: Exception | None = None, wait: bool = False) -> None:
        self.script = events
        self.then = then
        self.wait = wait
        self.stuck = asyncio.Event()
        self.closed = False

    async def events(self) -> AsyncGenerator[Event, None]:
        try:
            for event in self.script:
                yield event
            if self.wait:
                self.stuck.set()
                await asyncio.Event().wait()
            if self.then is not None:
                raise self.then
        finally:
            await asyncio.sleep(0)  # closing an upstream may take a turn of the loop; it must be given that
            self.closed = True


BEGUN = (Sources(()), Delta("Leave "), Delta("is"))


@every_form
@pytest.mark.parametrize("script", [(), BEGUN[:1], BEGUN], ids=["nothing sent", "sources sent", "text sent"])
async def test_br_06_a_client_that_leaves_closes_the_events(form: Build, script: tuple[Event, ...]) -> None:
    scripted, before = Script(*script, wait=True), others()
    client = await HandClient(form(scripted.events()), "/").start()
    await scripted.stuck.wait()
    client.leave()
    await client.finished()
    assert scripted.closed
    assert others() == before
    assert not client.complete


@every_form
async def test_br_06_a_client_that_left_before_the_response_began(form: Build) -> None:
    scripted, before = Script(*BEGUN, wait=True), others()
    client = HandClient(form(scripted.events()), "/")
    client.leave()
    await client.start()
    await client.finished()
    assert others() == before
    assert scripted.closed or not scripted.stuck.is_set()


@every_form
async def test_br_06_a_client_that_leaves_while_it_does_not_read(form: Build) -> None:
    scripted, before = Script(*BEGUN, Done("stop")), others()
    client = HandClient(form(scripted.events()), "/")
    client.stop_reading()
    await client.start()
    for _ in range(20):
        await asyncio.sleep(0)
    client.leave()
    await client.finished()
    assert (client.sent, scripted.closed) == ([], True)
    assert others() == before


@every_form
async def test_a_lost_connection_told_by_send_is_a_client_that_left(form: Build) -> None:
    scripted, before = Script(*BEGUN, wait=True), others()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(_message: object) -> None:
        raise ConnectionResetError

    scripted.wait = form is not FORMS["folded"]
    if form is FORMS["folded"]:
        scripted.script = (*BEGUN, Done("stop"))
    await form(scripted.events())({"type": "http"}, receive, send)
    assert scripted.closed
    assert others() == before


@every_form
async def test_a_whole_answer_ends_in_order(form: Build) -> None:
    scripted, before = Script(*BEGUN, Done("stop")), others()
    client = await HandClient(form(scripted.events()), "/").start()
    await client.finished()
    assert (client.status, client.complete, scripted.closed) == (200, True, True)
    assert others() == before


@every_form
async def test_br_16_an_error_before_the_first_byte_is_a_status(form: Build) -> None:
    scripted = Script(then=Overloaded("All places are taken.", details={"retry_after_s": 2.2}))
    client = await HandClient(form(scripted.events()), "/").start()
    await client.finished()
    assert (client.status, client.complete) == (429, True)
    headers = dict(client.sent[0]["headers"])
    assert (headers[b"retry-after"], headers[b"content-type"]) == (b"3", b"application/json")
    assert json.loads(client.body)["error"]["code"] == "overloaded"


@pytest.mark.parametrize("form", [FORMS[name] for name in ("sse", "ndjson", "partial")])
async def test_br_07_an_error_after_the_first_byte_is_the_last_event(form: Build) -> None:
    client = await HandClient(form(Script(*BEGUN, then=UpstreamDisconnected("It broke.")).events()), "/").start()
    await client.finished()
    assert (client.status, client.complete) == (200, True)
    last = client.body.decode().rstrip("\n").split("\n")[-1].removeprefix("data: ")
    assert "It broke." in json.loads(last).values()


async def test_br_07_a_folded_answer_that_failed_is_no_answer() -> None:
    events = Script(*BEGUN, Failed("upstream_timeout", "It stalled.", True)).events()
    client = await HandClient(FORMS["folded"](events), "/").start()
    await client.finished()
    assert (client.status, client.complete) == (504, True)
    assert json.loads(client.body)["error"]["message"] == "It stalled."


ENCODERS = [SseEncoder, NdjsonEncoder, PartialResultEncoder]


@pytest.mark.parametrize("encoder", ENCODERS)
async def test_br_70_silence_is_filled_and_an_error_after_it_is_an_event(encoder: type[Encoder]) -> None:
    go_on = asyncio.Event()

    async def slow() -> AsyncGenerator[Event, None]:
        await go_on.wait()
        raise UpstreamDisconnected("It broke.")
        yield Delta("")

    made = encoder()
    client = await HandClient(
        StreamedAnswer(slow(), made, StreamSettings(ping_interval_s=0.001), WriteTurn()), "/"
    ).start()
    await client.until(lambda: client.body.count(made.ping) >= 3)
    go_on.set()
    await client.finished()
    assert (client.status, client.complete) == (200, True)
    if encoder is SseEncoder:
        reader = SseReader()
        assert [event["type"] for event in native_sse([client.body], reader)] == ["error"]
        assert set(reader.comments) == {"ping"}
    else:
        assert len(ndjson([client.body])) == 1


async def test_br_68_a_reader_that_takes_nothing_gives_its_place_up() -> None:
    scripted, before = Script(*BEGUN, wait=True), others()
    settings = StreamSettings(ping_interval_s=0.002, stall_limit_s=0.01)
    client = HandClient(StreamedAnswer(scripted.events(), SseEncoder(), settings, WriteTurn()), "/")
    client.stop_reading()
    await client.start()
    await client.finished()
    assert scripted.closed
    assert others() == before


@every_form
@pytest.mark.parametrize("script", [(), BEGUN], ids=["nothing sent", "text sent"])
async def test_br_46_an_answer_that_the_server_cancels_ends_in_order(form: Build, script: tuple[Event, ...]) -> None:
    scripted, before = Script(*script, wait=True), others()
    client = await HandClient(form(scripted.events()), "/").start()
    await scripted.stuck.wait()
    assert client.task is not None
    client.task.cancel()
    await client.finished()
    assert (scripted.closed, client.complete) == (True, True)
    assert client.status == (200 if script and form is not FORMS["folded"] else 503)
    assert "shutting down" in client.body.decode()
    assert others() == before
