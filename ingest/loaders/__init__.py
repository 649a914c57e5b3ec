"""The families of formats: which files they are, how their content tells them, and who reads them.

In: a file's name and its first bytes. Out: its `Family`, or None. Must not: read more than a few KB to decide.
"""

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from langchain_core.document_loaders import BaseBlobParser

from ingest.loaders.csv import CsvLoader
from ingest.loaders.docx import DocxLoader
from ingest.loaders.html import HtmlLoader
from ingest.loaders.markdown import MarkdownLoader
from ingest.loaders.pdf import PdfLoader
from ingest.loaders.text import TextLoader

SNIFFED_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Family:
    """`revision` is raised when equal bytes give another text, so that what is indexed is loaded anew."""

    name: str
    revision: int
    media_type: str
    suffixes: tuple[str, ...]
    loader: type[BaseBlobParser]

    @property
    def fingerprint(self) -> str:
        return f"{self.name}/{self.revision}"


TEXT = Family("text", 1, "text/plain", (".txt", ".text", ".log", ".rst"), TextLoader)
MARKDOWN = Family("markdown", 1, "text/markdown", (".md", ".markdown", ".mdown", ".mkd"), MarkdownLoader)
HTML = Family("html", 1, "text/html", (".html", ".htm", ".xhtml"), HtmlLoader)
PDF = Family("pdf", 1, "application/pdf", (".pdf",), PdfLoader)
DOCX = Family(
    "docx", 1, "application/vnd.openxmlformats-officedocument.wordprocessingml.document", (".docx",), DocxLoader
)
CSV = Family("csv", 1, "text/csv", (".csv", ".tsv"), CsvLoader)

FAMILIES = (TEXT, MARKDOWN, HTML, PDF, DOCX, CSV)
BY_SUFFIX = {suffix: family for family in FAMILIES for suffix in family.suffixes}

_LEADING = b"\xef\xbb\xbf\xff\xfe \t\r\n\x00"
_HTML_START = re.compile(rb"(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html[\s>])", re.I | re.S)


def family_of(path: Path) -> Family | None:
    """The family of a regular file, by content before suffix; None when nothing here reads it. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(SNIFFED_BYTES)
        start = head.replace(b"\x00", b"").lstrip(_LEADING)  # without zero bytes, UTF-16 reads like ASCII
        if start.startswith(b"%PDF-"):
            return PDF
        if _HTML_START.match(start):
            return HTML
        if head.startswith(b"PK\x03\x04") and _is_docx(path):
            return DOCX
    return BY_SUFFIX.get(path.suffix.lower())


def _is_docx(path: Path) -> bool:
    """Looks at the directory at the end of the archive, not at what is packed in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "word/document.xml" in archive.namelist()
    except OSError:
        raise
    except Exception:  # noqa: BLE001 - zipfile raises half a dozen types on broken archives; the suffix decides then
        return False
