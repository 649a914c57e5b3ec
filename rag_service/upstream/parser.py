"""Bytes of a chat completion stream -> text, reasoning, finish reason and usage.

In: the body's bytes in any pieces. Out: `ModelDelta`s, each holding all the text since the last one. Must not: read,
wait or know the time (pure; the split of the bytes never changes the concatenated text).

Format: https://platform.openai.com/docs/api-reference/chat-streaming, as vLLM and llama.cpp send it: one JSON document
per `data:` line. Reasoning (`delta.reasoning`, `delta.reasoning_content`, or a `<think>` block that opens the content)
is told of and dropped. A template that puts `<think>` into the prompt sends only `</think>`: run vLLM with the model's
`--reasoning-parser` then, since nothing in the stream tells that text from an answer until it is over.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from rag_service.errors import UpstreamDisconnected, UpstreamError, UpstreamRejected
from rag_service.events import Usage
from rag_service.upstream.chunk_shape import ChunkShape
from rag_service.upstream.faults import stream_fault

MAX_LINE_BYTES = 1 << 20
_OPEN, _CLOSE = "<think>", "</think>"


class ModelDelta(NamedTuple):
    """What one flush brought. `reasoning` means that the model thinks and has no text yet; such a delta has no text.

    `finish_reason` (as the endpoint wrote it) and `usage` stand in the last delta only. `tokens` is in how many pieces the text
    came: tokens, where the endpoint sends each by itself.
    """

    text: str = ""
    reasoning: bool = False
    finish_reason: str | None = None
    usage: Usage | None = None
    tokens: int = 0


class ChunkParser:
    """Feed it bytes, then take deltas until there are none, then look at `fault` and `ended`.

    `private` are the strings that no error message may repeat (key, host, prompts).
    """

    def __init__(self, private: Sequence[str] = ()) -> None:
        self.started = False  # the model has said something: text, reasoning or a finish reason
        self.ended = False  # the answer is whole; nothing after this is read
        self.fault: UpstreamError | None = None
        self.finish_reason: str | None = None
        self._usage: Usage | None = None
        self._private = private
        self._tail: list[bytes] = []  # the unfinished line, in the pieces it came in
        self._tail_bytes = 0
        self._text: list[str] = []
        self._tokens = 0
        self._reasoned = False
        self._told_end = False
        self._thinking = _ThinkFilter()
        self._shape = ChunkShape()

    def feed(self, data: bytes) -> bool:
        """Parse every line that `data` completes. True when the model itself sent something (a comment is not that)."""
        if not self._tail and (texts := self._shape.texts(data)) is not None:
            if self.ended or self.fault is not None:
                return False
            for text in texts:
                self._content(text)
            return True
        end = data.rfind(b"\n")
        if end < 0:
            return self._keep_tail(data)
        self._tail.append(data[:end])
        lines = b"".join(self._tail).split(b"\n")
        self._tail, self._tail_bytes = [], 0
        progress = False
        for line in lines:
            if self.ended or self.fault is not None:
                return progress
            if line.startswith(b"data:"):
                progress = self._event(line[5:]) or progress
        self._keep_tail(data[end + 1 :])
        return progress

    def close(self) -> None:
        """The body is over. Without a finish reason or `[DONE]` the answer is not whole, and `fault` says so."""
        last, self._tail, self._tail_bytes = b"".join(self._tail), [], 0
        # A line cut short by the end of the body is no malformed event: what matters is that the answer is incomplete.
        if last.startswith(b"data:") and _loads(last[5:]) is not None:
            self._event(last[5:])
        if self.finish_reason is not None:
            self.ended = True
        if not self.ended and self.fault is None:
            self.fault = UpstreamDisconnected(
                "The language model's stream ended before the answer was complete. Try again."
            )

    def take(self) -> ModelDelta | None:
        """The next delta of what was fed, or None."""
        if self._reasoned:
            self._reasoned = False
            return ModelDelta(reasoning=True)
        if self.ended or self.fault is not None:
            self._text.append(self._thinking.flush())
        elif not self._text:
            return None
        text = "".join(self._text)
        self._text.clear()
        tokens, self._tokens = self._tokens, 0
        if self.ended and not self._told_end:
            self._told_end = True
            return ModelDelta(text, False, self.finish_reason or "stop", self._usage, tokens)
        return ModelDelta(text, False, None, None, tokens) if text else None

    def _keep_tail(self, data: bytes) -> bool:
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            if self._tail_bytes > MAX_LINE_BYTES:
                self._tail, self._tail_bytes = [], 0
                self.fault = UpstreamRejected(
                    "The language model's endpoint sent a line of more than 1 MiB; is it an LLM?"
                )
        return False

    def _event(self, data: bytes) -> bool:
        if data.strip() == b"[DONE]":
            self.ended = True
            return True
        chunk = _loads(data)
        if not isinstance(chunk, dict):
            self.fault = UpstreamRejected("The language model's endpoint sent an event that is no JSON object.")
            return False
        if chunk.get("error"):
            self.fault = stream_fault(chunk, self._private)
            return False
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = _usage(usage) or self._usage
        choices = chunk.get("choices")
        if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
            return True  # the usage chunk has no choices
        if self._choice(choices[0]) and usage is None:
            self._shape.learn(data, chunk)
        return True

    def _choice(self, choice: dict[str, Any]) -> bool:
        """True where it brought text and nothing else."""
        delta = choice.get("delta")
        only_text = False
        if isinstance(delta, dict):
            content = delta.get("content")
            reasoned = bool(delta.get("reasoning") or delta.get("reasoning_content"))
            if reasoned:
                self.started = self._reasoned = True
            if content and isinstance(content, str):
                self._content(content)
                only_text = not reasoned
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self.started = True
            self.finish_reason = reason
            only_text = False
        return only_text

    def _content(self, content: str) -> None:
        if not content:
            return
        self.started = True
        self._tokens += 1
        if self._thinking.over:
            self._text.append(content)
        else:
            self._text.append(self._thinking.feed(content))
            self._reasoned = self._reasoned or self._thinking.inside


class _ThinkFilter:
    """Takes a `<think>…</think>` block off the start of the content, wherever the tags are cut.

    Content is held only while it may still become the opening tag. White space between the block and the answer goes
    with the block, as in vLLM's own reasoning parsers.
    """

    def __init__(self) -> None:
        self.inside = False
        self.over = False  # what comes now is answer
        self._held = ""
        self._closed = False

    def feed(self, content: str) -> str:
        """The part of `content` that is answer."""
        held = self._held + content
        if not self.inside and not self._closed:
            start = held.lstrip()
            if not start.startswith(_OPEN):
                if _OPEN.startswith(start):
                    self._held = held
                    return ""
                return self._answer(held)
            self.inside = True
            held = start[len(_OPEN) :]
        if self.inside:
            end = held.find(_CLOSE)
            if end < 0:
                self._held = held[1 - len(_CLOSE) :]
                return ""
            self.inside, self._closed = False, True
            held = held[end + len(_CLOSE) :]
        answer = held.lstrip()
        self._held = ""
        return self._answer(answer) if answer else ""

    def flush(self) -> str:
        """The stream is over: what was held because it might have become a tag is answer after all."""
        if self.inside or self._closed or self.over:
            return ""
        return self._answer(self._held)

    def _answer(self, text: str) -> str:
        self.over, self._held = True, ""
        return text


def _loads(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _usage(value: dict[str, Any]) -> Usage | None:
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens")
    if isinstance(prompt, int) and isinstance(completion, int):
        return Usage(prompt_tokens=prompt, completion_tokens=completion)
    return None
