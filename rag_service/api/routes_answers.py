"""Questions and answers: /rag-query, /retrieve, /generate, /api/llm-request.

In: HTTP requests. Out: events in the dialect the caller accepts. Must not: hold logic beyond choosing the dialect.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Form, Header
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import ValidationError
from starlette.responses import Response

from rag_service.api.dependencies import KEY, Parts, PartsDep
from rag_service.api.encoders import Encoder, Fold, NdjsonEncoder, PartialResultEncoder, SseEncoder
from rag_service.api.errors import field_name
from rag_service.api.schemas import Generate, LlmRequest, RagQuery, Retrieve
from rag_service.api.streaming import AnswerResponse, Events, FoldedAnswer, StreamedAnswer
from rag_service.errors import InvalidRequest
from rag_service.upstream import Sampling

router = APIRouter(tags=["answers"], dependencies=[KEY])

Accept = Annotated[str, Header()]

STREAM_DOC: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events, in the form that `Accept` asks for; JSON when `stream` is false.",
        "content": {
            "text/event-stream": {
                "example": 'event: delta\nid: 3\ndata: {"type":"delta","text":"Leave is 25 days [1]."}\n\n'
            },
            "application/x-ndjson": {"example": '{"type":"delta","text":"Leave is 25 days [1]."}\n'},
            "application/json": {
                "example": {"answer": "Leave is 25 days [1].", "citations": [], "finish_reason": "stop"}
            },
        },
    },
    429: {"description": "All places are taken; `Retry-After` says when to try again."},
    503: {"description": "Something it needs is not there; the message names it."},
}


@router.post("/rag-query", response_class=Response, responses=STREAM_DOC)
async def rag_query(query: RagQuery, parts: PartsDep, accept: Accept = "") -> Response:
    """Answer a question from the documents, streamed with citations that were checked against the source text."""
    question = query.as_question(parts.settings.collection, query.sampling())
    events = parts.admitted(lambda permit: parts.answerer.stream_answer(question, permit))
    return respond(events, parts, accept, stream=query.stream)


@router.post("/retrieve")
async def retrieve(query: Retrieve, parts: PartsDep) -> Response:
    """The sources that the model would be given for a question, in the same order; no model is asked."""
    question = query.as_question(parts.settings.collection, max_chars=query.max_chars)
    events = parts.admitted(lambda permit: parts.answerer.retrieve(question, permit))
    return FoldedAnswer(events, Fold.retrieved)


@router.post("/generate", response_class=Response, responses=STREAM_DOC)
async def generate(query: Generate, parts: PartsDep, accept: Accept = "") -> Response:
    """The model's plain answer to a prompt: no retrieval, no citations."""
    sampling = Sampling(temperature=query.temperature, max_tokens=query.max_tokens)
    events = plain(parts, [HumanMessage(query.prompt)], sampling)
    if not query.stream:
        return FoldedAnswer(events, Fold.generated)
    return respond(events, parts, accept, stream=True)


@router.post("/api/llm-request", response_class=Response)
async def llm_request(data: Annotated[str, Form(max_length=1_000_000)], parts: PartsDep) -> Response:
    """The model's plain answer to a conversation, as lines of PARTIAL_RESULT, then DONE or ERROR."""
    try:
        asked = LlmRequest.model_validate_json(data)
    except ValidationError as error:
        problems = [f"data.{field_name(item['loc'])}: {item['msg']}" for item in error.errors(include_input=False)]
        raise InvalidRequest("; ".join(problems[:5])) from None
    kinds: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
    messages = [kinds[message.role](message.content) for message in asked.messages]
    events = plain(parts, messages, Sampling(temperature=asked.temperature, top_p=asked.top_p))
    return StreamedAnswer(events, PartialResultEncoder(), parts.settings.stream, parts.turn)


def plain(parts: Parts, messages: list[BaseMessage], sampling: Sampling) -> Events:
    return parts.admitted(lambda permit: parts.answerer.stream_plain(messages, sampling, permit))


def respond(events: Events, parts: Parts, accept: str, *, stream: bool) -> AnswerResponse:
    """The response in the dialect that `Accept` names; server-sent events where it names none of ours."""
    if not stream or prefers(accept, "application/json"):
        return FoldedAnswer(events, Fold.answer)
    encoder: Encoder = NdjsonEncoder() if prefers(accept, "application/x-ndjson") else SseEncoder()
    return StreamedAnswer(events, encoder, parts.settings.stream, parts.turn)


def prefers(accept: str, media_type: str) -> bool:
    """Whether `media_type` is the first of our three types that the header names."""
    ours = ("text/event-stream", "application/x-ndjson", "application/json")
    named = [item.split(";")[0].strip().lower() for item in accept.split(",")]
    return next((item for item in named if item in ours), "") == media_type
