"""A stretch of text to chunks that the embedding model reads whole.

In: the units of a stretch under one heading path, and a function that counts tokens. Out: spans, each with the path that its
chunk is embedded under. Must not: pass what the model reads; lose more than white space; do I/O (pure, standard library).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ingest.chunking.graphemes import is_edge
from ingest.chunking.packing import Piece, Range, pack
from ingest.chunking.rows import Context
from ingest.chunking.sentences import evenly
from ingest.chunking.units import Unit, parts_of
from rag_service.index.chunks import embedded_text
from rag_service.index.spans import Span

CountTokens = Callable[[Sequence[str]], list[int]]

MAX_CHARS_PER_TOKEN = 8  # English prose has 4 to 5
CONTEXT_SHARE = 3  # at most one in so many tokens of a chunk says where it begins
LEAST_CONTEXT_CHARS = 8
COUNTED_AT_ONCE = 512  # texts: what a tokenizer returns for them is many times their size
PACKINGS = 3  # tried for a whole stretch before single chunks are cut again


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_tokens` counts the text of a chunk, `model_max_tokens` the whole that is embedded; up to `overlap_tokens` of the
    chunk before are repeated."""

    count_tokens: CountTokens
    model_max_tokens: int
    max_tokens: int
    overlap_tokens: int

    @property
    def chunk_tokens(self) -> int:
        return min(self.max_tokens, self.model_max_tokens)

    def count(self, texts: Sequence[str]) -> list[int]:
        counts: list[int] = []
        for first in range(0, len(texts), COUNTED_AT_ONCE):
            counts.extend(self.count_tokens(texts[first : first + COUNTED_AT_ONCE]))
        return counts


class Fitting:
    """Fits stretches of one text under one heading path."""

    def __init__(self, text: str, limits: Limits, path: Context) -> None:
        self._text = text
        self._limits = limits
        self._path = path
        self._known: dict[Context, tuple[Context, int]] = {}

    def chunks(self, units: Sequence[Unit]) -> Iterator[tuple[Span, Context]]:
        """Spans and their paths. Some tokenizers count a joined text higher than its parts, so each chunk is counted again as
        it will be embedded, and all are packed tighter if one would pass what the model reads."""
        pieces = self._pieces(units)
        ranges: list[Range] = []
        over: list[int] = []
        excess = 0
        for _ in range(PACKINGS):
            ranges = self._packed(pieces, excess)
            over = self._over(pieces, ranges)
            if max(over, default=0) <= 0:
                break
            excess += max(over)
        for part in self._settled(pieces, ranges, over):
            yield Span(part[0].span.start, part[-1].span.end), self._told(part[0].context)[0]

    def _packed(self, pieces: Sequence[Piece], excess: int) -> list[Range]:
        overlap = min(self._limits.overlap_tokens, self._told(())[1] // 2)
        return pack(pieces, lambda piece: max(1, self._told(piece.context)[1] - excess), overlap)

    # -- units to pieces that fit

    def _pieces(self, units: Sequence[Unit]) -> list[Piece]:
        """As they fit; the sentence below a heading is cut to stand with it rather than leave it alone in a chunk."""
        pieces = self._fit(units)
        head = next((n for n, piece in enumerate(pieces) if not piece.heading), len(pieces))
        if 0 < head < len(pieces) and not pieces[head].is_row:
            room, taken = self._told(())[1], sum(piece.tokens for piece in pieces[:head])
            if taken + pieces[head].tokens > room >= 2 * taken:
                parts = self._fit([Unit(pieces[head].span, joined=pieces[head].joined)], less=taken)
                if all(is_edge(self._text, part.span.start) for part in parts):
                    pieces[head : head + 1] = parts
        return pieces

    def _fit(self, units: Sequence[Unit], less: int = 0) -> list[Piece]:
        """Count all that is not counted yet in one go, cut what is too long, and again until all fits."""
        fitted: list[Piece | Unit] = list(units)
        while uncounted := [unit for unit in fitted if isinstance(unit, Unit)]:
            rooms = [max(1, self._told(unit.context)[1] - less) for unit in uncounted]
            costs = iter(zip(self._costs(uncounted, rooms), rooms, strict=True))
            before, fitted = fitted, []
            for unit in before:
                if isinstance(unit, Piece):
                    fitted.append(unit)
                    continue
                tokens, room = next(costs)
                if tokens <= room or len(unit.span) == 1:  # a character of more tokens than a tiny room is not lost
                    fitted.append(
                        Piece(
                            unit.span, tokens, unit.context, unit.joined, unit.heading, unit.kind == "row", unit.within
                        )
                    )
                else:
                    fitted.extend(parts_of(self._text, unit, tokens, room))
        return [piece for piece in fitted if isinstance(piece, Piece)]

    def _costs(self, units: Sequence[Unit], rooms: Sequence[int]) -> list[int]:
        """Tokens of each, but at least one for every 8 characters: a tokenizer that gives one "unknown" token for a
        20,000-character word would let all of it into one chunk. What cannot fit is not counted at all."""
        least = [-(-len(unit.span) // MAX_CHARS_PER_TOKEN) for unit in units]
        texts = [unit.span.of(self._text) for unit, low, room in zip(units, least, rooms, strict=True) if low <= room]
        counted = iter(self._limits.count(texts))
        return [max(low, next(counted)) if low <= room else low for low, room in zip(least, rooms, strict=True)]

    # -- ranges of pieces to chunks

    def _over(self, pieces: Sequence[Piece], ranges: Sequence[Range]) -> list[int]:
        """For each range the tokens beyond what the model reads; not positive where it fits."""
        texts = [
            embedded_text(
                self._told(pieces[first].context)[0], self._text[pieces[first].span.start : pieces[end - 1].span.end]
            )
            for first, end in ranges
        ]
        return [tokens - self._limits.model_max_tokens for tokens in self._limits.count(texts)]

    def _settled(
        self, pieces: Sequence[Piece], ranges: Sequence[Range], over: Sequence[int]
    ) -> Iterator[Sequence[Piece]]:
        """The pieces of each chunk; what still passes the model's limit is halved until it does not."""
        for (first, end), excess in zip(ranges, over, strict=True):
            part = pieces[first:end]
            if excess <= 0 or (len(part) == 1 and len(part[0].span) == 1):
                yield part
                continue
            if len(part) == 1:
                part = [replace(part[0], span=span) for span in evenly(self._text, part[0].span, 2)]
            middle = len(part) // 2
            halves = [(0, middle), (middle, len(part))] if middle else [(0, len(part))]
            yield from self._settled(part, halves, self._over(part, halves))

    # -- what a chunk is told

    def _told(self, context: Context) -> tuple[Context, int]:
        """The whole path of a chunk that begins with `context`, and the tokens that are left for its text."""
        if context not in self._known:
            path = (*self._path, *self._shortened(context))
            prefix = self._limits.count([embedded_text(path, "")])[0] if path else 0
            self._known[context] = path, max(1, min(self._limits.max_tokens, self._limits.model_max_tokens - prefix))
        return self._known[context]

    def _shortened(self, context: Context) -> Context:
        """Its longest parts cut until it leaves room for the text; from the end, so that columns stay the first ones."""
        budget = self._limits.chunk_tokens // CONTEXT_SHARE
        kept = [words[: budget * MAX_CHARS_PER_TOKEN] for words in context]
        while kept and self._limits.count([embedded_text(tuple(kept), "")])[0] > budget:
            longest = max(range(len(kept)), key=lambda n: len(kept[n]))
            if len(kept[longest]) < LEAST_CONTEXT_CHARS:
                del kept[longest]
            else:
                kept[longest] = f"{kept[longest][: len(kept[longest]) * 3 // 4].rstrip(' |…')}…"
        return tuple(filter(None, kept))
