"""The tables of a sheet: told apart by blank rows and columns, each row a line with the headers beside the values.

In: the filled rows of one sheet, in order. Out: lines, as prose or as table rows. Must not: hold more than
ROWS_PER_BATCH rows; know a library (pure); drop a filled cell.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, pairwise
from typing import Literal, NamedTuple

from ingest.loaders.rows import MAX_HEADER_CHARS

ROWS_PER_BATCH = 500
_SAME_ROWS = 0.8  # of the rows of two groups of columns: they are one table with a blank column in it


class Value(NamedTuple):
    """What a cell shows. `amount` is a number that names no column (a year may); `width` the columns it is merged over."""

    text: str
    amount: bool = False
    width: int = 1


Row = Mapping[int, Value]  # filled cells by column, from 0
Merges = Mapping[tuple[int, int], tuple[int, int]]  # (first row, first column) to (last row, last column)
Piece = tuple[Literal["prose", "table"], list[str]]


def with_merges(rows: Iterable[tuple[int, Row]], merges: Merges) -> Iterator[tuple[int, Row]]:
    """Merged cells know their width, and one that spans rows stands in each of them, so that a row tells all by itself."""
    if not merges:
        yield from rows
        return
    tall: dict[int, tuple[int, Value]] = {}
    for number, row in rows:
        filled = dict(row)
        for column, (last, value) in list(tall.items()):
            if last < number:
                del tall[column]
            else:
                filled.setdefault(column, value)
        for column, value in row.items():
            last_row, last_column = merges.get((number, column), (number, column))
            filled[column] = value._replace(width=last_column - column + 1)
            if last_row > number and len(value.text) <= MAX_HEADER_CHARS:
                tall[column] = (last_row, filled[column])
        yield number, dict(sorted(filled.items()))


def sheet_pieces(rows: Iterable[tuple[int, Row]], unseen_columns: frozenset[int] = frozenset()) -> Iterator[Piece]:
    """The tables of a sheet from top to bottom, side by side ones from left to right. `unseen_columns` part nothing."""
    before: list[_Table] = []
    for _, block in groupby(enumerate(rows), key=lambda at: at[1][0] - at[0]):  # numbers that go up one by one
        filled = (row for _, (_, row) in block)
        tables: list[_Table] | None = None
        if before:
            yield "prose", [""]  # a blank line, as in the sheet
        while batch := list(islice(filled, ROWS_PER_BATCH)):
            if tables is None:
                tables = [_Table(columns) for columns in _column_groups(batch, unseen_columns)]
                for table in tables:
                    yield from table.begin(_within(batch, table, tables), before)
            else:
                for table in tables:
                    yield from table.go_on(_within(batch, table, tables))
        before = [*before, *(tables or [])][-20:]


def _within(batch: Sequence[Row], table: "_Table", tables: Sequence["_Table"]) -> list[Row]:
    """What of some rows is this table's: its columns, and for the outer tables what stands beyond them."""
    first = table.columns.start if table is not tables[0] else 0
    following = tables.index(table) + 1
    last = tables[following].columns.start if following < len(tables) else 1 << 20
    rows = ({column: value for column, value in row.items() if first <= column < last} for row in batch)
    return [row for row in rows if row]


def _column_groups(batch: Sequence[Row], unseen: frozenset[int]) -> list[range]:
    """Columns between blank ones. Groups that fill the same rows, or have but one column, are one table all the same."""
    at_rows: dict[int, set[int]] = {}
    for number, row in enumerate(batch):
        for column, value in row.items():
            at_rows.setdefault(column, set()).add(number)
            for covered in range(column + 1, column + value.width):
                at_rows.setdefault(covered, set())
    groups: list[range] = []
    for column in sorted(at_rows.keys() | (unseen if at_rows else set())):
        if groups and column == groups[-1].stop:
            groups[-1] = range(groups[-1].start, column + 1)
        else:
            groups.append(range(column, column + 1))
    joined: list[range] = []
    for group in groups:
        if not any(column in at_rows for column in group):
            continue
        if joined and not _apart(joined[-1], group, at_rows, batch):
            joined[-1] = range(joined[-1].start, group.stop)
        else:
            joined.append(group)
    return joined


def _apart(left: range, right: range, at_rows: Mapping[int, set[int]], batch: Sequence[Row]) -> bool:
    if len(left) < 2 or len(right) < 2:
        return False
    rows, other = (set().union(*(at_rows.get(c, set()) for c in columns)) for columns in (left, right))
    if len(rows & other) < _SAME_ROWS * len(rows | other):
        return True
    first = batch[min(rows & other)]
    heads = [{first[c].text for c in columns if c in first} for columns in (left, right)]
    return len(heads[0] & heads[1]) > 1  # the same columns over again


class _Table:
    """One table in the reading. `headers` is empty where the table has none."""

    def __init__(self, columns: range) -> None:
        self.columns = columns
        self.headers: dict[int, str] = {}

    def begin(self, rows: list[Row], before: Sequence["_Table"]) -> Iterator[Piece]:
        """Titles, then the header, then rows. A part without a header of its own goes on with that of the table above."""
        if len({column for row in rows for column in row}) == 1:
            yield "prose", [value.text for row in rows for value in row.values()]
            return
        at = _header_position(rows)
        own = len(rows[at]) > 1 and _is_header(rows[at]) and at + 1 < len(rows)
        if own:
            spanning = at > 0 and len(rows[at - 1]) > 1 and _is_header(rows[at - 1])
            titles, body = rows[: at - 1 if spanning else at], rows[at + 1 :]
            self.headers = _headers(rows[at], rows[at - 1] if spanning else {}, self.columns)
        else:
            titles, body = rows[:at], rows[at:]
            above = (
                t for t in reversed(before) if t.headers and t.columns.start <= self.columns.start < t.columns.stop
            )
            inherits = any(value.amount for value in rows[at].values())
            self.headers = next((t.headers for t in above), {}) if inherits else {}
        if titles:
            yield "prose", [" ".join(value.text for value in row.values()) for row in titles]
        if own and not self.headers.keys() <= {column for row in body for column in row}:
            yield "table", ["; ".join(self.headers.values())]  # or the names of empty columns would be lost
        yield from self.go_on(body)

    def go_on(self, rows: list[Row]) -> Iterator[Piece]:
        """Further rows of the table."""
        if lines := [self._line(row) for row in rows]:
            yield "table", lines

    def _line(self, row: Row) -> str:
        values = list(row.values())
        if len(values) == 1 and (not self.headers or values[0].width > 1):  # a line across the table
            return values[0].text
        if self.headers:
            return "; ".join(f"{self.headers.get(c) or f'column {letters(c)}'}: {v.text}" for c, v in row.items())
        if len(values) == 2 and not values[0].amount:
            return f"{values[0].text.rstrip(': ')}: {values[1].text}"
        return "; ".join(value.text for value in values)


def _header_position(rows: Sequence[Row]) -> int:
    """The first row that is filled like the table: at least half as far as its fullest of the first rows."""
    needed = max(2, (max(map(len, rows[:20])) + 1) // 2)
    position = next((at for at, row in enumerate(rows) if len(row) >= needed), 0)
    for above, row in islice(pairwise(rows), position, None):
        if len(row) <= len(above) or not _is_header(row) or all(value.width == 1 for value in above.values()):
            break
        position += 1  # merged cells stand above the names of their columns
    return position


def _is_header(row: Row) -> bool:
    return not any(v.amount or len(v.text) > MAX_HEADER_CHARS or v.text.endswith(":") for v in row.values())


def _headers(row: Row, spanning: Row, columns: range) -> dict[int, str]:
    """By column: the words of the header, after those of the row above that reaches over several columns."""
    over: dict[int, str] = {}
    starts = [*sorted(spanning), columns.stop]
    for column, following in pairwise(starts):
        width = spanning[column].width
        over.update(dict.fromkeys(range(column, column + width if width > 1 else following), spanning[column].text))
    headers: dict[int, str] = {}
    for column, value in row.items():
        for covered in range(column, column + value.width):
            words = dict.fromkeys(filter(None, (over.get(covered), value.text)))
            headers[covered] = " ".join(words)
    for column in over.keys() - headers.keys():
        headers[column] = over[column]
    names = Counter(headers.values())
    return {c: name if names[name] == 1 else f"{name} (column {letters(c)})" for c, name in headers.items()}


def letters(column: int) -> str:
    """A for 0, AA for 26."""
    name = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(ord("A") + rest) + name
    return name
