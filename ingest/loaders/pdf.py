"""PDF files, page by page; the page is its position in the file, counted from 1, not what is printed on it.

In: a PDF. Out: one part for each heading of its outline and each run of prose or table rows; pages without text are read
as pictures. Must not: hold more than one page (it goes through the file twice instead: running lines and hyphens are told
by the whole of it); pass over a page without text in silence; be used from two threads at once, since PDFium is not
thread-safe.
"""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from ingest.loaders.ocr_pages import PageNotes, PictureReader
from ingest.loaders.options import DEFAULT_OPTIONS, LoadOptions
from ingest.loaders.parts import about, heading, note, part, unread
from ingest.loaders.pdf_columns import unwoven
from ingest.loaders.pdf_lines import Line, legible, page_lines
from ingest.loaders.pdf_outline import Entry, Found, outline, text_from, with_headings
from ingest.loaders.pdf_paragraphs import passages
from ingest.loaders.pdf_pictures import draw, is_mostly_image
from ingest.loaders.pdf_running import RunningLines
from ingest.loaders.pdf_words import Hyphens
from rag_service.errors import LoadFailed

_STAMP_CHARS = 100  # no more letters than this on a full-page image are a stamp or a number on a scan
_DESCRIBED_BY = ("Title", "Author", "Subject", "Keywords")


class PdfLoader(BaseBlobParser):
    """Raises LoadFailed when the file is encrypted or no PDF, or OCR is needed and cannot start. Not thread-safe."""

    def __init__(self, options: LoadOptions = DEFAULT_OPTIONS) -> None:
        self._options = options

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        with _opened(blob) as pdf:
            yield about(_described(pdf))
            reading = _Reading(pdf, self._options)
            for number in range(1, len(pdf) + 1):
                yield from reading.page(number)
            yield from reading.told()


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
    found = {
        name: text_from(lambda *to, name=name: pdfium_c.FPDF_GetMetaText(pdf, name.encode() + b"\0", *to))
        for name in _DESCRIBED_BY
    }
    return {name.lower(): text for name, text in found.items() if text}


@dataclass(frozen=True, slots=True)
class _Layer:
    """What is read of a page in one way: its text, or its picture."""

    blocks: Sequence[Sequence[Line]]
    from_picture: bool = False


class _Reading:
    """One pass through a document that another pass has prepared."""

    def __init__(self, pdf: pdfium.PdfDocument, options: LoadOptions) -> None:
        self._pdf = pdf
        self._hyphens = Hyphens()
        self._running = RunningLines()
        self._pictures = PictureReader(options.ocr)
        self._notes = PageNotes()
        self._outline = outline(pdf)
        self._tiny = 0  # lines in letters too small to be seen
        self._learn()

    def page(self, number: int) -> Iterator[Document]:
        """All that page says. A broken one is counted."""
        yield part("", page=number)
        try:
            layers = self._layers(number)
        except pdfium.PdfiumError:
            self._notes.count_broken()
            return
        entries = self._outline.get(number, [])
        for layer in layers[:-1]:
            yield from self._parts(layer, [], number)
        yield from self._parts(layers[-1], entries, number)

    def told(self) -> Iterator[Document]:
        """What people must know of the pages."""
        for sentence in self._notes.sentences(self._pictures):
            yield note(sentence)
        if self._running.left_out:
            lines = "line" if self._running.left_out == 1 else "lines"
            yield note(f"left out: {self._running.left_out} repeated {lines} of running headers and footers")
        if self._tiny:
            lines = "line" if self._tiny == 1 else "lines"
            yield note(f"left out: {self._tiny} {lines} in letters too small to be seen (less than 2 points)")
        if self._notes.unread:
            yield unread(self._notes.unread)

    def _learn(self) -> None:
        for number in range(1, len(self._pdf) + 1):
            try:
                with closing(self._pdf[number - 1]) as page:
                    lines = legible(_lines(page))
            except pdfium.PdfiumError:
                continue
            self._hyphens.learn(line.text for line in lines)
            self._running.learn(number, lines)

    def _layers(self, number: int) -> list[_Layer]:
        with closing(self._pdf[number - 1]) as page:
            everything = _lines(page)
            lines = legible(everything)
            self._tiny += len(everything) - len(lines)
            letters = sum(c.isalnum() for line in lines for c in line.text)
            text = _Layer([unwoven(self._running.without(lines))])
            is_stamped = 0 < letters <= _STAMP_CHARS and is_mostly_image(page)
            if (letters and not is_stamped) or (not letters and _is_blank(page)):
                self._notes.count(has_text=letters > 0)
                return [text]
            picture = self._pictures.read(lambda: draw(page), known=[line.text for line in lines])
        self._notes.count(has_text=letters > 0 or bool(picture.blocks), why_not=picture.why_not, is_stamped=is_stamped)
        return [text, _Layer(picture.blocks, from_picture=True)] if picture.blocks else [text]

    def _parts(self, layer: _Layer, entries: Sequence[Entry], number: int) -> Iterator[Document]:
        for found in with_headings(layer.blocks, entries):
            if isinstance(found, Found):
                words = _in_one_line(found.lines, self._hyphens)
                yield heading(f"{words}\n\n" if words else "", found.entry.level, title=found.entry.title, page=number)
                continue
            for passage in passages(found, self._hyphens):
                yield part(passage.text, "table" if passage.is_table else "prose", page=number, ocr=layer.from_picture)


def _lines(page: pdfium.PdfPage) -> list[Line]:
    with closing(page.get_textpage()) as text_page:
        return page_lines(text_page)


def _in_one_line(lines: Sequence[Line], hyphens: Hyphens) -> str:
    words = lines[0].text if lines else ""
    for line, after in itertools.pairwise(lines):
        words += (hyphens.joint(line.text, after.text) if line.hyphenated else " ") + after.text
    return words


def _is_blank(page: pdfium.PdfPage) -> bool:
    return pdfium_c.FPDFPage_GetAnnotCount(page) <= 0 and next(page.get_objects(max_depth=1), None) is None
