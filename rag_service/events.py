"""What an answer is made of: six events, the one truth that every dialect encodes (../shared WIRE.md, "Native").

In: values from retrieval, the model and the citation check. Out: frozen events. Must not: know JSON, HTTP or a client
(pure, standard library).
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rag_service.index.spans import PageStarts, Span

CitationStatus = Literal["verified", "weak", "misattributed", "unsupported"]
FinishReason = Literal["stop", "length", "no_sources"]
PageUnit = Literal["page", "slide", "sheet", "chapter"]
Stage = Literal["queued", "retrieving", "thinking", "generating"]


def page_unit(media_type: str) -> PageUnit:
    """What the numbered parts of such a file are called."""
    if "presentation" in media_type:
        return "slide"
    if "sheet" in media_type or "ms-excel" in media_type:
        return "sheet"
    return "chapter" if "epub" in media_type else "page"


@dataclass(frozen=True, slots=True)
class Source:
    """A numbered passage: what stands in the prompt as source `n`, and nothing else.

    `text` is exactly the document version's text at `span`. `score` is in 0..1, higher is better. `pages` are the page
    starts inside the passage, in offsets of the document; `page_unit` says what they are. `ocr` marks text that was read from
    an image, and may hold misread words. `also_at` are other places of the same content.
    """

    n: int
    document_id: str
    version: str
    chunk_id: str
    title: str
    uri: str
    span: Span
    text: str
    score: float
    pages: PageStarts = PageStarts()
    heading_path: tuple[str, ...] = ()
    page_unit: PageUnit = "page"
    ocr: bool = False
    also_at: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Where this service shows the passage in its document, relative to the service's root."""
        return f"/documents/{self.document_id}?start={self.span.start}&end={self.span.end}&version={self.version}"


@dataclass(frozen=True, slots=True)
class Status:
    """Something other than text is going on; `position` counts from 1 while queued."""

    stage: Stage
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    sources: tuple[Source, ...]


class Delta(NamedTuple):
    """More of the answer. The concatenation of all deltas is the answer. (A tuple is made in half the time of a frozen
    dataclass, and an answer has thousands.)
    """

    text: str


@dataclass(frozen=True, slots=True)
class Citation:
    """A checked citation. `answer` is a span of the answer, without its markers; `span` is the supporting passage in
    `source`'s document, and `quote` is exactly the document's text there. Both are None when nothing supports the claim.
    `n` is the number the model wrote; for `misattributed`, `source` is the one that does support the claim.
    """

    id: str
    n: int
    answer: Span
    source: Source
    status: CitationStatus
    score: float
    span: Span | None = None
    quote: str | None = None

    @property
    def pages(self) -> tuple[int | None, int | None]:
        """First and last page of the passage (not of the chunk), counted from 1."""
        return self.source.pages.pages_of(self.span if self.span is not None else self.source.span)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the endpoint counted them."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class CitationCounts:
    verified: int = 0
    weak: int = 0
    misattributed: int = 0
    unsupported: int = 0
    dropped_markers: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The answer is whole. `timings_ms` has stage names to milliseconds."""

    finish_reason: FinishReason
    usage: Usage | None = None
    citations: CitationCounts = CitationCounts()
    timings_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer broke off after its first byte: the `error` event. Before it, an error is a real HTTP status."""

    code: str
    message: str
    retryable: bool


Event = Status | Sources | Delta | Citation | Done | Failed
