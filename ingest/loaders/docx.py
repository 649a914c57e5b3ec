"""Word documents: the body in document order, headings by style, tables as rows with their headers beside the values.

In: the bytes of a .docx. Out: parts; a footnote or endnote stands below the paragraph or table that refers to it. Must
not: repeat merged cells or both forms of a text box; read running headers, footers and comments as body text, or leave
them out without saying so; touch python-docx's `cell` objects, whose access is quadratic in the rows.
"""

import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

import docx
from docx.document import Document as WordDocument
from docx.oxml.ns import qn
from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from lxml import etree

from ingest.loaders.docx_blocks import is_layout, paragraph_text, table_rows, text_boxes
from ingest.loaders.parts import about, heading, note, part
from rag_service.errors import LoadFailed

_OLE_START = b"\xd0\xcf\x11\xe0"  # Word packs an encrypted document into an old compound file
_TRANSPARENT = {qn("w:sdt"), qn("w:sdtContent"), qn("w:ins"), qn("w:moveTo"), qn("w:customXml"), qn("w:smartTag")}
_NOTES = ("footnote", "endnote")
_REFERENCES = {qn(f"w:{kind}Reference"): kind for kind in _NOTES}


class DocxLoader(BaseBlobParser):
    """Raises LoadFailed when the file is encrypted or broken. What it unpacks to is checked before (`archives`)."""

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        with blob.as_bytes_io() as file:
            if file.read(4) == _OLE_START:
                raise LoadFailed("encrypted, needs a password, or an old .doc file")
            file.seek(0)
            word = _opened(file)
        properties = word.core_properties
        yield about(
            {"title": properties.title or None, "author": properties.author or None, "created": properties.created}
        )
        yield from _Body(word).parts()
        omitted = _left_out(word)
        if omitted:
            yield note("left out: " + ", ".join(omitted))


def _opened(file: IO[bytes]) -> WordDocument:
    try:
        document: WordDocument = docx.Document(file)
    except Exception as error:
        what = (
            "damaged archive" if isinstance(error, zipfile.BadZipFile | zlib.error) else "parts missing or unreadable"
        )
        raise LoadFailed(f"not a DOCX: broken file ({what})") from error
    return document


class _Body:
    """The blocks of the body. A title style moves all heading levels down by one, so that it stands above them."""

    def __init__(self, word: WordDocument) -> None:
        self._element = word.element.body
        self._levels = _heading_levels(word)
        self._notes = _notes(word)
        self._shift = 0

    def parts(self) -> Iterator[Document]:
        """Everything in document order."""
        yield from self._blocks(self._element)

    def _blocks(self, container: etree._Element) -> Iterator[Document]:
        for block in container:
            if block.tag == qn("w:p"):
                yield from self._paragraph(block)
            elif block.tag == qn("w:tbl"):
                yield from self._table(block)
            elif block.tag in _TRANSPARENT:
                yield from self._blocks(block)

    def _paragraph(self, paragraph: etree._Element) -> Iterator[Document]:
        text = paragraph_text(paragraph).strip()
        level = self._level(paragraph)
        if text and level is not None:
            if level == 0:
                self._shift = 1
            yield heading(f"{text}\n\n", level + self._shift)
        elif text:
            bullet = _bullet(paragraph)
            yield part(f"{bullet}{text}\n" if bullet else f"{text}\n\n")
        for box in text_boxes(paragraph):
            yield from self._blocks(box)
        yield from self._noted(paragraph)

    def _table(self, table: etree._Element) -> Iterator[Document]:
        if is_layout(table):
            for cell in table.iterfind(f"{qn('w:tr')}/{qn('w:tc')}"):
                yield from self._blocks(cell)
            return
        yield part("".join(f"{row}\n" for row in table_rows(table)), "table")
        yield part("\n")
        yield from self._noted(table)

    def _noted(self, block: etree._Element) -> Iterator[Document]:
        """The notes that the block refers to, each once in the document."""
        for reference in block.iter(*_REFERENCES):
            kind = _REFERENCES[reference.tag]
            note_element = self._notes.pop((kind, reference.get(qn("w:id"), "")), None)
            if note_element is None:
                continue
            words = " ".join(" ".join(paragraph_text(p).split()) for p in note_element.iter(qn("w:p"))).strip()
            if words:
                yield part(f"{kind.capitalize()}: {words}\n\n")

    def _level(self, paragraph: etree._Element) -> int | None:
        """0 for the title, 1 to 9 for headings, None for text. The paragraph's own level wins over its style's."""
        own = paragraph.find(f"{qn('w:pPr')}/{qn('w:outlineLvl')}")
        if own is not None and (value := own.get(qn("w:val"), "9")).isdecimal():
            return int(value) + 1 if int(value) < 9 else None
        style = paragraph.find(f"{qn('w:pPr')}/{qn('w:pStyle')}")
        return self._levels.get(style.get(qn("w:val"), "")) if style is not None else None


def _bullet(paragraph: etree._Element) -> str:
    numbering = paragraph.find(f"{qn('w:pPr')}/{qn('w:numPr')}")
    if numbering is None:
        return "- " if _style_id(paragraph).startswith("List") else ""
    level = numbering.find(qn("w:ilvl"))
    depth = int(level.get(qn("w:val"), "0")) if level is not None else 0
    return f"{'  ' * min(depth, 8)}- "


def _style_id(paragraph: etree._Element) -> str:
    style = paragraph.find(f"{qn('w:pPr')}/{qn('w:pStyle')}")
    return style.get(qn("w:val"), "") if style is not None else ""


def _heading_levels(word: WordDocument) -> dict[str, int]:
    """Style id to level, by the built-in names (ids are translated, names are not) or the outline level, inherited."""
    styles = {style.get(qn("w:styleId"), ""): style for style in word.styles.element.iterfind(qn("w:style"))}
    levels: dict[str, int] = {}
    for style_id, style in styles.items():
        seen: set[str] = set()
        at: etree._Element | None = style
        while at is not None and (here := at.get(qn("w:styleId"), "")) not in seen:
            seen.add(here)
            if (level := _own_level(at)) is not None:
                if level <= 9:
                    levels[style_id] = level
                break
            parent = at.find(qn("w:basedOn"))
            at = styles.get(parent.get(qn("w:val"), "")) if parent is not None else None
    return levels


def _own_level(style: etree._Element) -> int | None:
    """10 means that the style says it is body text."""
    named = style.find(qn("w:name"))
    name = named.get(qn("w:val"), "").lower() if named is not None else ""
    if name == "title":
        return 0
    if name.startswith("heading ") and name[8:].isdecimal():
        return int(name[8:])
    outline = style.find(f"{qn('w:pPr')}/{qn('w:outlineLvl')}")
    return int(outline.get(qn("w:val"), "9")) + 1 if outline is not None else None


def _notes(word: WordDocument) -> dict[tuple[str, str], etree._Element]:
    """Footnotes and endnotes by kind and id. Word keeps its separator lines as notes with a type."""
    return {
        (kind, element.get(qn("w:id"), "")): element
        for kind in _NOTES
        for xml in _related(word, f"{kind}s")
        for element in _parsed(xml).iter(qn(f"w:{kind}"))
        if element.get(qn("w:type")) is None
    }


def _left_out(word: WordDocument) -> list[str]:
    counts = {f"running {kind}s": sum(map(_has_text, _related(word, kind))) for kind in ("header", "footer")}
    counts["comments"] = sum(
        _has_words(comment) for xml in _related(word, "comments") for comment in _parsed(xml).iter(qn("w:comment"))
    )
    return [f"{what} ({count})" for what, count in counts.items() if count]


def _related(word: WordDocument, kind: str) -> Iterator[bytes]:
    """The XML of the parts that the body is related to in this way."""
    for relation in word.part.rels.values():
        if not relation.is_external and relation.reltype.rsplit("/", 1)[-1] == kind:
            yield relation.target_part.blob


def _parsed(xml: bytes) -> etree._Element:
    return etree.fromstring(xml, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))


def _has_text(xml: bytes) -> bool:
    return _has_words(_parsed(xml))


def _has_words(element: etree._Element) -> bool:
    return any((text.text or "").strip() for text in element.iter(qn("w:t")))
