"""Document to chunks: sentences and lines packed up to a number of tokens, with exact spans.

In: a text with its page starts, headings, atoms and OCR stretches, and a function that counts tokens as the embedding model
does. Out: chunks whose `text` is exactly the document's text at their span. Must not: do I/O (pure, standard library).

A chunk never passes what the model reads. It ends where a heading begins and where what was read from an image does, never
inside an atom (a table row, a code line) that fits, and inside a sentence only when that alone is too long. Nothing but
white space lies between two chunks. One that begins inside a table has the column headers at the end of its path.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ingest.chunking.fitting import CountTokens, Fitting, Limits
from ingest.chunking.rows import rows_of
from ingest.chunking.units import units_of
from rag_service.index.chunks import Chunk, chunk_id, digest, embedded_text
from rag_service.index.spans import PageStarts, Span

REVISION = 2  # raise it when equal input gives other chunks

HEADING_TOKENS = 48  # of the room of a chunk, at most so many for the path of headings above it
MAX_HEADING_DEPTH = 4
MAX_MARKUP_CHARS = 100  # around the words of a heading
NO_PAGES = PageStarts()


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document: where it starts, its level (1 is the highest), its words."""

    start: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Chunker:
    """Settings of the cut. `max_tokens` counts the text of a chunk; `overlap_tokens` of the one before are repeated.
    `counter` names what counts, where that is not the embedding model itself."""

    count_tokens: CountTokens
    model_max_tokens: int
    max_tokens: int
    overlap_tokens: int = 0
    counter: str = ""

    @property
    def fingerprint(self) -> str:
        """Part of the version id: other settings are another version."""
        counter = (self.counter,) if self.counter else ()
        return digest("chunker", str(REVISION), str(self._limits.chunk_tokens), str(self.overlap_tokens), *counter)

    @property
    def _limits(self) -> Limits:
        return Limits(self.count_tokens, self.model_max_tokens, self.max_tokens, self.overlap_tokens)

    def chunks(
        self,
        text: str,
        version: str,
        *,
        pages: PageStarts = NO_PAGES,
        headings: Sequence[Heading] = (),
        atoms: Sequence[Span] = (),
        ocr: Sequence[Span] = (),
    ) -> list[Chunk]:
        """Cut `text`. The chunks stand in order; with no overlap they do not overlap either. `headings`, `atoms` and `ocr`
        stand in order too; OCR stretches with nothing between them count as one."""
        made: list[Chunk] = []
        rows = rows_of(text, atoms)
        images = merged(text, ocr)
        heading_starts = {heading.start for heading in headings}
        for section, path in sections(text, headings):
            fitting = Fitting(text, self._limits, self._fit_path(path))
            for stretch, is_ocr in parted(section, images):
                for span, told in fitting.chunks(list(units_of(text, stretch, rows, heading_starts))):
                    first, last = pages.pages_of(span)
                    made.append(
                        Chunk(chunk_id(version, span), version, span, span.of(text), told, first, last, ocr=is_ocr)
                    )
        return made

    def _fit_path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The innermost headings that leave room for the text; a heading too long by itself is left out."""
        kept: tuple[str, ...] = ()
        budget = min(HEADING_TOKENS, self._limits.chunk_tokens // 3)
        for heading in reversed(path[-MAX_HEADING_DEPTH:]):
            longer = (heading, *kept)
            if self.count_tokens([embedded_text(longer, "")])[0] > budget:
                break
            kept = longer
        return kept


def sections(text: str, headings: Sequence[Heading]) -> Iterator[tuple[Span, tuple[str, ...]]]:
    """The stretches between headings, each with the path of headings above it. A heading belongs to its own section; one
    with no text of its own begins that of the first heading below it, since alone it would say nothing."""
    starts = [(0, ()), *heading_paths(headings)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    begin: int | None = None
    for n, ((start, path), end) in enumerate(zip(starts, ends, strict=True)):
        if not text[start:end].strip():
            continue
        begin = start if begin is None else begin
        below = starts[n + 1][1] if n + 1 < len(starts) else ()
        if n > 0 and below[:-1] == path and is_bare(text[start:end], headings[n - 1]):
            continue
        yield Span(begin, end), path
        begin = None


def is_bare(section: str, heading: Heading) -> bool:
    """Whether a section is its heading and no more than the markup around that."""
    if len(section.strip()) > len(heading.text) + MAX_MARKUP_CHARS:
        return False
    words = " ".join(section.split())
    before, found, after = words.partition(heading.text)
    return bool(found) and not any(character.isalnum() for character in before + after)


def heading_paths(headings: Sequence[Heading]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each heading's start, with the path down to and including it."""
    stack: list[Heading] = []
    for heading in headings:
        while stack and stack[-1].level >= heading.level:
            stack.pop()
        stack.append(heading)
        yield heading.start, tuple(above.text for above in stack if above.text)


def merged(text: str, stretches: Sequence[Span]) -> list[Span]:
    """The stretches, those with nothing but white space between them as one: a page may be read line by line."""
    joined: list[Span] = []
    for stretch in stretches:
        if joined and not text[joined[-1].end : stretch.start].strip():
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, stretch.end))
        else:
            joined.append(stretch)
    return joined


def parted(section: Span, stretches: Sequence[Span]) -> Iterator[tuple[Span, bool]]:
    """The section, cut at the edges of the stretches; with each part whether it lies in one of them."""
    position = section.start
    for stretch in islice(stretches, bisect_right(stretches, section.start, key=lambda stretch: stretch.end), None):
        if stretch.start >= section.end:
            break
        if position < stretch.start:
            yield Span(position, stretch.start), False
        position = max(position, stretch.start)
        yield Span(position, min(stretch.end, section.end)), True
        position = min(stretch.end, section.end)
    if position < section.end:
        yield Span(position, section.end), False
