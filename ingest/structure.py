"""What the catalog keeps of a document besides its text, so that its chunks can be cut anew without the file.

In: a loaded document. Out: a `Making` with the structure as JSON, and the structure back from it. Must not: know chunks.
"""

import json
from dataclasses import dataclass

from ingest.chunker import Heading
from ingest.documents import LoadedDocument
from rag_service.index.rows import Making, Recipe
from rag_service.index.spans import Span


@dataclass(frozen=True, slots=True)
class Structure:
    """Headings, what is kept whole, and what was read from images; in offsets of the text."""

    headings: tuple[Heading, ...]
    atoms: tuple[Span, ...]
    ocr: tuple[Span, ...]


def making_of(document: LoadedDocument, recipe: Recipe) -> Making:
    """How this version was made, for the catalog."""
    structure = {
        "headings": [[heading.start, heading.level, heading.text] for heading in document.headings],
        "atoms": [offset for span in document.atoms for offset in (span.start, span.end)],
        "ocr": [offset for span in document.ocr for offset in (span.start, span.end)],
    }
    return Making(
        recipe,
        document.unread_pages,
        document.metadata,
        json.dumps(structure, ensure_ascii=False, separators=(",", ":")),
    )


def structure_of(making: Making) -> Structure:
    """The inverse; empty for a version of an older catalog, which has none."""
    stored = json.loads(making.structure)
    return Structure(
        tuple(Heading(start, level, text) for start, level, text in stored.get("headings", ())),
        _spans(stored.get("atoms", [])),
        _spans(stored.get("ocr", [])),
    )


def _spans(offsets: list[int]) -> tuple[Span, ...]:
    return tuple(Span(start, end) for start, end in zip(offsets[::2], offsets[1::2], strict=True))
