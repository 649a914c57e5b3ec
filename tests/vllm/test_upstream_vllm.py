"""The relay against a real vLLM: what its stream brings, and that leaving stops its work.

In: `vllm_url`. Out: facts about vLLM that the scripted server of the other tests only imitates. Must not: judge the
model's words; it has 135 million parameters.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from rag_service.errors import ContextTooLong, UpstreamModelNotFound
from rag_service.settings import LlmSettings
from rag_service.upstream import ModelDelta, Sampling, Upstream, client_session

ABORT_LIMIT_S = 10.0
QUESTION = [{"role": "user", "content": "Tell a long story about a lighthouse."}]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with client_session(LlmSettings()) as opened:
        yield opened


@pytest.fixture
def upstream(session: aiohttp.ClientSession, vllm_url: str) -> Upstream:
    return Upstream(session, vllm_url, LlmSettings(), flush_interval_s=0.0)


async def metric(session: aiohttp.ClientSession, vllm_url: str, name: str, labels: str = "") -> float:
    """The sum of one of vLLM's metrics over the lines whose labels match."""
    async with session.get(vllm_url.removesuffix("/v1") + "/metrics") as response:
        text = await response.text()
    values = re.findall(rf"^vllm:{name}\{{.*{labels}.*\}} (\S+)$", text, re.MULTILINE)
    assert values, f"vLLM reports no vllm:{name}"
    return sum(map(float, values))


async def completed(session: aiohttp.ClientSession, vllm_url: str) -> float:
    """How many requests came to their own end, and so were not aborted."""
    return await metric(session, vllm_url, "request_success_total", 'finished_reason="(?:stop|length)"')


async def wait_until_idle(session: aiohttp.ClientSession, vllm_url: str) -> None:
    deadline = time.monotonic() + ABORT_LIMIT_S
    while await metric(session, vllm_url, "num_requests_running"):
        assert time.monotonic() < deadline, "vLLM still works for a reader who has left"


async def test_the_first_model_listed_is_taken_with_the_window_it_reports(upstream: Upstream) -> None:
    served = await upstream.served_model()
    assert served.id == "smollm2"
    assert served.max_model_len == 4096


async def test_an_answer_arrives_in_steps_and_ends_with_its_reason_and_usage(upstream: Upstream) -> None:
    deltas: list[ModelDelta] = []
    async with upstream.open(QUESTION, Sampling(max_tokens=24, temperature=0.0)) as stream:
        deltas = [delta async for delta in stream]
        assert stream.complete
    texts = [delta.text for delta in deltas if delta.text]
    assert len(texts) > 1
    assert deltas[-1].finish_reason == "length"
    usage = deltas[-1].usage
    assert usage is not None
    assert usage.completion_tokens == 24
    assert usage.prompt_tokens > 0


async def test_leaving_in_the_middle_aborts_the_request_in_vllm(
    upstream: Upstream, session: aiohttp.ClientSession, vllm_url: str
) -> None:
    before = await completed(session, vllm_url)
    async with upstream.open(QUESTION, Sampling(max_tokens=3500)) as stream:
        await anext(stream)
        assert await metric(session, vllm_url, "num_requests_running") == 1
    await wait_until_idle(session, vllm_url)
    assert await completed(session, vllm_url) == before


async def test_a_cancelled_task_aborts_the_request_in_vllm(
    upstream: Upstream, session: aiohttp.ClientSession, vllm_url: str
) -> None:
    before = await completed(session, vllm_url)
    begun = asyncio.Event()

    async def read() -> None:
        async with upstream.open(QUESTION, Sampling(max_tokens=3500)) as stream:
            async for _ in stream:
                begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_until_idle(session, vllm_url)
    assert await completed(session, vllm_url) == before


async def test_a_prompt_past_the_window_is_context_too_long(upstream: Upstream) -> None:
    prompt = [{"role": "user", "content": "lighthouse " * 6000}]
    with pytest.raises(ContextTooLong):
        async with upstream.open(prompt, Sampling(max_tokens=16)):
            pass


async def test_a_model_that_is_not_served_is_named_beside_those_that_are(
    session: aiohttp.ClientSession, vllm_url: str
) -> None:
    wrong = Upstream(session, vllm_url, LlmSettings(model="no-such-model"), flush_interval_s=0.0)
    with pytest.raises(UpstreamModelNotFound, match=r"no-such-model.*smollm2"):
        async with wrong.open(QUESTION, Sampling(max_tokens=16)):
            pass
