"""Spans: half-open ranges of code points in a document's text, and the pages they lie on.

In: offsets. Out: `Span` and `PageStarts` values. Must not: know of documents, stores or HTTP (pure, standard library).
"""

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Half-open `[start, end)` in code points of one document version's text. Raises ValueError when backwards."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not a span: [{self.start}, {self.end})")

    def __len__(self) -> int:
        return self.end - self.start

    def of(self, text: str) -> str:
        """The text that the span covers."""
        return text[self.start : self.end]

    def contains(self, other: "Span") -> bool:
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: "Span") -> bool:
        return self.start < other.end and other.start < self.end

    def shift(self, offset: int) -> "Span":
        """The same span counted from another origin; `offset` code points are added to both ends."""
        return Span(self.start + offset, self.end + offset)


@dataclass(frozen=True, slots=True)
class PageStarts:
    """Where each page (slide, sheet) of a text begins: `offsets[i]` is the start of page `first + i`.

    Pages are positions in the file, counted from 1, never printed page numbers. No offsets means no pages.
    """

    offsets: tuple[int, ...] = ()
    first: int = 1

    def __post_init__(self) -> None:
        if any(a > b for a, b in zip(self.offsets, self.offsets[1:], strict=False)):
            raise ValueError("page starts must not go backwards")

    def page_at(self, offset: int) -> int | None:
        """The page that holds the code point at `offset`; None where there are no pages. Before the first: the first."""
        if not self.offsets:
            return None
        return self.first + max(0, bisect_right(self.offsets, offset) - 1)

    def pages_of(self, span: Span) -> tuple[int | None, int | None]:
        """First and last page that `span` touches; (None, None) where there are no pages."""
        return self.page_at(span.start), self.page_at(max(span.start, span.end - 1))

    def within(self, span: Span) -> "PageStarts":
        """The part needed for offsets inside `span`, so that a passage carries its own pages and no more."""
        if not self.offsets:
            return self
        low = max(0, bisect_right(self.offsets, span.start) - 1)
        high = bisect_right(self.offsets, max(span.start, span.end - 1))
        return PageStarts(self.offsets[low : max(high, low + 1)], self.first + low)
