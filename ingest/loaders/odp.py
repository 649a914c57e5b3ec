"""Slides in OpenDocument: each a page with its title as heading, then its boxes in reading order and the notes.

In: the bytes of an .odp. Out: parts. Must not: read hidden slides or what every slide repeats as text, or leave them out
without saying so.
"""

import re
from collections import Counter
from collections.abc import Iterator

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from lxml import etree

from ingest.loaders.odf import Package, hidden_styles, q
from ingest.loaders.odf_words import Words
from ingest.loaders.odt import Body
from ingest.loaders.options import DEFAULT_OPTIONS
from ingest.loaders.parts import about, heading, note, part
from ingest.loaders.reading_order import in_reading_order
from rag_service.errors import LoadFailed

_REPEATED = {"date-time", "footer", "header", "page-number", "page"}
_LENGTH = re.compile(r"(-?[\d.]+)(cm|mm|in|pt|pc|px)?")
_CENTIMETRES = {"cm": 1.0, "mm": 0.1, "in": 2.54, "pt": 2.54 / 72, "pc": 2.54 / 6, "px": 2.54 / 96}
_HEIGHT = 21.0  # cm; it only says what counts as one line


class OdpLoader(BaseBlobParser):
    """Raises LoadFailed when the file is encrypted or broken, or a part of it unpacks to more than `max_bytes`."""

    def __init__(self, max_bytes: int = DEFAULT_OPTIONS.max_unpacked_bytes) -> None:
        self._max_bytes = max_bytes

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        with blob.as_bytes_io() as file:
            package = Package(file, self._max_bytes)
        slides = package.content.find(f"{q('office:body')}/{q('office:presentation')}")
        if slides is None:
            raise LoadFailed("not an ODP: broken file (it has no slides)")
        yield about(package.about())
        words = Words(hidden_styles(package), Counter())
        hidden = _hidden_slides(package)
        for page, slide in enumerate(slides.iterfind(q("draw:page")), start=1):
            if slide.get(q("draw:style-name")) in hidden:
                words.omitted["hidden slides"] += 1
            else:
                yield from _slide(slide, page, Body(package, words), words)
        if omitted := +words.omitted:
            yield note("left out: " + ", ".join(f"{what} ({count})" for what, count in omitted.items()))


def _hidden_slides(package: Package) -> frozenset[str]:
    return frozenset(
        style.get(q("style:name"), "")
        for style in package.each_style()
        if any(properties.get(q("presentation:visibility")) == "hidden" for properties in style)
    )


def _slide(slide: etree._Element, page: int, body: Body, words: Words) -> Iterator[Document]:
    shapes = [shape for shape in slide if shape.get(q("presentation:class")) not in _REPEATED]
    notes = slide.find(q("presentation:notes"))
    shapes = [shape for shape in shapes if shape is not notes]
    title = next((shape for shape in shapes if shape.get(q("presentation:class")) == "title"), None)
    name = words.one_line(title) if title is not None else ""
    made: list[Document] = []
    for shape in in_reading_order(((*_place(s), s) for s in shapes if s is not title), _HEIGHT):
        made += body.blocks([shape])
    if notes is not None:
        boxes = [box for box in notes if box.get(q("presentation:class")) == "notes"]
        if said := " ".join(filter(None, map(words.one_line, boxes))):
            made.append(part(f"Notes: {said}\n\n"))
    if name:
        yield heading(f"{name}\n\n", 1, page=page)
    elif made:  # it does not belong to the slide before
        yield heading("", 1, title=f"Slide {page}", page=page)
    for document in made:
        yield document.model_copy(update={"metadata": {**document.metadata, "page": page}})


def _place(shape: etree._Element) -> tuple[float, float]:
    return _centimetres(shape.get(q("svg:y"), "")), _centimetres(shape.get(q("svg:x"), ""))


def _centimetres(length: str) -> float:
    match = _LENGTH.fullmatch(length.strip())
    try:
        return float(match.group(1)) * _CENTIMETRES[match.group(2) or "cm"] if match else 0.0
    except ValueError:  # two points
        return 0.0
