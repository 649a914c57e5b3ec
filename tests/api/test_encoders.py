"""Events to bytes and back: whatever an event holds, the strict readers get it out again, on one line each."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.api.encoders import ENCODE, Fold, NdjsonEncoder, PartialResultEncoder, SseEncoder, native, to_json
from rag_service.events import (
    Citation,
    CitationCounts,
    Delta,
    Done,
    Event,
    Failed,
    Source,
    Sources,
    Status,
    Usage,
)
from rag_service.index.spans import PageStarts, Span
from tests.support.readers import ODD_LINE_ENDS, native_sse, ndjson

TEXT = st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from("\r\n:" + ODD_LINE_ENDS), max_size=30)
SOURCES = st.builds(
    Source,
    n=st.integers(1, 50),
    document_id=TEXT,
    version=TEXT,
    chunk_id=TEXT,
    title=TEXT,
    uri=TEXT,
    span=st.just(Span(5, 90)),
    text=TEXT,
    score=st.floats(0, 1),
    pages=st.just(PageStarts((0, 50), 3)),
    heading_path=st.lists(TEXT, max_size=2).map(tuple),
)
CITATIONS = st.builds(
    Citation,
    id=TEXT,
    n=st.integers(1, 50),
    answer=st.just(Span(0, 3)),
    source=SOURCES,
    status=st.sampled_from(["verified", "weak", "misattributed", "unsupported"]),
    score=st.floats(0, 1),
    span=st.none() | st.just(Span(60, 70)),
    quote=st.none() | TEXT,
)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(Status, stage=st.sampled_from(["queued", "thinking"]), position=st.none() | st.integers(1, 99)),
    st.builds(Sources, st.lists(SOURCES, max_size=2).map(tuple)),
    st.builds(Delta, TEXT),
    CITATIONS,
)
ENDS: st.SearchStrategy[Event] = st.one_of(
    st.builds(Done, st.sampled_from(["stop", "length"]), usage=st.none() | st.just(Usage(9, 3))),
    st.builds(Failed, code=st.just("upstream_timeout"), message=TEXT, retryable=st.booleans()),
)


@given(st.lists(EVENTS, max_size=6), ENDS, st.lists(st.integers(0, 2000), max_size=10))
def test_br_31_any_events_pass_through_the_strict_readers(events: list[Event], end: Event, cuts: list[int]) -> None:
    log = [*events, end]
    expected = [json.loads(json.dumps(native(event))) for event in log]
    sse, lines = SseEncoder(), NdjsonEncoder()
    body = b"".join(sse.encode(event) for event in log)
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    assert native_sse(body[a:b] for a, b in pairwise(edges)) == expected
    assert ndjson([lines.encode(event) for event in log]) == expected


@given(st.lists(EVENTS, max_size=6), ENDS)
def test_partial_results_hold_the_text_and_one_end(events: list[Event], end: Event) -> None:
    encoder = PartialResultEncoder()
    lines = ndjson([encoder.encode(event) for event in [*events, end]])
    told = "".join(line["result"] for line in lines[:-1])
    assert told == "".join(event.text for event in events if isinstance(event, Delta))
    assert lines[-1]["status"] == ("DONE" if isinstance(end, Done) else "ERROR")


@given(st.lists(EVENTS, max_size=6))
def test_the_folded_answer_is_the_same_events_added_up(events: list[Event]) -> None:
    fold, done = Fold(), Done("stop", Usage(9, 3), CitationCounts(verified=1), {"total": 5.0})
    for event in [*events, done]:
        fold.add(event)
    answer: dict[str, Any] = fold.answer()
    log = [native(event) for event in events]
    assert answer["answer"] == answer["response"] == "".join(e["text"] for e in log if e["type"] == "delta")
    assert answer["citations"] == [{k: v for k, v in e.items() if k != "type"} for e in log if e["type"] == "citation"]
    assert answer["sources"] == next((e["sources"] for e in reversed(log) if e["type"] == "sources"), [])
    assert (answer["finish_reason"], answer["usage"]) == ("stop", {"prompt_tokens": 9, "completion_tokens": 3})


@given(TEXT)
def test_json_has_no_line_end_of_any_kind_inside(text: str) -> None:
    line = to_json({"text": text})
    assert json.loads(line) == {"text": text}
    assert len(line.decode().splitlines()) == 1
    assert b"\n" not in line
    assert b"\r" not in line


def test_every_event_has_an_encoding() -> None:
    assert set(ENCODE) == {Status, Sources, Delta, Citation, Done, Failed}


def test_a_citation_has_the_pages_of_its_passage_not_of_the_chunk() -> None:
    source = Source(1, "d", "v", "c", "t", "u", Span(5, 90), "x", 0.5, PageStarts((0, 50), 3))
    told = native(Citation("c1", 1, Span(0, 3), source, "verified", 1.0, Span(60, 70), "x"))
    assert (told["source"]["page_start"], told["source"]["page_end"]) == (4, 4)
    shown = native(Sources((source,)))["sources"][0]
    assert (shown["page_start"], shown["page_end"]) == (3, 4)
    assert shown["url"] == "/documents/d?start=5&end=90&version=v"


@pytest.mark.parametrize("encoder", [SseEncoder(), NdjsonEncoder(), PartialResultEncoder()])
def test_a_ping_is_nothing_to_a_reader(encoder: SseEncoder | NdjsonEncoder | PartialResultEncoder) -> None:
    body = [encoder.ping, encoder.encode(Done("stop")), encoder.ping]
    assert len(native_sse(body) if isinstance(encoder, SseEncoder) else ndjson(body)) == 1
