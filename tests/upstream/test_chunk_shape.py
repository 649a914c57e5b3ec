"""Reading a chunk by its shape gives what parsing it gives, whatever chunks an endpoint sends."""

import json
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from rag_service.upstream.chunk_shape import TRIES, ChunkShape

TEXT = st.text(max_size=12) | st.sampled_from(['"', "\\", '\\"', '"content":"x"', "},{", "\n", "é", "日本", "\0probe"])


def chunk(text: Any, **more: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}


DELTAS = st.fixed_dictionaries(
    {"content": TEXT | st.none() | st.integers() | st.just(["a"])},
    optional={"role": st.just("assistant"), "reasoning": TEXT, "tool_calls": st.just([{"content": "x"}])},
)
CHUNKS = st.builds(
    lambda delta, reason, more: {"id": "c", "choices": [{"delta": delta, "finish_reason": reason}], **more},
    DELTAS,
    st.sampled_from([None, "stop", "length"]),
    st.dictionaries(st.sampled_from(["content", "usage", "error", "note"]), TEXT, max_size=2),
)
WRITTEN = st.tuples(
    CHUNKS | st.builds(chunk, TEXT),
    st.sampled_from([(",", ":"), (", ", ": ")]),
    st.booleans(),
).map(lambda how: json.dumps(how[0], separators=how[1], ensure_ascii=how[2]).encode("utf-8", "surrogatepass"))


def event(payload: bytes) -> bytes:
    return b"data: " + payload + b"\n\n"


def text_of(shape: ChunkShape, payload: bytes) -> str | None:
    """The text of an event that stands alone; None where its shape does not tell."""
    texts = shape.texts(event(payload))
    assert texts is None or len(texts) == 1
    return None if texts is None else texts[0]


def learn(shape: ChunkShape, payload: bytes, parsed: dict[str, Any]) -> None:
    shape.learn(b" " + payload, parsed)  # what follows `data:`


@given(st.lists(WRITTEN, min_size=1, max_size=12))
def test_a_text_that_is_read_by_shape_is_the_one_that_parsing_gives(payloads: list[bytes]) -> None:
    shape = ChunkShape()
    learnt: dict[str, Any] | None = None
    for payload in payloads:
        parsed = orjson.loads(payload)
        text = text_of(shape, payload)
        if text is not None:
            assert learnt is not None
            expected = json.loads(json.dumps(learnt))
            expected["choices"][0]["delta"]["content"] = text
            assert parsed == expected
        elif isinstance(parsed["choices"][0]["delta"]["content"], str):
            learn(shape, payload, parsed)
            learnt = parsed if text_of(shape, payload) is not None else learnt


@given(TEXT, st.lists(TEXT, max_size=8))
def test_chunks_that_differ_in_their_text_alone_are_read_by_shape(first: str, rest: list[str]) -> None:
    shape = ChunkShape()
    learn(shape, orjson.dumps(chunk(first)), chunk(first))
    assert [text_of(shape, orjson.dumps(chunk(text))) for text in rest] == rest


@given(st.lists(TEXT, min_size=1, max_size=8), st.data())
def test_events_in_one_read_are_read_together_and_only_whole_ones(texts: list[str], data: st.DataObject) -> None:
    shape = ChunkShape()
    learn(shape, orjson.dumps(chunk("first")), chunk("first"))
    events = [event(orjson.dumps(chunk(text))) for text in texts]
    read = b"".join(events)
    assert shape.texts(read) == texts
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(read)), st.integers(0, len(read)))))
    whole = {sum(map(len, events[:n])) for n in range(len(events) + 1)}
    if start != end and not {start, end} <= whole:
        assert shape.texts(read[start:end]) is None


@given(st.lists(TEXT, min_size=1, max_size=4), WRITTEN, st.lists(TEXT, max_size=4))
def test_an_event_of_another_shape_among_them_is_not_passed_over(
    before: list[str], other: bytes, after: list[str]
) -> None:
    shape = ChunkShape()
    learn(shape, orjson.dumps(chunk("first")), chunk("first"))
    around = [[event(orjson.dumps(chunk(text))) for text in texts] for texts in (before, after)]
    found = shape.texts(b"".join([*around[0], event(other), *around[1]]))
    alone = text_of(shape, other)
    assert found == (None if alone is None else [*before, alone, *after])


def test_another_field_of_the_same_name_is_not_taken_for_the_text() -> None:
    document = {"content": "the text", **chunk("the text")}
    shape = ChunkShape()
    learn(shape, orjson.dumps(document), document)
    assert text_of(shape, orjson.dumps({**document, "content": "other"})) is None
    assert text_of(shape, orjson.dumps({"content": "the text", **chunk("next")})) == "next"


def test_a_duplicate_key_is_read_as_a_parser_reads_it() -> None:
    payload = b'{"choices":[{"delta":{"content":"first","content":"last"}}]}'
    shape = ChunkShape()
    learn(shape, payload, orjson.loads(payload))
    assert text_of(shape, payload) == "last"


def test_an_endpoint_whose_chunks_all_differ_is_looked_at_only_so_often() -> None:
    shape = ChunkShape()
    for number in range(TRIES):
        unlike = {"content": str(number), **chunk(str(number), note=number)}
        learn(shape, orjson.dumps(unlike), chunk("another document"))
    learn(shape, orjson.dumps(chunk("a")), chunk("a"))
    assert text_of(shape, orjson.dumps(chunk("a"))) is None
