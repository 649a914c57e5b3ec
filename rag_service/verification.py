"""Does a passage support a claim? Decided by words alone: no model, no network, the same answer every time.

In: a sentence of the answer (`Claim`) and a source's text (`Passage`). Out: `Support`: how well, and where. Must not:
know markers, events or which source was cited (pure, standard library).

`verified` means that the claim's words, numbers (with their units) and names stand in one to three neighbouring
sentences of the passage, and that both or neither deny it. Where words cannot tell, the answer is `weak`.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rag_service.index.spans import Span
from rag_service.sentences import sentence_spans
from rag_service.vocabulary import STOP_DE, STOP_EN
from rag_service.wording import Word, words

Verdict = Literal["verified", "weak", "unsupported"]

# Shares of the claim's terms that the passage must hold. Chosen on ../shared/eval/begin and on planted sentences.
VERIFIED_SHARE = 0.8
WEAK_SHARE = 0.5
WEAK_SHARE_WITH_NUMBERS = 0.25
WINDOW = 3  # sentences
NEAR = 2  # terms on either side of a claim's number or name that say what it is about
REACH = 3  # how far from it they may stand in the passage
BESIDE_SHARE = 0.5  # of the terms beside it in the claim

PASSAGES_KEPT = 256  # about 60 kB each

_CLAUSE_END = frozenset(".!?;\n。！？；")


@dataclass(frozen=True, slots=True)
class Support:
    """`score` is in 0..1; `span` counts in the passage's text and is None where nothing supports the claim."""

    verdict: Verdict
    score: float
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class _Key:
    """A number or a name, and the terms next to it on either side, nearest first."""

    term: str
    units: frozenset[str]
    left: frozenset[str]
    right: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Negation:
    """`about` is the terms that are denied."""

    about: frozenset[str]
    at: int


def _units(found: list[Word], i: int) -> frozenset[str]:
    """The units near the number `found[i]`: a sign before it, or one of the words after it."""
    units = {near.unit for near in found[i + 1 : i + 1 + REACH] if near.unit}
    if i and found[i - 1].unit and not found[i - 1].norm.isalpha():
        units.add(found[i - 1].unit)
    return frozenset(units)


def _negations(text: str, found: list[Word]) -> Iterator[_Negation]:
    for i, word in enumerate(found):
        if not word.negates:
            continue
        about: list[str] = []
        for before, near in zip(found[i : i + 8], found[i + 1 : i + 8], strict=False):
            if len(about) == REACH or not _CLAUSE_END.isdisjoint(text[before.end : near.start]):
                break
            if near.term:
                about.append(near.term)
        about = about or [near.term for near in found[max(0, i - 6) : i] if near.term][-REACH:]
        yield _Negation(frozenset(about), word.start)


def _same_matter(one: _Negation, two: _Negation) -> bool:
    return len(one.about & two.about) * 2 >= min(len(one.about), len(two.about))


class Claim:
    """A sentence to check, read once. `terms` are its distinct content words and numbers; `keys` are the numbers and
    names among them, which must stand in the passage whatever else does.
    """

    def __init__(self, text: str) -> None:
        found = words(text)
        self.terms = tuple(dict.fromkeys(word.term for word in found if word.term))
        content = [(i, word.term) for i, word in enumerate(found) if word.term]
        self.keys = tuple(
            _Key(
                term,
                _units(found, i) if term[0] == "#" else frozenset(),
                frozenset(near for _, near in content[max(0, at - NEAR) : at]),
                frozenset(near for _, near in content[at + 1 : at + 1 + NEAR]),
            )
            for at, (i, term) in enumerate(content)
            if term[0] == "#" or found[i].capital
        )
        self.numbers = tuple(key.term for key in self.keys if key.term[0] == "#")
        counted = Counter(self.numbers)
        self.repeated = tuple((number, times) for number, times in counted.items() if times > 1)
        self.negations = tuple(_negations(text, found))
        self.phrase = " ".join(word.norm for word in found)
        self.language = _language(found)


def _language(found: list[Word]) -> str:
    """A guess, enough to see that two texts differ: the script, or for Latin "en" or "de" where stop words tell."""
    script = next((_script(word.norm) for word in found if word.norm[0].isalpha()), "")
    if script != "latin":
        return script
    german = sum(word.norm in STOP_DE for word in found)
    english = sum(word.norm in STOP_EN for word in found)
    return "de" if german > english else "en" if english > german else ""


def _script(norm: str) -> str:
    char = norm[0]
    if char < "\u0250":
        return "latin"
    if char < "\u0370":
        return ""
    return next((name for limit, name in _SCRIPTS if char < limit), "cjk")


_SCRIPTS = (
    ("\u0400", "greek"),
    ("\u0530", "cyrillic"),
    ("\u0600", "hebrew"),
    ("\u0780", "arabic"),
    ("\u1100", "indic"),
)


class Passage:
    """A source's text, read once. Offsets are those of `text`."""

    def __init__(self, text: str) -> None:
        found = words(text)
        self._spans = sentence_spans(text)
        self._starts = [span.start for span in self._spans]
        self._words = found
        self._masks: dict[str, int] = {}
        self._terms: list[str] = []
        self._places: dict[str, list[tuple[int, int, frozenset[str]]]] = {}
        unit = 0
        for i, word in enumerate(found):
            while unit + 1 < len(self._starts) and word.start >= self._starts[unit + 1]:
                unit += 1
            if word.term:
                bit = 1 << unit
                self._masks[word.term] = self._masks.get(word.term, 0) | bit
                units = _units(found, i) if word.term[0] == "#" else frozenset()
                self._places.setdefault(word.term, []).append((len(self._terms), bit, units))
                self._terms.append(word.term)
        self._negations = [(self._bit(negation.at), negation) for negation in _negations(text, found)]
        self._phrase = f" {' '.join(word.norm for word in found)} "
        self._language = _language(found)
        self._windows = [
            (((1 << size) - 1) << first, first, first + size - 1)
            for size in range(1, WINDOW + 1)
            for first in range(len(self._spans) - size + 1)
        ]

    def _bit(self, offset: int) -> int:
        return 1 << max(0, bisect_right(self._starts, offset) - 1)

    def verify(self, claim: Claim) -> Support | None:
        """The place that says what `claim` says, or None. Cheap where the passage lacks the claim's words."""
        masks = [self._masks[term] for term in claim.terms if term in self._masks]
        needed = VERIFIED_SHARE * len(claim.terms)
        if not masks or len(masks) < needed:
            return None
        exact = self._exact(claim)
        if exact is not None:
            return Support("verified", 1.0, exact)
        good = []
        for window, first, last in self._windows:
            hits = sum([1 for mask in masks if mask & window])
            if hits >= needed:
                good.append((-hits, last - first, window, first, last))
        for hits, _, window, first, last in sorted(good):
            if self._agrees(claim, window):
                return Support("verified", -hits / len(claim.terms), self._between(first, last))
        return None

    def support(self, claim: Claim) -> Support:
        """How well this passage supports `claim`."""
        if not claim.terms:
            return Support("weak", 0.0)  # "Yes": nothing to go by
        verified = self.verify(claim)
        if verified is not None:
            return verified
        masks = [self._masks[term] for term in claim.terms if term in self._masks]
        most, where = 0, (0, 0)
        for window, first, last in self._windows:
            hits = sum([1 for mask in masks if mask & window])
            if hits > most:
                most, where = hits, (first, last)
        share = most / len(claim.terms)
        numbers = bool(claim.numbers) and all(number in self._masks for number in claim.numbers)
        foreign = bool(claim.language and self._language) and claim.language != self._language
        if share >= WEAK_SHARE or (numbers and (foreign or share >= WEAK_SHARE_WITH_NUMBERS)):
            return Support("weak", share, self._between(*where))
        if foreign and not claim.numbers:
            return Support("weak", share, self._between(*where) if most else None)
        return Support("unsupported", share)

    def _between(self, first: int, last: int) -> Span:
        return Span(self._spans[first].start, self._spans[last].end)

    def _exact(self, claim: Claim) -> Span | None:
        """Where the claim's words stand one after the other."""
        at = self._phrase.find(f" {claim.phrase} ")
        while at >= 0:
            first = self._phrase.count(" ", 0, at)
            last = first + claim.phrase.count(" ")
            start, end = self._words[first].start, self._words[last].end
            window = (self._bit(end - 1) << 1) - self._bit(start)
            if all(number in self._masks for number in claim.numbers) and self._negations_agree(claim, window):
                return Span(start, end)
            at = self._phrase.find(f" {claim.phrase} ", at + 1)
        return None

    def _agrees(self, claim: Claim, window: int) -> bool:
        return (
            all(self._times(number, window) >= times for number, times in claim.repeated)
            and all(self._holds(key, window) for key in claim.keys)
            and self._negations_agree(claim, window)
        )

    def _times(self, number: str, window: int) -> int:
        return sum([1 for _, bit, _ in self._places.get(number, ()) if bit & window])

    def _holds(self, key: _Key, window: int) -> bool:
        """Does the number or name stand there, with its units, among words that stand next to it in the claim?"""
        beside = key.left | key.right
        for at, bit, units in self._places.get(key.term, ()):
            if bit & window and key.units <= units:
                there = {*self._terms[max(0, at - REACH) : at], *self._terms[at + 1 : at + 1 + REACH]}
                if len(beside & there) >= BESIDE_SHARE * len(beside):
                    return True
        return False

    def _negations_agree(self, claim: Claim, window: int) -> bool:
        """What the claim denies the passage denies, and the other way round where it speaks of the same."""
        there = [negation for bit, negation in self._negations if bit & window]
        if not there:
            return not claim.negations
        terms = set(claim.terms)
        return all(any(_same_matter(one, two) for two in there) for one in claim.negations) and all(
            any(_same_matter(one, two) for one in claim.negations)
            for two in there
            if len(two.about & terms) * 2 > len(two.about)
        )


@lru_cache(maxsize=PASSAGES_KEPT)
def passage(text: str) -> Passage:
    """A source's text, read once for all answers that it is a source of: many questions find the same passages, and reading
    one takes about a millisecond."""
    return Passage(text)
