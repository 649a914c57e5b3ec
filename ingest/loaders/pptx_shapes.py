"""The shapes of one slide in reading order, as text (ECMA-376 part 1, chapters 19 to 21).

In: shapes of python-pptx. Out: pieces of text with their kind. Must not: read what every slide repeats (number, date,
footer); repeat merged cells; lose what the library has no class for (diagrams, alternate content).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from lxml import etree
from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.oxml.ns import qn

from ingest.loaders.parts import Kind
from ingest.loaders.reading_order import in_reading_order
from ingest.loaders.rows import Cell, flat, labelled_rows

Piece = tuple[Kind, str]

_REPEATED = {PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.HEADER, PP_PLACEHOLDER.SLIDE_NUMBER}
_LISTS = {PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.VERTICAL_BODY, PP_PLACEHOLDER.VERTICAL_OBJECT}
_BULLETS = (qn("a:buChar"), qn("a:buAutoNum"), qn("a:buBlip"))
_DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
_CHOICE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Choice"
_FILE_NAME = re.compile(r"[^\s]+\.(?:png|jpe?g|gif|bmp|tiff?|svg|webp|emf|wmf)", re.I)
_GENERATED = re.compile(r"\s*(?:Description automatically generated|Automatisch generierte Beschreibung)\.?\s*$", re.I)


def slide_pieces(slide: Any, height: int, omitted: Counter[str]) -> Iterator[Piece]:
    """All of a slide but its title. Counts in `omitted` what cannot be read."""
    title = slide.shapes.title
    own = title.shape_id if title is not None else None
    shapes = [shape for shape in slide.shapes if not (own is not None and shape.shape_id == own)]
    yield from _in_order(shapes, height, omitted)
    for choice in slide.element.iter(_CHOICE):
        if lines := [line for p in choice.iter(qn("a:p")) if (line := _words(p))]:
            yield "prose", "\n".join(lines) + "\n\n"


def _in_order(shapes: Iterable[Any], height: int, omitted: Counter[str]) -> Iterator[Piece]:
    for shape in in_reading_order(((*_place(shape), shape) for shape in shapes), height):
        try:
            yield from list(_shape(shape, height, omitted))
        except Exception:  # noqa: BLE001 - python-pptx raises all sorts on odd charts; the rest of the slide is read
            omitted["unreadable shapes"] += 1


def _place(shape: Any) -> tuple[int, int]:
    """Top and left, where need be those of the layout."""
    try:
        return shape.top or 0, shape.left or 0
    except (KeyError, AttributeError):  # the layout is missing
        return 0, 0


def _shape(shape: Any, height: int, omitted: Counter[str]) -> Iterator[Piece]:
    properties = next(shape.element.iter(qn("p:cNvPr")), None)
    if properties is not None and properties.get("hidden") in {"1", "true"}:
        omitted["hidden shapes"] += 1
        return
    if shape.is_placeholder and (kind := shape.placeholder_format.type) in _REPEATED:
        if kind != PP_PLACEHOLDER.SLIDE_NUMBER and frame_text(shape.text_frame):
            omitted["dates, headers and footers of slides"] += 1
        return
    if shape.element.tag == qn("p:grpSp"):
        yield from _in_order(shape.shapes, height, omitted)
        return
    if getattr(shape, "has_table", False):
        rows = "".join(f"{row}\n" for row in labelled_rows(_cells(row) for row in shape.table.rows))
        yield "table", f"{rows}\n"
    elif getattr(shape, "has_chart", False):
        yield from _chart(shape.chart)
    elif getattr(shape, "has_text_frame", False):
        in_list = shape.is_placeholder and shape.placeholder_format.type in _LISTS
        if text := frame_text(shape.text_frame, in_list=in_list):
            yield "prose", f"{text}\n\n"
    elif text := _diagram(shape):
        yield "prose", f"{text}\n\n"
    if shape.element.tag == qn("p:pic") and properties is not None:
        described = flat(_GENERATED.sub("", properties.get("descr", "")))
        if described and not _FILE_NAME.fullmatch(described):
            yield "prose", f"Image: {described}\n\n"


def frame_text(frame: Any, *, in_list: bool = False) -> str:
    """One line a paragraph, `- ` before the points of a list. `in_list` says that points are what it holds by default."""
    filled = [(p, text) for p in frame.paragraphs if (text := p.text.replace("\v", "\n").strip())]
    alone = len(filled) == 1
    return "\n".join(f"{_bullet(p, in_list=in_list and not alone)}{text}" for p, text in filled)


def _bullet(paragraph: Any, *, in_list: bool) -> str:
    properties = paragraph._p.pPr  # noqa: SLF001 - the library has no bullets
    marked = properties is not None and any(properties.find(tag) is not None for tag in _BULLETS)
    unmarked = properties is not None and properties.find(qn("a:buNone")) is not None
    return f"{'  ' * paragraph.level}- " if marked or (in_list and not unmarked) else ""


def _words(paragraph: etree._Element) -> str:
    return "".join(text.text or "" for text in paragraph.iter(qn("a:t"))).strip()


def _cells(row: Any) -> list[Cell]:
    return [
        Cell(column, cell.span_width if cell.is_merge_origin else 1, "" if cell.is_spanned else flat(cell.text))
        for column, cell in enumerate(row.cells)
    ]


def _chart(chart: Any) -> Iterator[Piece]:
    """The title, then a row for each category with the values of all series."""
    if chart.has_title and chart.chart_title.has_text_frame and (title := flat(chart.chart_title.text_frame.text)):
        yield "prose", f"Chart: {title}\n\n"
    for plot in chart.plots:
        series = list(plot.series)
        categories = [flat(str(category)) for category in plot.categories]
        names = [Cell(0, 1, "")] + [Cell(at, 1, flat(one.name)) for at, one in enumerate(series, start=1)]
        values = [list(getattr(one, "values", ())) for one in series]
        rows = [names] + [
            [Cell(0, 1, categories[at] if at < len(categories) else "")]
            + [Cell(c, 1, f"{column[at]:.15g}") for c, column in enumerate(values, start=1) if _has(column, at)]
            for at in range(max(map(len, values), default=0))
        ]
        yield "table", "".join(f"{row}\n" for row in labelled_rows(rows)) + "\n"


def _has(values: list[float | None], at: int) -> bool:
    return at < len(values) and values[at] is not None


def _diagram(shape: Any) -> str:
    """The words of a SmartArt diagram, which are in a part of their own, in the order of its points."""
    links = next(shape.element.iter(f"{{{_DIAGRAM}}}relIds"), None)
    if links is None:
        return ""
    data = shape.part.related_part(links.get(qn("r:dm"))).blob
    root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True))
    points = (point for point in root.iter(f"{{{_DIAGRAM}}}pt") if point.get("type", "node") == "node")
    return "\n".join(f"- {words}" for point in points for p in point.iter(qn("a:p")) if (words := _words(p)))
