"""Every file of shared/documents ends as its README says: read well, told, or skipped.

One test for each file, named in `SHOWN`; a file without one fails `test_every_file_is_shown`.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache

import pytest

from ingest.chunker import Chunker
from ingest.documents import LoadedDocument, load
from ingest.results import FileResult
from rag_service.errors import LoadFailed
from rag_service.index.chunks import Chunk
from rag_service.local.chroma import chroma_server
from tests.support.ingest_parts import HashEmbedder, live_texts, pipeline_on, results

from .conftest import SHARED_DOCUMENTS

pytestmark = pytest.mark.skipif(not SHARED_DOCUMENTS.is_dir(), reason="the shared test documents are not there")

CHUNK_TOKENS = 200
SHOWN: set[str] = set()


def shows(*names: str) -> pytest.MarkDecorator:
    """The test is about these files, one after the other."""
    SHOWN.update(names)
    return pytest.mark.parametrize("name", names)


@cache
def read(name: str) -> LoadedDocument:
    """Loaded once for all tests here."""
    return load(SHARED_DOCUMENTS / name)


@cache
def chunks(name: str) -> Sequence[Chunk]:
    document, model = read(name), HashEmbedder()
    chunker = Chunker(model.count_tokens, model.max_tokens, CHUNK_TOKENS)
    return chunker.chunks(
        document.text,
        "v",
        pages=document.pages,
        headings=document.headings,
        atoms=document.atoms,
        ocr=document.ocr,
    )


def chunk_with(name: str, passage: str) -> Chunk:
    """The one chunk that holds the passage."""
    (found,) = [chunk for chunk in chunks(name) if passage in chunk.text]
    return found


def cited_page(name: str, passage: str) -> int | None:
    """The page that a citation of the passage names; its chunk has that page, too."""
    document = read(name)
    page = document.pages.page_at(document.text.index(passage))
    chunk = chunk_with(name, passage)
    assert page is not None
    assert chunk.page_start is not None
    assert chunk.page_end is not None
    assert chunk.page_start <= page <= chunk.page_end
    return page


def lines_of(name: str) -> list[str]:
    return read(name).text.split("\n")


def in_order(text: str, *passages: str) -> bool:
    places = [text.index(passage) for passage in passages]
    return places == sorted(places)


def test_every_file_is_shown() -> None:
    files = {path.name for path in SHARED_DOCUMENTS.iterdir() if path.name != "README.md"}
    assert files == SHOWN


# -- PDF


@shows("two-columns.pdf")
def test_the_left_column_comes_before_the_right(name: str) -> None:
    text = read(name).text
    left, right = "Suspendisse vel felis. Ut lorem lorem", "Suspendisse vitae elit. Aliquam arcu neque"
    assert in_order(text, left, "Morbi luctus, wisi viverra", right)
    assert "vestibulum ut, placerat ac, adipiscing vitae, felis. Curabitur dictum gravida mauris." in text
    assert (cited_page(name, "Etiam facilisis. Nunc elementum"), cited_page(name, left)) == (1, 2)
    rows = [line for line in lines_of(name) if " | " in line]
    assert rows[-1] == "Finland | 5.5 | 338,424 | Helsinki | Finnish, Swedish"  # the page's number is no part of it
    assert cited_page(name, rows[-1]) == 3


@shows("german-maths-book.pdf")
def test_the_book_cites_the_page_of_each_passage(name: str) -> None:
    book = read(name)
    assert len(book.pages.offsets) == 117
    for passage, page in {
        "mir eine E-Mail schicken (info@martin-thoma.de)": 2,
        "heißt Sierpińskiraum": 7,
        "hausdorffsch, wenn es für je zwei": 12,
        "Möbiusband (vgl. Abbildung 5.1) ist nicht orientierbar": 94,
    }.items():
        assert cited_page(name, passage) == page, passage
    assert "Grundbegriffe" in chunk_with(name, "heißt Sierpińskiraum").heading_path[0]
    assert not set("ﬀﬁﬂﬃﬄ") & set(book.text)
    assert "1.2 Metrische Räume … 6" in lines_of(name)  # not a hundred dots
    running = [chunk for chunk in chunks(name) if "TOPOLOGISCHE MANNIGFALTIGKEITEN" in chunk.text]
    assert len(running) == 1


@shows("letters-drawn-twice.pdf")
def test_letters_drawn_twice_are_words(name: str) -> None:
    assert lines_of(name)[4:6] == ["BOLD TEXT SAMPLE", "Testing Deduplication"]
    assert chunk_with(name, "BOLD TEXT SAMPLE").page_start == 1


@shows("copy-protected.pdf")
def test_permission_bits_hide_nothing(name: str) -> None:
    text = read(name).text
    assert "Recent advances in document image analysis (DIA) have been primarily driven by" in text
    # Its font does not say which letters the glyph ffi stands for.
    assert "there are several practical difficulties for taking advantages of recent advances" in text
    assert "1. An off-the-shelf toolkit for applying DL models for layout detection, character recognition," in text
    assert cited_page(name, "3) DIA usually requires a sequence of models") == 2


@shows("ligatures.pdf")
def test_ligatures_are_letters(name: str) -> None:
    assert read(name).text.strip() == "abcdeffffiflffifflſtstghijklmno"
    assert "ffi" in chunks(name)[0].text


@shows("paper-14-pages.pdf")
def test_the_paper_cites_the_page_of_each_passage(name: str) -> None:
    assert len(read(name).pages.offsets) == 14
    for passage, page in {
        "we have measured speedups of 10x and more for certain benchmark programs": 1,
        "We solve the nested loop problem by recording nested trace trees.": 2,
        "data structure which we call the “oracle”": 5,
        "We evaluated our JavaScript tracing implementation using SunSpider": 10,
        "[14] B. McCloskey. Personal communication.": 14,
    }.items():
        assert cited_page(name, passage) == page, passage
    assert "This backoff counter gives temporary conditions" in read(name).text  # in slanted letters, which overlap
    assert in_order(read(name).text, "1. Introduction", "PLDI’09, June 15–20", "Hence, recording and compiling")


@shows("manual-with-tables.pdf")
def test_the_cells_of_the_manual_stay_in_their_row(name: str) -> None:
    for row in (
        "Column name | Data type | Description",
        "USAGE | VARCHAR(7) | Usage setting: ALLOWED: The user profile is allowed to use the function. DENIED: The user "
        "profile is not allowed to use the function.",
        "Special register | Corresponding value",
        "USER or SESSION_USER | The effective user of the thread excluding adopted authority.",
        "CLIENT_PORT | INTEGER | Port used by the current client to communicate with the server",
    ):
        assert row in lines_of(name)
        assert row in chunk_with(name, row).text.split("\n")
    assert "QUSRJOBI() API format 900 or System i Navigator's SQL Details for Job | X | X | X" in lines_of(name)
    opening = next(line for line in lines_of(name) if line.startswith("Recent news headlines"))
    assert opening.endswith(
        "$9.4 million per attack. The average cost that is incurred for each lost record containing "
        "sensitive information increased more than 9% to $145 per record."
    )
    code = "WHEN VERIFY_GROUP_FOR_USER ( SESSION_USER , 'MGR' ) = 1\nAND SESSION_USER <> EMPLOYEES . USER_ID\nTHEN"
    assert code in read(name).text
    assert "1.1 Security fundamentals … 2" in lines_of(name)


@shows("skipped-pages.pdf")
def test_the_page_is_the_place_in_the_file(name: str) -> None:
    assert read(name).pages.offsets[0] == 0
    assert len(read(name).pages.offsets) == 4
    for printed, page in {"보고서": 1, "발전 방향 79": 2, "발전 방향 83": 3, "84 ICT": 4}.items():
        assert read(name).pages.page_at(read(name).text.index(printed)) == page
    assert chunk_with(name, "84 ICT").page_end == 4
    assert cited_page(name, "빠른 분석 탐지를 넘어") == 4


@shows("government-report.pdf")
def test_the_report_has_its_text_and_not_its_machine_s_marks(name: str) -> None:
    report = read(name)
    assert len(report.pages.offsets) == 107
    assert "PLACEHOLDER" not in report.text  # white, one point high, beside every paragraph
    assert any("letters too small to be seen" in note for note in report.notes)
    assert "a robust process of engagement with communities" in report.text
    assert "to repair this harmful legacy." in report.text  # its spaces are not drawn
    assert "Energy Efficiency" in report.text
    assert "Description | Type | Status | Start Date | End Date | MMTCO2e" in lines_of(name)
    row = next(line for line in lines_of(name) if line.startswith("By September 30, 2026, EPA’s climate partnership"))
    assert "(MMTCO2e). | Target Actual | Baseline | 2025-10-01 2019-01-01 | 2026-09-30 2019-12-31 | 545 518.6" in row
    assert sum("U.S. Environmental Protection Agency" in chunk.text for chunk in chunks(name)) < 5
    assert cited_page(name, "to repair this harmful legacy.") == 8


@shows("government-report-long.pdf")
def test_the_long_report_is_whole_and_its_rows_too(name: str) -> None:
    report = read(name)
    assert len(report.pages.offsets) == 66
    assert report.notes == ("left out: 71 repeated lines of running headers and footers",)
    said = "".join(filter(str.isalnum, report.text))
    for word in said_by_pdfium(name):
        assert word in said, word
    header = "Table | Performance Measure | FY 2014 Results | FY 2015 Results | FY 2016 Results | FY 2017 Results"
    row = (
        "1.1 A | Hiring manager satisfaction that applicants are referred in a timely manner and with the skills to perform "
        "the job | -* | 76.3 | 75.2 | 71.5 | 74.3 | ≥76 | Not Met"
    )
    assert lines_of(name)[lines_of(name).index(row) - 1].startswith(header)
    assert row in chunk_with(name, row).text.split("\n")
    assert cited_page(name, row) == 25
    assert "https://www.opm.gov/about-us/budget-performance/strategic-plans/2018-2022-strategic-plan.pdf" in report.text
    assert sum("Annual Performance Report" in chunk.text for chunk in chunks(name)) < 10


def said_by_pdfium(name: str) -> Iterator[str]:
    """The long words of every page as the parser lists them: what our own order and mending must not lose."""
    import pypdfium2

    pdf = pypdfium2.PdfDocument(SHARED_DOCUMENTS / name)
    for page in pdf:
        for word in page.get_textpage().get_text_range().split():
            if len(word) > 11 and word.isalpha():
                yield word
    pdf.close()


@shows("encrypted.pdf")
def test_a_password_is_asked_for(name: str) -> None:
    with pytest.raises(LoadFailed, match=r"^encrypted, needs a password$"):
        read(name)


@shows("image-only-fax.pdf")
def test_a_fax_that_ocr_cannot_read_is_told(name: str) -> None:
    assert read(name).text.strip() == ""
    assert read(name).unread_pages == 1
    assert read(name).notes[0] == "no extractable text: 1 of 1 page has no text (OCR found none)"


@shows("scanned-page.pdf")
def test_the_words_of_a_scan_are_found(name: str) -> None:
    chunk = chunk_with(name, "Docling bundles PDF document conversion to JSON and Markdown")
    assert chunk.ocr
    assert chunk.page_start == 1
    assert read(name).notes == ("1 of 1 page read by OCR",)


# -- Office


@shows("tables.docx")
def test_the_text_of_word_tables_is_kept(name: str) -> None:
    for row in ("Header Col 1: Lorem ipsum | Header Col 2: A link example", "b: c | b: d"):
        assert row in lines_of(name)
    assert "e: g&t | f: h" in read(name).text  # the nested one
    assert in_order(read(name).text, "Simple uniform table", "Nested Table", "Table with merged cells")


@shows("headers-footers.docx")
def test_running_headers_do_not_flood_the_chunks(name: str) -> None:
    assert [chunk.text.strip() for chunk in chunks(name)] == ["Main document"]
    assert read(name).notes == ("left out: running headers (1), running footers (1)",)


@shows("handbook-872-pages.docx")
def test_the_handbook_is_whole(name: str) -> None:
    handbook = read(name)
    assert len(handbook.text) > 800_000
    assert len(handbook.headings) > 250
    assert in_order(handbook.text, "Table of Contents", "CHAPTER 1 – INTRODUCTION", "The clearest case for removal")
    footnote = "Footnote: / References to “continue” in this Handbook shall have the same meaning as “adjourn.”"
    below = "the local rules and practices governing rescheduling requests and continuances"
    assert [below in chunk.text for chunk in chunks(name) if footnote in chunk.text] == [True, True]  # it stands twice
    assert not any("footnotes" in note for note in handbook.notes)
    passage = "The clearest case for removal is the discovery of fraud or embezzlement"
    assert all(chunk.heading_path for chunk in chunks(name) if passage in chunk.text)
    assert " ".join(chunk.text for chunk in chunks(name)).split() == handbook.text.split()


@shows("slides.pptx")
def test_the_slide_is_cited_by_its_number(name: str) -> None:
    assert cited_page(name, "Use _TextFrame.text for first bullet") == 1
    assert chunk_with(name, "Here is some text in a text box!").page_start == 1
    assert read(name).headings[0].text == "Adding a Bullet Slide"


@shows("slides-malformed.pptx")
def test_what_can_be_read_of_a_malformed_talk_is(name: str) -> None:
    assert read(name).text.strip() == "Test Slide"
    assert read(name).notes == ("left out: dates, headers and footers of slides (1)",)
    assert chunks(name)[0].page_start == 1


@shows("subtables.xlsx")
def test_the_sheet_is_named_in_the_citation(name: str) -> None:
    assert all(chunk.heading_path[:1] == ("Sheet1",) and chunk.page_start == 1 for chunk in chunks(name))
    rows = [block.split("\n") for block in read(name).text.strip().split("\n\n")]
    assert rows[1] == ["a: c; b: d; column D: e", "column D: - f"]
    assert ["a: c; b: d", "a: e", "a: f"] in rows
    assert rows[-1] == ["a; b; c", "a: d", "a: e"]


@shows("empty.xlsx")
def test_an_empty_workbook_is_blank(name: str) -> None:
    assert read(name).text.strip() == ""
    assert chunks(name) == []


# -- rows and texts


@shows("utf-16.csv")
def test_the_cells_of_utf_16_are_right(name: str) -> None:
    assert read(name).text == (
        "Stanley Cups\nTeam: Blues; Location: STL; Stanley Cups: 1\nTeam: Flyers; Location: PHI; Stanley Cups: 2\n"
        "Team: Maple Leafs; Location: TOR; Stanley Cups: 13\n"
    )


@shows("semicolons.csv")
def test_the_cells_between_semicolons_are_right(name: str) -> None:
    assert lines_of(name)[1] == "Lorem, ipsum: sed, do; dolor sit: eiusmod; amet: tempor incididunt"
    assert len(read(name).atoms) == 4


@shows("escaped-commas.csv")
def test_a_quoted_comma_parts_no_cell(name: str) -> None:
    row = "A (column 1): A; A (column 2): A; A (column 3): A; A (column 4): A,A; A (column 5): A"
    assert lines_of(name) == [row, row, ""]


@shows("utf-32.txt")
def test_utf_32_is_text(name: str) -> None:
    assert lines_of(name)[0] == "This is a test document to use for unit tests."
    assert read(name).text.endswith("   - I love fuzzy blankets")


@shows("latin1-umlauts.md")
def test_latin_umlauts_are_right(name: str) -> None:
    assert read(name).text.split() == ["##", "können", "können", "äöüß"]
    assert [heading.text for heading in read(name).headings] == ["können"]


@shows("only-whitespace.txt")
def test_white_space_makes_no_chunk(name: str) -> None:
    assert read(name).text.strip() == ""
    assert chunks(name) == []


@shows("mail.eml")
def test_the_mail_has_subject_sender_and_body_once(name: str) -> None:
    text = read(name).text
    for words in ("Test Email", "Sam Sender <sender@example.com>", "This is a test email", "Roses are red"):
        assert text.count(words) == 1
    assert chunk_with(name, "Violets are blue").heading_path == ("Test Email",)


# -- pages and books


@shows("page-with-scripts.html", "encyclopedia-page.html")
def test_no_script_or_menu_is_in_a_chunk(name: str) -> None:
    source = (SHARED_DOCUMENTS / name).read_text(encoding="utf-8")
    for words in ("function", "jQuery", "var ", "{", "Donate"):
        assert words in source
        assert not [chunk.text for chunk in chunks(name) if words in chunk.text]
    for words in ("Main page", "Random article", "Log in", "Toggle", "Search form", "Jump to"):
        assert not [chunk.text for chunk in chunks(name) if words in chunk.text]
    main = {
        "page-with-scripts.html": "Russia reportedly deployed three MiG-31K interceptors to the Belarusian airfield",
        "encyclopedia-page.html": "Ducks are generally smaller and shorter-necked than swans and geese",
    }
    assert chunk_with(name, main[name])
    assert read(name).notes


@shows("cp1252.html")
def test_the_legacy_charset_is_right(name: str) -> None:
    assert 'Die schöne Frau hat einen Kaffee mit Kuchen gegessen. Sie sagte: "Das war köstlich!"' in read(name).text
    assert "betrug 15,50 €." in read(name).text
    assert "�" not in read(name).text


@shows("winter-sports.epub")
def test_the_chapters_come_in_order(name: str) -> None:
    chapters = [heading.text for heading in read(name).headings if heading.text.startswith("CHAPTER ")]
    numbers = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII"]
    assert [chapter.split()[1] for chapter in chapters] == numbers
    assert in_order(read(name).text, *chapters, "THE FULL PROJECT GUTENBERG LICENSE")
    assert "CHAPTER VI SKI-ING" in chunk_with(name, read(name).text[262_500:262_560]).heading_path


# -- the run, and what it takes


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, FileResult], dict[str, list[str]]]]:
    """What the run told of the files that bring nothing, with good ones among them, and the live chunks of each."""
    home = tmp_path_factory.mktemp("run")
    names = (
        "encrypted.pdf",
        "image-only-fax.pdf",
        "empty.xlsx",
        "only-whitespace.txt",
        "slides-malformed.pptx",
        "headers-footers.docx",
        "scanned-page.pdf",
        "mail.eml",
    )
    with (
        chroma_server(home / "chroma") as url,
        pipeline_on(home, url, "shared", HashEmbedder(), max_tokens=CHUNK_TOKENS) as pipeline,
    ):
        told = results(pipeline, *(SHARED_DOCUMENTS / name for name in names))
        live = live_texts(pipeline.catalog, pipeline.collection)
        yield {name_in(item.uri): item for item in told}, {name_in(uri): texts for uri, texts in live.items()}


def name_in(uri: str) -> str:
    return uri.rsplit("/", 1)[-1]


Run = tuple[dict[str, FileResult], dict[str, list[str]]]


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("encrypted.pdf", "failed", "encrypted, needs a password"),
        ("image-only-fax.pdf", "skipped", "no extractable text: 1 of 1 page has no text (OCR found none)"),
        ("empty.xlsx", "skipped", "it has no text"),
        ("only-whitespace.txt", "skipped", "it has no text"),
    ],
)
def test_br_11_a_file_that_brings_nothing_is_told_and_the_run_goes_on(
    run: Run, name: str, status: str, reason: str
) -> None:
    told, live = run
    assert told[name].status == status
    assert reason in (told[name].reason or "")
    assert name not in live
    assert {file for file, item in told.items() if item.status == "indexed"} == set(live)
    assert set(live) == {"slides-malformed.pptx", "headers-footers.docx", "scanned-page.pdf", "mail.eml"}


def test_what_was_left_out_or_read_by_ocr_is_told_of_good_files(run: Run) -> None:
    told, live = run
    assert told["headers-footers.docx"].reason == "left out: running headers (1), running footers (1)"
    assert told["scanned-page.pdf"].reason == "1 of 1 page read by OCR"
    assert "Docling bundles" in live["scanned-page.pdf"][0]


MEASURE = """
import sys
from pathlib import Path
from ingest.documents import load
def peak(): return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) * 1024
first, *others = map(Path, sys.argv[1:])
load(first)  # what the loader needs once: modules, tables
before = peak()
for path in others:
    load(path)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("names", "megabytes"),
    [
        (("two-columns.pdf", "government-report.pdf", "government-report-long.pdf"), 40),
        (("tables.docx", "handbook-872-pages.docx"), 150),  # its XML of 10 MB is held as a tree
    ],
)
def test_br_82_long_documents_take_bounded_memory(names: Sequence[str], megabytes: int) -> None:
    command = [sys.executable, "-c", MEASURE, *(str(SHARED_DOCUMENTS / name) for name in names)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(told.stdout) < megabytes * 1_000_000
