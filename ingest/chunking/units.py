"""A stretch of text to units: what is kept whole if it fits, and what it is cut into if it does not.

In: a text, a stretch of it, its rows and headings. Out: `Unit` values in order. Must not: count tokens; do I/O (pure,
standard library).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from ingest.chunking.rows import Context, Row, cells, context_of
from ingest.chunking.sentences import evenly, sentences, stripped
from rag_service.index.spans import Span

SPARE = 1.1  # so many times the parts that are needed on average, since tokens are not spread evenly


@dataclass(frozen=True, slots=True)
class Unit:
    """A row, one of its cells, a sentence, or a part of one. A chunk that begins with it is told `context`, one that begins
    within it `inner`; `within` is the start of the row that it is a later part of. `joined` units stay with the next one
    where both fit, headings among them."""

    span: Span
    kind: Literal["row", "cell", "sentence"] = "sentence"
    row: Row | None = None
    context: Context = ()
    inner: Context = ()
    joined: bool = False
    heading: bool = False
    within: int | None = None


def units_of(text: str, stretch: Span, rows: Sequence[Row], heading_starts: Set[int]) -> Iterator[Unit]:
    """Rows as they are; what lies between them by sentences and lines. White space at the ends is left out."""
    position = stretch.start
    for row in islice(rows, bisect_right(rows, stretch.start, key=lambda row: row.span.end), None):
        if row.span.start >= stretch.end:
            break
        if position < row.span.start:
            yield from _prose(text, Span(position, row.span.start), heading_starts)
        inside = Span(max(position, row.span.start), max(position, min(row.span.end, stretch.end)))
        for span in stripped(text, inside):
            yield Unit(span, "row", replace(row, span=span), context_of(row), joined=row.joined)
        position = inside.end
    yield from _prose(text, Span(position, stretch.end), heading_starts)


def _prose(text: str, span: Span, heading_starts: Set[int]) -> Iterator[Unit]:
    """A line that announces what follows ("The steps are:") stays with it, as a heading does."""
    for sentence in sentences(text, span):
        heading = sentence.start in heading_starts
        yield Unit(sentence, joined=heading or text[sentence.end - 1] in ":：", heading=heading)


def parts_of(text: str, unit: Unit, tokens: int, room: int) -> list[Unit]:
    """A unit of `tokens`, cut into smaller ones: a row at the edges of its cells, a cell at the ends of its sentences, a
    sentence at the best places near an even cut."""
    row = unit.row
    within = row.span.start if row else None
    if unit.kind == "row" and row is not None:
        parts = [
            Unit(span, "cell", row, cell.context, cell.inner, within=within)
            for cell in cells(text, row)
            for span in stripped(text, cell.span)
        ]
    else:
        spans = list(sentences(text, unit.span)) if unit.kind == "cell" else [unit.span]
        if len(spans) == 1:
            spans = evenly(text, unit.span, max(2, round(SPARE * tokens / room)))
        parts = [Unit(span, "sentence", row, unit.inner, unit.inner, within=within) for span in spans]
    parts[0] = replace(parts[0], context=unit.context, heading=unit.heading, within=unit.within)
    parts[-1] = replace(parts[-1], joined=unit.joined)
    return parts
