"""The bytes around the text of a completion chunk: learnt from one chunk, tried on those that follow.

An endpoint sends thousands of chunks that differ in their text alone. Where a chunk begins and ends with the bytes of one that
was parsed, and what stands between is one whole JSON string, it is the same document with another text, and reading that string
is all there is to do. Any other chunk is parsed as a whole.

In: the body's bytes, and the payload of `data:` lines. Out: the texts, or None where it takes a parser to tell. Must not:
guess.
"""

import re
from typing import Any

import orjson

TRIES = 4  # chunks that are looked at to learn from; an endpoint whose chunks all differ costs no more than that

_CONTENT = re.compile(rb'"content"\s*:\s*("(?:[^"\\]|\\.)*")', re.DOTALL)
_PROBE = "\0probe"
_QUOTE = b'"'


class ChunkShape:
    """For the chunks of one answer."""

    def __init__(self) -> None:
        self._before = self._after = b""
        self._between = b"\n"  # the texts of two events that follow each other
        self._least = 1 << 62  # bytes of an event of this shape
        self._tries = TRIES

    def texts(self, data: bytes) -> list[str] | None:
        """The texts of `data`, if it is whole events and each differs from the learnt one in nothing but its text."""
        if len(data) < self._least or not data.startswith(self._before) or not data.endswith(self._after):
            return None
        found = []
        for written in data[len(self._before) : len(data) - len(self._after)].split(self._between):
            if not (written[:1] == written[-1:] == _QUOTE):
                return None
            try:
                found.append(orjson.loads(written))
            except orjson.JSONDecodeError:
                return None
        return found

    def learn(self, payload: bytes, chunk: dict[str, Any]) -> None:
        """Take the shape of `payload`, which was parsed to `chunk` and has text at choices[0].delta.content."""
        if not self._tries:
            return
        self._tries -= 1
        for match in _CONTENT.finditer(payload):
            before, after = payload[: match.start(1)], payload[match.end(1) :]
            if _is_text(before, after, chunk):
                self._before, self._after = b"data:" + before, after + b"\n\n"
                self._between = self._after + self._before
                self._least = len(self._between) + 2
                return


def _is_text(before: bytes, after: bytes, chunk: dict[str, Any]) -> bool:
    """Whether a string between the two is the chunk's text and nothing else: tried with another one."""
    other = orjson.loads(before + orjson.dumps(_PROBE) + after)
    delta = other["choices"][0]["delta"]
    if delta.get("content") != _PROBE:
        return False
    delta["content"] = chunk["choices"][0]["delta"]["content"]
    return bool(other == chunk)
