"""Lines of a page become paragraphs that read through, and table rows that stay rows.

In: lines in reading order. Out: passages whose texts joined are the page's text. Must not: join what a reader sees as
separate lines; know PDFium (pure).
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import median

from ingest.loaders.pdf_lines import Line
from ingest.loaders.pdf_tables import rows, table_text, tables
from ingest.loaders.pdf_words import Hyphens

_SAME_LINE = 0.45  # in font sizes: superscripts and subscripts leave the baseline by less
_PARAGRAPH_PITCH = 1.35  # in usual line pitches
_INDENT = 0.8  # in font sizes
_OTHER_SIZE = 0.12
_BLOCK_LINES = 8  # how far up and down a block's right edge is looked for
_BLOCK_INDENT = 2.0  # in font sizes; more is another block
_MARK = r"[•‣▪●○◦–—*\uf0b7\uf0a7-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]"
_LIST_MARK = re.compile(_MARK)
_LIST_ITEM = re.compile(rf"(?:{_MARK})\s")
_LEADER_END = re.compile(r" … \S{1,9}\Z")  # a line of a table of contents
_SENTENCE_END = re.compile(r"[.!?:;…。！？][\"'”’»)\]]*\Z")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a page with its own line ends."""

    text: str
    is_table: bool = False


def passages(lines: list[Line], hyphens: Hyphens) -> Iterator[Passage]:
    """Prose and tables in turn. Two rows or more with wide gaps, one under the other, are a table."""
    prose: list[Line] = []
    for run, is_table in tables(rows(_on_baselines(_without_marks(lines)))):
        if not is_table:
            prose.extend(line for row in run for line in row.lines)
            continue
        if prose:
            yield Passage(_prose(prose, hyphens) + "\n\n")
            prose = []
        yield Passage(table_text(run, hyphens) + "\n", is_table=True)
    if prose:
        yield Passage(_prose(prose, hyphens) + "\n\n")


def _without_marks(lines: Iterable[Line]) -> Iterator[Line]:
    """The mark of a list's item is no cell of a table."""
    for line in lines:
        mark, *rest = line.segments
        if rest and _LIST_MARK.fullmatch(mark.text):
            first = replace(rest[0], text=f"{mark.text} {rest[0].text}", left=mark.left)
            yield replace(line, segments=(first, *rest[1:]))
        else:
            yield line


def _on_baselines(lines: Iterable[Line]) -> Iterator[Line]:
    """Pieces of one line that PDFium took apart for a raised or lowered sign are put together again."""
    pending: Line | None = None
    for line in lines:
        if pending is not None and _continues(pending, line):
            pending = _merged(pending, line)
        else:
            if pending is not None:
                yield pending
            pending = line
    if pending is not None:
        yield pending


def _continues(a: Line, b: Line) -> bool:
    size = max(a.size, b.size)
    near = abs(a.baseline - b.baseline) < _SAME_LINE * size and -0.3 * size <= b.left - a.right < size
    return a.upright and b.upright and near and not a.hyphenated


def _merged(a: Line, b: Line) -> Line:
    main = a if a.size >= b.size else b
    last, first = a.segments[-1], b.segments[0]
    space = " " if first.left - last.right > 0.15 * main.size else ""
    middle = type(last)(f"{last.text}{space}{first.text}", last.left, first.right, last.first_word_width)
    return Line((*a.segments[:-1], middle, *b.segments[1:]), main.baseline, main.size, b.hyphenated)


def _prose(lines: list[Line], hyphens: Hyphens) -> str:
    pitch = _usual_pitch(lines)
    pieces = [lines[0].text]
    for i, (a, b) in enumerate(itertools.pairwise(lines)):
        pieces.append(hyphens.joint(a.text, b.text) if a.hyphenated else _between(lines, i, pitch))
        pieces.append(b.text)
    return "".join(pieces) + ("-" if lines[-1].hyphenated else "")


def _usual_pitch(lines: list[Line]) -> float:
    steps = [a.baseline - b.baseline for a, b in itertools.pairwise(lines) if a.baseline > b.baseline]
    return median(steps) if steps else 0.0


def _between(lines: list[Line], i: int, pitch: float) -> str:
    """A space inside a paragraph, a line end in a list or verse, a blank line between paragraphs."""
    a, b = lines[i], lines[i + 1]
    if not (a.upright and b.upright):
        return "\n"
    step = a.baseline - b.baseline
    if abs(a.size - b.size) > _OTHER_SIZE * max(a.size, b.size) or step > _PARAGRAPH_PITCH * pitch:
        return "\n\n"
    if step <= 0:  # up the page: the next column
        return " " if b.text[0].islower() and not _SENTENCE_END.search(a.text) else "\n\n"
    if _LIST_ITEM.match(b.text) or _LEADER_END.search(a.text):
        return "\n"
    if len(a.segments) > 1 or len(b.segments) > 1 or not _is_full(lines, i):
        return "\n"
    before, after = lines[i - 1] if i else None, lines[i + 2] if i + 2 < len(lines) else None
    return "\n\n" if _begins_paragraph(before, a, b, after) else " "


def _is_full(lines: list[Line], i: int) -> bool:
    """Whether the next word would not have fitted on the line, judged by its block's right edge."""
    a, b = lines[i], lines[i + 1]
    above = itertools.takewhile(lambda line: _same_block(line, a), reversed(lines[max(0, i - _BLOCK_LINES) : i]))
    below = itertools.takewhile(lambda line: _same_block(line, a), lines[i + 1 : i + 1 + _BLOCK_LINES])
    block = [*above, *below]
    if not block and not _LIST_ITEM.match(a.text):  # alone in its block, a line tells nothing of the margin
        block = lines[max(0, i - _BLOCK_LINES) : i + 1 + _BLOCK_LINES]
    margin = max(line.right for line in (a, *block))
    return a.right + b.segments[0].first_word_width + 0.25 * a.size >= margin - 0.02 * (margin - a.left)


def _same_block(line: Line, a: Line) -> bool:
    return abs(line.left - a.left) < _BLOCK_INDENT * a.size and abs(line.size - a.size) <= _OTHER_SIZE * a.size


def _begins_paragraph(before: Line | None, a: Line, b: Line, after: Line | None) -> bool:
    """By indent: a first line that stands in, or, in hanging lists, one that stands out."""
    if _LIST_ITEM.match(a.text):
        return False  # what is indented below a mark is its item
    indent = _INDENT * a.size
    if b.left - a.left > indent:
        return after is None or b.left - after.left > indent
    hanging = before is not None and abs(before.left - a.left) < indent / 2
    return hanging and a.left - b.left > indent and (after is None or after.left - b.left > indent)
