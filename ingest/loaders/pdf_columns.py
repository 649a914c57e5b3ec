"""Columns that a PDF draws row by row are read one after the other.

In: lines in the order of the page's content. Out: the same lines; where a run of them crosses a gutter, cut in two and
put left before right. Must not: touch tables, whose cells belong to their rows; only columns of prose are told apart, and
a page whose columns differ in height or number stays as it is (known limit).
"""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from ingest.loaders.pdf_lines import Line

_MIN_ROWS = 4
_PROSE_WORDS = 4  # words in a line of a column; cells of tables have fewer
_MIN_SHARE = 0.3  # of the run's width that each column takes


def unwoven(lines: list[Line]) -> list[Line]:
    """Lines in reading order."""
    ordered: list[Line] = []
    for run in _runs(lines):
        ordered.extend(_left_then_right(run) if _is_prose_in_columns(run) else run)
    return ordered


def _runs(lines: list[Line]) -> Iterator[list[Line]]:
    """Neighbours that have a gap at the same place, and neighbours that have none."""
    run: list[Line] = []
    for line in lines:
        if run and _gutter(run[-1]) is not None and _gutter(line) is not None and _share_gutter([*run, line]):
            run.append(line)
        else:
            if run:
                yield run
            run = [line]
    if run:
        yield run


def _gutter(line: Line) -> tuple[float, float] | None:
    return (line.segments[0].right, line.segments[1].left) if len(line.segments) == 2 else None


def _share_gutter(run: list[Line]) -> bool:
    return max(line.segments[0].right for line in run) < min(line.segments[1].left for line in run)


def _is_prose_in_columns(run: list[Line]) -> bool:
    if len(run) < _MIN_ROWS:
        return False
    width = max(line.right for line in run) - min(line.left for line in run)
    return all(
        median(len(line.segments[side].text.split()) for line in run) >= _PROSE_WORDS
        and median(line.segments[side].right - line.segments[side].left for line in run) >= _MIN_SHARE * width
        for side in (0, 1)
    )


def _left_then_right(run: list[Line]) -> list[Line]:
    left = [replace(line, segments=line.segments[:1], hyphenated=False) for line in run]
    return left + [replace(line, segments=line.segments[1:]) for line in run]
