"""ChatVLLM as LangChain uses it, against a scripted server on a real socket.

In: scripts, messages. Out: messages and chunks, what callbacks saw. Must not: measure time.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import LLMResult
from langchain_core.prompts import ChatPromptTemplate

from rag_service.errors import InvalidRequest, UpstreamDisconnected
from rag_service.llm import ChatVLLM, to_openai
from rag_service.settings import LlmSettings
from rag_service.upstream import Sampling, Upstream, client_session
from tests.support.fake_vllm import END, FakeVllm, Reasoning, Reset, Role, Step, Token, Wait, prompt_of, tokens


@pytest.fixture
async def fake() -> AsyncIterator[FakeVllm]:
    async with FakeVllm() as server:
        yield server


@pytest.fixture
async def model(fake: FakeVllm) -> AsyncIterator[ChatVLLM]:
    settings = LlmSettings()
    async with client_session(settings) as session:
        yield ChatVLLM(upstream=Upstream(session, fake.base_url, settings, 0.015))


class Recorder(AsyncCallbackHandler):
    """What LangChain tells a tracer."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.tokens: list[Any] = []

    async def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        self.seen.append("start")

    async def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        self.tokens.append(token)

    async def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        self.seen.append(f"end {response.generations[0][0].text}")

    async def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.seen.append(f"error {type(error).__name__}")


async def test_ainvoke_gives_text_usage_and_finish_reason(fake: FakeVllm, model: ChatVLLM) -> None:
    fake.script([Role(), Reasoning("hm"), *tokens("25 days."), *END])
    message = await model.ainvoke([SystemMessage("Be brief."), HumanMessage("How long?")])
    assert isinstance(message, AIMessage)
    assert message.content == "25 days."
    assert message.usage_metadata == {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    assert message.response_metadata["finish_reason"] == "stop"
    assert [sent["role"] for sent in fake.requests[0].body["messages"]] == ["system", "user"]


async def test_br_52_a_chain_streams_token_by_token(fake: FakeVllm, model: ChatVLLM) -> None:
    # Each token is sent when the one before it has come out of the chain: a chain that waits for more never ends.
    came = [asyncio.Event() for _ in range(30)]
    fake.script([Role(), *(step for i in range(30) for step in (Token(f"t{i} "), Wait(came[i]))), *END])
    chain = ChatPromptTemplate.from_messages([("human", "{question}")]) | model | StrOutputParser()
    chunks: list[str] = []
    async for chunk in chain.astream({"question": "How long?"}):
        if chunk:
            came[len(chunks)].set()
            chunks.append(chunk)
    assert chunks == [f"t{i} " for i in range(30)]


async def test_astream_ends_with_usage_and_finish_reason(model: ChatVLLM) -> None:
    chunks = [chunk async for chunk in model.astream("Hi")]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert isinstance(whole, AIMessageChunk)
    assert whole.content == "Hello from the fake model."
    assert whole.usage_metadata is not None
    assert whole.response_metadata["finish_reason"] == "stop"
    assert [chunk.chunk_position for chunk in chunks].count("last") == 1


async def test_abatch_answers_each(fake: FakeVllm, model: ChatVLLM) -> None:
    fake.respond(lambda body: prompt_of(body).upper())
    answers = await model.abatch(["one", "two", "three"])
    assert [answer.content for answer in answers] == ["ONE", "TWO", "THREE"]


def test_invoke_and_batch_work_without_a_running_loop() -> None:
    with FakeVllm.in_thread() as fake:
        fake.respond(lambda body: prompt_of(body).upper())
        model = ChatVLLM(upstream=Upstream(None, fake.base_url, LlmSettings(), 0.0))
        assert model.invoke("one", temperature=0).content == "ONE"
        assert [answer.content for answer in model.batch(["two", "three"])] == ["TWO", "THREE"]
        assert [chunk.content for chunk in model.stream("four") if chunk.content] == ["FOUR"]
        assert all(request.ended_sync.wait(5) for request in fake.requests)
        assert fake.requests[0].body["temperature"] == 0


async def test_invoke_in_a_running_loop_says_what_to_use(model: ChatVLLM) -> None:
    with pytest.raises(RuntimeError, match="ainvoke"):
        model.invoke("Hi")
    with pytest.raises(RuntimeError, match="client_session"):
        await ChatVLLM(upstream=Upstream(None, "http://127.0.0.1:1/v1", LlmSettings(), 0.0)).ainvoke("Hi")


async def test_callbacks_see_start_tokens_and_end(fake: FakeVllm, model: ChatVLLM) -> None:
    recorder = Recorder()
    await model.ainvoke("Hi", config={"callbacks": [recorder]})
    assert [chunk async for chunk in model.astream("Hi", config={"callbacks": [recorder]})]
    assert recorder.seen == ["start", "end Hello from the fake model."] * 2
    assert "".join(recorder.tokens) == "Hello from the fake model."


async def test_br_07_callbacks_see_the_error(fake: FakeVllm, model: ChatVLLM) -> None:
    fake.script([Role(), Token("Hal"), Reset()])
    recorder, texts = Recorder(), []
    stream = model.astream("Hi", config={"callbacks": [recorder]})
    texts.append((await anext(stream)).content)
    with pytest.raises(UpstreamDisconnected):
        await anext(stream)
    assert (texts, recorder.seen) == (["Hal"], ["start", "error UpstreamDisconnected"])


@pytest.mark.parametrize("script", [[Role(), Token("a"), Wait(60.0)], [Wait(60.0)]])
async def test_br_06_a_cancelled_chain_stops_the_endpoint(fake: FakeVllm, model: ChatVLLM, script: list[Step]) -> None:
    fake.script(script)
    chain = model | StrOutputParser()
    task = asyncio.create_task(chain.ainvoke("Hi"))
    request = await fake.request()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await request.gone.wait()


async def test_br_06_leaving_the_lean_stream_stops_the_endpoint(fake: FakeVllm, model: ChatVLLM) -> None:
    fake.script([Role(), Token("a"), Wait(60.0)])
    async with model.open([HumanMessage("Hi")], request_id="r9") as stream:
        assert (await anext(stream)).text == "a"
    await fake.requests[0].gone.wait()
    assert fake.requests[0].headers["x-request-id"] == "r9"


async def test_options_of_the_model_of_bind_and_of_a_call(fake: FakeVllm, model: ChatVLLM) -> None:
    warm = ChatVLLM(upstream=model.upstream, sampling=Sampling(temperature=0.9, seed=1))
    await warm.bind(max_tokens=5).ainvoke("Hi", seed=2, top_p=0.5, stop=["\n"])
    body = fake.requests[0].body
    assert [body[name] for name in ("temperature", "max_tokens", "seed", "top_p", "stop")] == [0.9, 5, 2, 0.5, ["\n"]]
    with pytest.raises(TypeError, match="max_token"):
        await model.ainvoke("Hi", max_token=5)


def test_messages_become_openai_messages() -> None:
    parts: list[str | dict[Any, Any]] = ["a", {"type": "text", "text": "b"}]
    messages = [SystemMessage("s"), HumanMessage(parts), AIMessage("x"), AIMessageChunk(content="y")]
    assert to_openai([*messages, ChatMessage("c", role="developer")]) == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "ab"},
        {"role": "assistant", "content": "x"},
        {"role": "assistant", "content": "y"},
        {"role": "developer", "content": "c"},
    ]
    image: list[str | dict[Any, Any]] = [{"type": "image_url", "image_url": {"url": "data:"}}]
    with pytest.raises(InvalidRequest, match="Only text"):
        to_openai([HumanMessage(image)])
    with pytest.raises(InvalidRequest, match="tool"):
        to_openai([ToolMessage("t", tool_call_id="1")])
