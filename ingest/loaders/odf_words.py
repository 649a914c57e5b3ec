"""Paragraphs, lists and tables of OpenDocument as text.

In: elements of a document's content (OASIS OpenDocument 1.3, part 3). Out: strings. Must not: show comments or hidden text,
or leave them out without counting; repeat covered cells, or what says that it stands a million times.
"""

from collections import Counter
from collections.abc import Iterator

from lxml import etree

from ingest.loaders.odf import q
from ingest.loaders.rows import Cell, labelled_rows

_MAX_REPEATED = 1_000  # spaces and columns that say that they stand so many times
_SILENT = {
    q(name): what
    for name, what in {
        "office:annotation": "comments",
        "office:annotation-end": "",
        "text:tracked-changes": "",  # counted apart: it holds insertions too
        "text:table-of-content": "tables of contents",
        "text:alphabetical-index": "indexes",
        "office:forms": "",
        "text:ruby-text": "",
        "text:sequence-decls": "",
        "text:variable-decls": "",
        "text:user-field-decls": "",
        "style:header": "",
        "style:footer": "",
    }.items()
}
_LIST = q("text:list")


class Words:
    """Text of paragraphs. What is left out is counted in `omitted`; notes and boxes met in a paragraph wait to be taken."""

    def __init__(self, hidden: frozenset[str], omitted: Counter[str]) -> None:
        self._hidden = hidden
        self.omitted = omitted
        self._notes: list[str] = []
        self._boxes: list[etree._Element] = []

    def left_out(self, element: etree._Element) -> bool:
        """Whether nobody would see this; counts it if so."""
        if not isinstance(element.tag, str):
            return True
        what = _SILENT.get(element.tag)
        if what is None and self._is_hidden(element):
            what = "hidden text"
        if what:
            self.omitted[what] += 1
        return what is not None

    def _is_hidden(self, element: etree._Element) -> bool:
        if element.get(q("text:style-name")) in self._hidden or element.get(q("text:display")) == "none":
            return True
        return element.tag in {q("text:hidden-text"), q("text:hidden-paragraph")} and element.get(
            q("text:is-hidden"), "true"
        ) not in {"false", "0"}

    def paragraph(self, element: etree._Element) -> str:
        """All but what `take_notes` and `take_boxes` then give."""
        return "".join(self._inline(element)).strip()

    def _inline(self, element: etree._Element) -> Iterator[str]:
        yield _collapsed(element.text)
        for child in element:
            if child.tag == q("text:note"):
                yield self._note(child)
            elif child.tag in {q("draw:frame"), q("draw:custom-shape"), q("draw:g"), q("draw:a")}:
                self._boxes.append(child)
            elif not self.left_out(child):
                yield from self._inline_element(child)
            yield _collapsed(child.tail)

    def _inline_element(self, child: etree._Element) -> Iterator[str]:
        match child.tag.rpartition("}")[2]:
            case "s":
                count = child.get(q("text:c"), "1")
                yield " " * min(int(count) if count.isdecimal() else 1, _MAX_REPEATED)
            case "tab":
                yield "\t"
            case "line-break":
                yield "\n"
            case _:
                yield from self._inline(child)

    def _note(self, element: etree._Element) -> str:
        """The mark that stands in the text; the note itself comes after the paragraph."""
        citation, body = element.find(q("text:note-citation")), element.find(q("text:note-body"))
        mark = f"[{''.join(citation.itertext()).strip()}]" if citation is not None else ""
        if body is not None and (words := self.one_line(body)):
            self._notes.append(f"{mark} {words}".strip())
        return mark

    def take_notes(self) -> list[str]:
        """Footnotes and endnotes of the paragraphs read since the last call."""
        taken, self._notes = self._notes, []
        return taken

    def take_boxes(self) -> list[etree._Element]:
        """Frames and shapes anchored in the paragraphs read since the last call."""
        taken, self._boxes = self._boxes, []
        return taken

    def list_lines(self, element: etree._Element, depth: int = 0) -> Iterator[str]:
        """`- ` before each item, set in by its depth."""
        for item in element:
            if item.tag not in {q("text:list-item"), q("text:list-header")} or self.left_out(item):
                continue
            mark = "- " if item.tag == q("text:list-item") else ""
            for block in item:
                if block.tag == _LIST:
                    yield from self.list_lines(block, depth + 1)
                elif block.tag == q("text:p") and not self.left_out(block) and (words := self.paragraph(block)):
                    yield f"{'  ' * min(depth, 8)}{mark}{words}"
                    mark = ""

    def table_lines(self, table: etree._Element) -> Iterator[str]:
        """The rows, with the headers beside the values."""
        return labelled_rows(self._cells(row) for row in self._rows(table))

    def is_layout(self, table: etree._Element) -> bool:
        """A table of one column is a frame around text."""
        return all(sum(c.tag == q("table:table-cell") for c in row) <= 1 for row in self._rows(table))

    def _rows(self, container: etree._Element) -> Iterator[etree._Element]:
        for child in container:
            if child.tag == q("table:table-row"):
                if child.get(q("table:visibility"), "visible") == "visible":
                    yield child
                else:
                    self.omitted["hidden rows"] += 1
            elif child.tag in {q("table:table-header-rows"), q("table:table-rows"), q("table:table-row-group")}:
                yield from self._rows(child)

    def _cells(self, row: etree._Element) -> list[Cell]:
        """Covered cells only take their place."""
        cells: list[Cell] = []
        column = 0
        for element in row:
            if element.tag not in {q("table:table-cell"), q("table:covered-table-cell")}:
                continue
            width, times = (_count(element, f"table:number-columns-{name}") for name in ("spanned", "repeated"))
            words = self.one_line(element) if element.tag == q("table:table-cell") else ""
            cells.extend(Cell(column + at, width, words) for at in range(times if words else 0))
            column += times
        return cells

    def one_line(self, container: etree._Element) -> str:
        """Everything in a cell or a note: paragraphs apart by a space, the rows of a table within by a semicolon."""
        pieces: list[str] = []
        for block in container:
            if self.left_out(block):
                continue
            if block.tag == q("table:table"):
                pieces.append("; ".join(self.table_lines(block)))
            elif block.tag in {q("text:p"), q("text:h")}:
                pieces.append(self.paragraph(block))
            else:
                pieces.append(self.one_line(block))
            for box in self.take_boxes():
                pieces += [self.one_line(box), described(box)]
        return " ".join(" ".join(pieces).split())


def described(frame: etree._Element) -> str:
    """What a picture is said to show."""
    words = [element.text or "" for name in ("svg:title", "svg:desc") for element in frame.iterfind(q(name))]
    return " ".join(" ".join(words).split())


def _count(element: etree._Element, name: str) -> int:
    value = element.get(q(name), "1")
    return min(max(int(value), 1), _MAX_REPEATED) if value.isdecimal() and len(value) < 10 else 1


def _collapsed(text: str | None) -> str:
    """Runs of white space in the file are one space; others are elements."""
    if not text:
        return ""
    words = " ".join(text.split(None))
    before, after = text[0].isspace(), text[-1].isspace()
    return f"{' ' if before else ''}{words}{' ' if after and words else ''}"
