"""Texts in OpenDocument: headings, paragraphs, lists, tables and footnotes in the order of the document.

In: the bytes of an .odt. Out: parts. Must not: read page headers and footers, tracked deletions, comments or hidden text
as body text, or leave them out without saying so.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from lxml import etree

from ingest.loaders.odf import Package, hidden_styles, q
from ingest.loaders.odf_words import Words, described
from ingest.loaders.options import DEFAULT_OPTIONS
from ingest.loaders.parts import about, heading, note, part
from rag_service.errors import LoadFailed

_MAX_LEVEL = 10
_RUNNING = {"style:header": "running headers", "style:footer": "running footers"}
_SHAPES = {q(f"draw:{name}") for name in ("frame", "custom-shape", "g", "a", "rect", "ellipse", "line", "connector")}


class OdtLoader(BaseBlobParser):
    """Raises LoadFailed when the file is encrypted or broken, or a part of it unpacks to more than `max_bytes`."""

    def __init__(self, max_bytes: int = DEFAULT_OPTIONS.max_unpacked_bytes) -> None:
        self._max_bytes = max_bytes

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        with blob.as_bytes_io() as file:
            package = Package(file, self._max_bytes)
        text = package.content.find(f"{q('office:body')}/{q('office:text')}")
        if text is None:
            raise LoadFailed("not an ODT: broken file (it has no text)")
        yield about(package.about())
        words = Words(hidden_styles(package), Counter())
        yield from Body(package, words).blocks(text)
        if omitted := _left_out(package, words.omitted):
            yield note("left out: " + ", ".join(f"{what} ({count})" for what, count in omitted.items()))


def _left_out(package: Package, omitted: Counter[str]) -> Counter[str]:
    for name, what in _RUNNING.items():
        for element in package.styles.iter(q(name)) if package.styles is not None else ():
            omitted[what] += bool("".join(element.itertext()).strip())
    deletions = package.content.iter(q("text:deletion"))
    omitted["tracked deletions"] += sum(bool("".join(deleted.itertext()).strip()) for deleted in deletions)
    return +omitted


class Body:
    """The blocks of a text or a box. A title moves all heading levels down by one, so that it stands above them."""

    def __init__(self, package: Package, words: Words) -> None:
        self._words = words
        self._titles = _title_styles(package)
        self._shift = 0

    def blocks(self, container: Iterable[etree._Element]) -> Iterator[Document]:
        """Everything in document order; what has no text of its own is a container."""
        for block in container:
            if self._words.left_out(block):
                continue
            if block.tag in {q("text:p"), q("text:h")}:
                yield from self._paragraph(block)
            elif block.tag == q("text:list"):
                yield from self._list(block)
            elif block.tag == q("table:table"):
                yield from self._table(block)
            elif block.tag in _SHAPES:
                yield from self._box(block)
            else:
                yield from self.blocks(block)

    def _paragraph(self, paragraph: etree._Element) -> Iterator[Document]:
        words = self._words.paragraph(paragraph)
        level = self._level(paragraph)
        if words and level is not None:
            if level == 0:
                self._shift = 1
            yield heading(f"{words}\n\n", level + self._shift)
        elif words:
            yield part(f"{words}\n\n")
        yield from self._anchored()

    def _level(self, paragraph: etree._Element) -> int | None:
        """0 for the title, 1 and up for headings, None for text."""
        if paragraph.get(q("text:style-name")) in self._titles:
            return 0
        if paragraph.tag != q("text:h"):
            return None
        level = paragraph.get(q("text:outline-level"), "1")
        return min(max(int(level), 1), _MAX_LEVEL) if level.isdecimal() else 1

    def _anchored(self) -> Iterator[Document]:
        """Footnotes and boxes of what was just read."""
        for words in self._words.take_notes():
            yield part(f"{words}\n\n")
        for box in self._words.take_boxes():
            yield from self._box(box)

    def _list(self, element: etree._Element) -> Iterator[Document]:
        if next(element.iter(q("text:h"), q("table:table")), None) is not None:  # numbered headings stand in lists
            yield from (made for item in element for made in self.blocks(item))
            return
        if lines := list(self._words.list_lines(element)):
            yield part("".join(f"{line}\n" for line in lines) + "\n")
        yield from self._anchored()

    def _table(self, table: etree._Element) -> Iterator[Document]:
        if self._words.is_layout(table):
            for cell in table.iter(q("table:table-cell")):
                yield from self.blocks(cell)
            return
        rows = "".join(f"{line}\n" for line in self._words.table_lines(table))
        yield part(rows, "table")
        yield part("\n")
        yield from self._anchored()

    def _box(self, box: etree._Element) -> Iterator[Document]:
        if words := described(box):
            yield part(f"Image: {words}\n\n")
        yield from self.blocks(box)


def _title_styles(package: Package) -> frozenset[str]:
    """The built-in title and the styles made from it."""
    parents = {s.get(q("style:name"), ""): s.get(q("style:parent-style-name"), "") for s in package.each_style()}
    titles = {"Title"}
    for _ in range(_MAX_LEVEL):
        titles |= {name for name, parent in parents.items() if parent in titles}
    return frozenset(titles)
