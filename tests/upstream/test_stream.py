"""What comes out of a stream for any chunks, any pace and any break, over a real socket."""

import asyncio

import pytest
from blockbuster import blockbuster_ctx

from rag_service import errors
from rag_service.events import Usage
from rag_service.upstream import ModelDelta, Sampling
from rag_service.upstream.parser import MAX_LINE_BYTES
from tests.support.fake_vllm import (
    END,
    Chunk,
    Done,
    Eof,
    FakeVllm,
    Finish,
    OneByteWrites,
    Raw,
    Reasoning,
    Reset,
    Role,
    Stall,
    Step,
    Token,
    UsageChunk,
    Wait,
    Wire,
    content_event,
    tokens,
)
from tests.support.upstream_reader import QUESTION, Connect, read, text_of

# Chinese, Arabic, a family joined by ZWJ, a globe, and the separators that line readers trip over.
SCRIPTS = "假期25天。 الإجازة 👨‍👩‍👧‍👦 🌍 \u2028\u2029\u0085 é"
MARKDOWN = "| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n\ny = 2\n```\ndata: x\n\nevent: y\r\n: z\n"


async def test_br_47_one_byte_writes_keep_multi_byte_characters(fake: FakeVllm, connect: Connect) -> None:
    fake.script([OneByteWrites(content_event(SCRIPTS) + content_event("🌍")), *END])
    assert text_of(await read(connect())) == SCRIPTS + "🌍"


@pytest.mark.parametrize("flush_interval_s", [0.0, 0.015])
async def test_br_31_newlines_and_sse_words_inside_tokens_stay(
    fake: FakeVllm, connect: Connect, flush_interval_s: float
) -> None:
    parts = [MARKDOWN, "\n", "\n\n", " ", "", "data: x", "event: y", "\r\n", *MARKDOWN]
    fake.script([Role(), *map(Token, parts), *END])
    assert text_of(await read(connect(flush_interval_s=flush_interval_s))) == "".join(parts)


@pytest.mark.parametrize("ending", [(Done(), Done()), (), (Done(), Token("after the end"))])
async def test_br_32_odd_chunks_leave_the_answer_whole(
    fake: FakeVllm, connect: Connect, ending: tuple[Step, ...]
) -> None:
    odd = [
        Chunk({"choices": None}),
        Chunk({"choices": [{"delta": None}]}),
        Chunk({"choices": [{"delta": {"content": 3}}]}),
    ]
    tool = Chunk({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "f"}}]}}]})
    finish = Chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}], "usage": None})
    start = [Role(), Token(None), Token(""), Raw(b": ping\n\n"), Token("25"), *odd, tool, Raw(b"event: x\nid: 1\n\n")]
    fake.script([*start, Token(" days"), finish, UsageChunk(9, 2), *ending])
    deltas = await read(connect())
    assert text_of(deltas) == "25 days"
    assert (deltas[-1].finish_reason, deltas[-1].usage) == ("length", Usage(9, 2))
    assert [delta.finish_reason for delta in deltas[:-1]] == [None] * (len(deltas) - 1)


async def test_the_end_mark_without_a_finish_reason_is_an_end(fake: FakeVllm, connect: Connect) -> None:
    fake.script([Token("yes"), Done()])
    deltas = await read(connect())
    assert (text_of(deltas), deltas[-1].finish_reason, deltas[-1].usage) == ("yes", "stop", None)


async def test_a_stream_that_hangs_after_its_finish_reason_is_whole(fake: FakeVllm, connect: Connect) -> None:
    fake.script([Token("yes"), Finish(), Stall()])
    assert text_of(await read(connect(token_timeout_s=0.05))) == "yes"


BREAKS: list[tuple[list[Step], type[errors.UpstreamError]]] = [
    ([Reset()], errors.UpstreamDisconnected),
    ([Eof()], errors.UpstreamDisconnected),
    ([], errors.UpstreamDisconnected),  # HTTP's end of body, but no finish reason
    ([Raw(content_event("lost")[:-9])], errors.UpstreamDisconnected),  # the body ends inside an event
    ([Stall()], errors.UpstreamTimeout),
    ([Raw(b": ping\n\n"), Stall()], errors.UpstreamTimeout),
    ([Chunk({"error": {"message": "EngineCore died", "code": 500}}), Done()], errors.UpstreamRejected),
    ([Raw(b"data: {broken\n\n"), *END], errors.UpstreamRejected),
    ([Raw(b"data: []\n\n"), *END], errors.UpstreamRejected),
    ([Raw(b"data: " + b"x" * (MAX_LINE_BYTES + 1))], errors.UpstreamRejected),
]


@pytest.mark.parametrize("flush_interval_s", [0.0, 0.015])
@pytest.mark.parametrize(("fault", "error"), BREAKS)
async def test_br_07_a_break_in_the_middle_comes_after_the_text(
    fake: FakeVllm, connect: Connect, fault: list[Step], error: type[Exception], flush_interval_s: float
) -> None:
    fake.script([Role(), *tokens("five tokens of text.."), *fault])
    deltas: list[ModelDelta] = []
    with pytest.raises(error) as caught:
        await read(connect(token_timeout_s=0.2, flush_interval_s=flush_interval_s), deltas)
    assert type(caught.value) is error
    assert text_of(deltas) == "five tokens of text.."
    assert all(delta.finish_reason is None for delta in deltas)


@pytest.mark.parametrize("flush_interval_s", [0.0, 0.015])
async def test_br_07_broken_http_framing_is_never_an_end(
    fake: FakeVllm, connect: Connect, flush_interval_s: float
) -> None:
    # aiohttp does not always wake its reader here; the token timeout does.
    opened = asyncio.Event()
    fake.script([Role(), Token("five"), Wait(opened), Wire(b"not a chunk size\r\n")])
    deltas: list[ModelDelta] = []
    with pytest.raises((errors.UpstreamDisconnected, errors.UpstreamTimeout)):
        await read(connect(token_timeout_s=0.2, flush_interval_s=flush_interval_s), deltas, opened.set)
    assert text_of(deltas) == "five"


async def test_br_07_nothing_before_the_first_token_timeout(fake: FakeVllm, connect: Connect) -> None:
    for script in ([Stall()], [Role(), Stall()], [Wait(60.0)]):
        fake.script(script)
        with pytest.raises(errors.UpstreamTimeout):
            await read(connect(first_token_timeout_s=0.05))
        await fake.requests[-1].gone.wait()


async def test_br_07_total_timeout(fake: FakeVllm, connect: Connect) -> None:
    fake.pace = 0.01
    fake.script([Token("on and ")] * 100_000)
    deltas: list[ModelDelta] = []
    with pytest.raises(errors.UpstreamTimeout, match="RAG_LLM__TOTAL_TIMEOUT_S"):
        await read(connect(total_timeout_s=0.3), deltas)
    await fake.requests[0].gone.wait()
    assert deltas


async def test_a_slow_reader_is_no_stalled_model(fake: FakeVllm, connect: Connect) -> None:
    read_first = asyncio.Event()
    fake.script([Token("a"), Wait(read_first), Token("b"), *END])
    async with connect(token_timeout_s=0.05).open(QUESTION, Sampling()) as stream:
        first = await anext(stream)
        await asyncio.sleep(0.2)  # longer than the token timeout, which is not this reader's
        read_first.set()
        assert first.text + text_of([delta async for delta in stream]) == "ab"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_br_50_reasoning_is_told_of_and_never_mixed_in(fake: FakeVllm, connect: Connect, name: str) -> None:
    fake.script([Role(), *[Reasoning("hmm [1] ", name)] * 200, *tokens("x" * 80), *END])
    deltas = await read(connect(flush_interval_s=0.005))
    assert text_of(deltas) == "x" * 80
    assert deltas[0] == ModelDelta(reasoning=True)
    assert all(delta.text == "" for delta in deltas if delta.reasoning)


async def test_one_delta_a_flush_and_the_first_at_once(fake: FakeVllm, connect: Connect) -> None:
    first_seen = asyncio.Event()
    fake.script([Role(), Token("first"), Wait(first_seen), *[Token("x")] * 500, *END])
    async with connect(flush_interval_s=30.0, token_timeout_s=60).open(QUESTION, Sampling()) as stream:
        deltas = [await anext(stream)]
        first_seen.set()
        deltas += [delta async for delta in stream]  # done at once, since the end ends the nap of 30 s
    assert [delta.text for delta in deltas] == ["first", "x" * 500]
    assert deltas[-1].finish_reason == "stop"


async def test_nothing_blocks_the_loop_while_streaming(fake: FakeVllm, connect: Connect) -> None:
    upstream = connect(flush_interval_s=0.001)
    with blockbuster_ctx(["rag_service", "aiohttp"]):
        assert text_of(await read(upstream)) == "Hello from the fake model."
