"""Table rows and lines of code: where a long row is cut, and what its later parts and rows cannot say themselves.

In: a text and its atoms. Out: `Row` and `Cell` values. Must not: change a text; do I/O (pure, standard library).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rag_service.index.spans import Span

Context = tuple[str, ...]

# Loaders write rows as `header: value; header: value`; a table of a web page has bars between.
_CELL_EDGE = re.compile(r"(?:; | \| )(?=[^:;|\n]{1,80}: )")
_LABEL = re.compile(r"\s*([^:;|(){}=<>\n]{1,80}?):\s")
_BAR = re.compile(r"(?<!\\)\|")
_DELIMITER_ROW = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*+\|?[ \t]*")
_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*(.*)")
MAX_LABEL_CHARS = 80
MAX_HEADERS = 64  # more than a chunk has room for


@dataclass(frozen=True, slots=True)
class Row:
    """An atom. `headers` are those of the Markdown table that it is a later row of; `joined` says that it stays with the
    next one: a table's head, the fence that opens code, the line before the fence that closes it."""

    span: Span
    headers: tuple[str, ...] = ()
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of a row. `context` is what a chunk that begins with it must be told, `inner` one that begins within it."""

    span: Span
    context: Context
    inner: Context


def rows_of(text: str, atoms: Sequence[Span]) -> list[Row]:
    """The atoms, in order, each with what its neighbours say of it."""
    rows: list[Row] = []
    headers: tuple[str, ...] = ()
    fence = ""
    for n, atom in enumerate(atoms):
        following = atoms[n + 1] if n + 1 < len(atoms) and text[atom.end : atoms[n + 1].start] == "\n" else None
        bars = "|" in text[atom.start : atom.end]
        if headers and not (bars and text[atoms[n - 1].end : atom.start] == "\n"):
            headers = ()
        rows.append(Row(atom, headers, joined=bool(headers) and not rows[n - 1].headers))
        if not headers and bars and following is not None and _is_delimiter_row(text, following):
            headers = _cells_of_header(atom.of(text))
            rows[-1] = Row(atom, joined=bool(headers))
        found = _FENCE.match(text, atom.start, atom.end)
        if found and not fence:
            fence = found[1]
            rows[-1] = replace(rows[-1], joined=True)
        elif found and found[1].startswith(fence) and not found[2]:
            fence = ""
            rows[-2] = replace(rows[-2], joined=True)
    return rows


def _is_delimiter_row(text: str, span: Span) -> bool:
    return _DELIMITER_ROW.fullmatch(text, span.start, span.end) is not None


def _cells_of_header(line: str) -> tuple[str, ...]:
    """None if all are empty: there is nothing to repeat."""
    found = [cell.strip() for cell in _BAR.split(line.strip(" \t>").removeprefix("|").removesuffix("|"))]
    return tuple(found) if any(found) else ()


def context_of(row: Row) -> Context:
    """What a chunk that begins with `row` must be told."""
    return (" | ".join(row.headers[:MAX_HEADERS]).strip(),) if row.headers else ()


def cells(text: str, row: Row) -> list[Cell]:
    """A row too long for a chunk as its cells. A chunk that begins with a later one is told which row it is in (its first
    cell), one that begins within a cell also the header of that cell."""
    edges = _bars_inside(text, row.span) if row.headers else _label_edges(text, row.span)
    starts = [row.span.start, *edges]
    spans = [Span(start, end) for start, end in zip(starts, [*edges, row.span.end], strict=True)]
    first = _short(_bare(spans[0].of(text)))
    if first and row.headers and row.headers[0]:
        first = f"{row.headers[0]}: {first}"
    found: list[Cell] = []
    for n, span in enumerate(spans):
        which = (first,) if n and first else ()
        rest = " | ".join(row.headers[n : n + MAX_HEADERS]).strip()
        label = row.headers[n] if n < len(row.headers) else _label(span.of(text)) if not row.headers else ""
        context = context_of(row) if n == 0 else (*which, rest) if rest else which
        found.append(Cell(span, context, (*which, label) if label else which))
    return found


def _label_edges(text: str, span: Span) -> list[int]:
    return [match.end() for match in _CELL_EDGE.finditer(text, span.start, span.end)]


def _bars_inside(text: str, span: Span) -> list[int]:
    """The bars between the cells of a Markdown row, without those at its ends."""
    line = span.of(text)
    left = span.start + len(line) - len(line.lstrip())
    right = span.start + len(line.rstrip()) - 1
    return [at for at in (match.start() for match in _BAR.finditer(text, span.start, span.end)) if left < at < right]


def _label(cell: str) -> str:
    found = _LABEL.match(cell)
    return found[1].strip() if found else ""


def _bare(cell: str) -> str:
    """Without the signs at its edges; empty if there is nothing to read in it."""
    bare = cell.strip(" \t|;>")
    return bare if any(character.isalnum() for character in bare[:MAX_LABEL_CHARS]) else ""


def _short(words: str) -> str:
    return words if len(words) <= MAX_LABEL_CHARS else f"{words[: MAX_LABEL_CHARS - 1].rstrip()}…"
