"""Books in EPUB: the chapters in reading order, each read as the web page that it is.

In: the bytes of a .epub. Out: parts; each document of the spine is one page, counted from 1. Must not: read the list of
contents or what the book keeps out of its flow as text, or leave them out without saying so.
"""

import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.epub_package import Book, read_book
from ingest.loaders.html import WebPage, left_out_sentence
from ingest.loaders.parts import about, heading, note, part
from rag_service.errors import LoadFailed


class EpubLoader(BaseBlobParser):
    """Raises LoadFailed when the book is protected or broken. What it unpacks to has been checked before."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        with blob.as_bytes_io() as file:
            try:
                with zipfile.ZipFile(file) as archive:
                    book = read_book(archive)
                    yield about(book.metadata)
                    yield from _chapters(archive, book)
            except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                raise LoadFailed("not an EPUB: broken file (damaged archive)") from error


def _chapters(archive: zipfile.ZipFile, book: Book) -> Iterator[Document]:
    omitted: Counter[str] = Counter()
    unread: list[int] = []
    told: dict[str, None] = {}
    for number, item in enumerate(book.spine, start=1):
        yield part("", page=number)
        if item.aside:
            omitted["documents beside the reading order"] += 1
            continue
        page = _page(archive, item.name)
        if page is None:
            unread.append(number)
            continue
        yield from _chapter(page, book.contents.get(item.name or ""), omitted)
        told.update(dict.fromkeys(page.notes))
    if unread:
        documents = "1 document" if len(unread) == 1 else f"{len(unread)} documents"
        yield note(f"{documents} of the book missing or damaged: at {', '.join(map(str, unread[:10]))} in its order")
    if omitted:
        yield note(left_out_sentence(omitted))
    for sentence in told:
        yield note(sentence)


def _page(archive: zipfile.ZipFile, name: str | None) -> WebPage | None:
    """None when the document is not there or is no text (a picture may stand in the spine); the others are read on."""
    try:
        return WebPage(archive.read(name), xhtml=True) if name is not None else None
    except (zipfile.BadZipFile, zlib.error, EOFError, LoadFailed):
        return None


def _chapter(page: WebPage, entry: tuple[int, str] | None, omitted: Counter[str]) -> Iterator[Document]:
    """The chapter; under the title that the list of contents has for it when no heading stands in it."""
    parts = [made for made in page.parts(omitted, whole=True) if made.page_content]
    if entry is not None and parts and not any(made.metadata.get("kind") == "heading" for made in parts):
        level, title = entry
        yield heading(f"{title}\n\n", level)
        if " ".join(parts[0].page_content.split()) == title:  # the same words, set like a paragraph
            del parts[0]
    yield from parts
    if parts and not parts[-1].page_content.endswith("\n"):
        yield part("\n\n")
