"""Table rows of a PDF page, told by where the words stand.

In: lines in the order of the page's content. Out: `Row` values: one cell for prose, several for what stands side by side.
Must not: know PDFium (pure); move a word from its row.

Writers draw a row line by line, or cell by cell. In the second case the next cell begins to the right of the last one and
no lower than its last line.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from ingest.loaders.pdf_lines import Line, Segment
from ingest.loaders.pdf_words import Hyphens

_CELL_PITCH = 1.6  # in font sizes: the lines of one cell are not further apart
_COLUMN_GAP = 0.8  # in font sizes
_RISE = 5.0  # in font sizes, above a row that has begun: cells are often centred. Columns of prose rise by more
_CELL_LINES = 24
_MAX_CELLS = 200  # in a row that is looked at closely; work goes up with the square
_OTHER_SIZE = 0.12
_SLACK = 0.5  # in font sizes
_MIN_ROWS = 2
_SEPARATOR = " | "


@dataclass(slots=True)
class _Cell:
    left: float
    right: float
    lowest: float
    pieces: list[tuple[str, bool]]  # the words of each line, and whether a hyphen at its end was taken off

    def add(self, segment: Segment, line: Line, *, hyphenated: bool) -> None:
        self.left, self.right = min(self.left, segment.left), max(self.right, segment.right)
        self.lowest = min(self.lowest, line.baseline)
        self.pieces.append((segment.text, hyphenated))

    def text(self, hyphens: Hyphens) -> str:
        said = ""
        for i, (piece, hyphenated) in enumerate(self.pieces):
            said += piece
            if i + 1 < len(self.pieces):
                said += hyphens.joint(piece, self.pieces[i + 1][0]) if hyphenated else " "
            elif hyphenated:
                said += "-"
        return said


@dataclass(slots=True)
class Row:
    """Lines that stand side by side; `top` and `bottom` are baselines."""

    size: float
    top: float
    bottom: float
    cells: list[_Cell] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    @classmethod
    def of(cls, line: Line) -> Self:
        """The row that begins with a line."""
        row = cls(line.size, line.baseline, line.baseline)
        row._add(line, [None] * len(line.segments))
        return row

    def takes(self, line: Line) -> bool:
        """Add the line, if it belongs to this row."""
        if not line.upright or not self.lines[-1].upright or len(self.lines) >= _CELL_LINES * len(self.cells):
            return False
        if len(self.cells) + len(line.segments) > _MAX_CELLS:
            return False
        if len(line.segments) > 1 and self._is_first_column(line.segments[0]):
            return False
        cells = [self._cell_above(segment, line) for segment in line.segments]
        fresh = cells.index(None) if None in cells else len(cells)
        if any(cell is not None for cell in cells[fresh:]) or (fresh < len(cells) and not self._is_beside(line, fresh)):
            return False
        if cells[0] is self.cells[0] and len(self.cells) > 1:
            return False  # below the first cell of a whole row begins the next
        self._add(line, cells)
        return True

    def _is_first_column(self, segment: Segment) -> bool:
        return segment.left < self.cells[0].right

    def _cell_above(self, segment: Segment, line: Line) -> _Cell | None:
        """The cell that the segment goes on."""
        if abs(line.size - self.size) > _OTHER_SIZE * self.size:
            return None
        for i, cell in enumerate(self.cells):
            next_left = self.cells[i + 1].left if i + 1 < len(self.cells) else float("inf")
            under = 0 < cell.lowest - line.baseline <= _CELL_PITCH * max(line.size, self.size)
            if under and segment.left < cell.right and segment.right > cell.left and segment.right < next_left:
                before = self.cells[i - 1].right if i else float("-inf")
                return cell if segment.left > before else None
        return None

    def _is_beside(self, line: Line, first: int) -> bool:
        """Whether the segments from `first` on stand to the right of all that the row has, at its height, unless that is
        told by segments before them."""
        gap = line.segments[first].left - max(cell.right for cell in self.cells)
        level = first > 0 or self.bottom - _SLACK * self.size <= line.baseline <= self.top + _RISE * self.size
        return gap >= _COLUMN_GAP * self.size and level

    def _add(self, line: Line, above: Sequence[_Cell | None]) -> None:
        last = len(line.segments) - 1
        for i, (segment, cell) in enumerate(zip(line.segments, above, strict=True)):
            hyphenated = line.hyphenated and i == last
            if cell is None:
                self.cells.append(_Cell(segment.left, segment.right, line.baseline, [(segment.text, hyphenated)]))
            else:
                cell.add(segment, line, hyphenated=hyphenated)
        self.lines.append(line)
        self.top, self.bottom = max(self.top, line.baseline), min(self.bottom, line.baseline)


def rows(lines: Iterable[Line]) -> Iterator[Row]:
    """All lines, each in one row."""
    row: Row | None = None
    for line in lines:
        if row is not None and row.takes(line):
            continue
        if row is not None:
            yield row
        row = Row.of(line)
    if row is not None:
        yield row


def tables(found: Iterable[Row]) -> Iterator[tuple[list[Row], bool]]:
    """Neighbours that are rows of one table, and neighbours that are not (`False`)."""
    run: list[Row] = []
    is_table = False
    for row in found:
        belongs = len(row.cells) > 1
        if run and (belongs != is_table or (belongs and row.top >= run[-1].top)):
            yield run, is_table and len(run) >= _MIN_ROWS
            run = []
        run.append(row)
        is_table = belongs
    if run:
        yield run, is_table and len(run) >= _MIN_ROWS


def table_text(table: Sequence[Row], hyphens: Hyphens) -> str:
    """A line for each row. Where a row has fewer cells than another, its empty ones are kept if it is clear which."""
    columns = max(table, key=lambda row: len(row.cells)).cells
    placed = [_placed(row, columns) for row in table]
    clear = all(cells is not None for cells in placed)
    text = ""
    for row, cells in zip(table, placed, strict=True):
        shown: Sequence[_Cell | None] = cells if clear and cells is not None else row.cells
        while shown[-1] is None:
            shown = shown[:-1]
        said = _SEPARATOR.join(cell.text(hyphens) if cell is not None else "" for cell in shown)
        text += " ".join(said.split()) + "\n"
    return text


def _placed(row: Row, columns: Sequence[_Cell]) -> list[_Cell | None] | None:
    """The row's cells by column; None where two stand in one, or one stands in two."""
    if len(columns) > _MAX_CELLS:
        return None
    placed: list[_Cell | None] = [None] * len(columns)
    for cell in row.cells:
        touched = [i for i, column in enumerate(columns) if cell.left < column.right and cell.right > column.left]
        if len(touched) != 1 or placed[touched[0]] is not None:
            return None
        placed[touched[0]] = cell
    return placed
