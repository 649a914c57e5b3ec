"""Slides become pages with their title, their text in reading order, their tables, charts and notes."""

import io
import zipfile
from collections.abc import Callable
from typing import Any

import pptx
import pytest
from langchain_core.documents.base import Blob
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from ingest.documents import LoadedDocument, assemble
from ingest.loaders.pptx import PptxLoader
from rag_service.errors import LoadFailed

from .conftest import LoadBytes, LoadShared

TITLE_ONLY, TITLE_AND_CONTENT, BLANK = 5, 1, 6
# The smallest picture: one pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8ffff3f0005fe02fe0def46b80000000049454e44ae426082"
)

Write = Callable[[Any], object]
Loaded = Callable[[Write], LoadedDocument]


@pytest.fixture
def loaded(load_bytes: LoadBytes) -> Loaded:
    return lambda write: load_bytes("slides.pptx", written(write))


def written(write: Write) -> bytes:
    presentation = pptx.Presentation()
    write(presentation)
    file = io.BytesIO()
    presentation.save(file)
    return file.getvalue()


def slide_of(presentation: Any, title: str | None = None, layout: int = TITLE_ONLY) -> Any:
    slide = presentation.slides.add_slide(presentation.slide_layouts[layout if title else BLANK])
    if title:
        slide.shapes.title.text = title
    return slide


def box(slide: Any, text: str, left: float, top: float) -> Any:
    shape = slide.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(1))
    shape.text_frame.text = text
    return shape


def blocks(document: LoadedDocument) -> list[str]:
    return [block.strip("\n") for block in document.text.split("\n\n") if block.strip()]


def test_slides_are_pages_with_their_titles_as_headings(loaded: Loaded) -> None:
    def write(presentation: Any) -> None:
        slide = slide_of(presentation, "Prices", TITLE_AND_CONTENT)
        frame = slide.placeholders[1].text_frame
        frame.text = "From May on"
        frame.add_paragraph().text = "Plan A: 5"
        frame.paragraphs[1].level = 1
        box(slide_of(presentation), "without a title", 1, 1)
        box(slide_of(presentation, "Contact"), "Call us.", 1, 3)

    document = loaded(write)
    assert blocks(document) == [
        "Prices",
        "- From May on\n  - Plan A: 5",
        "without a title",
        "Contact",
        "Call us.",
    ]
    assert [(h.text, h.level) for h in document.headings] == [("Prices", 1), ("Slide 2", 1), ("Contact", 1)]
    pages = [document.pages.page_at(document.text.index(words)) for words in ("Prices", "without", "Contact", "Call")]
    assert pages == [1, 2, 3, 3]


def test_text_comes_from_top_to_bottom_and_left_to_right_groups_entered(loaded: Loaded) -> None:
    def write(presentation: Any) -> None:
        slide = slide_of(presentation)
        box(slide, "bottom", 1, 6)
        box(slide, "right", 6, 3.1)
        box(slide, "left", 1, 3.2)
        group = slide.shapes.add_group_shape()
        for text, left in (("second in group", 5), ("first in group", 1)):
            shape = group.shapes.add_textbox(Inches(left), Inches(1), Inches(2), Inches(1))
            shape.text_frame.text = text

    assert blocks(loaded(write)) == ["first in group", "second in group", "left", "right", "bottom"]


def test_tables_have_their_headers_beside_the_values_and_merged_cells_once(loaded: Loaded) -> None:
    def write(presentation: Any) -> None:
        slide = slide_of(presentation, "Plans")
        table = slide.shapes.add_table(3, 3, Inches(1), Inches(2), Inches(5), Inches(2)).table
        for at, text in enumerate(("Plan", "Month", "Year", "A", "1", "10", "B", "", "")):
            table.cell(at // 3, at % 3).text = text
        table.cell(2, 1).merge(table.cell(2, 2))
        table.cell(2, 1).text = "on\ndemand"

    document = loaded(write)
    rows = ["Plan | Month | Year", "Plan: A | Month: 1 | Year: 10", "Plan: B | Month: on demand"]
    assert blocks(document)[1].split("\n") == rows
    assert [atom.of(document.text) for atom in document.atoms] == rows


def test_a_chart_gives_its_title_and_the_values_of_its_series(loaded: Loaded) -> None:
    def write(presentation: Any) -> None:
        data = CategoryChartData()
        data.categories = ["North", "South"]
        data.add_series("Plan", (1, 2.5))
        data.add_series("Actual", (3, None))
        slide = slide_of(presentation, "Sales")
        place = (Inches(1), Inches(2), Inches(5), Inches(4))
        chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, data).chart
        chart.has_title = True
        chart.chart_title.text_frame.text = "Sales in 2024"

    assert blocks(loaded(write)) == [
        "Sales",
        "Chart: Sales in 2024",
        "Plan | Actual\nNorth | Plan: 1 | Actual: 3\nSouth | Plan: 2.5",
    ]


def test_notes_and_alternative_texts_are_kept(loaded: Loaded) -> None:
    def write(presentation: Any) -> None:
        slide = slide_of(presentation, "Bridge")
        for at, description in enumerate(("A bridge over a river", "photo.png")):
            picture = slide.shapes.add_picture(io.BytesIO(PNG), Inches(1), Inches(2 + at))
            picture.element.nvPicPr.cNvPr.set("descr", description)
        slide.notes_slide.notes_text_frame.text = "Say when it was built."

    document = loaded(write)
    assert blocks(document) == ["Bridge", "Image: A bridge over a river", "Notes: Say when it was built."]


def test_hidden_slides_and_hidden_shapes_are_left_out_and_what_every_slide_repeats(loaded: Loaded) -> None:
    def write(presentation: Any) -> None:
        slide_of(presentation, "Draft").element.set("show", "0")
        slide = slide_of(presentation, "Final")
        box(slide, "not to be seen", 1, 2).element.nvSpPr.cNvPr.set("hidden", "1")
        for layout_shape in slide.slide_layout.placeholders:
            if layout_shape.placeholder_format.idx in {10, 11, 12}:
                slide.shapes.clone_placeholder(layout_shape)
        for shape in slide.placeholders:
            if shape.placeholder_format.idx != 0:
                shape.text_frame.text = "on every slide"

    document = loaded(write)
    assert blocks(document) == ["Final"]
    assert document.pages.page_at(0) == 2
    left_out = "hidden slides (1), hidden shapes (1), dates, headers and footers of slides (2)"
    assert document.notes == (f"left out: {left_out}",)


def test_slides_with_nothing_but_pictures_are_counted_as_unread(loaded: Loaded) -> None:
    def write(presentation: Any) -> None:
        slide_of(presentation).shapes.add_picture(io.BytesIO(PNG), Inches(1), Inches(1))
        slide_of(presentation, "Words")
        slide_of(presentation)

    document = loaded(write)
    assert document.unread_pages == 1
    assert document.notes == ("1 of 3 slides have only pictures",)


def test_the_words_of_a_diagram_are_read(loaded: Loaded) -> None:
    diagram = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
    drawing = "http://schemas.openxmlformats.org/drawingml/2006/main"

    def write(presentation: Any) -> None:
        slide = slide_of(presentation)
        table = slide.shapes.add_table(1, 1, Inches(1), Inches(1), Inches(1), Inches(1))
        points = "".join(
            f'<d:pt type="{kind}"><d:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></d:t></d:pt>'
            for kind, text in (("node", "Plan"), ("pres", "drawn"), ("node", "Build"))
        )
        data = f'<d:dataModel xmlns:d="{diagram}" xmlns:a="{drawing}"><d:ptLst>{points}</d:ptLst></d:dataModel>'
        part = pptx.opc.package.Part(
            pptx.opc.packuri.PackURI("/ppt/diagrams/data1.xml"),
            "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml",
            slide.part.package,
            data.encode(),
        )
        relation = slide.part.relate_to(part, f"{pptx.opc.constants.NAMESPACE.OFC_RELATIONSHIPS}/diagramData")
        holder = table.element.graphic.graphicData
        holder.set("uri", diagram)
        holder.remove(holder.tbl)
        relations = pptx.opc.constants.NAMESPACE.OFC_RELATIONSHIPS
        holder.append(pptx.oxml.parse_xml(f'<d:relIds xmlns:d="{diagram}" xmlns:r="{relations}" r:dm="{relation}"/>'))

    assert blocks(loaded(write)) == ["- Plan\n- Build"]


def three_slides(presentation: Any) -> None:
    for title in ("One", "Two", "Three"):
        slide_of(presentation, title)


def repacked(data: bytes, member: str, change: Callable[[bytes], bytes | None]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(file, "w") as target:
        assert member in source.namelist()
        for name in source.namelist():
            content = source.read(name)
            changed = change(content) if name == member else content
            if changed is not None:
                target.writestr(name, changed)
    return file.getvalue()


@pytest.mark.parametrize("change", [lambda _: None, lambda content: content[:200], lambda _: b"<a/>"])
def test_a_slide_that_cannot_be_read_leaves_the_others(
    load_bytes: LoadBytes, change: Callable[[bytes], bytes | None]
) -> None:
    document = load_bytes("broken.pptx", repacked(written(three_slides), "ppt/slides/slide2.xml", change))
    assert blocks(document) == ["One", "Three"]
    assert document.pages.page_at(document.text.index("Three")) == 3
    assert document.notes == ("could not be read: slides 2 of 3",)


def test_a_missing_layout_or_core_part_is_no_reason_to_fail(load_bytes: LoadBytes) -> None:
    data = repacked(written(three_slides), "ppt/slideLayouts/slideLayout6.xml", lambda _: b"<broken")
    assert blocks(load_bytes("layout.pptx", data)) == ["One", "Two", "Three"]


def test_a_show_is_a_presentation_too(load_bytes: LoadBytes) -> None:
    def as_show(types: bytes) -> bytes:
        return types.replace(b"presentation.main+xml", b"slideshow.main+xml")

    document = load_bytes("show.ppsx", repacked(written(three_slides), "[Content_Types].xml", as_show))
    assert blocks(document) == ["One", "Two", "Three"]


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 and nothing", b"no presentation"])
def test_what_is_no_presentation_is_one_clear_failure(load_bytes: LoadBytes, data: bytes) -> None:
    with pytest.raises(LoadFailed, match="not a PPTX: broken file"):
        load_bytes("slides.pptx", data)


def test_an_encrypted_presentation_says_so(load_bytes: LoadBytes) -> None:
    with pytest.raises(LoadFailed, match="encrypted, needs a password"):
        load_bytes("slides.pptx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600)


def test_entities_are_not_resolved() -> None:
    def with_entity(slide: bytes) -> bytes:
        declared = slide.replace(b"<p:sld ", b'<!DOCTYPE p [<!ENTITY e SYSTEM "file:///etc/passwd">]><p:sld ', 1)
        return declared.replace(b"<a:t>One</a:t>", b"<a:t>One &e;</a:t>")

    data = repacked(written(three_slides), "ppt/slides/slide1.xml", with_entity)
    document = assemble(PptxLoader().lazy_parse(Blob.from_data(data)), "pptx", "pptx/1")
    assert "root:" not in document.text
    assert "Three" in document.text


def test_a_presentation_is_told_by_its_content(load_bytes: LoadBytes) -> None:
    assert load_bytes("upload.tmp", written(three_slides)).loader == "pptx/1"


def test_real_slides_are_cited_by_their_number(load_shared: LoadShared) -> None:
    document = load_shared("slides.pptx")
    assert blocks(document) == [
        "Adding a Bullet Slide",
        "- Find the bullet slide layout\n  - Use _TextFrame.text for first bullet\n"
        "    - Use _TextFrame.add_paragraph() for subsequent bullets\nHere is a lot of text!",
        "Here is some text in a text box!",
    ]
    assert document.pages.page_at(document.text.index("text box")) == 1
    assert [heading.text for heading in document.headings] == ["Adding a Bullet Slide"]


def test_a_real_malformed_presentation_gives_its_readable_slides(load_shared: LoadShared) -> None:
    document = load_shared("slides-malformed.pptx")
    assert blocks(document) == ["Test Slide"]
    assert document.pages.page_at(0) == 1
    assert document.notes == ("left out: dates, headers and footers of slides (1)",)
