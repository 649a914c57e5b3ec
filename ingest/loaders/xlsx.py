"""Spreadsheets: each sheet a page, its tables as rows with their headers beside the values.

In: the bytes of an .xlsx, .xlsm, .xls, .xlsb or .ods. Out: parts. Must not: read hidden sheets, rows or columns as text,
or leave them out without saying so; show formulas in place of their values; give a sheet without text a heading.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.parts import about, heading, note, part
from ingest.loaders.xlsx_layout import Layout
from ingest.loaders.xlsx_sheets import Sheet, open_workbook
from ingest.loaders.xlsx_tables import Row, sheet_pieces, with_merges
from rag_service.errors import LoadFailed


class XlsxLoader(BaseBlobParser):
    """Raises LoadFailed when the file needs a password, or nothing in it can be read."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        with blob.as_bytes_io() as file:
            book = open_workbook(file)
            yield about(book.about)
            omitted: Counter[str] = Counter()
            broken: list[str] = []
            read = 0
            for page, sheet in enumerate(book.sheets, start=1):
                if sheet.hidden:
                    omitted["hidden sheets"] += 1
                    continue
                try:
                    yield from _sheet(sheet, page, omitted)
                    read += 1
                except Exception:  # noqa: BLE001 - the libraries raise all sorts on a broken sheet; the others are read
                    broken.append(sheet.name)
        if broken and not read:
            raise LoadFailed("not a spreadsheet: broken file (none of its sheets can be read)")
        if broken:
            yield note(f"could not be read to their end: sheets {', '.join(broken)}")
        if unsaved := omitted.pop("formulas", 0):
            yield note(f"{unsaved} formulas have no stored value: open the file in a spreadsheet program and save it")
        if left_out := [*(f"{what} ({count})" for what, count in omitted.items()), *book.left_out]:
            yield note("left out: " + ", ".join(left_out))


def _sheet(sheet: Sheet, page: int, omitted: Counter[str]) -> Iterator[Document]:
    layout = sheet.layout()
    if layout.formulas_without_value:
        omitted["formulas"] += layout.formulas_without_value
    rows = _visible(with_merges(sheet.rows(), layout.merges), layout, omitted)
    titled = False
    for kind, lines in sheet_pieces(rows, frozenset(layout.hidden_columns)):
        if not titled:
            titled = True
            yield heading(f"{sheet.name}\n\n", 1, page=page)
        yield part("".join(f"{line}\n" for line in lines), kind, page=page)
    if titled:
        yield part("\n", page=page)


def _visible(rows: Iterator[tuple[int, Row]], layout: Layout, omitted: Counter[str]) -> Iterator[tuple[int, Row]]:
    """Rows without the hidden ones and hidden cells, numbered as if those were not there. They count where they have text."""
    hidden = sorted(layout.hidden_rows)
    columns: set[int] = set()
    for number, row in rows:
        if number in layout.hidden_rows:
            omitted["hidden rows"] += 1
            continue
        unseen = row.keys() & layout.hidden_columns
        columns |= unseen
        if seen := {column: value for column, value in row.items() if column not in unseen}:
            yield number - bisect_left(hidden, number), seen
    if columns:
        omitted["hidden columns"] += len(columns)
