"""What loaders yield: LangChain Documents whose texts, put one after the other, are the document's text.

In: pieces of text with what is known about them. Out: Documents with the metadata keys that `ingest.documents.assemble`
reads: `page` (position in the file, counted from 1; a slide or sheet counts as one), `kind` and `level`, `title` (a
heading's words where its text has markup), `ocr`, `note` (a sentence for people), `unread_pages`, `document_metadata`
and `media_type` (where only the content tells it).
Must not: change a text.
"""

from collections.abc import Mapping
from typing import Any, Literal

from langchain_core.documents import Document

Kind = Literal["prose", "heading", "table", "code"]


def part(text: str, kind: Kind = "prose", *, page: int | None = None, ocr: bool = False) -> Document:
    """A piece of text, with its own separators. In a table or code, each line is kept whole where it fits. `ocr` marks
    what was read from an image, which may hold misread words."""
    metadata: dict[str, Any] = {"kind": kind}
    if page is not None:
        metadata["page"] = page
    if ocr:
        metadata["ocr"] = True
    return Document(page_content=text, metadata=metadata)


def heading(text: str, level: int, *, title: str | None = None, page: int | None = None) -> Document:
    """A heading of `level` (1 is the highest). `title` is its words, where `text` has more than those."""
    metadata: dict[str, Any] = {"kind": "heading", "level": level}
    if title is not None:
        metadata["title"] = title
    if page is not None:
        metadata["page"] = page
    return Document(page_content=text, metadata=metadata)


def note(text: str) -> Document:
    """Something that people must be told, such as what was left out."""
    return Document(page_content="", metadata={"note": text})


def about(metadata: Mapping[str, Any]) -> Document:
    """What the file says of itself: title, author, language."""
    return Document(page_content="", metadata={"document_metadata": dict(metadata)})


def of_type(media_type: str) -> Document:
    """What the document is, where its family has several media types."""
    return Document(page_content="", metadata={"media_type": media_type})


def unread(pages: int) -> Document:
    """So many pages have something to see but brought no text: OCR was off, gave nothing, or hit its limits."""
    return Document(page_content="", metadata={"unread_pages": pages})
