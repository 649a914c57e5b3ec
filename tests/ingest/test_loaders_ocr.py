"""Pages read as pictures: the right words in the right order, whichever way up, and never silently none."""

import io
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents.base import Blob
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from ingest.documents import LoadedDocument, assemble
from ingest.loaders import ocr
from ingest.loaders.ocr import Seen, SeenLine
from ingest.loaders.ocr_layout import blocks
from ingest.loaders.options import LoadOptions, OcrOptions
from ingest.loaders.pdf import PdfLoader
from rag_service.errors import LoadFailed
from tests.support.pictures import picture, write

from .conftest import LoadShared

LETTERS = 26
HARBOUR = ["The harbour opens at seven.", "Boats pay four crowns a day."]


PAGE = (300.0, 424.0)  # points: a small page, so that the tests are quick


def pdf_of(pages: list[Callable[[Canvas], object]], size: tuple[float, float] = PAGE) -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=size)
    for draw in pages:
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def loaded(data: bytes, ocr: OcrOptions | None = None) -> LoadedDocument:
    loader = PdfLoader(LoadOptions(ocr=ocr or OcrOptions()))
    return assemble(loader.lazy_parse(Blob.from_data(data)), "application/pdf", "pdf/3")


def scan(image: Image.Image) -> Callable[[Canvas], object]:
    return lambda canvas: canvas.drawImage(ImageReader(image), 0, 0, *PAGE)


def typed(line: str) -> Callable[[Canvas], object]:
    return lambda canvas: canvas.drawString(36, 350, line)


def sheet(lines: list[str]) -> Image.Image:
    return picture(lines, (833, 1178), letters=LETTERS)


def test_br_11_scanned_pages_are_read_in_their_place_and_marked() -> None:
    data = pdf_of([typed("The first page is typed."), scan(sheet(HARBOUR)), typed("The third page is typed too.")])
    document = loaded(data)
    places = [document.text.index(words) for words in ("first page", "harbour opens at seven", "third page")]
    assert places == sorted(places)
    assert [document.pages.page_at(place) for place in places] == [1, 2, 3]
    read = "".join(span.of(document.text) for span in document.ocr)
    assert "Boats pay four crowns a day." in read
    assert "typed" not in read
    assert document.notes == ("1 of 3 pages read by OCR",)
    assert document.unread_pages == 0


def test_br_11_without_ocr_they_are_counted_with_the_setting_to_turn_on() -> None:
    document = loaded(pdf_of([typed("Words."), scan(sheet(HARBOUR)), scan(sheet(HARBOUR))]), OcrOptions(enabled=False))
    assert document.notes == ("2 of 3 pages have no text (OCR is off: RAG_OCR__ENABLED)",)
    assert document.unread_pages == 2
    assert document.ocr == ()


def test_br_11_pages_past_a_limit_are_counted_with_its_name() -> None:
    data = pdf_of([scan(sheet(HARBOUR))] * 3)
    document = loaded(data, OcrOptions(max_pages=1))
    assert document.notes == (
        "2 of 3 pages have no text (over the limit of RAG_OCR__MAX_PAGES)",
        "1 of 3 pages read by OCR",
    )
    assert document.unread_pages == 2
    late = loaded(data, OcrOptions(max_seconds=0))
    assert late.text.strip() == ""
    assert late.notes == ("no extractable text: 3 of 3 pages have no text (over the limit of RAG_OCR__MAX_SECONDS)",)


def test_br_11_a_picture_without_words_is_told_and_one_colour_is_nothing_to_see() -> None:
    rings = Image.fromarray(
        (np.add.outer(np.arange(800) ** 2, np.arange(600) ** 2) // 20_000 % 2 * 255).astype(np.uint8)
    )
    document = loaded(pdf_of([scan(rings), scan(Image.new("L", (60, 60), 200)), lambda _: None]))
    assert document.text.strip() == ""
    assert document.notes[0] == "no extractable text: 1 of 3 pages has no text (OCR found none)"
    assert document.unread_pages == 1


def test_br_11_a_scan_with_a_stamp_is_read_and_the_stamp_comes_once() -> None:
    stamp = "DRAFT - do not copy"

    def stamped(canvas: Canvas) -> None:
        scan(sheet(HARBOUR))(canvas)
        canvas.drawString(36, 50, stamp)

    data = pdf_of([stamped])
    text = loaded(data).text
    assert "The harbour opens at seven." in text
    assert text.count(stamp) == 1
    off = loaded(data, OcrOptions(enabled=False))
    assert off.notes == ("1 of 1 page has hardly any text beside a full-page image (OCR is off: RAG_OCR__ENABLED)",)
    assert (off.text.strip(), off.unread_pages) == (stamp, 1)


@pytest.mark.parametrize("turn", [90, 180, 270, 2])
def test_br_54_a_turned_scan_is_read_from_top_to_bottom(turn: int) -> None:
    lines = [f"Rule {word} of the harbour is kept by all." for word in ("one", "two", "three", "four")]
    image = sheet(lines).rotate(turn, expand=True, fillcolor=255)
    size = PAGE[::-1] if turn in {90, 270} else PAGE
    text = loaded(pdf_of([lambda canvas: canvas.drawImage(ImageReader(image), 0, 0, *size)], size)).text
    places = [text.index(line) for line in lines]
    assert places == sorted(places)


def test_br_54_columns_of_a_scan_are_read_one_after_the_other() -> None:
    page = sheet(["A heading that spans both of the columns here"])
    left = ["The left column tells", "of the sea and ships", "that sail on it daily", "until evening comes."]
    right = ["The right one tells of", "the hills and sheep in", "fields that graze for", "as long as it is light."]
    write(page, left, x=60, y=200, letters=LETTERS)
    write(page, right, x=460, y=215, letters=LETTERS)  # a little lower: its lines stand between those of the left
    words = " ".join(loaded(pdf_of([scan(page)])).text.split())
    assert " ".join(left) in words
    assert " ".join(right) in words
    assert words.index("A heading") < words.index("The left") < words.index("The right")


def test_a_table_in_a_scan_stays_in_rows() -> None:
    page = sheet([])
    for column, cells in enumerate((["Plan", "Basic", "Large"], ["Month", "11", "22"], ["Year", "110", "220"])):
        write(page, cells, x=80 + 260 * column, y=200, letters=LETTERS)
    document = loaded(pdf_of([scan(page)]))
    assert "Basic | 11 | 110\n" in document.text
    assert len(document.atoms) == 3


def test_words_cut_at_a_line_end_are_mended_in_a_scan() -> None:
    text = loaded(pdf_of([scan(sheet(["This is a page about inter-", "national law and its rules."]))])).text
    assert "international law" in text


def test_a_huge_page_is_drawn_within_bounds() -> None:
    side = 5 / 0.0254 * 72  # 5 metres

    def draw(canvas: Canvas) -> None:
        canvas.drawImage(ImageReader(picture(["POSTER"], (500, 500), letters=60)), 0, 0, side, side)

    document = loaded(pdf_of([draw], (side, side)))
    assert "POSTER" in document.text


def test_a_long_picture_is_read_in_bands_and_no_line_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"Entry {number}" for number in range(100, 200)]
    monkeypatch.setattr(ocr, "BAND_PIXELS", 250_000)
    seen = ocr.see(bgr(picture(lines, (300, 4_260), letters=LETTERS)), threads=1)
    assert [line.text for line in seen.lines] == lines


def bgr(image: Image.Image) -> ocr.Pixels:
    return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("size", [(1, 1), (4_000, 3), (3, 4_000), (30, 30)])
def test_odd_sizes_are_read_without_an_error(size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    ocr.see(noise, threads=1)


@pytest.fixture
def new_engine() -> Iterator[None]:
    ocr._engine.cache_clear()  # noqa: SLF001 - one engine for each process is the point of it
    yield
    ocr._engine.cache_clear()  # noqa: SLF001


@pytest.mark.usefixtures("new_engine")
def test_a_missing_model_fails_at_once_and_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object) -> None:
        pytest.fail("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    assert ocr.see(
        bgr(picture(HARBOUR, (700, 200), letters=LETTERS)), threads=1
    ).lines  # from the models of the package alone
    ocr._engine.cache_clear()  # noqa: SLF001
    monkeypatch.setitem(ocr.MODELS, "Rec", "no-such-model.onnx")
    with pytest.raises(LoadFailed) as failure:
        loaded(pdf_of([typed("Typed."), scan(sheet(HARBOUR))]))
    assert failure.value.message == (
        "OCR cannot be started (no-such-model.onnx is missing in the installed package rapidocr); install rapidocr anew,"
        " or set RAG_OCR__ENABLED=false"
    )


@pytest.mark.usefixtures("new_engine")
def test_a_damaged_model_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    monkeypatch.setitem(ocr.MODELS, "Det", str(broken))
    with pytest.raises(LoadFailed, match=r"OCR cannot be started .*RAG_OCR__ENABLED=false"):
        ocr.see(bgr(picture(HARBOUR, (700, 200), letters=LETTERS)), threads=1)


def test_ocr_says_nothing_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    loaded(pdf_of([scan(sheet(HARBOUR)), scan(sheet(["~"]))]))
    assert capfd.readouterr() == ("", "")


@given(
    st.lists(
        st.tuples(st.text("abc -", min_size=1, max_size=30), st.floats(0, 900), st.floats(1, 600), st.floats(0, 1200)),
        max_size=40,
    )
)
@settings(deadline=None)
def test_no_line_is_lost_or_doubled_by_the_reading_order(
    lines: list[tuple[str, float, float, float]],
) -> None:
    seen = Seen(tuple(SeenLine(text, x, x + width, y, 20.0) for text, x, width, y in lines), 1300.0)
    out = [line for block in blocks(seen) for line in block]
    assert sorted(letters("".join(line.text for line in out))) == sorted(letters("".join(text for text, *_ in lines)))


def letters(text: str) -> str:
    return "".join(c for c in text if c.isalnum())


@pytest.mark.parametrize("name", ["scanned-page.pdf", "image-only-fax.pdf"])
def test_br_11_real_scans(load_shared: LoadShared, name: str) -> None:
    document = load_shared(name)
    if name == "scanned-page.pdf":
        words = "Docling bundles PDF document conversion to JSON and Markdown in an easy self contained package"
        assert words in document.text
        assert document.notes == ("1 of 1 page read by OCR",)
    else:  # 16 by 16 pixels: nothing that could be read
        assert document.text.strip() == ""
        assert document.notes[0] == "no extractable text: 1 of 1 page has no text (OCR found none)"
        assert document.unread_pages == 1
