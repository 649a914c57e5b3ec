"""The families of formats: which files they are, how their content tells them, and who reads them.

In: a file's name and its first bytes. Out: its `Family`, or None. Must not: read more than a few KB to decide.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from langchain_core.document_loaders import BaseBlobParser

from ingest.loaders.code import CodeLoader
from ingest.loaders.code_languages import FILE_NAMES, LANGUAGES, Language
from ingest.loaders.csv import CsvLoader
from ingest.loaders.docx import DocxLoader
from ingest.loaders.eml import EmlLoader
from ingest.loaders.epub import EpubLoader
from ingest.loaders.html import HtmlLoader
from ingest.loaders.image import ImageLoader
from ingest.loaders.json import JsonLoader
from ingest.loaders.markdown import MarkdownLoader
from ingest.loaders.notebook import NotebookLoader
from ingest.loaders.odp import OdpLoader
from ingest.loaders.odt import OdtLoader
from ingest.loaders.options import LoadOptions
from ingest.loaders.pdf import PdfLoader
from ingest.loaders.pptx import PptxLoader
from ingest.loaders.rtf import RtfLoader
from ingest.loaders.sniffing import OLE, ole_reason, sniff, sniff_text
from ingest.loaders.text import TextLoader
from ingest.loaders.xlsx import XlsxLoader
from rag_service.errors import LoadFailed, UnsupportedType


@dataclass(frozen=True, slots=True)
class Family:
    """`revision` is raised when equal bytes give another text, so that what is indexed is loaded anew. `loader` makes the
    parser for given options; `reads_images` says that those of OCR matter to it."""

    name: str
    revision: int
    media_type: str
    suffixes: tuple[str, ...]
    loader: Callable[[LoadOptions], BaseBlobParser]
    reads_images: bool = False

    @property
    def fingerprint(self) -> str:
        return f"{self.name}/{self.revision}"


TEXT = Family("text", 1, "text/plain", (".txt", ".text", ".log", ".rst"), lambda _: TextLoader())
MARKDOWN = Family("markdown", 2, "text/markdown", (".md", ".markdown", ".mdown", ".mkd"), lambda _: MarkdownLoader())
HTML = Family("html", 2, "text/html", (".html", ".htm", ".xhtml"), lambda _: HtmlLoader())
PDF = Family("pdf", 3, "application/pdf", (".pdf",), PdfLoader, reads_images=True)
IMAGE = Family(
    "image",
    2,
    "image/*",  # the loader says which
    (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp", ".gif"),
    ImageLoader,
    reads_images=True,
)
DOCX = Family(
    "docx",
    2,
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    (".docx",),
    lambda _: DocxLoader(),
)
CSV = Family("csv", 1, "text/csv", (".csv", ".tsv"), lambda _: CsvLoader())

EPUB = Family("epub", 1, "application/epub+zip", (".epub",), lambda _: EpubLoader())
EML = Family("eml", 1, "message/rfc822", (".eml", ".mht", ".mhtml"), lambda _: EmlLoader())
PPTX = Family(
    "pptx",
    1,
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    (".pptx", ".pptm", ".ppsx", ".ppsm", ".potx"),
    lambda _: PptxLoader(),
)
XLSX = Family(
    "xlsx",
    1,
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    (".xlsx", ".xlsm", ".xltx", ".xlsb"),
    lambda _: XlsxLoader(),
)
XLS = Family("xls", 1, "application/vnd.ms-excel", (".xls", ".xlt"), lambda _: XlsxLoader())
ODS = Family("ods", 1, "application/vnd.oasis.opendocument.spreadsheet", (".ods", ".ots"), lambda _: XlsxLoader())
ODT = Family(
    "odt",
    1,
    "application/vnd.oasis.opendocument.text",
    (".odt", ".ott"),
    lambda options: OdtLoader(options.max_unpacked_bytes),
)
ODP = Family(
    "odp",
    1,
    "application/vnd.oasis.opendocument.presentation",
    (".odp", ".otp"),
    lambda options: OdpLoader(options.max_unpacked_bytes),
)
OFFICE = (PPTX, XLSX, XLS, ODS, ODT, ODP)
RTF = Family("rtf", 1, "application/rtf", (".rtf",), lambda _: RtfLoader())
JSON = Family("json", 1, "application/json", (".json", ".geojson", ".webmanifest"), lambda _: JsonLoader())
JSONL = Family("jsonl", 1, "application/x-ndjson", (".jsonl", ".ndjson"), lambda _: JsonLoader(lines=True))
NOTEBOOK = Family("notebook", 1, "application/x-ipynb+json", (".ipynb",), lambda _: NotebookLoader())


def _code(language: Language) -> Family:
    return Family(f"code-{language.name}", 1, language.media_type, language.suffixes, lambda _: CodeLoader(language))


CODE = tuple(map(_code, LANGUAGES))
FAMILIES = (*OFFICE, TEXT, MARKDOWN, HTML, PDF, IMAGE, DOCX, CSV, EPUB, EML, RTF, JSON, JSONL, NOTEBOOK, *CODE)
BY_SUFFIX = {suffix: family for family in FAMILIES for suffix in family.suffixes}
BY_NAME = {family.name: family for family in FAMILIES}
_STEMS = ("dockerfile.", "containerfile.", "makefile.", "jenkinsfile.")
_NO_PROSE = frozenset([".mbox", ".svg", ".ps", ".eps", ".map", ".lock"])  # texts, but none that a question is about


def family_of(path: Path) -> Family | None:
    """The family of a regular file, by content before suffix; None when nothing here reads it.

    Raises OSError; UnsupportedType or LoadFailed where the content says what could be done about it.
    """
    named = _named(path)
    told = sniff(path)
    if told == OLE:
        if named is not None and not named.media_type.startswith("text/"):
            return named  # its loader says what is wrong
        if reason := ole_reason(path):
            raise LoadFailed(reason) if reason.startswith("encrypted") else UnsupportedType(reason)
        return None
    if told == "html" and named in CODE and named is not BY_NAME["code-xml"]:
        return named  # a template
    if told is not None:
        return BY_NAME.get(told)
    if named is not None or path.suffix.lower() in _NO_PROSE:
        return named
    return BY_NAME.get(sniff_text(path) or "")


def _named(path: Path) -> Family | None:
    name = path.name.lower()
    language = FILE_NAMES.get(name) or FILE_NAMES.get(name.partition(".")[0] if name.startswith(_STEMS) else "")
    return BY_NAME[f"code-{language}"] if language else BY_SUFFIX.get(path.suffix.lower())
