"""What a parser's process and its parent say to each other: messages of plain values in frames, a length before each.

In: messages. Out: bytes on a pipe, and messages back. Must not: make anything but plain values from what a parser sent: a
hostile file may have had its way with it.

A document of 20 million characters has some 25,000 chunks and up to a million table rows: their texts are slices of the
document's and spans are numbers, so that neither is pickled as an object: half the bytes, a third of the time.
"""

import io
import os
import pickle
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ingest.chunker import Heading
from ingest.documents import LoadedDocument
from ingest.parsing import Parsed
from rag_service.index.chunks import Chunk
from rag_service.index.spans import PageStarts, Span

HEADER_BYTES = 8
_SPANS = ("atoms", "ocr")
_PLAIN = tuple(f.name for f in fields(LoadedDocument) if f.name not in {*_SPANS, "pages", "headings"})
_OF_CHUNK = tuple(f.name for f in fields(Chunk) if f.name not in {"span", "text"})


@dataclass(frozen=True, slots=True)
class Ready:
    """The process has what it needs and waits for files."""


@dataclass(frozen=True, slots=True)
class ReadsImages:
    """The file in hand may take so many seconds more."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """`parsed` is a `Parsed` in plain values. `is_last` says that the process ends now: it has grown, or served enough."""

    parsed: tuple[Any, ...]
    is_last: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """An error of our own tree, by the name of its class."""

    kind: str
    message: str
    details: Mapping[str, Any]
    is_last: bool


@dataclass(frozen=True, slots=True)
class SystemFailed:
    """An OSError."""

    number: int | None
    message: str
    is_last: bool


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """The process has hit its limit, and is not to be used any more."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """An error that nobody expected; what it left behind in the process nobody knows."""

    reason: str


Message = Ready | ReadsImages | Done | Failed | SystemFailed | OutOfMemory | Crashed
MESSAGES = {kind.__name__: kind for kind in (Ready, ReadsImages, Done, Failed, SystemFailed, OutOfMemory, Crashed)}


class BadMessage(Exception):  # noqa: N818  it never leaves the pool
    """What came is no message: the parser's process is out of its mind."""


def encoded(message: Message) -> bytes:
    values = tuple(getattr(message, f.name) for f in fields(message))
    return pickle.dumps((type(message).__name__, *values), protocol=5)


def decoded(frame: io.BytesIO) -> Message:
    """Raises BadMessage."""
    try:
        kind, *values = _PlainValues(frame).load()
        message: Message = MESSAGES[kind](*values)
    except Exception as error:
        raise BadMessage(type(error).__name__) from error
    return message


class _PlainValues(pickle.Unpickler):
    """Knows no class and no function, so that nothing can be called through it."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def packed(parsed: Parsed) -> tuple[Any, ...]:
    """Plain values for `unpacked`."""
    document = parsed.document
    return (
        {name: getattr(document, name) for name in _PLAIN},
        {name: _numbers(getattr(document, name)) for name in _SPANS},
        (document.pages.offsets, document.pages.first),
        [(heading.start, heading.level, heading.text) for heading in document.headings],
        _numbers(chunk.span for chunk in parsed.chunks),
        [tuple(getattr(chunk, name) for name in _OF_CHUNK) for chunk in parsed.chunks],
    )


def unpacked(values: tuple[Any, ...]) -> Parsed:
    """Raises BadMessage."""
    try:
        plain, spans, (offsets, first), headings, chunk_spans, chunks = values
        structure: dict[str, Any] = {name: tuple(_spans(numbers)) for name, numbers in spans.items()}
        document = LoadedDocument(
            **plain,
            **structure,
            pages=PageStarts(offsets, first),
            headings=tuple(Heading(*heading) for heading in headings),
        )
        text = document.text
        return Parsed(
            document,
            tuple(
                Chunk(span=span, text=span.of(text), **dict(zip(_OF_CHUNK, chunk, strict=True)))
                for span, chunk in zip(_spans(chunk_spans), chunks, strict=True)
            ),
        )
    except Exception as error:
        raise BadMessage(type(error).__name__) from error


def _numbers(spans: Iterable[Span]) -> bytes:
    return array("Q", [offset for span in spans for offset in (span.start, span.end)]).tobytes()


def _spans(numbers: bytes) -> list[Span]:
    offsets = array("Q", numbers)
    return list(map(Span, offsets[::2], offsets[1::2]))


def write_frame(to: int, content: bytes) -> None:
    """Raises BrokenPipeError when nobody reads any more."""
    for part in (len(content).to_bytes(HEADER_BYTES, "big"), memoryview(content)):
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(to, rest) :]


def read_frame(source: int) -> bytes | None:
    """Waits for the next one; None at the end, also when that comes in the middle of a frame."""
    header = _read(source, HEADER_BYTES)
    return None if header is None else _read(source, int.from_bytes(header, "big"))


def _read(source: int, size: int) -> bytes | None:
    got = bytearray()
    while len(got) < size:
        part = os.read(source, size - len(got))
        if not part:
            return None
        got += part
    return bytes(got)
