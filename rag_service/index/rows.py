"""What the catalog holds, as frozen values, and how those are written into a row.

In: columns. Out: values, and their JSON forms. Must not: run SQL.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag_service.index.chunks import version_id
from rag_service.index.spans import PageStarts, Span

MetadataValue = str | int | float | bool
Filters = Mapping[str, Sequence[MetadataValue]]


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document as it stands in the index. `size` is bytes of the file, `indexed_at` ISO 8601 in UTC.

    `metadata` is what filters see: what the file says of itself, and over it `given`, what was said from outside.
    """

    id: str
    collection: str
    uri: str
    title: str
    media_type: str
    size: int
    content_hash: str
    version: str
    metadata: dict[str, MetadataValue]
    indexed_at: str
    given: dict[str, MetadataValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listed:
    """A document with its number of chunks, and the notes of its loader: what of the file is not in the text."""

    document: DocumentRow
    notes: tuple[str, ...]
    chunks: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """Fingerprints of what turns one content into a version: equal recipes give equal texts and chunks.

    `ocr` is empty when no image was to be read.
    """

    loader: str = ""
    chunker: str = ""
    ocr: str = ""

    def version_id(self, content_hash: str, embedder: str) -> str:
        loader = f"{self.loader}+{self.ocr}" if self.ocr else self.loader
        return version_id(content_hash, loader, self.chunker, embedder)


@dataclass(frozen=True, slots=True)
class Making:
    """How a version was made. `unread` counts pages that brought no text though there is something on them; `metadata` is
    what the file says of itself; `structure` is JSON that only the ingest side reads (headings, atoms, OCR stretches)."""

    recipe: Recipe = Recipe()
    unread: int = 0
    metadata: dict[str, MetadataValue] = field(default_factory=dict)
    structure: str = "{}"


@dataclass(frozen=True, slots=True)
class LiveChunk:
    """A chunk together with the document it is cited under. Its `pages` are those inside the chunk; `ocr` says that it was
    read from an image; `also_at` are the URIs of other documents with the same content."""

    id: str
    document_id: str
    version: str
    title: str
    uri: str
    span: Span
    text: str
    heading_path: tuple[str, ...]
    pages: PageStarts
    ocr: bool = False
    media_type: str = ""
    also_at: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is not in the index, and why. `attempt` names the content and recipe that were tried; None: try again."""

    uri: str
    status: str
    reason: str
    attempt: str | None = None


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file as it was when its content was hashed. `mark` changes whenever the file does; `device` is its file system."""

    mark: str
    device: int
    content_hash: str
    loader: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a collection's vectors are in Chroma: its generation there, and the catalog that they belong to (None: whichever).
    `made_by` is the command that fills a generation that is not read yet."""

    generation: int = 0
    owner: str | None = None
    made_by: str | None = None


@dataclass(frozen=True, slots=True)
class WebPage:
    """What a web server said of an indexed page, and the sitemap that listed it (None: the page was given itself)."""

    etag: str | None = None
    last_modified: str | None = None
    sitemap: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    documents: int
    versions: int
    chunks: int


def pages_json(pages: PageStarts) -> str:
    return json.dumps([pages.first, *pages.offsets]) if pages.offsets else "[]"


def pages_from(data: str) -> PageStarts:
    numbers = json.loads(data)
    return PageStarts(tuple(numbers[1:]), numbers[0]) if numbers else PageStarts()


def document_from(row: sqlite3.Row) -> DocumentRow:
    columns: dict[str, Any] = dict(row)
    return DocumentRow(
        **{**columns, "metadata": json.loads(columns["metadata"]), "given": json.loads(columns["given"])}
    )


def listed_from(row: sqlite3.Row) -> Listed:
    columns: dict[str, Any] = dict(row)
    notes, chunks = json.loads(columns.pop("notes")), columns.pop("chunks")
    fields = {**columns, "metadata": json.loads(columns["metadata"]), "given": json.loads(columns["given"])}
    return Listed(DocumentRow(**fields), tuple(notes), chunks)


def making_from(row: sqlite3.Row) -> Making:
    recipe = Recipe(row["loader"], row["chunker"], row["ocr"])
    return Making(recipe, row["unread"], json.loads(row["metadata"]), row["structure"])


def live_chunk_from(row: sqlite3.Row) -> LiveChunk:
    return LiveChunk(
        id=row["id"],
        document_id=row["document_id"],
        version=row["version"],
        title=row["title"],
        uri=row["uri"],
        span=Span(row["start"], row["end"]),
        text=row["text"],
        heading_path=tuple(json.loads(row["heading_path"])),
        pages=pages_from(row["page_starts"]),
        ocr=bool(row["ocr"]),
        media_type=row["media_type"],
        also_at=tuple(sorted(uri for uri in json.loads(row["uris"]) if uri != row["uri"])),
    )
