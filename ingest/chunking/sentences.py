"""Where a text is best cut: after sentences and lines, else evenly, at the best places near.

In: a text and a stretch of it. Out: spans without white space at their ends; nothing but white space lies between them.
Must not: cut a character in two where there is another way; do I/O (pure, standard library).

These are units for packing, so a missed end costs a little room and a false one a little context; neither loses text.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from ingest.chunking.graphemes import is_edge, is_mark
from rag_service.index.spans import Span

_STOPS = ".!?…‥؟۔।॥։።៕။༎།"
_WIDE_STOPS = "。！？；｡．"
_CLOSING = "\"'”’»›)\\]}」』”）》〉】〕*_"
# Scripts that part sentences and clauses by spaces, and words by nothing: Thai, Lao, Burmese, Khmer.
_SPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"

# Stops with closing quotes or brackets end a sentence before white space, those of CJK before anything. A line break ends
# one too. Runs are entered at their first character only, so that a line of a million full stops is read once.
_BOUNDARY = re.compile(
    rf"(?<![{_STOPS}])[{_STOPS}]++[{_CLOSING}]*+[^\S\n]++"
    rf"|[{_WIDE_STOPS}]++[{_CLOSING}]*+[^\S\n]*+"
    rf"|\n\s*+"
    rf"|(?<=[{_SPACED}])[^\S\n]++(?=[{_SPACED}])"
)
_LAST_WORD = re.compile(r"[\w.]*\Z")
_LONGEST_WORD = 24
_ABBREVIATIONS = frozenset(
    re.findall(
        r"\w+",
        "abb abs abt al anm approx apr art aufl aug av ave bd bspw bsp bzw ca cap capt cf co corp dept dez dr ed eds"
        " est etc evtl exkl feb fig figs fn fr gen ggf hr hrsg inc inkl jan jh jr kap lt ltd max mio min mr mrs ms mt mwst"
        " no nos nov nr nrn num okt op oct p para pos pp prof qty rd ref rev rs s sec sep sept sgt sr st str tab tel usw"
        " vgl vol vs zzgl",
    )
)

# From the best places to the last: after a line, after what may be a sentence, after a clause, between words, where a word
# of Thai or Lao is likely to begin or end, after a sign inside a word (paths, code).
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n\s*",
        rf"[{_STOPS}][{_CLOSING}]*\s+",
        rf"[,;:،؛–—][{_CLOSING}]?\s+|[、，：]",
        r"\s+",
        "(?<=[ๆฯໆ])|(?<![เ-ไເ-ໄ])(?=[เ-ไເ-ໄ])",
        r"(?<=[-/&=,;:.|)}\]>])(?=[^\W\d])",
    )
)


def sentences(text: str, span: Span) -> Iterator[Span]:
    """Sentences and lines of a stretch, without the white space around them."""
    start = span.start
    for match in _BOUNDARY.finditer(text, span.start, span.end):
        end = match.end()
        if end < span.end and (not is_edge(text, end) or not _ends_sentence(text, start, match)):
            continue
        yield from stripped(text, Span(start, end))
        start = end
    yield from stripped(text, Span(start, span.end))


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether it goes on with another sentence or line, and not after an abbreviation or a line that was only wrapped. A
    small letter begins a sentence only where the one before began with one: some texts have no capitals."""
    at, end = match.span()
    mark = text[at]
    goes_on = text[end].islower() and not text[start].islower()
    if mark == "\n":
        wrapped = goes_on and at > start and (text[at - 1].isalpha() or text[at - 1] == ",")
        return not wrapped or "\n" in text[at + 1 : end]
    if goes_on and mark in _STOPS:
        return False
    return mark != "." or text[at : at + 2] == ".." or not _abbreviates(text[max(start, at - _LONGEST_WORD) : at])


def _abbreviates(before: str) -> bool:
    """Whether a full stop after this belongs to its last word: "z. B.", "Nr.", "U.S.", an initial, "3." as in "3. Mai"."""
    found = _LAST_WORD.search(before)
    word = found.group() if found else ""
    if word.isdigit():
        return len(word) <= 2
    parts = word.split(".")
    if len(parts) > 1 or len(word) == 1:
        return all(part.isalpha() and len(part) <= 2 for part in parts)
    return word.lower() in _ABBREVIATIONS


def stripped(text: str, span: Span) -> Iterator[Span]:
    """The span without white space at its ends; nothing if it is blank. A space that bears an accent is not blank."""
    piece = span.of(text)
    left = len(piece) - len(piece.lstrip())
    right = len(piece.rstrip())
    if left < right:
        bears = left > 0 and is_mark(piece[left]) and not is_edge(text, span.start + left)
        yield Span(span.start + left - bears, span.start + right)


def evenly(text: str, span: Span, parts: int) -> list[Span]:
    """Two or more parts of about equal length, fewer than `parts` where there are not so many places to cut. A single
    character of many code points is cut anywhere. `span` has at least two code points."""
    parts = min(parts, len(span))
    anywhere = [span.start + n * len(span) // parts for n in range(1, parts)]
    cuts = list(_cuts(text, span, parts)) or list(_cuts(text, span, 2)) or anywhere
    edges = [span.start, *cuts, span.end]
    return [part for a, b in pairwise(edges) for part in stripped(text, Span(a, b))]


def _cuts(text: str, span: Span, parts: int) -> Iterator[int]:
    length = len(span) / parts
    last = span.start
    for n in range(1, parts):
        at = _cut_near(text, span, round(span.start + n * length), length, last)
        if at is not None:
            yield at
            last = at


def _cut_near(text: str, span: Span, target: int, length: float, last: int) -> int | None:
    """The best place near `target`, after `last`; None if all that is near is one character."""
    reach = max(1, round(length / 4))
    low, high = max(last + 1, target - reach), min(span.end, target + reach)
    for place in _PLACES:
        found = (match.end() for match in place.finditer(text, low, high))
        good = [at for at in found if last < at < span.end and is_edge(text, at, last)]
        if good:
            return min(good, key=lambda at: abs(at - target))
    for distance in range(round(length) + 1):
        for at in (target - distance, target + distance):
            if last < at < span.end and is_edge(text, at, last):
                return at
    return None
