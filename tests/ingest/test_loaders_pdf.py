"""PDF files: the right page, sentences that read through, words whole, and no page without text passed over."""

import io
from collections.abc import Callable

import pytest
from langchain_core.documents.base import Blob
from PIL import Image
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from ingest.documents import LoadedDocument, assemble
from ingest.loaders.pdf import PdfLoader
from ingest.loaders.pdf_words import Hyphens, clean_characters

from .conftest import LoadShared


def loaded(draw: Callable[[Canvas], object]) -> LoadedDocument:
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=A4)
    draw(canvas)
    canvas.save()
    return assemble(PdfLoader().lazy_parse(Blob.from_data(file.getvalue())), "application/pdf", "pdf/1")


def write(canvas: Canvas, lines: list[str], x: float = 72, y: float = 760, pitch: float = 14) -> None:
    for n, line in enumerate(lines):
        canvas.drawString(x, y - n * pitch, line)


def scan(canvas: Canvas) -> None:
    canvas.drawImage(ImageReader(Image.new("L", (20, 20), 128)), 0, 0, 595, 842)


def test_a_sentence_reads_through_and_a_paragraph_ends() -> None:
    def draw(canvas: Canvas) -> None:
        write(
            canvas,
            ["Annual leave is twenty-five days for everyone who", "works full time here.", "Sick leave is paid."],
        )
        write(canvas, ["After a gap, a new paragraph begins in this place."], y=690)

    text = loaded(draw).text
    assert (
        "Annual leave is twenty-five days for everyone who works full time here.\nSick leave is paid.\n\nAfter" in text
    )


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        (["This is about inter-", "national law and more."], "about international law"),
        (["The factor is price-", "determining for all."], "price-determining for all"),
        (["A well-known fact is well-", "known to all of us."], "is well-known to all"),
        (["Eine Urlaubs-", "regelung gilt hier."], "Eine Urlaubsregelung gilt"),
        (["Die EU-", "Kommission entscheidet."], "Die EU-Kommission"),
        (["Vor-", "und Nachteile sehen."], "Vor- und Nachteile"),
    ],
)
def test_br_54_words_cut_at_a_line_end(lines: list[str], right: str) -> None:
    assert right in loaded(lambda canvas: write(canvas, lines)).text


def test_br_54_the_document_itself_tells_what_a_hyphen_means() -> None:
    hyphens = Hyphens()
    hyphens.learn(["both co-operate and email are here", "never the last cooperate"])
    assert hyphens.joint("They co", "operate.") == "-"
    assert hyphens.joint("an e", "mail") == ""
    assert hyphens.joint("REQ", "UIRES") == "-"


def test_br_54_ligatures_are_letters() -> None:
    assert clean_characters("di\ufb03cult \ufb01nd \ufb02ow a\xadb\x02\ufffe e↵ort") == "difficult find flow ab effort"


def test_br_54_columns_drawn_row_by_row_are_read_one_after_the_other() -> None:
    left = [
        "The left column tells of",
        "the sea and of the ships",
        "that sail on it each day",
        "until evening comes here",
    ]
    right = [
        "while the right one tells",
        "of hills and of the sheep",
        "that graze on them for",
        "as long as grass is green",
    ]

    def draw(canvas: Canvas) -> None:
        for n in range(4):
            write(canvas, [left[n]], 72, 760 - 14 * n)
            write(canvas, [right[n]], 320, 760 - 14 * n)

    words = " ".join(loaded(draw).text.split())
    assert " ".join(left) in words
    assert " ".join(right) in words


def test_cells_stay_in_their_row() -> None:
    rows = [("Plan", "Month", "Year"), ("A", "1", "10"), ("B", "2", "20")]

    def draw(canvas: Canvas) -> None:
        for n, row in enumerate(rows):
            for m, cell in enumerate(row):
                write(canvas, [cell], 72 + 120 * m, 700 - 20 * n)

    document = loaded(draw)
    assert document.text == "Plan | Month | Year\nA | 1 | 10\nB | 2 | 20\n\n"
    assert len(document.atoms) == 3


def test_br_54_a_turned_page_is_read() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setPageRotation(90)
        write(canvas, ["A page that is turned by the viewer."])
        canvas.showPage()
        canvas.rotate(90)
        canvas.drawString(100, -200, "Text that runs up the page.")

    document = loaded(draw)
    assert "A page that is turned by the viewer." in document.text
    assert "Text that runs up the page." in document.text


def test_br_11_pages_without_text_are_counted() -> None:
    def draw(canvas: Canvas) -> None:
        for n in range(30):
            if n % 3:
                scan(canvas)
            else:
                write(canvas, [f"Page {n + 1} of the package says something of its own."])
            canvas.showPage()

    document = loaded(draw)
    assert document.notes == ("20 of 30 pages have no text (OCR needed)",)
    assert document.pages.page_at(document.text.index("Page 28")) == 28


def test_br_11_an_image_alone_has_no_text() -> None:
    document = loaded(scan)
    assert document.text == ""
    assert document.notes == ("no extractable text: 1 of 1 page has no text (OCR needed)",)


def test_br_11_a_stamp_on_scans_is_told() -> None:
    def draw(canvas: Canvas) -> None:
        for n in range(3):
            scan(canvas)
            write(canvas, [f"DRAFT - do not copy - {n + 1}"])
            canvas.showPage()

    assert loaded(draw).notes == ("3 of 3 pages have hardly any text beside a full-page image (OCR may be needed)",)


def test_a_blank_page_hides_nothing() -> None:
    def draw(canvas: Canvas) -> None:
        write(canvas, ["Words."])
        canvas.showPage()
        canvas.showPage()

    document = loaded(draw)
    assert document.notes == ()
    assert len(document.pages.offsets) == 2


@pytest.mark.parametrize("name", ["image-only-fax.pdf", "scanned-page.pdf"])
def test_br_11_real_scans(load_shared: LoadShared, name: str) -> None:
    document = load_shared(name)
    assert document.text.strip() == ""
    assert "OCR needed" in document.notes[0]


def test_letters_drawn_twice_come_once(load_shared: LoadShared) -> None:
    assert "BOLD TEXT SAMPLE" in load_shared("letters-drawn-twice.pdf").text


def test_br_54_real_ligatures_and_columns(load_shared: LoadShared) -> None:
    assert load_shared("ligatures.pdf").text.strip().startswith("abcdeffffiflffi")
    text = load_shared("two-columns.pdf").text
    assert "Lorem ipsum dolor sit amet, consectetuer adipiscing elit. Ut purus elit, vestibulum ut, placerat ac" in text
    places = [text.index(words) for words in ("Lorem ipsum dolor sit", "Nam dui ligula", "parturient montes")]
    assert places == sorted(places)


def test_permission_bits_do_not_hide_text(load_shared: LoadShared) -> None:
    text = load_shared("copy-protected.pdf").text
    assert "research outcomes could be easily deployed in production and extended for further investigation" in text
    assert "on-going efforts to improve" in text


def test_pages_are_positions_in_the_file(load_shared: LoadShared) -> None:
    book = load_shared("german-maths-book.pdf")
    assert len(book.pages.offsets) == 117
    assert book.pages.page_at(book.text.index("Ein topologischer Raum X heißt hausdorffsch")) == 12
    skipped = load_shared("skipped-pages.pdf")
    assert skipped.pages.page_at(skipped.text.index("미래 국가 정보보안 기술 발전 방향 79")) == 2


def test_real_table_rows(load_shared: LoadShared) -> None:
    text = load_shared("manual-with-tables.pdf").text
    assert "USER_NAME | VARCHAR(10) | Name of the user profile that has a usage setting for this function.\n" in text
