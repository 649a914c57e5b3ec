"""PDF files, page by page; the page is its position in the file, counted from 1, not what is printed on it.

In: a PDF. Out: one part for each run of prose or table rows on a page. Must not: hold more than one page; pass over a
page without text in silence; be used from two threads at once, since PDFium is not thread-safe.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.parts import about, note, part
from ingest.loaders.pdf_columns import unwoven
from ingest.loaders.pdf_lines import page_lines
from ingest.loaders.pdf_paragraphs import Passage, passages
from ingest.loaders.pdf_words import Hyphens
from rag_service.errors import LoadFailed

_STAMP_CHARS = 100  # no more letters than this on a full-page image are a stamp or a number on a scan


@dataclass(frozen=True, slots=True)
class _Page:
    passages: tuple[Passage, ...]
    letters: int
    is_scan: bool
    is_blank: bool


class PdfLoader(BaseBlobParser):
    """Raises LoadFailed when the file is encrypted or no PDF. Not thread-safe."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        with _opened(blob) as pdf:
            yield about(_described(pdf))
            hyphens = Hyphens()
            tally = _Tally()
            for number in range(1, len(pdf) + 1):
                found = _page(pdf, number - 1, hyphens)
                tally.count(found)
                yield part("", page=number)
                for passage in found.passages if found is not None else ():
                    yield part(passage.text, "table" if passage.is_table else "prose", page=number)
            for sentence in tally.notes():
                yield note(sentence)


def _opened(blob: Blob) -> pdfium.PdfDocument:
    source = Path(blob.path) if blob.data is None and blob.path is not None else blob.as_bytes()
    try:
        pdf = pdfium.PdfDocument(source)
    except pdfium.PdfiumError as error:
        if error.err_code == pdfium_c.FPDF_ERR_PASSWORD:
            raise LoadFailed("encrypted, needs a password") from error
        if error.err_code == pdfium_c.FPDF_ERR_SECURITY:
            raise LoadFailed("encrypted in a way that cannot be read") from error
        raise LoadFailed("not a PDF: broken file (no PDF structure found)") from error
    if len(pdf) == 0:
        pdf.close()
        raise LoadFailed("not a PDF: broken file (no pages)")
    return pdf


def _described(pdf: pdfium.PdfDocument) -> dict[str, str]:
    found = pdf.get_metadata_dict(skip_empty=True)
    return {name.lower(): found[name] for name in ("Title", "Author", "Subject", "Keywords") if name in found}


def _page(pdf: pdfium.PdfDocument, index: int, hyphens: Hyphens) -> _Page | None:
    """One page; None when it is broken."""
    try:
        page = pdf[index]
        try:
            text_page = page.get_textpage()
            try:
                lines = page_lines(text_page)
            finally:
                text_page.close()
            letters = sum(c.isalnum() for line in lines for c in line.text)
            is_scan = letters <= _STAMP_CHARS and _is_mostly_image(page)
            is_blank = letters == 0 and next(page.get_objects(max_depth=1), None) is None
        finally:
            page.close()
    except pdfium.PdfiumError:
        return None
    hyphens.learn(line.text for line in lines)
    return _Page(tuple(passages(unwoven(lines), hyphens)), letters, is_scan, is_blank)


def _is_mostly_image(page: pdfium.PdfPage) -> bool:
    area = page.get_width() * page.get_height()
    for image in page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = image.get_bounds()
        if (right - left) * (top - bottom) > area / 2:
            return True
    return False


class _Tally:
    """Pages that brought no text, or hardly any. Truly blank ones hide nothing."""

    def __init__(self) -> None:
        self._pages = self._empty = self._without_text = self._stamped = self._broken = 0

    def count(self, page: _Page | None) -> None:
        self._pages += 1
        if page is None:
            self._broken += 1
        elif page.letters == 0:
            self._empty += 1
            self._without_text += not page.is_blank
        else:
            self._stamped += page.is_scan

    def notes(self) -> Iterator[str]:
        """What people must be told of them."""
        if self._empty == self._pages:
            yield f"no extractable text: {_of(self._empty, self._pages)} no text (OCR needed)"
        elif self._without_text:
            yield f"{_of(self._without_text, self._pages)} no text (OCR needed)"
        if self._stamped:
            yield f"{_of(self._stamped, self._pages)} hardly any text beside a full-page image (OCR may be needed)"
        if self._broken:
            yield f"{self._broken} of {self._pages} pages are broken and were left out"


def _of(some: int, pages: int) -> str:
    return f"{some} of {pages} page has" if pages == 1 else f"{some} of {pages} pages have"
