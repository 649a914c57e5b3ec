"""Words as a reader of a PDF means them: ligatures spelt out, words mended that a line end has cut.

In: strings from a page. Out: strings. Must not: know places on the page (pure, standard library); mend a hyphen that
belongs to the word.
"""

import re
from collections.abc import Iterable

_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
_INVISIBLE = {
    code: None for code in (*range(0x20), *range(0x7F, 0xA0), 0xAD, 0x200B, 0x2060, 0xFFFE, 0xFFFF) if code != 0x09
}
_CHARACTERS = str.maketrans({**_INVISIBLE, **_LIGATURES, 0xA0: " ", 0x09: " ", 0x2028: " ", 0x2029: " "})
# A TeX font whose place for the ligature ff holds an arrow when the file says nothing about its encoding.
_ARROW_FOR_FF = re.compile(r"(?<=[a-z])↵(?=[a-z-])|(?<![^\W_])↵(?=[a-z])|(?<=\b[oO])↵|(?<=\b[Ss]ta)↵")
_LEADERS = re.compile(r" ?(?:\. ?){5,}")  # the dots of a table of contents; each would count as a token
_SPACES = re.compile(r" {2,}")
_HYPHENS = "-\u2010\u2011"
_WORD = re.compile(rf"[^\W\d_]+(?:[{_HYPHENS}][^\W\d_]+)*")
_WORD_CHARS = 200  # a search for the last word takes time with the square of what it looks through
_LAST_WORD = re.compile(rf"({_WORD.pattern})\Z")
_ADDRESS = re.compile(r"(?:://|www\.|@)\S*\Z")  # every hyphen of a web or mail address counts
_FIRST_WORD = re.compile(r"[^\W\d_]+")
# After a hyphen that stands for a left-out second half: "pre- and post-war", "Vor- und Nachteile".
_CONJUNCTIONS = frozenset(["and", "or", "to", "und", "oder", "bis", "sowie", "et", "ou", "y", "o", "e"])
# Second halves that make compounds and end no other English word.
_COMPOUND_TAILS = frozenset(
    [
        "based",
        "driven",
        "related",
        "specific",
        "dependent",
        "independent",
        "determining",
        "making",
        "oriented",
        "level",
        "term",
        "time",
        "free",
        "like",
        "wide",
        "known",
        "aware",
        "defined",
        "friendly",
        "sensitive",
        "intensive",
        "resistant",
        "effective",
        "efficient",
        "sized",
        "scale",
        "range",
        "quality",
        "speed",
        "risk",
    ]
)


def clean_characters(text: str) -> str:
    """Letters instead of ligatures, no control characters, single spaces, none at the ends."""
    text = text.translate(_CHARACTERS)
    if "↵" in text:
        text = _ARROW_FOR_FF.sub("ff", text)
    if "....." in text or ". . . . ." in text:
        text = _LEADERS.sub(" … ", text)
    return _SPACES.sub(" ", text).strip()


class Hyphens:
    """Tells whether a hyphen at a line end belongs to its word, by how the document writes that word elsewhere."""

    def __init__(self) -> None:
        self._words: set[str] = set()

    def learn(self, lines: Iterable[str]) -> None:
        """Take in the words that stand whole in lines: not the last of each, which may be cut."""
        for line in lines:
            whole = line.rpartition(" ")[0].lower().replace("\u2010", "-").replace("\u2011", "-")
            self._words.update(_WORD.findall(whole))

    def joint(self, before: str, after: str) -> str:
        """What to put between a line that a hyphen ended (already taken off) and the next: "", "-" or "- "."""
        first, second = _LAST_WORD.search(before[-_WORD_CHARS:]), _FIRST_WORD.match(after)
        if first is None or second is None or _ADDRESS.search(before[-_WORD_CHARS:]):
            return "-"
        head, tail = first.group(1).lower(), second.group().lower()
        if tail in _CONJUNCTIONS and tail == second.group():
            return "-" if after.startswith(tuple(_HYPHENS), second.end()) else "- "  # "trace-to-trace" is one word
        if head.rpartition("-")[2] + tail in self._words:
            return ""
        if not (first.group(1)[-1].islower() and second.group()[0].islower()):
            return "-"
        return "-" if f"{head}-{tail}" in self._words or tail in _COMPOUND_TAILS else ""
