"""The one answer that every service of the relay benchmark passes on, as text and as vLLM's bytes for it.

In: a number of tokens. Out: its tokens, its text, and each token as one chunk of a chunked response. Must not: read, send or
know the time: all of it is made before a measurement begins.

The tokens are cut as a model's vocabulary cuts English: words with the blank before them, long ones in pieces, a marker in
three. The sentences stand in the sources that the question finds in data/corpus/hr; [1] is the passage about leaving.
"""

import json
import re
from itertools import cycle, islice
from typing import Any

QUESTION = "What is the notice period during the probation period?"
SENTENCES = (
    "The notice period is two weeks during the probation period of four months, then six weeks to the end of a month [1].",
    "After ten years it is three months [1].",
    "The last working day is for handing back keys, key card and laptop to the service desk [1].",
    "At most four people can be away on sabbatical at the same time [1].",
)
_PIECE = re.compile(r" ?[A-Za-z0-9]{1,7}|[ ]?[^A-Za-z0-9 ]")
_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n"
)
PROMPT_TOKENS = 900


def tokens(count: int) -> list[str]:
    """The first `count` tokens of the sentences, over and over."""
    pieces = [piece for sentence in SENTENCES for piece in _PIECE.findall(" " + sentence)]
    return list(islice(cycle(pieces), count))


def head(*, close: bool) -> bytes:
    """The response's head and the chunk that names the role."""
    return (
        _HEAD
        + (b"connection: close\r\n" if close else b"")
        + b"\r\n"
        + _framed(_chunk({"role": "assistant", "content": ""}))
    )


def token_chunks(count: int) -> list[bytes]:
    """Each token as it goes on the wire. Equal tokens are one object, so that long answers cost little memory."""
    made = {token: _framed(_chunk({"content": token})) for token in set(tokens(count))}
    return [made[token] for token in tokens(count)]


def end(count: int, *, with_usage: bool) -> bytes:
    """What follows the last token: the finish reason, the usage where it was asked for, `[DONE]`, the end of the body."""
    total = {"prompt_tokens": PROMPT_TOKENS, "total_tokens": PROMPT_TOKENS + count, "completion_tokens": count}
    usage = _framed(_chunk(None, usage=total)) if with_usage else b""
    return _framed(_chunk({"content": ""}, "stop")) + usage + _framed(b"[DONE]") + b"0\r\n\r\n"


def _chunk(delta: dict[str, str] | None, reason: str | None = None, usage: dict[str, int] | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, "token_ids": None}
    document: dict[str, Any] = {
        "id": "chatcmpl-8f14e45fceea167a5a36dedd4bea2543",
        "object": "chat.completion.chunk",
        "created": 1764547200,
        "model": "scripted-model",
        "choices": [] if delta is None else [choice],
    }
    if usage is not None:
        document["usage"] = usage
    return json.dumps(document, separators=(",", ":")).encode()


def _framed(data: bytes) -> bytes:
    """One event in one chunk of the body, as vLLM under uvicorn sends it."""
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)
