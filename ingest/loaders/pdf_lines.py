"""The characters of a PDF page as lines, with where they stand.

In: a PDFium text page. Out: `Line` values in PDFium's order (that of the page's content). Must not: decide about
paragraphs or words; keep anything of PDFium's alive.
"""

import ctypes
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ingest.loaders.pdf_words import clean_characters

CELL_GAP = 1.6  # in font sizes; justified prose stays well below
_NARROW_CELL_GAP = 1.0  # counts if it stands out among the gaps of its line
_STANDS_OUT = 2.5
_WORD_GAP = 0.1
_HYPHEN = 0x02  # PDFium's mark for a hyphen and the line end after it
_HYPHENS = frozenset((0x2D, 0x2010))
_SPACES = frozenset((0x20, 0x09, 0xA0))
_LINE_ENDS = frozenset((0x0A, 0x0D))
_DOUBLED = 0.5  # share of its width by which a letter must cover its twin


@dataclass(frozen=True, slots=True)
class Segment:
    """Words without a wide gap. Points from the page's left edge."""

    text: str
    left: float
    right: float
    first_word_width: float


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `baseline` in points from the page's foot; `size` is the font's, in points; `hyphenated` means that a
    hyphen at its end was taken off. `upright` is false for turned text, whose places say nothing about reading order.
    """

    segments: tuple[Segment, ...]
    baseline: float
    size: float
    hyphenated: bool = False
    upright: bool = True

    @property
    def text(self) -> str:
        return " ".join(segment.text for segment in self.segments)

    @property
    def left(self) -> float:
        return self.segments[0].left

    @property
    def right(self) -> float:
        return max(segment.right for segment in self.segments)


@dataclass(frozen=True, slots=True)
class _Char:
    index: int
    code: int
    left: float
    right: float
    bottom: float
    top: float


def page_lines(text_page: pdfium.PdfTextPage) -> list[Line]:
    """All lines that have a visible character. Raises PdfiumError."""
    lines: list[Line] = []
    for is_end, run in itertools.groupby(
        _characters(text_page), key=lambda c: c.code in _LINE_ENDS or c.code == _HYPHEN
    ):
        characters = list(run)
        if not is_end:
            lines.extend(filter(None, (_line(text_page, visual) for visual in _visual_lines(characters))))
        elif characters[0].code == _HYPHEN and lines:
            lines[-1] = replace(lines[-1], hyphenated=True)
    return lines


def _characters(text_page: pdfium.PdfTextPage) -> Iterator[_Char]:
    """Characters as PDFium lists them. A letter drawn over itself to look bold comes once."""
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    before: _Char | None = None
    for index in range(text_page.count_chars()):
        code = pdfium_c.FPDFText_GetUnicode(text_page, index)
        pdfium_c.FPDFText_GetCharBox(text_page, index, left, right, bottom, top)
        here = _Char(index, code, left.value, right.value, bottom.value, top.value)
        if before is None or not _is_twin(before, here):
            yield here
            before = here


def _is_twin(a: _Char, b: _Char) -> bool:
    if a.code != b.code or a.code in _SPACES or a.code in _LINE_ENDS:
        return False
    if (a.left, a.bottom) == (b.left, b.bottom):  # two letters of one ligature; true twins PDFium takes out itself
        return False
    across = min(a.right, b.right) - max(a.left, b.left)
    along = min(a.top, b.top) - max(a.bottom, b.bottom)
    return across > _DOUBLED * (b.right - b.left) > 0 and along > _DOUBLED * (b.top - b.bottom) > 0


def _visual_lines(characters: list[_Char]) -> Iterator[list[_Char]]:
    """Cut where the pen goes down and back to the left: PDFium drops some line ends."""
    start, edge = 0, None
    for position, c in enumerate(characters):
        if c.code in _SPACES or c.right <= c.left:
            continue
        height = c.top - c.bottom
        if edge is not None and c.left < edge.left - 3 * height and c.top <= edge.bottom:
            yield characters[start:position]
            start = position
        edge = c
    yield characters[start:]


def _line(text_page: pdfium.PdfTextPage, characters: list[_Char]) -> Line | None:
    inked = [c for c in characters if c.code not in _SPACES and c.right > c.left]
    if not inked:
        return None
    first = inked[0]
    x, y = ctypes.c_double(), ctypes.c_double()
    pdfium_c.FPDFText_GetCharOrigin(text_page, first.index, x, y)
    size = _font_size(text_page, first)
    angle = pdfium_c.FPDFText_GetCharAngle(text_page, first.index)
    last = characters.index(inked[-1])
    hyphenated = inked[-1].code in _HYPHENS and last > 0 and characters[last - 1].code not in _SPACES
    if hyphenated:
        characters = characters[:last]
    segments = tuple(filter(None, (_segment(piece) for piece in _pieces(characters, size))))
    return Line(segments, y.value, size, hyphenated, upright=abs(angle) < 0.1) if segments else None


def _font_size(text_page: pdfium.PdfTextPage, char: _Char) -> float:
    """In points as drawn: many writers set fonts of size 1 and scale them."""
    matrix = pdfium_c.FS_MATRIX()
    scale = math.hypot(matrix.c, matrix.d) if pdfium_c.FPDFText_GetMatrix(text_page, char.index, matrix) else 1.0
    return float(pdfium_c.FPDFText_GetFontSize(text_page, char.index)) * scale or max(char.top - char.bottom, 1.0)


def _pieces(characters: list[_Char], size: float) -> Iterator[list[_Char]]:
    """Cut where the gap is wider than any between words: by itself, or next to the line's other gaps."""
    inked = [i for i, c in enumerate(characters) if c.code not in _SPACES and c.right > c.left]
    gaps = [(j, characters[j].left - characters[i].right) for i, j in itertools.pairwise(inked)]
    between_words = [gap for _, gap in gaps if gap > _WORD_GAP * size]
    usual = median(between_words) if between_words else 0.0
    start = 0
    for position, gap in gaps:
        if gap > CELL_GAP * size or gap > max(_NARROW_CELL_GAP * size, _STANDS_OUT * usual):
            yield characters[start:position]
            start = position
    yield characters[start:]


def _segment(characters: list[_Char]) -> Segment | None:
    text = clean_characters("".join(chr(c.code) for c in characters if c.code < 0x110000))
    inked = [c for c in characters if c.code not in _SPACES and c.right > c.left]
    if not text or not inked:
        return None
    left = min(c.left for c in inked)
    first_word = list(itertools.takewhile(lambda c: c.code not in _SPACES, characters[characters.index(inked[0]) :]))
    width = max(c.right for c in first_word) - left
    return Segment(text, left, max(c.right for c in inked), width)
