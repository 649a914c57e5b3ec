"""The bytes around the text of a completion chunk: learnt from one chunk, tried on those that follow.

An endpoint sends thousands of chunks that differ in their text alone. Where a chunk begins and ends with the bytes of one that
was parsed, and what stands between is one whole JSON string, it is the same document with another text, and reading that string
is all there is to do. Any other chunk is parsed as a whole.

In: the payload of `data:` lines. Out: the text, or None where it takes a parser to tell. Must not: guess.
"""

import re
from typing import Any

import orjson

TRIES = 4  # chunks that are looked at to learn from; an endpoint whose chunks all differ costs no more than that

_CONTENT = re.compile(rb'"content"\s*:\s*("(?:[^"\\]|\\.)*")', re.DOTALL)
_PROBE = "\0probe"


class ChunkShape:
    """For the chunks of one answer."""

    def __init__(self) -> None:
        self._before = b""
        self._after = b""
        self._least = 1 << 62  # bytes of a chunk of this shape
        self._tries = TRIES

    def text(self, payload: bytes) -> str | None:
        """The text of a chunk that differs from the learnt one in nothing else."""
        if len(payload) < self._least or not payload.startswith(self._before) or not payload.endswith(self._after):
            return None
        try:
            found = orjson.loads(payload[len(self._before) : len(payload) - len(self._after)])
        except orjson.JSONDecodeError:
            return None
        return found if isinstance(found, str) else None

    def learn(self, payload: bytes, chunk: dict[str, Any]) -> None:
        """Take the shape of `payload`, which was parsed to `chunk` and has text at choices[0].delta.content."""
        if not self._tries:
            return
        self._tries -= 1
        for match in _CONTENT.finditer(payload):
            before, after = payload[: match.start(1)], payload[match.end(1) :]
            if _is_text(before, after, chunk):
                self._before, self._after, self._least = before, after, len(before) + len(after) + 2
                return


def _is_text(before: bytes, after: bytes, chunk: dict[str, Any]) -> bool:
    """Whether a string between the two is the chunk's text and nothing else: tried with another one."""
    other = orjson.loads(before + orjson.dumps(_PROBE) + after)
    delta = other["choices"][0]["delta"]
    if delta.get("content") != _PROBE:
        return False
    delta["content"] = chunk["choices"][0]["delta"]["content"]
    return bool(other == chunk)
