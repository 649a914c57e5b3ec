"""ChatVLLM: the endpoint as a LangChain chat model, and `open`, the lean way into the same stream for the serve path.

In: LangChain messages, sampling values (fields, or keyword arguments of a call or `bind`). Out: AIMessageChunks as the
endpoint sends text, with usage and finish reason on the last; or, from `open`, the `ModelStream` itself. Errors are
UpstreamError, or InvalidRequest for a message that is no text. Must not: buffer a stream, answer tool calls, or pass on
reasoning.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LangSmithParams
from langchain_core.language_models.chat_models import (
    BaseChatModel,
    agenerate_from_stream,
)
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ChatMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field

from rag_service.errors import InvalidRequest
from rag_service.events import Usage
from rag_service.upstream import ModelStream, Sampling, Upstream, client_session

_ROLES: tuple[tuple[type[BaseMessage], str], ...] = (
    (HumanMessage, "user"),
    (AIMessage, "assistant"),
    (SystemMessage, "system"),
)
_OPTIONS = frozenset({"temperature", "top_p", "max_tokens", "seed"})


class ChatVLLM(BaseChatModel):
    """A streaming chat model on `upstream`. `sampling` holds where a call says nothing.

    `ainvoke`, `astream` and `abatch` are the ways to use it in the service. `invoke` and `batch` are for scripts: they
    run an event loop of their own, and refuse to do so inside a running one.
    """

    upstream: Upstream = Field(exclude=True, repr=False)
    sampling: Sampling = Sampling()

    @property
    def _llm_type(self) -> str:
        return "vllm-chat"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.upstream.settings.model, "sampling": self.sampling}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"] = "vllm"
        if (model := self.upstream.settings.model) is not None:
            params["ls_model_name"] = model
        return params

    def open(
        self, messages: Sequence[BaseMessage], sampling: Sampling | None = None, *, request_id: str | None = None
    ) -> AbstractAsyncContextManager[ModelStream]:
        """Ask without LangChain's callbacks and message objects for each token. Every error up to the response's
        headers is raised on entering; leaving early makes the endpoint stop."""
        return self.upstream.open(
            to_openai(messages), self.sampling if sampling is None else sampling, request_id=request_id
        )

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        async with self.open(messages, self._sampled(stop, kwargs)) as stream:
            async for delta in stream:
                if delta.finish_reason is None:
                    if delta.text:
                        yield ChatGenerationChunk(message=AIMessageChunk(content=delta.text))
                    continue
                yield ChatGenerationChunk(
                    message=AIMessageChunk(
                        content=delta.text,
                        response_metadata={"finish_reason": delta.finish_reason},
                        usage_metadata=_usage_metadata(delta.usage),
                        chunk_position="last",
                    )
                )

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop=stop, **kwargs))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._generate_alone(messages, stop, kwargs))
        raise RuntimeError("ChatVLLM.invoke would block the running event loop; use `await model.ainvoke(...)`")

    async def _generate_alone(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> ChatResult:
        """In an event loop made for this call, where no other loop's connections can be used."""
        async with client_session(self.upstream.settings) as session:
            alone = ChatVLLM(upstream=self.upstream.with_session(session), sampling=self.sampling)
            return await agenerate_from_stream(alone._astream(messages, stop=stop, **kwargs))

    def _sampled(self, stop: list[str] | None, kwargs: dict[str, Any]) -> Sampling:
        """This call's values over the model's own. `stream` is LangChain's own word and says nothing here."""
        if unknown := kwargs.keys() - _OPTIONS - {"stream"}:
            raise TypeError(
                f"ChatVLLM knows no option {', '.join(sorted(unknown))}; it has {', '.join(sorted(_OPTIONS))}"
            )
        options: dict[str, Any] = {name: kwargs[name] for name in _OPTIONS if kwargs.get(name) is not None}
        if stop:
            options["stop"] = tuple(stop)
        return replace(self.sampling, **options)


def to_openai(messages: Sequence[BaseMessage]) -> list[dict[str, str]]:
    """LangChain messages as OpenAI's. Raises InvalidRequest for parts that are no text and for roles not known."""
    return [{"role": _role(message), "content": _text(message)} for message in messages]


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return message.role
    for kind, role in _ROLES:
        if isinstance(message, kind):
            return role
    raise InvalidRequest(
        f"Messages of the type {message.type!r} cannot be sent to the model.", details={"field": "messages"}
    )


def _text(message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    parts = [part if isinstance(part, str) else part.get("text") for part in message.content]
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        raise InvalidRequest("Only text can be sent to the model, no images or files.", details={"field": "messages"})
    return "".join(texts)


def _usage_metadata(usage: Usage | None) -> UsageMetadata | None:
    if usage is None:
        return None
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )
