"""Bytes of a stream to text, wherever they are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.upstream.parser import ChunkParser
from tests.support.fake_vllm import (
    content_event,
)
from tests.support.upstream_reader import text_of


def parsed(data: bytes, cuts: list[int]) -> tuple[str, str | None]:
    """Text and finish reason of a body fed in pieces."""
    parser, deltas = ChunkParser(), []
    edges = [0, *sorted(cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        parser.feed(data[start:end])
        while (delta := parser.take()) is not None:
            deltas.append(delta)
    parser.close()
    while (delta := parser.take()) is not None:
        deltas.append(delta)
    assert parser.fault is None
    return text_of(deltas), deltas[-1].finish_reason


FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


@given(st.lists(st.text(), max_size=8), st.data(), st.sampled_from([b"\n", b"\r\n"]))
def test_br_31_and_47_any_split_of_the_bytes_gives_the_same_text(
    parts: list[str], data: st.DataObject, eol: bytes
) -> None:
    body = (b"".join(map(content_event, ["!", *parts])) + FINISH + b"data: [DONE]\n\n").replace(b"\n", eol)
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=12))
    assert parsed(body, cuts) == ("!" + "".join(parts), "stop")


def test_br_47_every_single_split_of_an_emoji_and_its_event() -> None:
    body = content_event("天🌍👨‍👩‍👧ة") + FINISH
    for cut in range(len(body) + 1):
        assert parsed(body, [cut]) == ("天🌍👨‍👩‍👧ة", "stop")


THINKING = [
    ("<think>a < b, </thin [1]\n</think>\n\nAnswer <think>", "Answer <think>"),
    ("\n<think></think>Answer", "Answer"),
    ("<think>never done", ""),
    ("<thinker> is a tag", "<thinker> is a tag"),
    (" \n <b>", " \n <b>"),
    ("<thin", "<thin"),
    ("  ", "  "),
]


@pytest.mark.parametrize(("content", "answer"), THINKING)
def test_br_50_think_tags_cut_anywhere(content: str, answer: str) -> None:
    for cut in range(len(content) + 1):
        body = content_event(content[:cut]) + content_event(content[cut:]) + FINISH
        assert parsed(body, []) == (answer, "stop")
    assert parsed(b"".join(map(content_event, content)) + FINISH, []) == (answer, "stop")
