"""Requests, connections and the models that are served, over a real socket."""

import asyncio

import pytest

from rag_service import errors
from rag_service.upstream import Sampling, ServedModel
from tests.support.fake_vllm import (
    END,
    Eof,
    FakeVllm,
    Role,
    Stall,
    Status,
    Step,
    Token,
    Wait,
    tokens,
    whole,
)
from tests.support.upstream_reader import QUESTION, Connect, read, text_of


async def test_br_06_leaving_early_closes_the_connection(fake: FakeVllm, connect: Connect) -> None:
    more = asyncio.Event()
    fake.script([Role(), *tokens("abcdefgh"), Wait(more), *tokens("never read"), *END])
    async with connect().open(QUESTION, Sampling()) as stream:
        await anext(stream)
    await fake.requests[0].gone.wait()
    assert fake.requests[0].tokens_sent == 2
    assert fake.in_flight == 0 or not await fake.requests[0].ended.wait()


@pytest.mark.parametrize("script", [[Wait(60.0)], [Stall()], [Role(), Token("a"), Stall()]])
async def test_br_06_cancelled_anywhere_closes_the_connection(
    fake: FakeVllm, connect: Connect, script: list[Step]
) -> None:
    fake.script(script)
    upstream = connect(flush_interval_s=0.015)
    readers = [asyncio.create_task(read(upstream)) for _ in range(50)]
    await fake.request(49)
    for reader in readers:
        reader.cancel()
    assert all(isinstance(r, asyncio.CancelledError) for r in await asyncio.gather(*readers, return_exceptions=True))
    for request in fake.requests:
        await request.gone.wait()
        await request.ended.wait()
    assert fake.in_flight == 0


async def test_a_whole_answer_leaves_its_connection_for_the_next(fake: FakeVllm, connect: Connect) -> None:
    upstream = connect()
    for _ in range(5):
        await read(upstream)
    assert fake.accepted == 1
    assert not any(request.gone.is_set() for request in fake.requests)


async def test_an_idle_connection_that_the_endpoint_dropped_is_no_error(fake: FakeVllm, connect: Connect) -> None:
    upstream = connect(model="fake-model")
    await read(upstream)
    answers = iter([[Eof()], whole("second")])
    fake.respond(lambda _body: next(answers))
    assert text_of(await read(upstream)) == "second"
    fake.script([Eof()])
    async with FakeVllm() as fresh:
        fresh.script([Eof()])
        with pytest.raises(errors.UpstreamDisconnected):
            await read(connect(base_url=fresh.base_url, model="fake-model"))
        assert len(fresh.requests) == 1, "a prompt on a new connection may have been worked on: it is not sent twice"


async def test_br_51_the_endpoint_comes_late_and_goes_again(fake: FakeVllm, connect: Connect) -> None:
    async with FakeVllm() as early:
        port = early.port
    upstream = connect(base_url=f"http://127.0.0.1:{port}/v1")
    for ask in (read(upstream), upstream.served_model(), upstream.models()):
        with pytest.raises(errors.UpstreamUnavailable, match="refused") as caught:
            await ask
        assert caught.value.retryable
        assert caught.value.retry_after_s
    async with FakeVllm(port=port):
        assert text_of(await read(upstream)) == "Hello from the fake model."
    with pytest.raises(errors.UpstreamUnavailable):
        await read(upstream)


async def test_br_74_the_model_error_names_both(connect: Connect) -> None:
    async with FakeVllm(models=["Qwen/Qwen2.5-7B-Instruct", "other"]) as server:
        upstream = connect(base_url=server.base_url, model="qwen2.5")
        for ask in (read(upstream), upstream.served_model()):
            with pytest.raises(
                errors.UpstreamModelNotFound, match=r"'qwen2\.5'.*'Qwen/Qwen2\.5-7B-Instruct'"
            ) as caught:
                await ask
            assert caught.value.details["served"] == ["Qwen/Qwen2.5-7B-Instruct", "other"]
        server.models_status = Status(200, {"data": []})
        with pytest.raises(errors.UpstreamModelNotFound, match="serves no model yet"):
            await connect(base_url=server.base_url).served_model()


async def test_br_74_the_first_listed_model_is_taken_and_asked_for_once(fake: FakeVllm, connect: Connect) -> None:
    upstream = connect()
    await read(upstream)
    assert await upstream.served_model() == ServedModel("fake-model", 4096)
    assert (fake.requests[0].body["model"], fake.model_lists) == ("fake-model", 1)
    fake.models = ["new-model"]  # the endpoint was started anew with another model
    with pytest.raises(errors.UpstreamModelNotFound, match=r"'fake-model'.*'new-model'"):
        await read(upstream)
    assert text_of(await read(upstream)) == "Hello from the fake model."


async def test_models_of_llama_cpp_and_of_things_that_are_no_llm(fake: FakeVllm, connect: Connect) -> None:
    fake.models_status = Status(
        200, {"data": [{"id": "m.gguf", "meta": {"n_ctx": 2048, "n_ctx_train": 8192}}, {"id": "n"}]}
    )
    assert await connect().models() == (ServedModel("m.gguf", 2048), ServedModel("n"))
    assert await connect(model="n", max_model_len=512).served_model() == ServedModel("n", 512)
    for body in ("<html>hello</html>", {"models": []}, b"[]"):
        fake.models_status = Status(200, body)
        with pytest.raises(errors.UpstreamRejected, match="lists no models"):
            await connect().models()


async def test_the_request_is_what_vllm_expects(fake: FakeVllm, connect: Connect) -> None:
    upstream = connect(api_key="sk-CANARY", temperature=0.3, max_tokens=50)
    async with upstream.open([{"role": "user", "content": "lone \ud800"}], Sampling(), request_id="r1") as stream:
        assert text_of([delta async for delta in stream])
    async with upstream.open(QUESTION, Sampling(0.0, 0.9, 5, 7, ("\n",))):
        pass
    first, second = fake.requests
    assert (first.headers["authorization"], first.headers["x-request-id"]) == ("Bearer sk-CANARY", "r1")
    assert first.body == {
        "model": "fake-model",
        "messages": [{"role": "user", "content": "lone ?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.3,
        "max_tokens": 50,
    }
    sampled = {name: second.body[name] for name in ("temperature", "top_p", "max_tokens", "seed", "stop")}
    assert sampled == {"temperature": 0.0, "top_p": 0.9, "max_tokens": 5, "seed": 7, "stop": ["\n"]}
