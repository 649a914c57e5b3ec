"""The serve path on one page: one LCEL expression, and `stream_answer`, which turns it into events.

    question -> retriever (dense + BM25) -> prompt (numbered sources) -> ChatVLLM -> citations -> events

In: a `Question` and a `Permit`. Out: events (events.py), ending with exactly one `Done` or `Failed`.
Must not: know HTTP or a dialect, hold text back, or leave anything running when its caller stops iterating.

The chain runs up to the prompt as LCEL; from there the model's own stream is read directly, because a RunnableSequence makes
a task and a message object for every token. `chain` itself stays a complete LangChain runnable.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough, RunnableSequence

from rag_service.admission import Permit
from rag_service.citations import CitationChecker
from rag_service.errors import RagError, UpstreamDisconnected
from rag_service.events import (
    CitationCounts,
    Delta,
    Done,
    Event,
    Failed,
    FinishReason,
    Sources,
    Status,
    Usage,
)
from rag_service.llm import ChatVLLM
from rag_service.prompt import NO_SOURCES, GroundedPrompt, build_prompt, number
from rag_service.question import Question
from rag_service.retrieval import HybridRetriever
from rag_service.settings import LlmSettings
from rag_service.telemetry import Clock, log, request_id
from rag_service.upstream import ModelStream, Sampling, ServedModel

Asked = dict[
    str, Any
]  # what runs through the chain: {"question": Question, "clock": Clock, "documents": list[Document]}

DEFAULT_WINDOW = 4096  # tokens, where neither the endpoint nor a setting says
NO_LIMIT = 10**9
INTERNAL_ERROR = "Something went wrong in the service; the log has the details."
BROKEN_OFF = ("abort", "error")  # finish reasons with which vLLM ends an answer that it did not finish


class Answerer:
    """Built once in app.py; safe for any number of answers at once."""

    def __init__(self, retriever: HybridRetriever, model: ChatVLLM, settings: LlmSettings) -> None:
        self._retriever = retriever
        self._model = model
        self._settings = settings
        self.chain: Runnable[Asked, AIMessage] = (
            RunnablePassthrough.assign(documents=RunnableLambda(self._retrieve)) | RunnableLambda(self._prompt) | model
        )
        assert isinstance(self.chain, RunnableSequence)  # noqa: S101  which is what `|` makes
        self._to_prompt: Runnable[Asked, GroundedPrompt] = RunnableSequence(*self.chain.steps[:-1])

    async def served_model(self) -> ServedModel:
        """The model that answers. Raises UpstreamError."""
        return await self._model.upstream.served_model()

    async def retrieve(self, question: Question, permit: Permit) -> AsyncGenerator[Event, None]:
        """The sources that the model would be given, numbered as they would be, and `Done`; no model is asked."""
        clock = Clock(permit.queued_s)
        documents = await self._retrieve({"question": question, "clock": clock})
        yield Sources(tuple(number(documents, NO_LIMIT)))
        clock.mark("total")
        yield Done("stop" if documents else "no_sources", timings_ms=clock.timings_ms)

    async def stream_answer(self, question: Question, permit: Permit) -> AsyncGenerator[Event, None]:
        """Events of a grounded answer. Raises RagError before the first event; after it, a failure is the event `Failed`."""
        clock = Clock(permit.queued_s)
        grounded = await self._to_prompt.ainvoke({"question": question, "clock": clock})
        if not grounded.sources:
            yield Sources(())
            yield Delta(NO_SOURCES)
            clock.mark("total")
            yield Done("no_sources", timings_ms=clock.timings_ms)
            return
        sampling = with_limit(question.sampling, grounded.max_tokens)
        async with self._asked(grounded.messages, sampling, clock) as stream:
            yield Sources(grounded.sources)
            async with aclosing(relayed(stream, clock, CitationChecker(grounded.sources))) as events:
                async for event in events:
                    yield event

    async def stream_plain(
        self, messages: Sequence[BaseMessage], sampling: Sampling, permit: Permit
    ) -> AsyncGenerator[Event, None]:
        """Events of an answer without retrieval: no sources, no citations."""
        clock = Clock(permit.queued_s)
        limited = with_limit(sampling, sampling.max_tokens or self._settings.max_tokens)
        async with (
            self._asked(messages, limited, clock) as stream,
            aclosing(relayed(stream, clock)) as events,
        ):
            async for event in events:
                yield event

    @asynccontextmanager
    async def _asked(
        self, messages: Sequence[BaseMessage], sampling: Sampling, clock: Clock
    ) -> AsyncIterator[ModelStream]:
        """The model's open stream, measured from the prompt's way out."""
        told = {"max_tokens": sampling.max_tokens, "temperature": sampling.temperature, "top_p": sampling.top_p}
        with clock.model({**told, "model": self._settings.model}) as call:
            async with AsyncExitStack() as stack:
                with call.sending():
                    opening = self._model.open(list(messages), sampling, request_id=request_id.get())
                    stream = await stack.enter_async_context(opening)
                call.opened(stream.model)
                yield stream

    async def _retrieve(self, asked: Asked) -> list[Document]:
        question: Question = asked["question"]
        clock: Clock = asked["clock"]
        with clock.stage("retrieval", told=False):
            return await self._retriever.ainvoke(question.search_text, question=question, clock=clock)

    async def _prompt(self, asked: Asked) -> GroundedPrompt:
        question: Question = asked["question"]
        if not asked["documents"]:
            return GroundedPrompt(messages=[], sources=(), max_tokens=0)
        clock: Clock = asked["clock"]
        with clock.stage("prompt", told=False):
            served = await self.served_model()
            window = self._settings.max_model_len or served.max_model_len or DEFAULT_WINDOW
            wanted = question.sampling.max_tokens or self._settings.max_tokens
            return build_prompt(question, asked["documents"], window=window, max_tokens=wanted)


async def relayed(
    stream: ModelStream, clock: Clock, checker: CitationChecker | None = None
) -> AsyncGenerator[Event, None]:
    """The model's stream as events: one `Delta` for all that one read brought, then `Done`. With a `checker`, the citations of
    each sentence follow it as soon as it ends.
    """
    usage: Usage | None = None
    finish_reason: FinishReason = "stop"
    thinking = False
    checking_s = 0.0
    async for text, reasoning, finished, used, tokens in stream:
        if text:
            clock.text(tokens)
            if checker is None or checker.passes(text):
                yield Delta(text)
            else:
                begun = time.perf_counter()
                checked = checker.feed(text)
                checking_s += time.perf_counter() - begun
                for item in checked:
                    yield item
        elif reasoning and not thinking:
            thinking = True
            yield Status("thinking")
        if finished == "length":
            finish_reason = "length"
        elif finished in BROKEN_OFF:
            raise UpstreamDisconnected("The model's server broke the answer off.")
        usage = used or usage
    clock.mark("total")
    clock.model_ended(finish_reason, usage)
    counts = CitationCounts()
    if checker is not None:
        begun = time.perf_counter()
        checked = checker.finish(cut_short=finish_reason == "length")
        counts = checker.counts
        clock.checked(counts, checking_s + time.perf_counter() - begun)
        for item in checked:
            yield item
    yield Done(finish_reason, usage, counts, clock.timings_ms)


async def failures_told(events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """The same events; an error after the first one becomes `Failed`, so that half an answer never looks whole.

    An error before it is raised, because the caller can still answer with a real status. It is a RagError in every case: what
    is not expected goes to the log and nowhere else.
    """
    begun = False
    async with aclosing(events):
        try:
            async for event in events:
                begun = True
                yield event
        except RagError as error:
            if not begun:
                raise
            log.warning("answer_failed", code=error.code)
            yield Failed(error.code, error.message, error.retryable)
        except Exception as error:
            log.exception("answer_failed", code=RagError.code)
            if not begun:
                raise RagError(INTERNAL_ERROR) from error
            yield Failed(RagError.code, INTERNAL_ERROR, RagError.retryable)


def with_limit(sampling: Sampling, max_tokens: int) -> Sampling:
    """The caller's sampling, its answer no longer than `max_tokens`."""
    wanted = max_tokens if sampling.max_tokens is None else min(sampling.max_tokens, max_tokens)
    return Sampling(sampling.temperature, sampling.top_p, wanted, sampling.seed, sampling.stop)
