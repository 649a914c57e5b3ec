"""The lines of a picture in reading order, in the same form as those of a PDF's text.

In: lines with their places in pixels. Out: blocks of `Line`; each reads from top to bottom. Must not: know the engine
(pure); take the cells of a table for columns of prose.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from ingest.loaders.ocr import Seen, SeenLine
from ingest.loaders.pdf_lines import CELL_GAP, Line, Segment
from ingest.loaders.pdf_words import clean_characters

_MIN_ROWS = 3
_MIN_LETTERS = 12  # in the usual line of a column; cells of tables have fewer
_MIN_SHARE = 0.2  # of the whole width that a column takes
_PLACES = range(20, 81)  # per cent of the width, where a gutter is looked for
_SAME_ROW = 0.5  # in line heights
_USUAL_SIZE = (0.7, 1.4)  # a box is as high as its letters happen to be: these count as the block's usual size
_FONT_SIZE = 0.75  # of a box's height
_MAX_DEPTH = 6
_HYPHENS = "-\u2010"


def blocks(seen: Seen) -> list[list[Line]]:
    """Reading order: what spans the page in its place, and between such lines the left column before the right one."""
    return [_rows(block, seen.height) for block in _blocks(list(seen.lines), 0)]


def _blocks(lines: list[SeenLine], depth: int) -> Iterator[list[SeenLine]]:
    gutter = _gutter(lines) if depth < _MAX_DEPTH else None
    if gutter is None:
        if lines:
            yield lines
        return
    spanning: list[SeenLine] = []
    left: list[SeenLine] = []
    right: list[SeenLine] = []
    for line in sorted(lines, key=lambda line: line.middle):
        side = left if line.right <= gutter else right if line.left >= gutter else None
        if side is None:
            if left or right:
                yield from _blocks(left, depth + 1)
                yield from _blocks(right, depth + 1)
                left, right = [], []
            spanning.append(line)
        else:
            if spanning:
                yield spanning
                spanning = []
            side.append(line)
    if spanning:
        yield spanning
    yield from _blocks(left, depth + 1)
    yield from _blocks(right, depth + 1)


def _gutter(lines: Sequence[SeenLine]) -> float | None:
    """Where the fewest lines cross, among the places with a column of prose on either side."""
    if len(lines) < 2 * _MIN_ROWS:
        return None
    start, end = min(line.left for line in lines), max(line.right for line in lines)
    best: tuple[int, float] | None = None
    found: float | None = None
    for place in _PLACES:
        x = start + (end - start) * place / 100
        left, right = [line for line in lines if line.right <= x], [line for line in lines if line.left >= x]
        if not (_is_column(left, end - start) and _is_column(right, end - start) and _stand_side_by_side(left, right)):
            continue
        room = min(line.left for line in right) - max(line.right for line in left)
        rank = (len(left) + len(right), room)
        if best is None or rank > best:
            best, found = rank, x
    return found


def _is_column(lines: Sequence[SeenLine], whole: float) -> bool:
    if len(lines) < _MIN_ROWS:
        return False
    width = max(line.right for line in lines) - min(line.left for line in lines)
    letters = median(sum(c.isalnum() for c in line.text) for line in lines)
    return width >= _MIN_SHARE * whole and letters >= _MIN_LETTERS


def _stand_side_by_side(left: Sequence[SeenLine], right: Sequence[SeenLine]) -> bool:
    top = max(min(line.middle for line in side) for side in (left, right))
    foot = min(max(line.middle for line in side) for side in (left, right))
    heights = [max(line.middle for line in side) - min(line.middle for line in side) for side in (left, right)]
    return foot - top > min(heights) / 2


def _rows(block: Sequence[SeenLine], page_height: float) -> list[Line]:
    usual = median(line.height for line in block)
    rows: list[list[SeenLine]] = []
    for line in sorted(block, key=lambda line: line.middle):
        if rows and abs(line.middle - rows[-1][0].middle) < _SAME_ROW * min(line.height, rows[-1][0].height):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [made for row in rows if (made := _line(sorted(row, key=lambda line: line.left), usual, page_height))]


def _line(row: Sequence[SeenLine], usual: float, page_height: float) -> Line | None:
    height = max(line.height for line in row)
    size = _FONT_SIZE * (usual if _USUAL_SIZE[0] < height / usual < _USUAL_SIZE[1] else height)
    segments: list[Segment] = []
    for words in row:
        text = clean_characters(words.text)
        if not text:
            continue
        if segments and words.left - segments[-1].right < CELL_GAP * size:
            last = segments[-1]
            segments[-1] = Segment(f"{last.text} {text}", last.left, words.right, last.first_word_width)
        else:
            first_word = len(text.split(" ", 1)[0]) / len(text) * (words.right - words.left)
            segments.append(Segment(text, words.left, words.right, first_word))
    if not segments:
        return None
    last = segments[-1]
    hyphenated = len(last.text) > 1 and last.text[-1] in _HYPHENS and last.text[-2].isalnum()
    if hyphenated:
        segments[-1] = Segment(last.text[:-1], last.left, last.right, last.first_word_width)
    return Line(tuple(segments), page_height - row[0].middle, size, hyphenated)
