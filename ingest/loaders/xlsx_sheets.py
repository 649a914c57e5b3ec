"""Workbooks of any spreadsheet program as sheets of filled rows.

In: an open file. Out: `Sheet`s in workbook order, read one at a time. Must not: hold a sheet of an .xlsx or .xlsm (the
older and other formats are held whole by their library, which does not tell their hidden rows); run macros or formulas.
"""

import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, TypeVar

import openpyxl
import python_calamine

from ingest.loaders.xlsx_layout import MAX_ROWS, Layout, read_layout
from ingest.loaders.xlsx_numbers import CellValue, shown
from ingest.loaders.xlsx_tables import Row, Value
from rag_service.errors import LoadFailed

_YEARS = range(1900, 2101)
_BATCH = 200
_WORKBOOK = re.compile(r"xl/workbook\d*\.xml")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")  # a name in the directory of the compound file around it

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sheet:
    """`rows` are read on the call: (number from 1, filled cells by column from 0)."""

    name: str
    hidden: bool
    layout: Callable[[], Layout]
    rows: Callable[[], Iterator[tuple[int, Row]]]


@dataclass(frozen=True, slots=True)
class Workbook:
    sheets: tuple[Sheet, ...]
    about: dict[str, Any]
    left_out: tuple[str, ...] = ()


def open_workbook(file: IO[bytes]) -> Workbook:
    """Raises LoadFailed when the file needs a password or no library can read it."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as package:
            names = package.namelist()
        if any(_WORKBOOK.fullmatch(name) for name in names):
            try:
                return _from_openpyxl(file, names)
            except Exception:  # noqa: BLE001, S110 - it refuses odd styles and properties; the other library skips those
                pass
    file.seek(0)
    return _from_calamine(file)


def _from_openpyxl(file: IO[bytes], names: list[str]) -> Workbook:
    with _quiet():
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    properties, package = book.properties, zipfile.ZipFile(file)
    return Workbook(
        tuple(_openpyxl_sheet(package, book[name]) for name in book.sheetnames),
        {"title": properties.title or None, "author": properties.creator or None, "created": properties.created},
        tuple(
            f"{what} ({count})"
            for what, start in (("charts", "xl/charts/chart"), ("sheets of comments", "xl/comments"))
            if (count := sum(name.startswith(start) for name in names))
        ),
    )


def _openpyxl_sheet(package: zipfile.ZipFile, sheet: Any) -> Sheet:
    hidden = sheet.sheet_state != "visible"
    if not hasattr(sheet, "iter_rows"):  # a chart that fills a sheet of its own
        return Sheet(sheet.title, hidden, Layout, lambda: iter(()))
    path: str = sheet._worksheet_path  # noqa: SLF001 - the library keeps the name of the sheet's part to itself
    return Sheet(sheet.title, hidden, lambda: read_layout(package, path), lambda: _openpyxl_rows(sheet))


def _openpyxl_rows(sheet: Any) -> Iterator[tuple[int, Row]]:
    sheet.reset_dimensions()  # the size that a sheet claims is often wrong, and rows would be filled up to it
    cells = iter(sheet.iter_rows())
    number = 0
    while number < MAX_ROWS:
        with _quiet():
            batch = list(islice(cells, _BATCH))
        if not batch:
            return
        for row in batch:
            number += 1
            filled = {
                at: value
                for at, cell in enumerate(row)
                if (content := cell.value) is not None
                and (value := _value(content, cell.number_format if isinstance(content, int | float) else "")).text
            }
            if filled:
                yield number, filled


def _from_calamine(file: IO[bytes]) -> Workbook:
    try:
        book = _unpanicked(lambda: python_calamine.load_workbook(file))
    except python_calamine.CalamineError as error:
        file.seek(0)
        if isinstance(error, python_calamine.PasswordError) or _ENCRYPTED in file.read():
            raise LoadFailed("encrypted, needs a password") from error
        raise LoadFailed("not a spreadsheet: broken file (parts missing or unreadable)") from error
    sheets = tuple(_calamine_sheet(book, at, about) for at, about in enumerate(book.sheets_metadata))
    return Workbook(sheets, {})


def _calamine_sheet(book: python_calamine.CalamineWorkbook, at: int, about: python_calamine.SheetMetadata) -> Sheet:
    hidden = about.visible != python_calamine.SheetVisibleEnum.Visible
    if about.typ != python_calamine.SheetTypeEnum.WorkSheet:
        return Sheet(about.name, hidden, Layout, lambda: iter(()))

    def rows() -> Iterator[tuple[int, Row]]:
        sheet = _unpanicked(lambda: book.get_sheet_by_index(at))
        first_row, first_column = sheet.start or (0, 0)
        for number, row in enumerate(sheet.iter_rows()):
            filled = {first_column + c: value for c, cell in enumerate(row) if (value := _value(cell)).text}
            if filled:
                yield first_row + number + 1, filled

    def layout() -> Layout:
        merged = _unpanicked(lambda: book.get_sheet_by_index(at)).merged_cell_ranges or []
        return Layout(merges={(top + 1, left): (bottom + 1, right) for (top, left), (bottom, right) in merged})

    return Sheet(about.name, hidden, layout, rows)


def _value(value: CellValue, number_format: str = "General") -> Value:
    if isinstance(value, str):
        return Value(" ".join(value.split()))
    amount = isinstance(value, int | float) and value not in _YEARS
    return Value(shown(value, number_format), amount)


def _unpanicked(read: Callable[[], T]) -> T:
    """What is wrong with a file can make calamine panic, which Python shows as no ordinary Exception."""
    try:
        return read()
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise LoadFailed("not a spreadsheet: broken file (its library gave up)") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """openpyxl warns of everything that it would not write again; none of it is text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
