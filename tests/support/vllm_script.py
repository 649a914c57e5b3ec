"""What the fake vLLM can be told to do, and the bytes that vLLM would send for it.

In: steps. Out: events of a chat completion stream, and whole documents. Must not: know sockets or the package under
test.
"""

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Role:
    """vLLM's first chunk: a role and empty content."""


@dataclass(frozen=True, slots=True)
class Token:
    """A chunk of content. Counted, and paced by `fake.pace`."""

    text: str | None


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A chunk of reasoning: content null, the text in `field` (before vLLM 0.17 `reasoning_content`)."""

    text: str
    field: str = "reasoning"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Any JSON object as one event."""

    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes of the body as they are, in one write."""

    data: bytes


@dataclass(frozen=True, slots=True)
class OneByteWrites:
    """Bytes of the body, each in a write of its own."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wire:
    """Bytes on the connection, outside of HTTP's framing: for breaking it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Go on when the event is set (a threading.Event is looked at every few milliseconds), or after so many seconds."""

    until: asyncio.Event | threading.Event | float


@dataclass(frozen=True, slots=True)
class Finish:
    """A chunk with a finish reason and empty content."""

    reason: str = "stop"


@dataclass(frozen=True, slots=True)
class UsageChunk:
    """The chunk without choices. `completion_tokens` defaults to the tokens sent so far."""

    prompt_tokens: int = 7
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """`data: [DONE]`."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Break the connection with RST."""


@dataclass(frozen=True, slots=True)
class Eof:
    """Close the connection with FIN, without HTTP's end of body."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Send nothing more, and keep the connection open until the caller leaves."""


@dataclass(frozen=True, slots=True)
class Status:
    """Answer with this status and body instead of a stream. Only as the first step, or after a Wait."""

    code: int
    body: bytes | str | dict[str, Any] = b""
    headers: dict[str, str] = field(default_factory=dict)


Step = (
    Role
    | Token
    | Reasoning
    | Chunk
    | Raw
    | OneByteWrites
    | Wire
    | Wait
    | Finish
    | UsageChunk
    | Done
    | Reset
    | Eof
    | Stall
    | Status
)
END: tuple[Step, ...] = (Finish(), UsageChunk(), Done())


def tokens(text: str, size: int = 4) -> list[Step]:
    """`text` as tokens of at most `size` characters."""
    return [Token(text[i : i + size]) for i in range(0, len(text), size)]


def whole(text: str, size: int = 4) -> list[Step]:
    """A well-formed answer, as vLLM sends one."""
    return [Role(), *tokens(text, size), *END]


def event(document: dict[str, Any]) -> bytes:
    """One SSE event as vLLM writes it."""
    return b"data: " + json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def content_event(text: str) -> bytes:
    """The event of one chunk of content, for scripts in raw bytes."""
    return event(_chunk({"content": text}))


def prompt_of(body: dict[str, Any]) -> str:
    """All message contents of a request, joined by newlines."""
    return "\n".join(str(message["content"]) for message in body["messages"])


def step_bytes(step: Step, tokens_sent: int) -> bytes:
    """The body bytes of a step that has some. `tokens_sent` is what UsageChunk counts."""
    match step:
        case Role():
            return event(_chunk({"role": "assistant", "content": ""}))
        case Token(text):
            return event(_chunk({"content": text}))
        case Reasoning(text, name):
            return event(_chunk({"content": None, name: text}))
        case Chunk(document):
            return event(document)
        case Raw(data):
            return data
        case Finish(reason):
            return event(_chunk({"content": ""}, reason))
        case UsageChunk(prompt, completion):
            return event(_chunk(None, usage=_usage(prompt, tokens_sent if completion is None else completion)))
        case Done():
            return b"data: [DONE]\n\n"
    raise TypeError(f"{step!r} has no bytes")


@dataclass(eq=False)
class Request:
    """One completion request. `body` is its JSON, header names are in lower case, times are time.monotonic()."""

    body: dict[str, Any]
    headers: dict[str, str]
    arrived_at: float = field(default_factory=time.monotonic)
    tokens_sent: int = 0
    gone_at: float | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)  # the caller left before the answer's end
    gone_sync: threading.Event = field(default_factory=threading.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # answered in full, broken off, or gone
    ended_sync: threading.Event = field(default_factory=threading.Event)

    @property
    def prompt(self) -> str:
        return prompt_of(self.body)

    def leave(self) -> None:
        """Note that the caller has gone."""
        self.gone_at = time.monotonic()
        self.gone.set()
        self.gone_sync.set()

    def end(self) -> None:
        """Note that nothing more will be sent."""
        self.ended.set()
        self.ended_sync.set()


def _chunk(
    delta: dict[str, Any] | None, finish_reason: str | None = None, usage: dict[str, int] | None = None
) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]
    chunk = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1, "model": "fake-model"}
    return {**chunk, "choices": choices, **({"usage": usage} if usage else {})}


def completion_document(steps: Sequence[Step], body: dict[str, Any]) -> dict[str, Any]:
    text = [step.text or "" for step in steps if isinstance(step, Token)]
    reason = next((step.reason for step in steps if isinstance(step, Finish)), "stop")
    choice = {"index": 0, "message": {"role": "assistant", "content": "".join(text)}, "finish_reason": reason}
    document = {"id": "chatcmpl-fake", "object": "chat.completion", "created": 1, "model": body.get("model")}
    return {**document, "choices": [choice], "usage": _usage(7, len(text))}


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def error_document(message: str, kind: str, code: int, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
