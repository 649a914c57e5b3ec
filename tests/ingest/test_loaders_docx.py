"""Word documents in document order, with headings, tables whose values keep their headers, and what was left out."""

import io
from collections.abc import Callable

import docx
import pytest
from docx.document import Document as WordDocument
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn
from langchain_core.documents.base import Blob

from ingest.chunker import Chunker
from ingest.documents import LoadedDocument, assemble
from ingest.loaders.docx import DocxLoader
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.settings import EmbeddingsSettings

from .conftest import LoadShared


def loaded(write: Callable[[WordDocument], object]) -> LoadedDocument:
    document = docx.Document()
    write(document)
    file = io.BytesIO()
    document.save(file)
    return assemble(DocxLoader().lazy_parse(Blob.from_data(file.getvalue())), "docx", "docx/2")


def test_br_55_a_price_table_stands_between_its_paragraphs() -> None:
    def write(document: WordDocument) -> None:
        document.add_paragraph("Our plans.")
        table = document.add_table(3, 3)
        for row, values in enumerate((("Plan", "Month", "Year"), ("A", "1 EUR", "10 EUR"), ("B", "2 EUR", "20 EUR"))):
            for column, value in enumerate(values):
                table.cell(row, column).text = value
        document.add_paragraph("Ask us.")

    document = loaded(write)
    assert [line for line in document.text.split("\n") if line] == [
        "Our plans.",
        "Plan | Month | Year",
        "Plan: A | Month: 1 EUR | Year: 10 EUR",
        "Plan: B | Month: 2 EUR | Year: 20 EUR",
        "Ask us.",
    ]
    assert [atom.of(document.text)[:7] for atom in document.atoms] == ["Plan | ", "Plan: A", "Plan: B"]


def test_br_55_what_plan_b_costs_a_year_stands_beside_its_question_s_words() -> None:
    def write(document: WordDocument) -> None:
        for thing in ("kettle", "lift", "boiler", "gate", "printer"):
            document.add_paragraph(
                f"The {thing} is looked after by the house, every year in May, and costs you nothing."
            )
        table = document.add_table(3, 3)
        for row, values in enumerate((("Plan", "Month", "Year"), ("A", "1 EUR", "10 EUR"), ("B", "2 EUR", "20 EUR"))):
            for column, value in enumerate(values):
                table.cell(row, column).text = value
        document.add_paragraph("Plans may be changed on the first day of a month; ask us about them in the shop.")

    document = loaded(write)
    model = EmbeddingModel(EmbeddingsSettings())
    chunks = Chunker(model.count_tokens, model.max_tokens, 48).chunks(document.text, "v", atoms=document.atoms)
    assert len(chunks) > 3
    question = model.embed_queries(["What does plan B cost per year?"])[0]
    near = model.embed([chunk.embedded_text for chunk in chunks]) @ question
    assert "Plan: B | Month: 2 EUR | Year: 20 EUR" in chunks[int(near.argmax())].text


def test_br_55_a_footnote_stands_below_its_paragraph_and_comments_are_reported() -> None:
    def write(document: WordDocument) -> None:
        for kind, body in (
            ("footnotes", '<w:footnote w:id="{id}"{type}><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:footnote>'),
            ("comments", '<w:comment w:id="{id}"{type}><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:comment>'),
        ):
            notes = body.format(id=-1, type=' w:type="separator"' if kind == "footnotes" else "", text="----")
            notes += body.format(id=1, type="", text="In force since May.")
            xml = f"<w:{kind} {nsdecls('w')}>{notes}</w:{kind}>".encode()
            part = Part(PackURI(f"/word/{kind}.xml"), "application/xml", xml, document.part.package)
            document.part.relate_to(part, f"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}")
        reference = f'<w:p {nsdecls("w")}><w:r><w:t>Leave is 25 days.</w:t><w:footnoteReference w:id="1"/></w:r></w:p>'
        document.element.body.insert(0, parse_xml(reference))
        document.element.body.insert(1, parse_xml(reference))

    document = loaded(write)
    assert document.text == "Leave is 25 days.\n\nFootnote: In force since May.\n\nLeave is 25 days.\n\n"
    assert document.notes == ("left out: comments (2)",)


def test_br_55_merged_and_nested_cells_stand_once() -> None:
    def write(document: WordDocument) -> None:
        table = document.add_table(3, 3)
        for column, value in enumerate(("Plan", "Price", "Price")):
            table.cell(0, column).text = value
        table.cell(1, 0).merge(table.cell(2, 0)).text = "Tall"
        table.cell(1, 1).merge(table.cell(1, 2)).text = "Wide"
        inner = table.cell(2, 2).add_table(2, 2)
        for index, value in enumerate(("k", "v", "x", "7")):
            inner.cell(index // 2, index % 2).text = value
        table.cell(2, 1).text = "one\ntwo"

    lines = loaded(write).text.split("\n")
    assert lines[1:3] == ["Plan: Tall | Price: Wide", "Price: one two | Price: k | v; k: x | v: 7"]


def test_headings_by_style_with_the_title_above() -> None:
    def write(document: WordDocument) -> None:
        document.add_heading("Handbook", 0)
        document.add_heading("Leave", 1)
        document.add_paragraph("25 days.")
        document.add_heading("Sick leave", 2)
        document.add_paragraph("first", style="List Bullet")

    document = loaded(write)
    assert [(h.level, h.text) for h in document.headings] == [(1, "Handbook"), (2, "Leave"), (3, "Sick leave")]
    assert document.text == "Handbook\n\nLeave\n\n25 days.\n\nSick leave\n\n- first\n"


def test_a_heading_style_with_a_translated_id_and_one_built_on_it() -> None:
    def write(document: WordDocument) -> None:
        style = document.styles["Heading 1"]
        style.element.set(qn("w:styleId"), "berschrift1")
        mine = document.styles.add_style("Mine", 1)
        mine.base_style = style
        document.add_paragraph("Urlaub", style="Mine")

    assert [h.text for h in loaded(write).headings] == ["Urlaub"]


def test_br_55_running_headers_are_left_out_and_reported() -> None:
    def write(document: WordDocument) -> None:
        document.sections[0].header.paragraphs[0].text = "Confidential"
        document.sections[0].footer.paragraphs[0].text = "Page 1"
        document.add_paragraph("Body")

    document = loaded(write)
    assert document.text == "Body\n\n"
    assert document.notes == ("left out: running headers (1), running footers (1)",)


def test_br_55_a_text_box_comes_once_and_deleted_text_not() -> None:
    run = (
        '<w:p {ns} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><w:r><w:t>Before</w:t></w:r>'
        "<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del><w:ins><w:r><w:tab/><w:t>inserted</w:t></w:r></w:ins>"
        "<w:r><mc:AlternateContent><mc:Choice><w:txbxContent>{box}</w:txbxContent></mc:Choice>"
        "<mc:Fallback><w:txbxContent>{box}</w:txbxContent></mc:Fallback></mc:AlternateContent></w:r></w:p>"
    ).format(ns=nsdecls("w"), box="<w:p><w:r><w:t>Boxed</w:t></w:r></w:p>")
    document = loaded(lambda document: document.element.body.insert(0, parse_xml(run)))
    assert document.text == "Before\tinserted\n\nBoxed\n\n"


def test_a_frame_of_one_cell_is_text() -> None:
    def write(document: WordDocument) -> None:
        cell = document.add_table(1, 1).cell(0, 0)
        cell.text = "Notice"
        cell.add_paragraph("Second paragraph.")

    document = loaded(write)
    assert document.text == "Notice\n\nSecond paragraph.\n\n"
    assert document.atoms == ()


@pytest.mark.parametrize("name", ["tables.docx", "headers-footers.docx"])
def test_br_55_real_files(load_shared: LoadShared, name: str) -> None:
    document = load_shared(name)
    if name == "tables.docx":
        assert "Header Col 1: Lorem ipsum | Header Col 2: A link example" in document.text
        assert "e: g&t | f: h" in document.text
    else:
        assert document.text.split() == ["Main", "document"]
        assert document.notes == ("left out: running headers (1), running footers (1)",)


def test_a_handbook_of_872_pages(load_shared: LoadShared) -> None:
    document = load_shared("handbook-872-pages.docx")
    assert len(document.text) > 800_000
    assert document.headings[0].text == "CHAPTER 1 – INTRODUCTION"
    assert len(document.headings) > 250
