"""The serve path between the model's deltas and the wire: events, scripted on both ends."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.answer import Answerer, failures_told, relayed, with_limit
from rag_service.citations import CitationChecker
from rag_service.errors import NotFound, RagError, UpstreamDisconnected
from rag_service.events import CitationCounts, Delta, Done, Event, Failed, Source, Sources, Status, Usage
from rag_service.index.spans import Span
from rag_service.llm import ChatVLLM
from rag_service.settings import LlmSettings
from rag_service.telemetry import Clock
from rag_service.upstream import ModelDelta, Sampling, Upstream

LEAVE = "Full-time staff have 25 days of annual leave a year."
SOURCE = Source(1, "d1", "v1", "c1", "leave.md", "file:///leave.md", Span(100, 100 + len(LEAVE)), LEAVE, 0.9)
USAGE = Usage(900, 12)


class Scripted:
    """A ModelStream with given deltas."""

    def __init__(self, *deltas: ModelDelta, then: Exception | None = None) -> None:
        self._deltas = iter(deltas)
        self._then = then

    def __aiter__(self) -> AsyncIterator[ModelDelta]:
        return self

    async def __anext__(self) -> ModelDelta:
        for delta in self._deltas:
            return delta
        if self._then is not None:
            raise self._then
        raise StopAsyncIteration


async def collected(events: AsyncGenerator[Event, None]) -> list[Event]:
    return [event async for event in events]


async def relay(*deltas: ModelDelta, then: Exception | None = None) -> list[Event]:
    return await collected(relayed(Scripted(*deltas, then=then), Clock()))  # type: ignore[arg-type]


async def test_deltas_become_text_and_the_last_says_how_it_ended() -> None:
    events = await relay(ModelDelta("Leave "), ModelDelta("is."), ModelDelta(finish_reason="stop", usage=USAGE))
    assert events[:2] == [Delta("Leave "), Delta("is.")]
    done = events[2]
    assert isinstance(done, Done)
    assert (done.finish_reason, done.usage) == ("stop", USAGE)
    assert set(done.timings_ms) == {"queue", "first_token", "total"}


async def test_br_48_length_is_passed_on() -> None:
    done = (await relay(ModelDelta("Leave", finish_reason="length")))[-1]
    assert isinstance(done, Done)
    assert done.finish_reason == "length"


@pytest.mark.parametrize("reason", ["abort", "error"])
async def test_br_07_what_vllm_broke_off_is_no_end(reason: str) -> None:
    with pytest.raises(UpstreamDisconnected):
        await relay(ModelDelta("Leave"), ModelDelta(finish_reason=reason))


async def test_br_50_thinking_is_told_once_and_is_no_text() -> None:
    thought = ModelDelta(reasoning=True)
    events = await relay(thought, thought, ModelDelta("Leave."), thought, ModelDelta(finish_reason="stop"))
    assert events[:2] == [Status("thinking"), Delta("Leave.")]
    assert len(events) == 3


@given(st.lists(st.integers(1, len(LEAVE)), max_size=8))
def test_br_13_any_cut_of_the_text_gives_the_same_citations(cuts: list[int]) -> None:
    text = f"{LEAVE.rstrip('.')} [1]. Nobody knows more [4]."
    edges = [0, *sorted(set(cuts)), len(text)]
    deltas = [ModelDelta(text[a:b]) for a, b in pairwise(edges)]

    async def run(*deltas: ModelDelta) -> list[Event]:
        stream = Scripted(*deltas, ModelDelta(finish_reason="stop", usage=USAGE))
        return await collected(relayed(stream, Clock(), CitationChecker([SOURCE])))  # type: ignore[arg-type]

    whole, split = asyncio.run(run(ModelDelta(text))), asyncio.run(run(*deltas))
    joined = ["".join(event.text for event in events if isinstance(event, Delta)) for events in (whole, split)]
    others = [[event for event in events if not isinstance(event, Delta | Done)] for events in (whole, split)]
    assert joined[0] == joined[1] == f"{LEAVE.rstrip('.')} [1]. Nobody knows more."
    assert others[0] == others[1]
    done = split[-1]
    assert isinstance(done, Done)
    assert (done.citations.verified, done.citations.dropped_markers, done.usage) == (1, 1, USAGE)


async def scripted(*events: Event, then: Exception | None = None) -> AsyncGenerator[Event, None]:
    for event in events:
        yield event
    if then is not None:
        raise then


async def test_an_error_after_the_first_event_becomes_the_last() -> None:
    events = failures_told(scripted(Sources(()), Delta("Le"), then=UpstreamDisconnected("It broke.")))
    assert await collected(events) == [Sources(()), Delta("Le"), Failed("upstream_disconnected", "It broke.", True)]


async def test_an_error_before_it_is_raised_as_it_is() -> None:
    with pytest.raises(NotFound, match="no collection"):
        await collected(failures_told(scripted(then=NotFound("There is no collection."))))


async def test_br_62_what_is_not_expected_is_told_without_its_words() -> None:
    events = await collected(failures_told(scripted(Delta("Le"), then=ValueError("canary"))))
    assert isinstance(events[-1], Failed)
    assert (events[-1].code, events[-1].retryable) == ("internal_error", False)
    assert "canary" not in events[-1].message
    with pytest.raises(RagError) as error:
        await collected(failures_told(scripted(then=ValueError("canary"))))
    assert (error.value.code, "canary" in error.value.message) == ("internal_error", False)


async def test_br_06_closing_the_outermost_closes_all() -> None:
    closed = []

    async def events() -> AsyncGenerator[Event, None]:
        try:
            yield Delta("Le")
            yield Delta("ave")
        finally:
            closed.append(True)

    told = failures_told(events())
    assert await anext(told) == Delta("Le")
    await told.aclose()
    assert closed == [True]


@pytest.mark.parametrize(("wanted", "limit", "sent"), [(None, 700, 700), (50, 700, 50), (900, 700, 700)])
def test_an_answer_is_no_longer_than_there_is_room(wanted: int | None, limit: int, sent: int) -> None:
    limited = with_limit(Sampling(0.5, 0.9, wanted, 7, ("\n",)), limit)
    assert limited == Sampling(0.5, 0.9, sent, 7, ("\n",))


def test_the_whole_chain_is_one_runnable() -> None:
    model = ChatVLLM(upstream=Upstream(None, "http://127.0.0.1:1/v1", LlmSettings(), 0.0))
    answerer = Answerer(None, model, LlmSettings())  # type: ignore[arg-type]
    assert answerer.chain.steps[-1] is model  # type: ignore[attr-defined]


def test_no_citations_are_counted_where_none_were() -> None:
    assert Done("stop").citations == CitationCounts()
