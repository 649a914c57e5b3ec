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


@given(st.lists(WRITTEN, min_size=1, max_size=12))
def test_a_text_that_is_read_by_shape_is_the_one_that_parsing_gives(payloads: list[bytes]) -> None:
    shape = ChunkShape()
    learnt: dict[str, Any] | None = None
    for payload in payloads:
        parsed = orjson.loads(payload)
        text = shape.text(payload)
        if text is not None:
            assert learnt is not None
            expected = json.loads(json.dumps(learnt))
            expected["choices"][0]["delta"]["content"] = text
            assert parsed == expected
        elif isinstance(parsed["choices"][0]["delta"]["content"], str):
            shape.learn(payload, parsed)
            learnt = parsed if shape.text(payload) is not None else learnt


@given(TEXT, st.lists(TEXT, max_size=8))
def test_chunks_that_differ_in_their_text_alone_are_read_by_shape(first: str, rest: list[str]) -> None:
    shape = ChunkShape()
    shape.learn(orjson.dumps(chunk(first)), chunk(first))
    assert [shape.text(orjson.dumps(chunk(text))) for text in rest] == rest


def test_another_field_of_the_same_name_is_not_taken_for_the_text() -> None:
    document = {"content": "the text", **chunk("the text")}
    shape = ChunkShape()
    shape.learn(orjson.dumps(document), document)
    assert shape.text(orjson.dumps({**document, "content": "other"})) is None
    assert shape.text(orjson.dumps({"content": "the text", **chunk("next")})) == "next"


def test_a_duplicate_key_is_read_as_a_parser_reads_it() -> None:
    payload = b'{"choices":[{"delta":{"content":"first","content":"last"}}]}'
    shape = ChunkShape()
    shape.learn(payload, orjson.loads(payload))
    assert shape.text(payload) == "last"


def test_an_endpoint_whose_chunks_all_differ_is_looked_at_only_so_often() -> None:
    shape = ChunkShape()
    for number in range(TRIES):
        unlike = {"content": str(number), **chunk(str(number), note=number)}
        shape.learn(orjson.dumps(unlike), chunk("another document"))
    shape.learn(orjson.dumps(chunk("a")), chunk("a"))
    assert shape.text(orjson.dumps(chunk("a"))) is None
