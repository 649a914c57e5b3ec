"""What is in the index and what is not: GET /documents, GET /problems.

In: a page's cursor, a text to look for. Out: JSON. Must not: hold more than a page.
"""

import asyncio
import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Query

from rag_service.api.dependencies import KEY, Parts, PartsDep
from rag_service.api.document_schemas import DocumentInfo, DocumentList, ProblemInfo, ProblemList
from rag_service.api.schemas import CollectionName
from rag_service.errors import InvalidRequest
from rag_service.index.rows import Listed, Problem

router = APIRouter(tags=["documents"], dependencies=[KEY])

Limit = Annotated[int, Query(ge=1, le=200, description="Entries of a page.")]
Cursor = Annotated[str, Query(max_length=20_000, description="`next_cursor` of the page before.")]
Mentioned = Annotated[
    str, Query(max_length=500, description="Only what has this text in its title or URI, in any case.")
]
Collection = Annotated[CollectionName | None, Query(description="Overrides RAG_COLLECTION.")]


@router.get("/documents")
async def documents(
    parts: PartsDep, q: Mentioned = "", limit: Limit = 50, cursor: Cursor = "", collection: Collection = None
) -> DocumentList:
    """The documents in the index, by URI."""
    name, after = await there(parts, collection), decoded(cursor)
    found: list[Listed] = []
    total = problems = 0
    if name is not None:
        found, (total, problems) = await parts.catalog.read(
            lambda catalog: (catalog.listed_documents(name, q, after, limit + 1), catalog.count_listed(name, q))
        )
    return DocumentList(
        collection=name or parts.settings.collection,
        documents=[DocumentInfo.of(each) for each in found[:limit]],
        total=total,
        problems=problems,
        next_cursor=encoded(found[limit - 1].document.uri) if len(found) > limit else None,
    )


@router.get("/problems")
async def problems(
    parts: PartsDep, q: Mentioned = "", limit: Limit = 50, cursor: Cursor = "", collection: Collection = None
) -> ProblemList:
    """Files that are not in the index, or not in their newest version, and why: no extractable text, a broken file, …"""
    name, after = await there(parts, collection), decoded(cursor)
    found: list[Problem] = []
    total = 0
    if name is not None:
        found, (_, total) = await parts.catalog.read(
            lambda catalog: (catalog.listed_problems(name, q, after, limit + 1), catalog.count_listed(name, q))
        )
    return ProblemList(
        collection=name or parts.settings.collection,
        problems=[ProblemInfo.of(each) for each in found[:limit]],
        total=total,
        next_cursor=encoded(found[limit - 1].uri) if len(found) > limit else None,
    )


async def there(parts: Parts, wanted: str | None) -> str | None:
    """The collection that is asked for; None for the configured one while it is not made. Raises NotFound for another."""
    name = await parts.uploads.collection(wanted)
    return name if await asyncio.to_thread(parts.settings.catalog_path.exists) else None


def encoded(uri: str) -> str:
    return base64.urlsafe_b64encode(uri.encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=")


def decoded(cursor: str) -> str:
    """Raises InvalidRequest for what is no cursor of ours."""
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True).decode(
            "utf-8", "surrogatepass"
        )
    except (ValueError, binascii.Error) as error:
        raise InvalidRequest("cursor: give `next_cursor` of the page before, as it is.") from error
