"""Tables of web pages as lines: each row on one, the headers beside the values.

In: a `<table>` and a function that gives a cell's visible text. Out: lines. Must not: repeat a cell that spans several
columns or rows; take a table that only lays out a page for data.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lxml import etree

from ingest.loaders.rows import columns_of
from ingest.loaders.visibility import left_out

_MAX_SPAN = 1_000  # as in the HTML standard
_SPANNED_COLUMNS = 1_000  # cells that span rows push others aside as far as here: a span is only a number in the file
_HEADER_ROWS = 10  # so many stand together beside a value


@dataclass(frozen=True, slots=True)
class _Cell:
    column: int
    width: int
    is_header: bool
    text: str


def is_data_table(table: etree._Element) -> bool:
    """Whether its cells are values: a table that holds headings, tables or a single column lays out the page."""
    if table.get("role") in {"presentation", "none"} or table.find(".//table") is not None:
        return False
    if any(table.find(f".//{tag}") is not None for tag in ("h1", "h2", "h3", "h4", "pre")):
        return False
    return any(len(_cells_of(row)) > 1 for row in table.iter("tr"))


def table_lines(table: etree._Element, text_of: Callable[[etree._Element], str]) -> Iterator[str]:
    """The caption, then `header: value | header: value` for each row."""
    for caption in table.iterfind("caption"):
        if words := text_of(caption):
            yield words
    headers: dict[int, str] = {}
    header_rows = 0
    in_head = True
    for row in _grid(table, text_of):
        if in_head and all(cell.is_header for cell in row) and len(row) > 1:
            header_rows += 1
            for cell in row if header_rows <= _HEADER_ROWS else ():
                for column in columns_of(cell.column, cell.width):
                    headers[column] = " ".join(filter(None, (headers.get(column), cell.text)))
            if line := " | ".join(cell.text for cell in row if cell.text):
                yield line
            continue
        in_head = in_head and len(row) == 1  # a title row may stand above the headers
        if line := _line(row, headers):
            yield line


def _line(row: list[_Cell], headers: dict[int, str]) -> str:
    filled = [cell for cell in row if cell.text]
    if len(filled) == 1:
        return _labelled(filled[0], headers) if len(row) > 1 else filled[0].text
    if filled and not headers and (filled[0].is_header or filled[0].text.endswith(":")):  # as in an info box
        return f"{filled[0].text.rstrip(':')}: {' | '.join(cell.text for cell in filled[1:])}"
    return " | ".join(_labelled(cell, headers) for cell in filled)


def _labelled(cell: _Cell, headers: dict[int, str]) -> str:
    header = headers.get(cell.column)
    return f"{header}: {cell.text}" if header else cell.text


def _grid(table: etree._Element, text_of: Callable[[etree._Element], str]) -> Iterator[list[_Cell]]:
    """Rows of cells, each at its real column: cells that span rows push those below to the right."""
    open_rows: dict[int, int] = {}  # column -> rows that a cell above still covers
    for row in table.iter("tr"):
        if left_out(row) is not None:
            continue
        cells: list[_Cell] = []
        column, taken = 0, dict(open_rows)
        open_rows = {c: n - 1 for c, n in taken.items() if n > 1}
        for element in _cells_of(row):
            while column in taken:
                column += 1
            width, height = _span(element, "colspan"), _span(element, "rowspan")
            text = text_of(element) if left_out(element) is None else ""
            cells.append(_Cell(column, width, element.tag == "th", text))
            if height > 1:
                spanned = range(column, min(column + width, _SPANNED_COLUMNS))
                open_rows.update(dict.fromkeys(spanned, height - 1))
            column += width
        if cells:
            yield cells


def _cells_of(row: etree._Element) -> list[etree._Element]:
    return [cell for cell in row if cell.tag in {"td", "th"}]


def _span(element: etree._Element, name: str) -> int:
    value = element.get(name, "1").strip()
    return min(max(int(value), 1), _MAX_SPAN) if value.isdecimal() else 1
