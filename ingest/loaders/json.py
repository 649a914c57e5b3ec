"""JSON and JSON Lines: every value with its path beside it, lists of records as rows.

In: bytes in any encoding. Out: parts. Must not: change a number or a key (they are shown as they are written, also the
second of two equal keys); lose what stands after a broken place; hold more of a list of records than one of them.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.encoding import decode
from ingest.loaders.json_text import MAX_DEPTH, Literal, Members, parts_of, parts_of_item
from ingest.loaders.normalise import normalise_text
from ingest.loaders.parts import about, note, part
from rag_service.errors import LoadFailed

_TOO_DEEP = f"nested too deeply: values stand more than {MAX_DEPTH} levels inside each other"
_MAX_LINES_NAMED = 10

# Numbers stay as written: a float would round long ones, and Python refuses to make an integer of 5,000 digits.
_DECODER = json.JSONDecoder(
    object_pairs_hook=Members, parse_int=Literal, parse_float=Literal, parse_constant=Literal, strict=False
)


class JsonLoader(BaseBlobParser):
    """`lines` says that each line should be a value of its own; a file that is not as its name says is read as it is.

    Raises LoadFailed when the bytes are no text, or nested beyond what Python's parser can follow.
    """

    def __init__(self, *, lines: bool = False) -> None:
        self._lines = lines

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        decoded = decode(blob.as_bytes())
        yield about({"encoding": decoded.encoding})
        text = normalise_text(decoded.text)
        first, _, others = text.lstrip().partition("\n")
        # In a document, the first line is no value by itself unless it is the only one.
        in_lines = _is_value(first) if self._lines or others.strip() else False
        if in_lines or (self._lines and not _is_value(text)):
            yield from _records(text)
        else:
            yield from _document(text)
        for sentence in decoded.notes:
            yield note(sentence)


def _is_value(text: str) -> bool:
    try:
        json.loads(text, parse_int=len, parse_constant=len)
    except (ValueError, RecursionError):
        return False
    return True


def _records(text: str) -> Iterator[Document]:
    """JSON Lines: one record a line."""
    broken: list[int] = []
    number, start = 0, 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line, start, number = text[start:end].strip(), end + 1, number + 1
        if not line:
            continue
        try:
            value = _DECODER.decode(line)
        except (ValueError, RecursionError):
            broken.append(number)
            continue
        yield from parts_of_item(value, f"line {number}")
    if broken:
        which = ", ".join(map(str, broken[:_MAX_LINES_NAMED])) + (", …" if len(broken) > _MAX_LINES_NAMED else "")
        lines = "1 line is" if len(broken) == 1 else f"{len(broken)} lines are"
        yield note(f"{lines} no valid JSON and left out: {which}")


def _document(text: str) -> Iterator[Document]:
    """One value. Where it breaks off, the rest is kept as the text that it is."""
    start = len(text) - len(text.lstrip())
    reader = _Items(text) if text.startswith("[", start) else None
    try:
        if reader is not None:
            for number, value in enumerate(reader.items(start + 1)):
                yield from parts_of_item(value, f"[{number}]")
            start = reader.at
        elif text.strip():
            value, end = _DECODER.raw_decode(text, start)
            start = end  # before the parts: what is broken below this is not the text
            yield from parts_of(value)
        if text[start:].strip():
            raise json.JSONDecodeError("more text after the end of the value", text, start)
    except json.JSONDecodeError as error:
        rest = text[reader.at if reader is not None else start :].strip("\n")
        yield note(f"not valid JSON at line {error.lineno}, column {error.colno}: read from there as plain text")
        yield part(f"{rest}\n", "code")
    except RecursionError as error:
        raise LoadFailed(_TOO_DEEP) from error


class _Items:
    """The elements of the outermost array, one by one. `at` is the end of what was read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._space: Callable[..., Any] = json.decoder.WHITESPACE.match  # type: ignore[attr-defined]  # not in typeshed
        self.at = 0

    def items(self, at: int) -> Iterator[Any]:
        at = self._after_space(at)
        if self._text.startswith("]", at):
            self.at = at + 1
            return
        while True:
            value, at = _DECODER.raw_decode(self._text, at)
            at = self._after_space(at)
            closed = self._text.startswith("]", at)
            if not closed and not self._text.startswith(",", at):
                raise json.JSONDecodeError("Expecting ',' delimiter", self._text, at)
            self.at = at + 1
            yield value
            if closed:
                return
            at = self._after_space(at + 1)

    def _after_space(self, at: int) -> int:
        end: int = self._space(self._text, at).end()
        return end
