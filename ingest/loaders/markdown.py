"""Markdown: the source itself, with its headings, tables and code marked.

In: bytes in any encoding. Out: parts whose texts joined are exactly the (normalised) source. Must not: take a `#` in
code or front matter for a heading; render anything.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ingest.loaders.encoding import decode
from ingest.loaders.normalise import normalise_text
from ingest.loaders.parts import Kind, about, heading, note, part
from ingest.loaders.plain_values import ValuesError, from_toml, from_yaml

WINDOW_CHARS = 100_000
_KINDS: dict[str, Kind] = {"fence": "code", "code_block": "code", "table_open": "table"}
_FRONT_MATTER = re.compile(r"(---\n(?:.*\n)*?(?:---|\.\.\.)|\+\+\+\n(?:.*\n)*?\+\+\+)[ \t]*(?:\n|\Z)")


class MarkdownLoader(BaseBlobParser):
    """CommonMark with tables; line numbers come from markdown-it-py. Raises LoadFailed when the bytes are no text."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        decoded = decode(blob.as_bytes())
        yield about({"encoding": decoded.encoding})
        text = normalise_text(decoded.text)
        front = _FRONT_MATTER.match(text)
        body_start = front.end() if front else 0
        if front:
            yield about(said_in(front.group()))
            yield part(text[:body_start])
        yield from markdown_parts(text[body_start:])
        for sentence in decoded.notes:
            yield note(sentence)


def said_in(front: str) -> dict[str, Any]:
    """The metadata of a front matter; none of one that is broken, which is text like any other."""
    body = front.strip().split("\n", 1)[1].rpartition("\n")[0]
    try:
        return from_toml(body) if front.startswith("+++") else from_yaml(body)
    except ValuesError:
        return {}


def markdown_parts(text: str, window: int = WINDOW_CHARS) -> Iterator[Document]:
    """Normalised Markdown without front matter, parsed in windows: tokens and lines weigh a hundred times their text.

    A window ends before its last block, which may go on behind it.
    """
    # Inline markup is left alone: it has no lines of its own, and parsing it is most of the work.
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    start, size = 0, window
    while start < len(text):
        end = text.find("\n", start + size) + 1 or len(text)
        tokens, lines = parser.parse(text[start:end]), _lines(text[start:end])
        kept = len(lines) if end == len(text) else _last_block(tokens)
        if kept:
            yield from _parts(tokens, lines[:kept])
            start += sum(map(len, lines[:kept]))
        elif size == window:
            size *= 4
            continue
        else:
            end = _end_of_block(text, start, tokens)
            yield part(text[start:end], _KINDS.get(tokens[0].type, "prose") if tokens else "prose")
            start = end
        size = window


def _end_of_block(text: str, start: int, tokens: list[Token]) -> int:
    """Where a block ends that is too large to be parsed: at the next blank line, or the fence that closes it."""
    ends = "\n\n"
    if tokens and tokens[0].type == "fence":
        mark = re.escape(tokens[0].markup[0])
        ends = rf"\n {{0,3}}{mark}{{{len(tokens[0].markup)},}}[ \t]*(?:\n|\Z)"
    found = re.compile(ends).search(text, start)
    return found.end() if found else len(text)


def _last_block(tokens: list[Token]) -> int:
    """The line on which the last top-level block or item of a list begins; 0 when there is no other."""
    return next(
        (
            token.map[0]
            for token in reversed(tokens)
            if token.map is not None and (token.level == 0 or (token.level == 1 and token.type == "list_item_open"))
        ),
        0,
    )


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + lines[-1:]


def _parts(tokens: list[Token], lines: list[str]) -> Iterator[Document]:
    done = 0
    for token, following in pairwise([*tokens, Token("end", "", 0)]):
        if token.map is None or token.map[0] < done or token.map[0] >= len(lines):
            continue
        if (made := _marked(token, following, lines)) is None:
            continue
        if done < token.map[0]:
            yield part("".join(lines[done : token.map[0]]))
        yield made
        done = token.map[1]
    yield part("".join(lines[done:]))


def _marked(token: Token, following: Token, lines: list[str]) -> Document | None:
    """The part for a heading, table or code block; None for any other token."""
    assert token.map is not None  # noqa: S101 - checked by the caller; tells the type checker
    text = "".join(lines[token.map[0] : token.map[1]])
    if token.type == "heading_open" and token.level == 0:  # one inside a quote or a list is no section of this document
        return heading(text, int(token.tag.removeprefix("h")), title=" ".join(following.content.split()))
    kind = _KINDS.get(token.type)
    return part(text, kind) if kind else None
