"""Make the sample corpus's PDF and DOCX files from their readable sources.

In: `data/sources/<folder>/<name>.pdf.md` and `.docx.md`: front matter, then a small subset of Markdown (headings,
paragraphs, lists, tables, `<!-- page -->` for a new page). Out: `data/corpus/<folder>/<name>.pdf` and `.docx`; with
`--check` nothing is written, and the exit status is 1 when a file differs from what its source makes.
Must not: let a clock, a host name or a compressor into the files. Equal sources give equal bytes.
"""

import argparse
import io
import re
import sys
import zipfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from docx import Document
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml import OxmlElement
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
from reportlab.lib.units import mm
from reportlab.platypus import Flowable, PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

DATA = Path(__file__).resolve().parent.parent / "data"
PAGE_BREAK = "<!-- page -->"
DOCX_DATE = datetime(2026, 4, 1, 9, 0, 0)  # noqa: DTZ001 - core properties hold naive UTC
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that a ZIP entry can say
TABLE_STYLE = "Table Grid"
MARGIN = 20 * mm
MIN_CELL_WEIGHT = 12  # characters; a narrower column would break short words
MAX_CELL_WEIGHT = 48  # characters; a longer cell wraps instead of starving the other columns

_HEADING = re.compile(r"(#{1,3}) (.+)")
_ITEM = re.compile(r"- (.+)")
_NUMBERED = re.compile(r"\d+\. .+")
_RULE = re.compile(r"\|[ |:-]+\|")

Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Block:
    """One thing on the page. `kind`: heading, paragraph, bullet, number, table, page; `level`: a heading's, from 1."""

    kind: str
    text: str = ""
    level: int = 0
    rows: Rows = ()


@dataclass(frozen=True)
class Source:
    """`meta` holds title, author and header (the line at the top of each page)."""

    meta: dict[str, str]
    blocks: tuple[Block, ...]


def parse(text: str) -> Source:
    """Read a source. Raises ValueError when the front matter is missing or lacks a key."""
    match = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if match is None:
        raise ValueError("a source begins with front matter between two lines of ---")
    meta = dict(line.split(": ", 1) for line in match.group(1).splitlines())
    if missing := {"title", "author", "header"} - meta.keys():
        raise ValueError(f"the front matter lacks {', '.join(sorted(missing))}")
    groups = (group.strip() for group in text[match.end() :].split("\n\n"))
    return Source(meta, tuple(block for group in groups if group for block in _blocks(group)))


def _blocks(group: str) -> list[Block]:
    """The blocks of one group of lines: a table, a heading, a list, or a paragraph."""
    lines = group.splitlines()
    if group == PAGE_BREAK:
        return [Block("page")]
    if match := _HEADING.fullmatch(group):
        return [Block("heading", match.group(2), len(match.group(1)))]
    if lines[0].startswith("|"):
        rows = (
            tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if not _RULE.fullmatch(line)
        )
        return [Block("table", rows=tuple(rows))]
    if all(_ITEM.fullmatch(line) for line in lines):
        return [Block("bullet", line.removeprefix("- ")) for line in lines]
    if all(_NUMBERED.fullmatch(line) for line in lines):
        return [Block("number", line) for line in lines]
    return [Block("paragraph", " ".join(lines))]


class _OutlinedPdf(SimpleDocTemplate):  # type: ignore[misc] # reportlab has no types
    """A PDF with a header line, page numbers, and an outline made of its headings."""

    def __init__(self, target: io.BytesIO, meta: dict[str, str]) -> None:
        # Uncompressed, since builds of zlib differ in the bytes they make; the text in these files is small.
        super().__init__(
            target,
            pagesize=A4,
            margins=MARGIN,
            title=meta["title"],
            author=meta["author"],
            invariant=1,
            pageCompression=0,
            leftMargin=MARGIN,
            rightMargin=MARGIN,
            topMargin=25 * mm,
            bottomMargin=22 * mm,
        )
        self._header = meta["header"]
        self._headings = 0

    def afterFlowable(self, flowable: Flowable) -> None:  # noqa: N802 - reportlab's name
        level = getattr(flowable, "outline_level", None)
        if level is None:
            return
        self._headings += 1
        key = f"heading-{self._headings}"
        self.canv.bookmarkPage(key)
        self.canv.addOutlineEntry(flowable.getPlainText(), key, level - 1, closed=False)

    def decorate(self, canvas: Any, document: Any) -> None:
        """Draw what every page has: the header line and the page number."""
        canvas.setFont("Helvetica", 8)
        canvas.drawString(MARGIN, A4[1] - 14 * mm, self._header)
        canvas.drawRightString(A4[0] - MARGIN, 12 * mm, f"Page {document.page}")


def pdf_bytes(source: Source) -> bytes:
    """The PDF of a source."""
    target = io.BytesIO()
    document = _OutlinedPdf(target, source.meta)
    document.build(
        [flowable for block in source.blocks for flowable in _flowables(block)],
        onFirstPage=document.decorate,
        onLaterPages=document.decorate,
    )
    return target.getvalue()


def _flowables(block: Block) -> list[Flowable]:
    styles = getSampleStyleSheet()
    body = ParagraphStyle("Body", styles["Normal"], fontSize=10, leading=14, spaceAfter=6)
    match block.kind:
        case "page":
            return [PageBreak()]
        case "heading":
            heading = Paragraph(escape(block.text), styles[f"Heading{block.level}"])
            heading.outline_level = block.level
            return [heading]
        case "bullet":
            bullet = ParagraphStyle("Bullet", body, leftIndent=14, bulletIndent=4, spaceAfter=3)
            return [Paragraph(escape(block.text), bullet, bulletText="•")]
        case "number":
            return [Paragraph(escape(block.text), ParagraphStyle("Number", body, leftIndent=14, firstLineIndent=-10))]
        case "table":
            return [_pdf_table(block.rows, body), Spacer(1, 8)]
        case _:
            return [Paragraph(escape(block.text), body)]


def _pdf_table(rows: Rows, body: ParagraphStyle) -> Table:
    plain = ParagraphStyle("Cell", body, fontSize=9, leading=12, spaceAfter=0)
    bold = ParagraphStyle("Head", plain, fontName="Helvetica-Bold")
    weights = [min(MAX_CELL_WEIGHT, max(MIN_CELL_WEIGHT, *map(len, column))) for column in zip(*rows, strict=True)]
    width = A4[0] - 2 * MARGIN
    cells = [[Paragraph(escape(cell), plain if i else bold) for cell in row] for i, row in enumerate(rows)]
    table = Table(cells, colWidths=[width * weight / sum(weights) for weight in weights], repeatRows=1)
    grid = ("GRID", (0, 0), (-1, -1), 0.4, colors.grey)
    shade = ("BACKGROUND", (0, 0), (-1, 0), colors.whitesmoke)
    table.setStyle(TableStyle([grid, shade, ("VALIGN", (0, 0), (-1, -1), "TOP")]))
    return table


def docx_bytes(source: Source) -> bytes:
    """The DOCX of a source."""
    document: Any = Document()
    _slim(document)
    properties = document.core_properties
    properties.title, properties.author = source.meta["title"], source.meta["author"]
    properties.last_modified_by, properties.comments = source.meta["author"], ""
    properties.created = properties.modified = DOCX_DATE
    document.sections[0].header.paragraphs[0].text = source.meta["header"]
    for block in source.blocks:
        match block.kind:
            case "page":
                document.add_page_break()
            case "heading":
                document.add_heading(block.text, block.level)
            case "bullet":
                document.add_paragraph(block.text, "List Bullet")
            case "table":
                _docx_table(document, block.rows)
            case _:
                document.add_paragraph(block.text)
    target = io.BytesIO()
    document.save(target)
    return _repacked(target.getvalue())


def _slim(document: Any) -> None:
    """Drop what the template brings and these files never use: 800 KB of table styles, a preview of another text."""
    for part in (document.part, document.part.package):
        for key, relationship in list(part.rels.items()):
            if relationship.reltype.endswith(("/stylesWithEffects", "/thumbnail")):
                del part.rels[key]
    for style in list(document.styles):
        if style.type == WD_STYLE_TYPE.TABLE and style.name not in ("Normal Table", TABLE_STYLE):
            style.delete()


def _docx_table(document: Any, rows: Rows) -> None:
    table = document.add_table(rows=len(rows), cols=len(rows[0]), style=TABLE_STYLE)
    for row, cells in zip(table.rows, rows, strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    for cell in table.rows[0].cells:
        cell.paragraphs[0].runs[0].bold = True
    table.rows[0]._tr.get_or_add_trPr().append(OxmlElement("w:tblHeader"))  # noqa: SLF001 - no public name for it
    document.add_paragraph()


def _repacked(archive: bytes) -> bytes:
    """The same entries with fixed dates, and stored, since builds of zlib differ in the bytes they make."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in sorted(old.namelist(), key=lambda name: (name != "[Content_Types].xml", name)):
            entry = zipfile.ZipInfo(name, ZIP_DATE)
            entry.create_system = 3  # Unix, also when built elsewhere
            new.writestr(entry, old.read(name))
    return target.getvalue()


def build(sources: Path) -> dict[Path, bytes]:
    """Every generated file by its path relative to the corpus. Raises ValueError naming a source that is wrong."""
    made = {}
    for path in sorted(sources.rglob("*.md")):
        target = path.relative_to(sources).with_suffix("")
        try:
            source = parse(path.read_text(encoding="utf-8"))
            made[target] = {".pdf": pdf_bytes, ".docx": docx_bytes}[target.suffix](source)
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the sample corpus's PDF and DOCX files from data/sources.")
    parser.add_argument("--sources", type=Path, default=DATA / "sources", help="folder of the sources")
    parser.add_argument("--corpus", type=Path, default=DATA / "corpus", help="folder of the files that are made")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not up to date")
    options = parser.parse_args()
    stale = 0
    for name, content in build(options.sources).items():
        target = options.corpus / name
        if target.is_file() and target.read_bytes() == content:
            continue
        stale += 1
        print(f"{'differs from its source' if options.check else 'written'}: {target}")
        if not options.check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
