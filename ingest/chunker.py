"""Document to chunks: sentences and lines packed up to a number of tokens, with exact spans.

In: a text with its page starts, headings and atoms, and a function that counts tokens as the embedding model does.
Out: chunks whose `text` is exactly the document's text at their span. Must not: do I/O (pure, standard library).

A chunk never passes what the model reads. It ends where a heading begins, never inside an atom (a table row, a code line)
that fits, and inside a sentence only when that alone is too long. Nothing but white space lies between two chunks.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rag_service.index.chunks import Chunk, chunk_id, digest, embedded_text
from rag_service.index.spans import PageStarts, Span

REVISION = 1  # raise it when equal input gives other chunks

CountTokens = Callable[[Sequence[str]], list[int]]

# After the end of a sentence (with closing quotes or brackets) comes white space, or nothing in CJK; a line break ends one too.
BOUNDARY = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？])[」』”）]*|\n+")
WORD_END = re.compile(r"\s+")

MAX_CHARS_PER_TOKEN = 8  # English prose has 4 to 5
HEADING_TOKENS = 48  # of the room of a chunk, at most so many for the path of headings above it
MAX_HEADING_DEPTH = 4
NO_PAGES = PageStarts()


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document: where it starts, its level (1 is the highest), its words."""

    start: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Chunker:
    """Settings of the cut. `max_tokens` counts the text of a chunk; `overlap_tokens` of the one before are repeated."""

    count_tokens: CountTokens
    model_max_tokens: int
    max_tokens: int
    overlap_tokens: int = 0

    @property
    def fingerprint(self) -> str:
        """Part of the version id: other settings are another version."""
        return digest("chunker", str(REVISION), str(self._limit), str(self.overlap_tokens))

    @property
    def _limit(self) -> int:
        return min(self.max_tokens, self.model_max_tokens)

    def chunks(
        self,
        text: str,
        version: str,
        *,
        pages: PageStarts = NO_PAGES,
        headings: Sequence[Heading] = (),
        atoms: Sequence[Span] = (),
    ) -> list[Chunk]:
        """Cut `text`. The chunks stand in order; with no overlap they do not overlap either."""
        made: list[Chunk] = []
        for section, path in sections(text, headings):
            path = self._fit_path(path)
            room = self._room(path)
            for span in self._spans(text, section, path, atoms, room):
                first, last = pages.pages_of(span)
                made.append(Chunk(chunk_id(version, span), version, span, span.of(text), path, first, last))
        return made

    def _spans(self, text: str, section: Span, path: tuple[str, ...], atoms: Sequence[Span], room: int) -> list[Span]:
        """Pieces packed to `room`. Some tokenizers count a joined text higher than its parts, so the result is counted
        again as it will be embedded, and packed tighter if it would pass what the model reads."""
        while True:
            spans = list(pack(self._pieces(text, section, atoms, room), room, min(self.overlap_tokens, room // 2)))
            longest = max(self.count_tokens([embedded_text(path, span.of(text)) for span in spans]), default=0)
            if longest <= self.model_max_tokens or room == 1:
                return spans
            room = max(1, room - (longest - self.model_max_tokens))

    def _room(self, path: tuple[str, ...]) -> int:
        """Tokens left for the text of a chunk under `path`."""
        prefix = self.count_tokens([embedded_text(path, "")])[0] if path else 0
        return max(1, min(self.max_tokens, self.model_max_tokens - prefix))

    def _fit_path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The innermost headings that leave room for the text; a heading too long by itself is left out."""
        kept: tuple[str, ...] = ()
        budget = min(HEADING_TOKENS, self._limit // 3)
        for heading in reversed(path[-MAX_HEADING_DEPTH:]):
            longer = (heading, *kept)
            if self.count_tokens([embedded_text(longer, "")])[0] > budget:
                break
            kept = longer
        return kept

    def _pieces(self, text: str, section: Span, atoms: Sequence[Span], room: int) -> list[tuple[Span, int]]:
        """The section as pieces that fit, each with its number of tokens."""
        spans = list(split_section(text, section, atoms))
        pieces: list[tuple[Span, int]] = []
        for span, tokens in zip(spans, self._costs([span.of(text) for span in spans]), strict=True):
            if tokens <= room:
                pieces.append((span, tokens))
            else:
                pieces.extend(self._cut(text, span, room))
        return pieces

    def _costs(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, but at least one for every 8 characters: a tokenizer that gives one "unknown" token for a
        20,000-character word would let all of it into one chunk."""
        return [
            max(n, -(-len(text) // MAX_CHARS_PER_TOKEN))
            for n, text in zip(self.count_tokens(texts), texts, strict=True)
        ]

    def _cut(self, text: str, span: Span, room: int) -> Iterator[tuple[Span, int]]:
        """Cut a piece that is too long: at sentence ends (a long atom), else at white space, else anywhere.

        A cut inside a word can give more tokens than the word had, so each part is counted by itself.
        """
        for part in subdivide(text, span):
            (tokens,) = self._costs([part.of(text)])
            if tokens <= room:
                yield part, tokens
            elif len(part) == 1:
                yield part, room  # one character of several tokens, more than a tiny room: kept rather than lost
            else:
                yield from self._cut(text, part, room)


def sections(text: str, headings: Sequence[Heading]) -> Iterator[tuple[Span, tuple[str, ...]]]:
    """The stretches between headings, each with the path of headings above it. A heading belongs to its own section."""
    starts = [(0, ()), *heading_paths(headings)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    for (start, path), end in zip(starts, ends, strict=True):
        if text[start:end].strip():
            yield Span(start, end), path


def heading_paths(headings: Sequence[Heading]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each heading's start, with the path down to and including it."""
    stack: list[Heading] = []
    for heading in headings:
        while stack and stack[-1].level >= heading.level:
            stack.pop()
        stack.append(heading)
        yield heading.start, tuple(above.text for above in stack if above.text)


def split_section(text: str, section: Span, atoms: Sequence[Span]) -> Iterator[Span]:
    """Atoms as they are; what lies between them by sentences and lines. White space at the ends is left out."""
    position = section.start
    for atom in atoms:
        if atom.end <= section.start or atom.start >= section.end:
            continue
        yield from sentences(text, Span(position, max(position, atom.start)))
        yield from stripped(text, Span(max(position, atom.start), min(atom.end, section.end)))
        position = max(position, min(atom.end, section.end))
    yield from sentences(text, Span(position, section.end))


def sentences(text: str, span: Span) -> Iterator[Span]:
    """Sentences and lines of a stretch, without the white space around them."""
    start = span.start
    for match in BOUNDARY.finditer(text, span.start, span.end):
        yield from stripped(text, Span(start, match.end()))
        start = match.end()
    yield from stripped(text, Span(start, span.end))


def stripped(text: str, span: Span) -> Iterator[Span]:
    """The span without white space at its ends; nothing if it is blank."""
    piece = span.of(text)
    left = len(piece) - len(piece.lstrip())
    right = len(piece.rstrip())
    if left < right:
        yield Span(span.start + left, span.start + right)


def subdivide(text: str, span: Span) -> list[Span]:
    """Two or more parts of a stretch that is too long: its sentences if it has several, else its halves, cut at white
    space near the middle where there is some, else in the middle."""
    parts = list(sentences(text, span))
    if len(parts) > 1:
        return parts
    middle = (span.start + span.end) // 2
    quarter = max(1, len(span) // 4)
    spaces = [match.start() for match in WORD_END.finditer(text, middle - quarter, middle + quarter)]
    cut = min(spaces, key=lambda at: abs(at - middle)) if spaces else middle
    halves = [Span(span.start, cut), Span(cut, span.end)]
    return [part for half in halves for part in stripped(text, half)]


def pack(pieces: Sequence[tuple[Span, int]], room: int, overlap: int) -> Iterator[Span]:
    """Join neighbouring pieces while their tokens fit in `room`; up to `overlap` tokens of whole pieces are repeated."""
    first = 0
    total = 0
    for index, (_, tokens) in enumerate(pieces):
        if index > first and total + tokens > room:
            yield Span(pieces[first][0].start, pieces[index - 1][0].end)
            first, total = _overlap_start(pieces, first, index, min(overlap, room - tokens))
        total += tokens
    if pieces:
        yield Span(pieces[first][0].start, pieces[-1][0].end)


def _overlap_start(pieces: Sequence[tuple[Span, int]], first: int, index: int, overlap: int) -> tuple[int, int]:
    """Where the next chunk begins (always after `first`, so that it moves on), and the tokens it repeats."""
    start, repeated = index, 0
    while start - 1 > first and repeated + pieces[start - 1][1] <= overlap:
        start -= 1
        repeated += pieces[start][1]
    return start, repeated
