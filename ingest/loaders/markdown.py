"""Markdown: the source itself, with its headings, tables and code marked.

In: bytes in any encoding. Out: parts whose texts joined are exactly the (normalised) source. Must not: take a `#` in
code or front matter for a heading; render anything.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ingest.loaders.encoding import decode
from ingest.loaders.normalise import normalise_text
from ingest.loaders.parts import about, heading, note, part

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
            yield part(text[:body_start])
        yield from _body(text[body_start:])
        for sentence in decoded.notes:
            yield note(sentence)


def _body(text: str) -> Iterator[Document]:
    # Inline markup is left alone: it has no lines of its own, and parsing it is most of the work.
    tokens = MarkdownIt("commonmark").enable("table").disable("inline").parse(text)
    lines = text.split("\n")
    lines = [f"{line}\n" for line in lines[:-1]] + lines[-1:]
    done = 0
    for token, following in pairwise([*tokens, Token("end", "", 0)]):
        if token.map is None or (made := _marked(token, following, lines)) is None or token.map[0] < done:
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
    match token.type:
        case "heading_open" if token.level == 0:  # one inside a quote or a list is no section of this document
            return heading(text, int(token.tag.removeprefix("h")), title=" ".join(following.content.split()))
        case "fence" | "code_block":
            return part(text, "code")
        case "table_open":
            return part(text, "table")
        case _:
            return None
