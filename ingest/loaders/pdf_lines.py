"""The characters of a PDF page as lines, with where they stand.

In: a PDFium text page. Out: `Line` values in PDFium's order (that of the page's content). Must not: decide about
paragraphs or words; keep anything of PDFium's alive.
"""

import ctypes
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ingest.loaders.pdf_letters import SPACES, Char, spelt

CELL_GAP = 1.6  # in font sizes; justified prose stays well below
_NARROW_CELL_GAP = 1.0  # counts if it stands out among the gaps of its line
_STANDS_OUT = 2.5
_WORD_GAP = 0.1
_HYPHEN = 0x02  # PDFium's mark for a hyphen and the line end after it
_HYPHENS = frozenset((0x2D, 0x2010))
_LINE_ENDS = frozenset((0x0A, 0x0D))
_QUARTER = math.pi / 2
_LEVEL = 0.1  # radians
_SAMPLE = 500  # characters
_SMALLEST, _PLAIN = 2.0, 6.0  # points
_A_SENTENCE = 20  # letters
_TWIN_SHIFT = 0.25  # of a letter's width, by which its twin may be moved; two slanted f overlap by half
_NARROW_TWIN_SHIFT = 0.07  # of its height, which is what counts for narrow letters
_DOUBLED = 0.5  # share of its height by which a letter must cover its twin


@dataclass(frozen=True, slots=True)
class Segment:
    """Words without a wide gap. Points from the left edge."""

    text: str
    left: float
    right: float
    first_word_width: float


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `baseline` in points, more is higher; `size` is the font's, in points; `hyphenated` means that a hyphen
    at its end was taken off. `upright` is false for text that lies athwart most of the page, whose places say nothing
    about reading order.
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


def page_lines(text_page: pdfium.PdfTextPage) -> list[Line]:
    """All lines that have a visible character, as if the page were held so that most of it is upright. Raises
    PdfiumError."""
    lines: list[Line] = []
    frame = _frame(text_page)
    for is_end, run in itertools.groupby(
        _characters(text_page, frame), key=lambda c: c.code in _LINE_ENDS or c.code == _HYPHEN
    ):
        characters = list(run)
        if not is_end:
            lines.extend(filter(None, (_line(text_page, visual, frame) for visual in _visual_lines(characters))))
        elif characters[0].code == _HYPHEN and lines:
            lines[-1] = replace(lines[-1], hyphenated=True)
    return lines


def legible(lines: list[Line]) -> list[Line]:
    """Without what nobody can see: lines in letters of less than 2 points, on a page that has a sentence in larger ones."""
    large = sum(len(line.text) for line in lines if line.size >= _PLAIN)
    return [line for line in lines if line.size >= _SMALLEST] if large >= _A_SENTENCE else lines


def _usual_turns(text_page: pdfium.PdfTextPage) -> int:
    """Quarter turns with the clock that most characters are drawn at, judged by a sample."""
    count = text_page.count_chars()
    angles = (pdfium_c.FPDFText_GetCharAngle(text_page, i) for i in range(0, count, max(1, count // _SAMPLE)))
    turns = Counter(round(angle / _QUARTER) % 4 for angle in angles if angle >= 0)  # below 0: it has none
    return max(turns, key=lambda turn: (turns[turn], -turn)) if turns else 0


@dataclass(frozen=True, slots=True)
class _Frame:
    """The page as it is held to read it: after so many quarter turns against the clock. `right` and `top` are its edges."""

    turns: int
    right: float
    top: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        """A place of the page, from the lower left of the turned page."""
        return ((x, y), (self.top - y, x), (self.right - x, self.top - y), (y, self.right - x))[self.turns]


def _frame(text_page: pdfium.PdfTextPage) -> _Frame:
    _, _, right, top = text_page.page.get_mediabox()
    return _Frame(_usual_turns(text_page), right, top)


def _characters(text_page: pdfium.PdfTextPage, frame: _Frame) -> Iterator[Char]:
    """Characters as PDFium lists them. A letter drawn over itself to look bold comes once."""
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    before: Char | None = None
    for index in range(text_page.count_chars()):
        code = pdfium_c.FPDFText_GetUnicode(text_page, index)
        pdfium_c.FPDFText_GetCharBox(text_page, index, left, right, bottom, top)
        (x1, y1), (x2, y2) = frame.place(left.value, bottom.value), frame.place(right.value, top.value)
        here = Char(index, code, min(x1, x2), max(x1, x2), min(y1, y2), max(y1, y2))
        if before is None or not _is_twin(before, here):
            yield here
            before = here


def _is_twin(a: Char, b: Char) -> bool:
    if a.code != b.code or a.code in SPACES or a.code in _LINE_ENDS:
        return False
    if (a.left, a.bottom) == (b.left, b.bottom):  # two letters of one ligature; true twins PDFium takes out itself
        return False
    width, height = b.right - b.left, b.top - b.bottom
    shift = max(abs(a.left - b.left), abs(a.right - b.right))
    along = min(a.top, b.top) - max(a.bottom, b.bottom)
    return shift < max(_TWIN_SHIFT * width, _NARROW_TWIN_SHIFT * height) and width > 0 and along > _DOUBLED * height > 0


def _visual_lines(characters: list[Char]) -> Iterator[list[Char]]:
    """Cut where the pen goes down and back to the left: PDFium drops some line ends."""
    start, edge = 0, None
    for position, c in enumerate(characters):
        if not c.is_inked:
            continue
        height = c.top - c.bottom
        if edge is not None and c.left < edge.left - 3 * height and c.top <= edge.bottom:
            yield characters[start:position]
            start = position
        edge = c
    yield characters[start:]


def _line(text_page: pdfium.PdfTextPage, characters: list[Char], frame: _Frame) -> Line | None:
    inked = [c for c in characters if c.is_inked]
    if not inked:
        return None
    first = inked[0]
    x, y = ctypes.c_double(), ctypes.c_double()
    pdfium_c.FPDFText_GetCharOrigin(text_page, first.index, x, y)
    size = _font_size(text_page, first)
    off = (pdfium_c.FPDFText_GetCharAngle(text_page, first.index) - frame.turns * _QUARTER) % (2 * math.pi)
    last = characters.index(inked[-1])
    hyphenated = inked[-1].code in _HYPHENS and last > 0 and characters[last - 1].code not in SPACES
    if hyphenated:
        characters = characters[:last]

    def origin(char: Char) -> float:
        pdfium_c.FPDFText_GetCharOrigin(text_page, char.index, x, y)
        return frame.place(x.value, y.value)[0]

    baseline = frame.place(x.value, y.value)[1]
    segments = tuple(filter(None, (_segment(piece, size, origin) for piece in _pieces(characters, size))))
    upright = min(off, 2 * math.pi - off) < _LEVEL
    return Line(segments, baseline, size, hyphenated, upright) if segments else None


def _font_size(text_page: pdfium.PdfTextPage, char: Char) -> float:
    """In points as drawn: many writers set fonts of size 1 and scale them."""
    matrix = pdfium_c.FS_MATRIX()
    scale = math.hypot(matrix.c, matrix.d) if pdfium_c.FPDFText_GetMatrix(text_page, char.index, matrix) else 1.0
    return float(pdfium_c.FPDFText_GetFontSize(text_page, char.index)) * scale or max(char.top - char.bottom, 1.0)


def _pieces(characters: list[Char], size: float) -> Iterator[list[Char]]:
    """Cut where the gap is wider than any between words: by itself, or next to the line's other gaps."""
    inked = [i for i, c in enumerate(characters) if c.is_inked]
    gaps = [(j, characters[j].left - characters[i].right) for i, j in itertools.pairwise(inked)]
    between_words = [gap for _, gap in gaps if gap > _WORD_GAP * size]
    usual = median(between_words) if between_words else 0.0
    start = 0
    for position, gap in gaps:
        if gap > CELL_GAP * size or gap > max(_NARROW_CELL_GAP * size, _STANDS_OUT * usual):
            yield characters[start:position]
            start = position
    yield characters[start:]


def _segment(characters: list[Char], size: float, origin: Callable[[Char], float]) -> Segment | None:
    text = spelt(characters, size, origin)
    inked = [c for c in characters if c.is_inked]
    if not text or not inked:
        return None
    left = min(c.left for c in inked)
    first_word = list(itertools.takewhile(lambda c: c.code not in SPACES, characters[characters.index(inked[0]) :]))
    width = max(c.right for c in first_word) - left
    return Segment(text, left, max(c.right for c in inked), width)
