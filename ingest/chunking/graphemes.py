"""Where a text may be cut without taking a character apart: what a reader sees as one is often several code points.

In: a text and an offset. Out: whether the two sides are whole. Must not: do I/O (pure, standard library).

The rules are those of Unicode Standard Annex #29, a little stricter: a cut that is refused here may be allowed there, never
the other way round (the tests compare it with an implementation of the annex).
"""

import re
import unicodedata

JOINER = "\u200d"

# Code points that belong to the one before them, beside those of the categories Mn, Mc and Me: joiners, the vowel AM of
# Thai and Lao, half-width sound marks, skin tones, the tags of flags, and the later letters of a Hangul syllable.
_FOLLOWS = re.compile(
    "[\u200c\u200d\u0e33\u0eb3\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\u1160-\u11ff\ud7b0-\ud7fb]"
)
# Code points that belong to the one after them: Arabic number signs and their like, first letters of a Hangul syllable.
_LEADS = re.compile(
    "[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3\U000113d1\U0001193f"
    "\U00011941\U00011a3a\U00011a84-\U00011a89\U00011d46\U00011f02]"
)
_HANGUL_LEAD = re.compile("[\u1100-\u115f\ua960-\ua97c]")
_HANGUL = re.compile("[\u1100-\u11ff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb]")
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")
_VIRAMA = 9  # canonical combining class: it binds the next consonant to the one before
_MARKS_LOOKED_AT = 4  # between a virama and its consonant


def is_edge(text: str, at: int, known: int = 0) -> bool:
    """Whether a cut at `at` takes no character apart. `known` is an edge before it, so far back flags are counted."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before in "\n\t" or unicodedata.category(before) in {"Cc", "Zl", "Zp"}:
        return not (before == "\r" and after == "\n")
    if before == JOINER or _LEADS.match(before):
        return False
    if after < "\u0300":  # most of what is ever asked
        return True
    if is_mark(after):
        return False
    if _HANGUL_LEAD.match(before):
        return _HANGUL.match(after) is None
    if _FLAG_LETTER.match(after):
        return _flag_letters_before(text, at, known) % 2 == 0
    return not (after.isalpha() and _bound_by_virama(text, at))


def is_mark(character: str) -> bool:
    """Whether it belongs to the character before it."""
    return unicodedata.category(character)[0] == "M" or _FOLLOWS.match(character) is not None


def _flag_letters_before(text: str, at: int, known: int) -> int:
    first = at
    while first > known and _FLAG_LETTER.match(text, first - 1):
        first -= 1
    return at - first


def _bound_by_virama(text: str, at: int) -> bool:
    for character in reversed(text[max(0, at - _MARKS_LOOKED_AT) : at]):
        if unicodedata.combining(character) == _VIRAMA:
            return True
        if not is_mark(character):
            return False
    return False
