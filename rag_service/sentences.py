"""Sentences of an answer, found while it streams, each with the markers that belong to it.

In: `Piece` values from the marker parser. Out: `Sentence` values, as soon as no later text can change them.
Must not: know sources or events, nor look into code blocks (pure, standard library).

A sentence ends at . ! ? … 。 ！ ？ with what closes behind it, where white space or a marker follows, and at every
newline: list items, table rows and headings stand alone. Markers that follow the full stop belong to the sentence before.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

from rag_service.index.spans import Span
from rag_service.markers import Piece

MAX_SENTENCE = 2000  # code points; longer "sentences" are cut, so that one never costs more than that to read again

_CLOSERS = "\"'”’»)\\]}」』）】*_"
_END = re.compile(rf"\n|[.!?…]+[{_CLOSERS}]*|[。！？]+[{_CLOSERS}]*")
_SPACES = re.compile(r"[^\S\n]*")
_LEAD = re.compile(r"[\s>]*(?:#{1,6}\s+|[-*+•–]\s+|(?:\d{1,3}|[a-z])[.)]\s+)?(?:\[[ xX]\]\s+)?\s*")
_HEADING = re.compile(r"[\s>]*#{1,6}\s")
_NUMBER_ONLY = re.compile(r"[\s>]*(?:\d{1,3}|[A-Za-z])")
_WORD_BEFORE = re.compile(r"(?:^|[\s(\[\"'“„‘*_/-])((?:[^\W\d_]\.\s?)*[^\W_]+)$")
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")
_GERMAN_ORDINAL = re.compile(
    r"\b(?:de[rmns]|die|das|am|ab|bis|zu[mr]|vom|i[mn]|beim|seit|jede[rmns]?)\s\d+$", re.IGNORECASE
)
_NEXT_WORD = re.compile(r"[^\W\d_]+")
_ABBREVIATIONS = """
approx apr aug bzw ca cf col d.h dec dez dipl dr e.g evtl feb fr gen ggf hon hr i.d.r i.e ing inkl jan lt mio mr mrd mrs
ms mt nov o.ä oct okt prof resp rev sep sept sgt sog st u.a u.u vgl vs z.b zzgl
"""
_ABBREVIATIONS_BEFORE_NUMBERS = "abb abs art bd ch eq fig kap no nr p pp rn s sec tab v ver vol ziff"
_MONTHS = "januar februar märz april mai juni juli august september oktober november dezember"
_NEVER_LAST = frozenset(_ABBREVIATIONS.split())
_BEFORE_NUMBER = frozenset(_ABBREVIATIONS_BEFORE_NUMBERS.split())
_GERMAN_MONTHS = tuple(_MONTHS.split())


@dataclass(frozen=True, slots=True)
class Sentence:
    """`text` is without markers and without list bullets. `marks` says at which index of it which numbers stood; a
    dropped marker has none. `places` maps an index of `text` to an offset of the answer: pairs, the last at or before
    an index counts.
    """

    text: str
    marks: tuple[tuple[int, tuple[int, ...]], ...] = ()
    places: tuple[tuple[int, int], ...] = ((0, 0),)
    heading: bool = False

    def span(self, start: int, end: int) -> Span:
        """The answer's span of `text[start:end]`, which is not empty; a marker inside it is inside the span."""
        return Span(self._offset(start), self._offset(end - 1) + 1)

    def _offset(self, index: int) -> int:
        at, offset = self.places[bisect_right(self.places, (index, 1 << 62)) - 1]
        return offset + index - at


class SentenceSplitter:
    """Reads one answer. `settled` is True while text without an end mark or a newline cannot finish a sentence."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0  # of the parts
        self._origin = 0  # index of the parts' first character in the answer without markers
        self._answer = 0  # length of the answer so far
        self._scanned = 0
        self._marks: list[tuple[int, tuple[int, ...]]] = []
        self._places: list[tuple[int, int]] = [(0, 0)]
        self._code: list[tuple[int, int]] = []
        self._line_start = True
        self.settled = True

    def append(self, text: str) -> None:
        """Take text that ends nothing: no end mark, no newline, no marker, while `settled`."""
        self._parts.append(text)
        self._length += len(text)
        self._answer += len(text)

    def feed(self, piece: Piece) -> list[Sentence]:
        """The sentences that are finished now."""
        found: list[Sentence] = []
        if piece.kind == "marker":
            self._marks.append((self._origin + self._length, piece.numbers))
            self._answer += len(piece.text)
            self._move()
        elif piece.kind == "fence":
            found = self._split(final=True)
            self._answer += len(piece.text)
            self._move()
            self._line_start = True
        else:
            if piece.kind == "code":
                self._code.append((self._origin + self._length, self._origin + self._length + len(piece.text)))
            self.append(piece.text)
            found = self._split(final=False)
        return found

    def finish(self) -> list[Sentence]:
        """The answer is over: what is left of it."""
        return self._split(final=True)

    def _move(self) -> None:
        self._places.append((self._origin + self._length, self._answer))

    def _split(self, *, final: bool) -> list[Sentence]:
        text = "".join(self._parts)
        found: list[Sentence] = []
        start, scan = 0, self._scanned
        self.settled = True
        while True:
            match = _END.search(text, scan)
            if (match.start() if match else len(text)) - start > MAX_SENTENCE:
                blank = max(text.rfind(" ", start, start + MAX_SENTENCE), text.rfind("\t", start, start + MAX_SENTENCE))
                end = following = blank + 1 if blank > start else start + MAX_SENTENCE
            elif match is None:
                scan = len(text)
                break
            else:
                verdict = self._judge(text, start, match, final=final)
                if verdict == "wait":
                    self.settled = False
                    scan = match.start()
                    break
                if verdict == "no":
                    scan = match.end()
                    continue
                end, following = verdict
            found += self._cut(text, start, end, following)
            newline = text[following - 1] == "\n"
            self._line_start = newline
            start = scan = following
        if final and (start < len(text) or self._marks):
            found += self._cut(text, start, len(text), len(text))
            start = len(text)
        self._scanned = max(scan - start, 0)
        self._parts = [text[start:]]
        self._length = len(text) - start
        self._origin += start
        return found

    def _judge(
        self, text: str, start: int, match: re.Match[str], *, final: bool
    ) -> tuple[int, int] | Literal["wait", "no"]:
        """Does a sentence end here? Its end and the start of the next one."""
        begin, end = match.span()
        if text[begin] == "\n":
            return begin, end
        if any(low <= self._origin + begin < high for low, high in self._code):
            return "no"
        following = _SPACES.match(text, end).end()  # type: ignore[union-attr]  # matches the empty string too
        if following == len(text):
            return (end, following) if final else "wait"
        if text[following] == "\n":
            return end, following + 1
        low, high = self._origin + begin, self._origin + following
        if text[begin] in "。！？" or any(low <= index <= high for index, _ in self._marks):
            return end, following
        if following == end:
            return "no"
        if self._line_start and _NUMBER_ONLY.fullmatch(text, start, begin):
            return "no"
        return _ends(text, start, begin, end, following, final=final)

    def _cut(self, text: str, start: int, end: int, following: int) -> list[Sentence]:
        """Take `text[start:end]` out, with the markers up to `following`."""
        origin = self._origin
        reach = origin + following - (text[following - 1 : following] == "\n")
        belonging = [mark for mark in self._marks if mark[0] <= reach]
        del self._marks[: len(belonging)]
        begin = _LEAD.match(text, start, end).end() if self._line_start else start  # type: ignore[union-attr]
        heading = self._line_start and bool(_HEADING.match(text, start, end))
        stops = {index - origin for index, _ in belonging}
        while begin < end and text[begin].isspace():
            begin += 1
        last = end
        while last > begin and not text[last - 1].isalnum():
            last -= 1
        places = self._places_of(origin + begin, origin + following)
        if last == begin:
            return [Sentence("", tuple((0, numbers) for _, numbers in belonging))] if belonging else []
        while last < end and last not in stops and not text[last].isspace():
            last += 1
        marks = tuple((min(max(index - origin - begin, 0), last - begin), numbers) for index, numbers in belonging)
        return [Sentence(text[begin:last], marks, places, heading)]

    def _places_of(self, begin: int, following: int) -> tuple[tuple[int, int], ...]:
        """The map for a sentence that begins at `begin`; what only earlier ones needed is forgotten."""
        first = bisect_right(self._places, (begin, 1 << 62)) - 1
        at, offset = self._places[first]
        rest = [(index - begin, place) for index, place in self._places[first + 1 :] if index <= following]
        del self._places[: max(0, bisect_right(self._places, (following, 1 << 62)) - 1)]
        self._code = [pair for pair in self._code if pair[1] > following]
        return ((0, offset + begin - at), *rest)


def _ends(
    text: str, start: int, begin: int, end: int, following: int, *, final: bool
) -> tuple[int, int] | Literal["wait", "no"]:
    """Does the mark at `begin`, with white space behind it, end a sentence, or is it an abbreviation's?"""
    after = text[following]
    if after.islower():
        return "no"
    if text[begin:end] != ".":
        return end, following
    word = _WORD_BEFORE.search(text[max(start, begin - 24) : begin])
    before = word[1].replace(" ", "").lower() if word else ""
    if before in _NEVER_LAST or (after.isalpha() and _INITIALS.fullmatch(before)):
        return "no"
    if before in _BEFORE_NUMBER and after.isdigit():
        return "no"
    if before.isdigit() and len(before) <= 2:  # "der 40. Tag" and "3. Oktober" go on, "there are 25. Next" does not
        if _GERMAN_ORDINAL.search(text[max(start, begin - 24) : begin]):
            return "no"
        following_word = _NEXT_WORD.match(text, following)
        if following_word and following_word.end() == len(text) and not final:
            candidate = following_word[0].lower()
            if any(month.startswith(candidate) for month in _GERMAN_MONTHS):
                return "wait"
        if following_word and following_word[0].lower() in _GERMAN_MONTHS:
            return "no"
    return end, following


def sentence_spans(text: str) -> list[Span]:
    """Sentences of a source's text, in order and without white space around them; a line break inside a paragraph ends
    one only where the next line begins a list item, a heading or a table row, or the line is too short to be wrapped.
    """
    found: list[Span] = []
    start = scan = 0
    while match := _END.search(text, scan):
        begin, end = match.span()
        scan = end
        following = _SPACES.match(text, end).end()  # type: ignore[union-attr]  # matches the empty string too
        if text[begin] == "\n":
            if not _line_ends(text, start, begin, following):
                continue
        elif (
            text[begin] not in "。！？"
            and following < len(text)
            and text[following] != "\n"
            and (following == end or _ends(text, start, begin, end, following, final=True) == "no")
        ):
            continue
        found += _trimmed(text, start, end)
        start = scan = following
    return found + _trimmed(text, start, len(text))


_WRAPPED = 60  # characters: a line this long may have been broken by its layout
_ITEM = re.compile(r"\s*(?:[-*+•–|#]|\d{1,3}[.)]\s)|\s*$|\s*\n")


def _line_ends(text: str, start: int, newline: int, following: int) -> bool:
    line = newline - max(start, text.rfind("\n", 0, newline) + 1)
    return line < _WRAPPED or newline - start > MAX_SENTENCE // 4 or bool(_ITEM.match(text, following))


def _trimmed(text: str, start: int, end: int) -> list[Span]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return [Span(start, end)] if start < end else []
