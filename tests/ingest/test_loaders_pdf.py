"""PDF files: the right page, sentences that read through, words whole, and no page without text passed over."""

import io
from collections.abc import Callable, Sequence

import pytest
from langchain_core.documents.base import Blob
from PIL import Image
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from ingest.chunker import Chunker
from ingest.documents import LoadedDocument, assemble
from ingest.loaders.options import LoadOptions, OcrOptions
from ingest.loaders.pdf import PdfLoader
from ingest.loaders.pdf_running import RunningLines
from ingest.loaders.pdf_words import Hyphens, clean_characters

from .conftest import LoadShared

NO_OCR = LoadOptions(ocr=OcrOptions(enabled=False))  # what it reads is in test_loaders_ocr.py


def loaded(draw: Callable[[Canvas], object]) -> LoadedDocument:
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=A4)
    draw(canvas)
    canvas.save()
    return loaded_bytes(file.getvalue())


def loaded_bytes(data: bytes) -> LoadedDocument:
    return assemble(PdfLoader(NO_OCR).lazy_parse(Blob.from_data(data)), "application/pdf", "pdf/3")


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
        (["It goes from trace-", "to-trace at once."], "from trace-to-trace at"),
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


def test_br_54_a_lying_page_keeps_rows_and_paragraphs() -> None:
    """Wide tables are often printed sideways: drawn up the page, and shown turned."""

    def draw(canvas: Canvas) -> None:
        canvas.setPageRotation(90)
        canvas.rotate(90)
        for n, row in enumerate([("Plan", "Month", "Year"), ("A", "1", "10"), ("B", "2", "20")]):
            for m, cell in enumerate(row):
                write(canvas, [cell], 100 + 120 * m, -100 - 20 * n)
        write(
            canvas,
            ["Below the table a sentence begins that goes on for a while in inter-", "national waters."],
            100,
            -250,
        )

    text = loaded(draw).text
    assert "Plan | Month | Year\nA | 1 | 10\nB | 2 | 20\n" in text
    assert "goes on for a while in international waters." in text


PAGES = 8


def book(canvas: Canvas, top: Callable[[int], str], foot: Callable[[int], str]) -> None:
    for n in range(1, PAGES + 1):
        write(canvas, [top(n)], y=810)
        write(canvas, [f"What page {n} says is told on no other one.", "It has a second line."], y=700)
        write(canvas, [foot(n)], x=280, y=30)
        canvas.showPage()


def test_br_54_running_headers_and_footers_come_once() -> None:
    document = loaded(lambda canvas: book(canvas, lambda _: "ACME Handbook 2026", lambda n: f"Page {n} of {PAGES}"))
    assert document.text.count("ACME Handbook 2026") == 1
    assert document.text.count(f"of {PAGES}") == 1
    assert document.text.count("It has a second line.") == PAGES
    assert document.notes == (f"left out: {2 * (PAGES - 1)} repeated lines of running headers and footers",)


def test_br_54_left_and_right_pages_have_running_lines_of_their_own() -> None:
    document = loaded(lambda c: book(c, lambda n: "Left of it" if n % 2 else "Right of it", lambda n: str(n + 40)))
    assert document.text.count("Left of it") == document.text.count("Right of it") == 1
    assert "\n44\n" not in document.text


@pytest.mark.parametrize(
    "foot",
    [
        lambda n: f"Balance: {n * 7919 % 1000} EUR",  # numbers that say something
        lambda n: f"Signed by person {'ABCDEFGH'[n - 1]}",
    ],
)
def test_what_differs_from_page_to_page_is_no_running_line(foot: Callable[[int], str]) -> None:
    document = loaded(lambda canvas: book(canvas, lambda n: f"Chapter {n * n}", foot))
    for n in range(1, PAGES + 1):
        assert foot(n) in document.text
        assert f"Chapter {n * n}" in document.text
    assert document.notes == ()


def test_short_documents_have_no_running_lines() -> None:
    def draw(canvas: Canvas) -> None:
        for _ in range(3):
            write(canvas, ["ACME Handbook"], y=810)
            canvas.showPage()

    assert loaded(draw).text.count("ACME Handbook") == 3
    assert RunningLines().without([]) == []


def test_the_outline_gives_headings_where_the_page_prints_them() -> None:
    def draw(canvas: Canvas) -> None:
        for key, title, level in (("one", "1 Leave", 0), ("sick", "1.1 Sick leave", 1)):
            canvas.bookmarkPage(key)
            canvas.addOutlineEntry(title, key, level=level)
        write(canvas, ["Before any heading stands this line."], y=800)
        write(canvas, ["1. Leave"], y=770)
        write(canvas, ["Annual leave is twenty-five days."], y=750)
        write(canvas, ["Sick leave"], y=720)  # without its number
        write(canvas, ["Sick leave is paid for six weeks."], y=700)
        canvas.showPage()
        canvas.bookmarkPage("two")
        canvas.addOutlineEntry("A title that no page prints", "two", level=0)
        write(canvas, ["Travel is booked by the office."])

    document = loaded(draw)
    assert [(h.level, h.text) for h in document.headings] == [
        (1, "1 Leave"),
        (2, "1.1 Sick leave"),
        (1, "A title that no page prints"),
    ]
    starts = [document.text[h.start :] for h in document.headings]
    assert starts[0].startswith("1. Leave\n\nAnnual leave is")
    assert starts[1].startswith("Sick leave\n\nSick leave is paid")
    assert starts[2].startswith("Travel is booked")
    assert [document.pages.page_at(h.start) for h in document.headings] == [1, 1, 2]

    def words(texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    chunks = Chunker(words, 100, 50).chunks(document.text, "v", pages=document.pages, headings=document.headings)
    paths = {chunk.text: chunk.heading_path for chunk in chunks}
    assert paths["Before any heading stands this line."] == ()
    assert next(path for text, path in paths.items() if "six weeks" in text) == ("1 Leave", "1.1 Sick leave")


def test_br_53_half_characters_in_titles_are_replaced() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setTitle("TITLE")
        canvas.bookmarkPage("one")
        canvas.addOutlineEntry("ENTRY", "one", level=0)
        write(canvas, ["Words."])

    file = io.BytesIO()
    canvas = Canvas(file, pagesize=A4)
    draw(canvas)
    canvas.save()
    lone = b"<FEFF0078D83500790078D835DC00>"  # x, half a pair, y, x, a whole pair
    data = file.getvalue()
    assert b"(TITLE)" in data
    assert b"(ENTRY)" in data
    document = loaded_bytes(data.replace(b"(TITLE)", lone).replace(b"(ENTRY)", lone))
    assert document.metadata["title"] == "x\ufffdyx\U0001d400"
    assert document.headings[0].text == "x\ufffdyx\U0001d400"
    assert "Words." in document.text.encode().decode()


def test_br_11_pages_without_text_are_counted() -> None:
    def draw(canvas: Canvas) -> None:
        for n in range(30):
            if n % 3:
                scan(canvas)
            else:
                write(canvas, [f"Page {n + 1} of the package says something of its own."])
            canvas.showPage()

    document = loaded(draw)
    assert document.notes == ("20 of 30 pages have no text (OCR is off: RAG_OCR__ENABLED)",)
    assert document.pages.page_at(document.text.index("Page 28")) == 28


def test_br_11_an_image_alone_has_no_text() -> None:
    document = loaded(scan)
    assert document.text == ""
    assert document.notes == ("no extractable text: 1 of 1 page has no text (OCR is off: RAG_OCR__ENABLED)",)


def test_br_11_a_stamp_on_scans_is_told() -> None:
    def draw(canvas: Canvas) -> None:
        for n in range(3):
            scan(canvas)
            write(canvas, [f"DRAFT - do not copy - {n + 1}"])
            canvas.showPage()

    document = loaded(draw)
    assert document.notes == (
        "3 of 3 pages have hardly any text beside a full-page image (OCR is off: RAG_OCR__ENABLED)",
    )
    assert document.unread_pages == 3


def test_a_blank_page_hides_nothing() -> None:
    def draw(canvas: Canvas) -> None:
        write(canvas, ["Words."])
        canvas.showPage()
        canvas.showPage()

    document = loaded(draw)
    assert document.notes == ()
    assert len(document.pages.offsets) == 2


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
    assert book.text.count("2.1. TOPOLOGISCHE MANNIGFALTIGKEITEN") == 1  # the running header of some pages
    assert "running headers and footers" in book.notes[0]
    heading = next(h for h in book.headings if h.text == "1.2 Metrische Räume")
    assert book.pages.page_at(heading.start) == 10
    assert book.text[heading.start :].startswith("1.2 Metrische Räume\n\n")
    skipped = load_shared("skipped-pages.pdf")
    assert skipped.pages.page_at(skipped.text.index("미래 국가 정보보안 기술 발전 방향 79")) == 2


def test_a_paper_in_two_columns_cites_its_pages(load_shared: LoadShared) -> None:
    paper = load_shared("paper-14-pages.pdf")
    assert len(paper.pages.offsets) == 14
    sentence = (
        "Every compiled trace contains all the guards (checks) required to validate the speculation. If one of the"
    )
    assert paper.pages.page_at(paper.text.index(sentence)) == 2
    assert paper.notes == ()


def test_real_table_rows(load_shared: LoadShared) -> None:
    text = load_shared("manual-with-tables.pdf").text
    assert "USER_NAME | VARCHAR(10) | Name of the user profile that has a usage setting for this function.\n" in text
