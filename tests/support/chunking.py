"""Cutting a text in tests, with tokenizers whose counts can be seen.

In: a text and a number of tokens. Out: chunks, and what was left out between them. Must not: load a model.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from ingest.chunker import Chunker
from ingest.documents import LoadedDocument
from rag_service.index.chunks import Chunk
from rag_service.index.spans import Span

CountTokens = Callable[[Sequence[str]], list[int]]


def words(texts: Sequence[str]) -> list[int]:
    """A token is a word."""
    return [len(text.split()) for text in texts]


def code_points(texts: Sequence[str]) -> list[int]:
    """A token is a code point; white space counts, so a joined text has more of them than its parts."""
    return [len(text) for text in texts]


def cut(text: str, room: int, count: CountTokens = words, *, overlap: int = 0, **structure: Any) -> list[Chunk]:
    """Chunks of at most `room` tokens, by a model that reads no more than that."""
    return Chunker(count, room, room, overlap).chunks(text, "v", **structure)


def cut_document(document: LoadedDocument, room: int, count: CountTokens = words) -> list[Chunk]:
    """Chunks of a loaded document, by a model that reads four times as much."""
    return Chunker(count, 4 * room, room).chunks(
        document.text, "v", pages=document.pages, headings=document.headings, atoms=document.atoms, ocr=document.ocr
    )


def lines(text: str, pattern: str = r".+") -> list[Span]:
    """The lines that match, as atoms."""
    return [Span(*match.span()) for match in re.finditer(rf"(?m)^{pattern}$", text)]


def assert_whole(text: str, chunks: Sequence[Chunk]) -> None:
    """The chunks are the text at their spans, in order, and nothing but white space lies outside them."""
    position = 0
    for chunk in chunks:
        assert chunk.span.of(text) == chunk.text != ""
        assert not text[position : max(position, chunk.span.start)].strip()
        position = chunk.span.end
    assert not text[position:].strip()
