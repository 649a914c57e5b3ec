"""Rows of tables as lines with the headers beside the values: what the formats that have tables share.

In: cells as text, with their places. Out: lines. Must not: know a format (pure, standard library); drop a filled cell.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

MAX_HEADER_CHARS = 80  # a longer cell is text, not the name of a column
MAX_COLUMNS = 16_384  # as in spreadsheets; a header that claims to cover more names only these
ROWS_PER_BATCH = 500
CHARS_PER_BATCH = 1_000_000  # a long header beside many short values makes much text out of a small file


@dataclass(frozen=True, slots=True)
class Cell:
    """`column` counts from 0; `width` is the columns that it covers."""

    column: int
    width: int
    text: str


def labelled_rows(rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """The header row, then `header: value | header: value` for each row. Long cells in the first row make it no header."""
    headers: dict[int, str] = {}
    for number, cells in enumerate(rows):
        if number == 0 and all(len(cell.text) <= MAX_HEADER_CHARS for cell in cells):
            headers = {c: cell.text for cell in cells for c in columns_of(cell.column, cell.width)}
            line = " | ".join(cell.text for cell in cells if cell.text)
        else:
            line = " | ".join(_labelled(cell, headers) for cell in cells if cell.text)
        if line:
            yield line


def columns_of(column: int, width: int) -> range:
    """The columns that a cell covers, as far as tables go: a width is only a number in the file."""
    return range(column, max(column + 1, min(column + width, MAX_COLUMNS)))


def batches(lines: Iterable[str]) -> Iterator[str]:
    """Some hundred lines at a time, ended and joined."""
    batch: list[str] = []
    length = 0
    for line in lines:
        batch.append(f"{line}\n")
        length += len(line)
        if len(batch) == ROWS_PER_BATCH or length > CHARS_PER_BATCH:
            yield "".join(batch)
            batch, length = [], 0
    if batch:
        yield "".join(batch)


def _labelled(cell: Cell, headers: dict[int, str]) -> str:
    header = headers.get(cell.column)
    return f"{header}: {cell.text}" if header else cell.text


def header_position(head: Sequence[Sequence[str]]) -> int:
    """Index of the header: the first row with more than one filled cell, if only titles stand above it."""
    for position, row in enumerate(head):
        if sum(map(bool, row)) > 1:
            return position
    return 0


def column_names(row: Sequence[str]) -> list[str]:
    """The header's words; where they are missing or stand twice, the column's number (from 1) tells them apart."""
    seen: Counter[str] = Counter(row)
    return [name if name and seen[name] == 1 else _numbered(name, i) for i, name in enumerate(row, start=1)]


def _numbered(name: str, position: int) -> str:
    return f"{name} (column {position})" if name else f"column {position}"


def flat(cell: str) -> str:
    """All on one line."""
    return " ".join(cell.split())
