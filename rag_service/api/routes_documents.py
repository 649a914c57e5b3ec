"""Documents as the index holds them: GET /documents/{id}, a page that shows a passage in its place, or the same as JSON.

In: a document's id and a span. Out: HTML or JSON. Must not: put a document's text into a page other than escaped.
"""

from html import escape
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.responses import HTMLResponse, JSONResponse, Response

from rag_service.api.dependencies import KEY, PartsDep
from rag_service.api.routes_answers import prefers
from rag_service.errors import InvalidRequest
from rag_service.events import page_unit
from rag_service.index.catalog import Catalog
from rag_service.index.rows import DocumentRow
from rag_service.index.spans import PageStarts, Span

router = APIRouter(tags=["documents"], dependencies=[KEY])

WINDOW_CHARS = 40_000  # of the text, on both sides of the passage: a book is not sent whole


@router.get("/documents/{document_id}", response_class=Response)
async def document(
    document_id: str,
    parts: PartsDep,
    start: Annotated[int | None, Query(ge=0, description="Start of the passage, in code points of the text.")] = None,
    end: Annotated[int | None, Query(ge=0, description="Its end.")] = None,
    version: Annotated[str | None, Query(max_length=64, description="The version that the span belongs to.")] = None,
    accept: Annotated[str, Header()] = "",
) -> Response:
    """The text of a document, around a passage, which is marked. As a page, or as JSON for `Accept: application/json`."""

    def read(catalog: Catalog) -> tuple[DocumentRow, str, PageStarts]:
        found = catalog.document(document_id)
        return found, *catalog.text(found.collection, found.version)

    found, text, pages = await parts.catalog.read(read)
    stale = version is not None and version != found.version
    span = None if stale else passage(start, end, len(text))
    shown = window(span or Span(0, 0), len(text))
    if prefers(accept, "application/json"):
        return JSONResponse(as_json(found, text, pages, span, shown, stale))
    return HTMLResponse(as_page(found, text, pages, span, shown, stale))


def passage(start: int | None, end: int | None, length: int) -> Span | None:
    if start is None and end is None:
        return None
    first, last = start or 0, length if end is None else end
    if not first <= last <= length:
        raise InvalidRequest(
            f"start, end: [{first}, {last}) is no part of this document's text, which has {length} characters."
        )
    return Span(first, last)


def window(span: Span, length: int) -> Span:
    """The part of the text that is shown."""
    return Span(max(0, span.start - WINDOW_CHARS), min(length, span.end + WINDOW_CHARS))


def as_json(
    found: DocumentRow, text: str, pages: PageStarts, span: Span | None, shown: Span, stale: bool
) -> dict[str, Any]:
    return {
        "id": found.id,
        "title": found.title,
        "uri": found.uri,
        "version": found.version,
        "media_type": found.media_type,
        "text": shown.of(text),
        "offset": shown.start,
        "length": len(text),
        "page_unit": page_unit(found.media_type),
        "pages": [{"page": page, "start": start} for page, start in page_starts(pages, shown)],
        "span": {"start": span.start, "end": span.end} if span else None,
        "stale": stale,
    }


def page_starts(pages: PageStarts, shown: Span) -> list[tuple[int, int]]:
    """Pages that the shown part touches, and where each begins (the first may begin before it)."""
    inside = pages.within(shown)
    return list(enumerate(inside.offsets, start=inside.first))


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="/static/colours.css">
<link rel="stylesheet" href="/static/document.css">
<script src="/static/document_page.js" type="module"></script>
</head>
<body>
<main class="document-page"><h1>{title}</h1><p class="where">{uri}{where}</p>{notice}{content}</main>
</body>
</html>
"""


def as_page(found: DocumentRow, text: str, pages: PageStarts, span: Span | None, shown: Span, stale: bool) -> str:
    """The page, every piece of it escaped."""
    first, last = pages.pages_of(span) if span else (None, None)
    unit = page_unit(found.media_type)
    where = "" if first is None else f" · {unit} {first}" if first == last else f" · {unit}s {first}–{last}"
    notice = ""
    if stale:
        notice += '<p class="note">The document has changed since this was cited: the passage is not marked.</p>'
    if len(shown) < len(text):
        notice += f'<p class="note">Characters {shown.start}–{shown.end} of {len(text)} are shown.</p>'
    return PAGE.format(
        title=escape(found.title),
        uri=escape(found.uri),
        where=where,
        notice=notice,
        content="".join(sheets(text, pages, span, shown, unit.capitalize())),
    )


def sheets(text: str, pages: PageStarts, span: Span | None, shown: Span, unit: str) -> list[str]:
    """The shown part, page (slide, sheet) by page, with the passage in a `<mark>`."""
    starts = page_starts(pages, shown) or [(0, shown.start)]
    edges = [max(shown.start, start) for _, start in starts] + [shown.end]
    made = []
    for (page, _), start, end in zip(starts, edges, edges[1:], strict=False):
        label = f'<h2 class="page-break" id="page-{page}">{unit} {page}</h2>' if page else ""
        made.append(f'{label}<div class="document-text">{marked(text, Span(start, end), span)}</div>')
    return made


def marked(text: str, part: Span, span: Span | None) -> str:
    if span is None or not span.overlaps(part):
        return escape(part.of(text))
    inside = Span(max(span.start, part.start), min(span.end, part.end))
    anchor = ' id="passage"' if span.start >= part.start else ""
    before, after = Span(part.start, inside.start), Span(inside.end, part.end)
    return f"{escape(before.of(text))}<mark{anchor}>{escape(inside.of(text))}</mark>{escape(after.of(text))}"
