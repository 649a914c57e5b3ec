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
from ingest.loaders import FAMILIES, Family, family_of
from ingest.loaders.archives import check_archive
from ingest.loaders.normalise import MetadataValue, clean_metadata, normalise_text
from ingest.loaders.options import DEFAULT_OPTIONS, LoadOptions
from rag_service.errors import LoadFailed, UnsupportedType
from rag_service.index.spans import PageStarts, Span

__all__ = [
    "Heading",
    "LoadedDocument",
    "MetadataValue",
    "assemble",
    "clean_metadata",
    "family_for",
    "load",
    "normalise_text",
    "unsupported",
]

MAX_REASON_CHARS = 120
MAX_ATOMS = 1_000_000  # a hint for the chunker, which is not worth more memory than the text itself
_MAX_CHARACTER_BYTES = 4
_ZIPPED = ("application/vnd.", "application/epub+zip")  # of Office and OpenDocument; some of the former are no archives
_OTHER_TEXTS = frozenset(["application/json", "application/x-ndjson"])
LOADERS = {family.fingerprint: family for family in FAMILIES}


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """A document as its loader read it. All offsets count code points of `text`.

    `atoms` are the table rows and code lines that should not be cut if they fit; `ocr` the stretches read from images;
    `notes` are sentences for people, such as "2 of 30 pages have no text (OCR needed)", and `unread_pages` counts such
    pages; `loader` is the fingerprint, such as "pdf/1". `text` may be blank.
    """

    text: str
    media_type: str
    loader: str
    pages: PageStarts
    headings: tuple[Heading, ...]
    atoms: tuple[Span, ...]
    notes: tuple[str, ...]
    metadata: dict[str, MetadataValue]
    ocr: tuple[Span, ...] = ()
    unread_pages: int = 0


def family_for(path: Path, options: LoadOptions = DEFAULT_OPTIONS) -> Family | None:
    """The family of loaders that `load` would use; None for an unsupported type. Raises LoadFailed, OSError.

    A file that is too large is refused here, before anybody reads it, be it only for its hash.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
        raise LoadFailed("not a regular file")
    family = family_of(path)
    if family is not None:
        _check_size(status.st_size, family, options)
    return family


def _check_size(size: int, family: Family, options: LoadOptions) -> None:
    if size > options.max_file_bytes:
        raise LoadFailed(
            f"a file of {_millions(size)} MB; the limit is {_millions(options.max_file_bytes)} (RAG_LOAD__MAX_FILE_MB)"
        )
    is_text = family.media_type.startswith("text/") or family.media_type in _OTHER_TEXTS
    if is_text and size > options.max_text_chars * _MAX_CHARACTER_BYTES:
        raise LoadFailed(
            f"a text file of {_millions(size)} MB; the limit is {_millions(options.max_text_chars)} million characters"
            " (RAG_LOAD__MAX_TEXT_MB)"
        )


def _millions(number: int) -> str:
    return f"{number / 1_000_000:,.1f}".removesuffix(".0")


def load(path: Path, options: LoadOptions = DEFAULT_OPTIONS) -> LoadedDocument:
    """Read one file. Raises UnsupportedType, or LoadFailed with the reason; nothing else."""
    family = _family(path, options)
    if family is None:
        raise unsupported(path)
    try:
        if family.media_type.startswith(_ZIPPED):
            check_archive(path, options)
        parts = family.loader(options).lazy_parse(Blob.from_path(path, mime_type=family.media_type))
        return assemble(parts, family.media_type, family.fingerprint, options.max_text_chars)
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


def _family(path: Path, options: LoadOptions) -> Family | None:
    try:
        return family_for(path, options)
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> LoadFailed:
    return LoadFailed(f"unreadable: {(error.strerror or type(error).__name__).lower()}")


def _short(error: Exception) -> str:
    words = " ".join(normalise_text(str(error)).split())
    return f"{type(error).__name__}: {words}"[:MAX_REASON_CHARS] if words else type(error).__name__


def assemble(
    parts: Iterable[Document], media_type: str, loader: str, max_text_chars: int = DEFAULT_OPTIONS.max_text_chars
) -> LoadedDocument:
    """Put the parts of a loader (`ingest.loaders.parts`) one after the other and note where everything is.

    Raises LoadFailed as soon as the text is longer than `max_text_chars`: half a document would look like a whole one.
    """
    assembly = _Assembly(media_type, max_text_chars)
    for part in parts:
        assembly.add(part)
    return LoadedDocument(
        text="".join(assembly.texts),
        media_type=assembly.media_type,
        loader=loader,
        pages=PageStarts(tuple(assembly.page_starts)),
        headings=tuple(assembly.headings),
        atoms=tuple(assembly.atoms),
        notes=tuple(assembly.notes),
        metadata=clean_metadata(assembly.metadata),
        ocr=tuple(assembly.ocr),
        unread_pages=assembly.unread_pages,
    )


class _Assembly:
    """A document in the making; `length` is the code points so far."""

    def __init__(self, media_type: str, max_chars: int) -> None:
        self.media_type = media_type
        self.max_chars = max_chars
        self.texts: list[str] = []
        self.last_char = ""
        self.length = 0
        self.page_starts: list[int] = []
        self.headings: list[Heading] = []
        self.atoms: list[Span] = []
        self.notes: list[str] = []
        self.ocr: list[Span] = []
        self.unread_pages = 0
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
        if part.metadata.get("ocr") and text.strip():
            joins = self.ocr and self.ocr[-1].end == self.length
            start = self.ocr.pop().start if joins else self.length
            self.ocr.append(Span(start, self.length + len(text)))
        self.unread_pages += int(part.metadata.get("unread_pages", 0))
        self.media_type = part.metadata.get("media_type", self.media_type)
        if part.metadata.get("note"):
            self.notes.append(normalise_text(str(part.metadata["note"])))
        described = part.metadata.get("document_metadata")
        if isinstance(described, Mapping):
            self.metadata.update(described)
        if text:
            self.texts.append(text)
            self.length += len(text)
            self.last_char = text[-1]
        if self.length > self.max_chars:
            raise LoadFailed(
                f"at least {self.length:,} characters of text; the limit is {self.max_chars:,} (RAG_LOAD__MAX_TEXT_MB)"
            )

    def _joinable(self, text: str) -> str:
        """An accent that begins a part would melt into the letter before it and move offsets: it gets a new line."""
        last = self.last_char
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
            if line.strip() and len(self.atoms) < MAX_ATOMS:
                self.atoms.append(Span(start, start + len(line)))
            start += len(line) + 1
