"""Source code: the text as it is, each line kept whole, with classes and functions as headings.

In: bytes in any encoding. Out: parts whose texts joined are exactly the (normalised) source. Must not: understand a
language beyond the lines that begin a part; spend time on lines that no person wrote.
"""

from collections.abc import Iterator

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.code_languages import Language
from ingest.loaders.encoding import decode
from ingest.loaders.normalise import normalise_text
from ingest.loaders.parts import about, heading, note, part

MAX_HEADING_LINE = 400  # a longer line is minified or generated
MAX_TITLE = 100
MAX_LINES_ABOVE = 50
_MAX_LEVEL = 6


class CodeLoader(BaseBlobParser):
    """Raises LoadFailed when the bytes are no text."""

    def __init__(self, language: Language) -> None:
        self._language = language

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        decoded = decode(blob.as_bytes())
        yield about({"encoding": decoded.encoding, "programming_language": self._language.name})
        yield from code_parts(normalise_text(decoded.text), self._language)
        for sentence in decoded.notes:
            yield note(sentence)


def code_parts(text: str, language: Language) -> Iterator[Document]:
    """The source. A heading is the line that begins its part, with the comments and decorators right above it."""
    indents: list[int] = []  # of the headings that the line stands in
    pending: list[str] = []
    for line in _lines(text):
        if not _begins(line, language):
            pending.append(line)
            continue
        above = _above(pending, language)
        if len(pending) > above:
            yield part("".join(pending[: len(pending) - above]), "code")
        indent = len(line) - len(line.lstrip())
        while indents and indents[-1] >= indent:
            indents.pop()
        indents.append(indent)
        own = "".join(pending[len(pending) - above :])
        yield heading(f"{own}{line}", min(len(indents), _MAX_LEVEL), title=_title(line))
        pending.clear()
    if pending:
        yield part("".join(pending), "code")


def _lines(text: str) -> Iterator[str]:
    """With their ends. (`splitlines` would cut at form feeds and the like too.)"""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _begins(line: str, language: Language) -> bool:
    return len(line) <= MAX_HEADING_LINE and language.heads is not None and language.heads.match(line) is not None


def _above(lines: list[str], language: Language) -> int:
    """How many of the last lines belong to the part that begins now."""
    count = 0
    while count < min(len(lines), MAX_LINES_ABOVE) and language.above.match(lines[-1 - count][:MAX_HEADING_LINE]):
        count += 1
    return count


def _title(line: str) -> str:
    """The declaration without what opens its body."""
    words = " ".join(line.split()).rstrip("{:(,[ ").removesuffix("=")
    return words if len(words) <= MAX_TITLE else f"{words[: MAX_TITLE - 1]}…"
