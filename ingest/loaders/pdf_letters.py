"""The letters of a piece of a line as words: spaces that PDFium adds where there are none, or misses, are put right.

In: characters with their places. Out: a string. Must not: know PDFium (pure); guess where the line itself gives no measure.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from ingest.loaders.pdf_words import clean_characters

SPACES = frozenset((0x20, 0x09, 0xA0))
_MIN_GAPS = 3  # between words; fewer say little about how wide the line's spaces are
_LIKE_A_SPACE = 0.75  # of the usual gap between words
_WIDER_THAN_LETTERS = 3.0  # times the usual gap between letters
_EVEN = 0.05  # share by which the steps of letters on a grid differ
_NAMELESS = 0  # PDFium's code for a glyph of which the file says no letter
_WIDE = 0.65  # in font sizes: a lower-case glyph as wide as this is a ligature of three letters, or m or w


@dataclass(frozen=True, slots=True)
class Char:
    """A character of the page; `index` is PDFium's, the rest is in points."""

    index: int
    code: int
    left: float
    right: float
    bottom: float
    top: float

    @property
    def is_space(self) -> bool:
        return self.code in SPACES

    @property
    def is_inked(self) -> bool:
        return not self.is_space and self.right > self.left

    @property
    def letter(self) -> str:
        return chr(self.code) if 0 < self.code < 0x110000 else ""


def spelt(characters: Sequence[Char], size: float, origin: Callable[[Char], float]) -> str:
    """Their text. `origin` tells where the pen stood for a character, which takes time to find out."""
    if _is_torn(characters):
        characters = _without_false_spaces(characters, origin)
    narrowest = _narrowest_space(characters)
    pieces: list[str] = []
    for i, c in enumerate(characters):
        before = characters[i - 1] if i else None
        if before is not None and before.letter.isalpha() and c.letter.isalpha() and c.left - before.right > narrowest:
            pieces.append(" ")
        after = characters[i + 1] if i + 1 < len(characters) else None
        pieces.append(_ligature(before, c, after, size) if c.code == _NAMELESS else c.letter)
    return clean_characters("".join(pieces))


def _narrowest_space(characters: Sequence[Char]) -> float:
    """A gap between two letters that is wider than this is a space that PDFium has missed."""
    between_words: list[float] = []
    between_letters: list[float] = []
    edge: Char | None = None
    parted = False
    for c in characters:
        if c.is_space:
            parted = True
        elif c.is_inked:
            if edge is not None:
                (between_words if parted else between_letters).append(c.left - edge.right)
            edge, parted = c, False
    if len(between_words) < _MIN_GAPS or not between_letters:
        return float("inf")
    return max(_LIKE_A_SPACE * median(between_words), _WIDER_THAN_LETTERS * max(median(between_letters), 0.0))


def _is_torn(characters: Sequence[Char]) -> bool:
    """Whether letters stand alone more often than words do: one in four."""
    words = "".join(c.letter for c in characters).split()
    alone = [len(word) == 1 and word.isalpha() for word in words]
    return len(words) > 1 and sum(alone) * 4 >= len(words)


def _without_false_spaces(characters: Sequence[Char], origin: Callable[[Char], float]) -> Sequence[Char]:
    """On a grid each letter begins one step after the one before it, however narrow that is; a space takes more."""
    at = {c.index: origin(c) for c in characters if c.is_inked}
    steps = [at[b.index] - at[a.index] for a, b in itertools.pairwise(characters) if a.is_inked and b.is_inked]
    if len(steps) < _MIN_GAPS:
        return characters
    step = median(steps)
    if any(abs(width - step) > _EVEN * step for width in steps):
        return characters
    kept = [characters[0]]
    for before, c, after in zip(characters, characters[1:], characters[2:], strict=False):
        is_false = (
            c.is_space
            and before.is_inked
            and after.is_inked
            and at[after.index] - at[before.index] <= (1 + _EVEN) * step
        )
        if not is_false:
            kept.append(c)
    return [*kept, characters[-1]]


def _ligature(before: Char | None, c: Char, after: Char | None, size: float) -> str:
    """A nameless glyph inside a word of small letters: ffi or ffl where it is wide, else a mark that a letter is missing."""
    if before is None or after is None or not (before.letter.isalpha() and after.letter.isalpha()):
        return ""
    if after.letter.islower() and c.right - c.left >= _WIDE * size:
        return "ffl" if after.letter in "aeouy" else "ffi"
    return "\ufffd"
