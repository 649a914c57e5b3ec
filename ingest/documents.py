"""A file becomes a document: one normalised text, its pages, its headings, and what people must be told about it.

In: the path of a file. Out: a `LoadedDocument`, or LoadFailed with a reason that a person understands. Must not: know
formats (parser libraries stay in `ingest.loaders`); let any other exception of a parser out.
"""

import stat
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.chunker import Heading
from ingest.loaders import Family, family_of
from ingest.loaders.normalise import MetadataValue, clean_metadata, normalise_text
from rag_service.errors import LoadFailed, UnsupportedType
from rag_service.index.spans import PageStarts, Span

__all__ = [
    "Heading",
    "LoadedDocument",
    "MetadataValue",
    "assemble",
    "clean_metadata",
    "fingerprint_for",
    "load",
    "normalise_text",
    "unsupported",
]

MAX_REASON_CHARS = 120


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """A document as its loader read it. All offsets count code points of `text`.

    `atoms` are the table rows and code lines that should not be cut if they fit; `notes` are sentences for people, such
    as "2 of 30 pages have no text (OCR needed)"; `loader` is the fingerprint, such as "pdf/1". `text` may be blank.
    """

    text: str
    media_type: str
    loader: str
    pages: PageStarts
    headings: tuple[Heading, ...]
    atoms: tuple[Span, ...]
    notes: tuple[str, ...]
    metadata: dict[str, MetadataValue]


def fingerprint_for(path: Path) -> str | None:
    """Fingerprint of the loader that `load` would use; None for an unsupported type. Raises LoadFailed."""
    family = _family(path)
    return family.fingerprint if family is not None else None


def load(path: Path) -> LoadedDocument:
    """Read one file. Raises UnsupportedType, or LoadFailed with the reason; nothing else."""
    family = _family(path)
    if family is None:
        raise unsupported(path)
    try:
        parts = family.loader().lazy_parse(Blob.from_path(path, mime_type=family.media_type))
        return assemble(parts, family.media_type, family.fingerprint)
    except LoadFailed:
        raise
    except OSError as error:
        raise _unreadable(error) from error
    except MemoryError as error:
        raise LoadFailed("too large for this machine's memory") from error
    except Exception as error:
        raise LoadFailed(f"broken file ({_short(error)})") from error


def unsupported(path: Path) -> UnsupportedType:
    """The error that names the type by its suffix."""
    return UnsupportedType(f"unsupported type {path.suffix.lower() or '(no suffix)'}")


def _family(path: Path) -> Family | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            raise LoadFailed("not a regular file")
        return family_of(path)
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> LoadFailed:
    return LoadFailed(f"unreadable: {(error.strerror or type(error).__name__).lower()}")


def _short(error: Exception) -> str:
    words = " ".join(normalise_text(str(error)).split())
    return f"{type(error).__name__}: {words}"[:MAX_REASON_CHARS] if words else type(error).__name__


def assemble(parts: Iterable[Document], media_type: str, loader: str) -> LoadedDocument:
    """Put the parts of a loader (`ingest.loaders.parts`) one after the other and note where everything is."""
    assembly = _Assembly()
    for part in parts:
        assembly.add(part)
    return LoadedDocument(
        text="".join(assembly.texts),
        media_type=media_type,
        loader=loader,
        pages=PageStarts(tuple(assembly.page_starts)),
        headings=tuple(assembly.headings),
        atoms=tuple(assembly.atoms),
        notes=tuple(assembly.notes),
        metadata=clean_metadata(assembly.metadata),
    )


class _Assembly:
    """A document in the making; `length` is the code points so far."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.length = 0
        self.page_starts: list[int] = []
        self.headings: list[Heading] = []
        self.atoms: list[Span] = []
        self.notes: list[str] = []
        self.metadata: dict[str, Any] = {}

    def add(self, part: Document) -> None:
        text = self._joinable(normalise_text(part.page_content))
        page = part.metadata.get("page")
        if page is not None:
            missing = int(page) - len(self.page_starts)
            self.page_starts.extend([self.length] * missing)  # a page that brought nothing starts where the next does
        match part.metadata.get("kind"):
            case "heading":
                self._head(text, part.metadata)
            case "table" | "code":
                self._keep_lines(text)
        if part.metadata.get("note"):
            self.notes.append(normalise_text(str(part.metadata["note"])))
        described = part.metadata.get("document_metadata")
        if isinstance(described, Mapping):
            self.metadata.update(described)
        self.texts.append(text)
        self.length += len(text)

    def _joinable(self, text: str) -> str:
        """An accent that begins a part would melt into the letter before it and move offsets: it gets a new line."""
        last = next((t[-1] for t in reversed(self.texts) if t), "")
        melts = (
            last and text and (unicodedata.combining(text[0]) or not unicodedata.is_normalized("NFC", last + text[0]))
        )
        return f"\n{text}" if melts else text

    def _head(self, text: str, metadata: Mapping[str, Any]) -> None:
        words = " ".join(normalise_text(str(metadata.get("title") or text)).split())
        if words:
            start = self.length + len(text) - len(text.lstrip())
            self.headings.append(Heading(start, int(metadata.get("level", 1)), words))

    def _keep_lines(self, text: str) -> None:
        start = self.length
        for line in text.split("\n"):
            if line.strip():
                self.atoms.append(Span(start, start + len(line)))
            start += len(line) + 1
