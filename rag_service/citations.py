"""Citations of an answer, checked while it streams: text in, text and `Citation` events out.

In: the numbered sources of the prompt and the model's text in pieces of any size. Out: `Delta` and `Citation` events;
the deltas, joined, are the answer, and a citation comes after the delta that completes its sentence. Must not: believe
the model, wait for anything, or know prompts and wires (pure, standard library).

Each finished sentence is checked against every source it cites; where the cited one does not verify it, against the
others; a sentence without a marker against all. The cost is linear in the answer's length, and text that finishes no
sentence costs next to nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag_service.events import Citation, CitationCounts, CitationStatus, Delta, Source
from rag_service.index.spans import Span
from rag_service.markers import MarkerParser, Piece
from rag_service.sentences import Sentence, SentenceSplitter
from rag_service.verification import Claim, Passage, Support, passage

MIN_TERMS = 3  # a claim of fewer words is not looked for in sources that it does not cite, nor cut out of its sentence

_ENDED = re.compile(r"""[.!?…。！？]["'”’»)\]」』）]*$""")
_NOTEWORTHY = re.compile(r"[\[【［`~\\\n.!?…。！？]")


@dataclass(frozen=True, slots=True)
class _Part:
    """What one marker speaks for: a stretch of its sentence, read as a claim."""

    claim: Claim
    answer: Span


class CitationChecker:
    """Reads one answer. Not for two answers, nor for two threads."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {source.n: source for source in sources}
        self._parser = MarkerParser(self._sources)
        self._splitter = SentenceSplitter()
        self._before: Sentence | None = None  # the last sentence with words; markers alone on a line belong to it
        self._before_cites: set[int] = set()
        self._tally: dict[CitationStatus, int] = {"verified": 0, "weak": 0, "misattributed": 0, "unsupported": 0}

    @property
    def counts(self) -> CitationCounts:
        """What has been found so far."""
        return CitationCounts(**self._tally, dropped_markers=self._parser.dropped)

    def feed(self, text: str) -> list[Delta | Citation]:
        """What is certain after this text: at most one delta, then the citations that it completes."""
        if not text:
            return []
        if self.passes(text):
            return [Delta(text)]
        return self._take(self._parser.feed(text), final=False)

    def passes(self, text: str) -> bool:
        """Whether this text, which is not empty, goes on as it is and completes nothing, as most does. Then it is taken in, and
        need not be fed.
        """
        if not self._parser.plain or not self._splitter.settled or text[-1] == " " or _NOTEWORTHY.search(text):
            return False
        self._splitter.append(text)
        return True

    def finish(self, *, cut_short: bool = False) -> list[Delta | Citation]:
        """The answer is over: what was held back, and the citations of its last sentence. When it was `cut_short`, what is
        left of that sentence is checked only if it cites something: half a sentence is no claim to look for.
        """
        return self._take(self._parser.finish(), final=True, cut_short=cut_short)

    def _take(self, pieces: list[Piece], *, final: bool, cut_short: bool = False) -> list[Delta | Citation]:
        events: list[Delta | Citation] = []
        sentences: list[Sentence] = []
        for piece in pieces:
            sentences += self._splitter.feed(piece)
        if final:
            left = self._splitter.finish()
            sentences += [one for one in left if one.marks or not cut_short or _ENDED.search(one.text)]
        text = "".join([piece.text for piece in pieces])
        if text:
            events.append(Delta(text))
        for sentence in sentences:
            for citation in self._check(sentence):
                self._tally[citation.status] += 1
                events.append(citation)
        return events

    def _check(self, sentence: Sentence) -> Iterator[Citation]:
        numbers = list(dict.fromkeys(n for _, group in sentence.marks for n in group))
        if not sentence.text:
            if self._before is None:
                return
            sentence = self._before
            numbers = [n for n in numbers if n not in self._before_cites]
            if not numbers:
                return
        else:
            self._before, self._before_cites = sentence, set()
        if self._sources and (numbers or not (sentence.heading or sentence.text.endswith("?"))):
            whole = _Part(Claim(sentence.text), sentence.span(0, len(sentence.text)))
            if numbers:
                yield from self._cited(sentence, whole, numbers)
            else:
                yield from self._uncited(whole)

    def _cited(self, sentence: Sentence, whole: _Part, numbers: list[int]) -> Iterator[Citation]:
        clauses = _clauses(sentence)
        for n in numbers:
            part, support = whole, self._passage(n).support(whole.claim)
            if support.verdict != "verified" and n in clauses:
                clause = clauses[n]
                own = self._passage(n).support(clause.claim)
                if own.verdict == "verified" or self._other(clause.claim, n) is not None:
                    part, support = clause, own
            yield self._citation(n, part, support, numbers)

    def _citation(self, n: int, part: _Part, support: Support, cited: list[int]) -> Citation:
        status: CitationStatus = support.verdict
        source = self._sources[n]
        if status != "verified":
            other = self._other(part.claim, n)
            if other is not None and not (status == "weak" and other[0] in cited):
                status, source, support = "misattributed", self._sources[other[0]], other[1]
        return self._event(n, part, source, status, support)

    def _other(self, claim: Claim, n: int) -> tuple[int, Support] | None:
        """The source besides `n` that verifies the claim best, if one does."""
        best: tuple[int, Support] | None = None
        if len(claim.terms) < MIN_TERMS:
            return None
        for number in self._sources:
            support = self._passage(number).verify(claim) if number != n else None
            if support is not None and (best is None or support.score > best[1].score):
                best = number, support
        return best

    def _uncited(self, part: _Part) -> Iterator[Citation]:
        found = self._other(part.claim, -1)
        if found is not None:
            n, support = found
            yield self._event(n, part, self._sources[n], "verified", support)

    def _event(self, n: int, part: _Part, source: Source, status: CitationStatus, support: Support) -> Citation:
        span = support.span
        self._before_cites.add(n)
        return Citation(
            id=f"c{sum(self._tally.values()) + 1}",
            n=n,
            answer=part.answer,
            source=source,
            status=status,
            score=support.score,
            span=span.shift(source.span.start) if span is not None else None,
            quote=span.of(source.text) if span is not None else None,
        )

    def _passage(self, n: int) -> Passage:
        return passage(self._sources[n].text)


def _clauses(sentence: Sentence) -> dict[int, _Part]:
    """What each number speaks for by itself where a sentence has markers in several places: the words since the markers
    before. Numbers whose words are too few to stand alone have none.
    """
    found: dict[int, _Part] = {}
    if len({index for index, numbers in sentence.marks if numbers}) < 2:
        return found
    start = index = 0
    for mark, numbers in sentence.marks:
        if mark != index:
            start, index = index, mark
        begin, end = start, index
        while begin < end and not sentence.text[begin].isalnum():
            begin += 1
        while end > begin and not sentence.text[end - 1].isalnum():
            end -= 1
        claim = Claim(sentence.text[begin:end])
        if numbers and len(claim.terms) >= MIN_TERMS:
            part = _Part(claim, sentence.span(begin, end))
            for n in numbers:
                found.setdefault(n, part)
    return found
