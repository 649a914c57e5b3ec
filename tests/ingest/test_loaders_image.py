"""Image files: every common kind, whichever way up, within bounds; broken ones end in plain words."""

import io
from pathlib import Path

import pytest
from PIL import ExifTags, Image

from ingest.documents import LoadedDocument, load
from ingest.loaders import image as image_loader
from ingest.loaders.options import LoadOptions, OcrOptions
from rag_service.errors import LoadFailed
from tests.support.pictures import picture

from .conftest import LoadBytes

LINES = ["The ferry leaves at noon.", "Dogs travel free of charge."]
OFF = LoadOptions(ocr=OcrOptions(enabled=False))


def small() -> Image.Image:
    return picture(LINES, (560, 180), letters=26)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def assert_read(document: LoadedDocument) -> None:
    for line in LINES:
        assert line in document.text


@pytest.mark.parametrize(
    ("name", "kind", "mode"),
    [
        ("a.png", "PNG", "1"),
        ("a.jpg", "JPEG", "RGB"),
        ("a.jpeg", "JPEG", "CMYK"),
        ("a.tif", "TIFF", "L"),
        ("a.webp", "WEBP", "RGB"),
        ("a.bmp", "BMP", "P"),
        ("a.gif", "GIF", "P"),
        ("told by its content", "PNG", "RGBA"),
    ],
)
def test_every_kind_is_read_and_marked(load_bytes: LoadBytes, name: str, kind: str, mode: str) -> None:
    document = load_bytes(name, saved(small().convert(mode), kind))
    assert_read(document)
    assert {span.of(document.text).strip() for span in document.ocr} == {document.text.strip()}
    assert document.notes == ("1 of 1 image read by OCR",)
    assert document.pages.offsets == ()
    assert (document.loader, document.metadata["format"]) == ("image/2", kind)
    assert document.media_type == f"image/{kind.lower()}"


def test_a_sixteen_bit_scan_that_uses_little_of_its_range(load_bytes: LoadBytes) -> None:
    deep = small().convert("I").point(lambda value: value * 8 + 500).convert("I;16")
    assert_read(load_bytes("deep.tif", saved(deep, "TIFF")))


@pytest.mark.parametrize("letters", ["black", "white"])
def test_transparent_images_get_a_ground_that_shows_the_letters(load_bytes: LoadBytes, letters: str) -> None:
    ink = small().point(lambda value: 255 - value)
    image = Image.new("RGBA", ink.size, letters)
    image.putalpha(ink)
    assert_read(load_bytes("a.png", saved(image, "PNG")))


def test_a_photo_is_turned_as_its_metadata_say(load_bytes: LoadBytes) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 5  # mirrored and lying: no reader could guess it
    stored = small().transpose(Image.Transpose.TRANSPOSE)
    assert_read(load_bytes("photo.jpg", saved(stored, "JPEG", exif=exif.tobytes())))


def test_br_11_the_images_of_a_tiff_are_its_pages(tmp_path: Path) -> None:
    pages = [picture([f"Sheet number {word}"], (560, 120), letters=26) for word in ("one", "two", "three")]
    pages.insert(1, Image.new("L", (560, 120), 255))
    path = tmp_path / "fax.tif"
    path.write_bytes(saved(pages[0], "TIFF", save_all=True, append_images=pages[1:]))
    document = load(path)
    assert [document.pages.page_at(document.text.index(word)) for word in ("one", "two", "three")] == [1, 3, 4]
    assert document.notes == ("3 of 4 pages read by OCR",)
    limited = load(path, LoadOptions(ocr=OcrOptions(max_pages=2)))
    assert limited.notes[0] == "1 of 4 pages has no text (over the limit of RAG_OCR__MAX_PAGES)"
    assert limited.unread_pages == 1


def test_br_11_with_ocr_off_an_image_is_blank_and_told(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(saved(small(), "PNG"))
    document = load(path, OFF)
    assert document.text == ""
    assert document.notes == ("no extractable text: 1 of 1 image has no text (OCR is off: RAG_OCR__ENABLED)",)
    assert document.unread_pages == 1


def test_only_the_first_image_of_an_animation_is_looked_at(load_bytes: LoadBytes) -> None:
    frames = [picture([word], (300, 120), letters=40) for word in ("first", "second")]
    document = load_bytes("a.gif", saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert document.text.strip() == "first"
    assert document.notes[-1] == "an animation: only its first image was looked at"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF"])
def test_cut_off_images_fail_in_plain_words(load_bytes: LoadBytes, kind: str) -> None:
    noise = Image.effect_noise((400, 400), 90).convert("RGB")
    whole = saved(noise, kind)
    with pytest.raises(LoadFailed) as failure:
        load_bytes(f"a.{kind.lower()}", whole[: len(whole) // 3])
    assert failure.value.message in {
        "broken image (its data are cut off or damaged)",
        "not an image that can be read: broken file",
    }


def test_what_is_only_called_an_image_fails(load_bytes: LoadBytes) -> None:
    with pytest.raises(LoadFailed, match="not an image that can be read"):
        load_bytes("a.png", b"words, no image")


def test_a_broken_sheet_of_a_tiff_takes_only_itself_away(load_bytes: LoadBytes) -> None:
    sheets = [picture([f"Sheet {word}"], (560, 120), letters=26) for word in ("one", "two")]
    data = saved(sheets[0], "TIFF", save_all=True, append_images=sheets[1:])
    document = load_bytes("half.tif", data[: -560 * 60])
    assert "Sheet one" in document.text
    assert "1 of 2 pages is broken and was left out" in document.notes


def test_more_pixels_than_the_limit_are_not_unpacked(load_bytes: LoadBytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for side in (10_000, 20_000):  # beyond our limit, and beyond Pillow's
        with pytest.raises(LoadFailed, match="pixels"):
            load_bytes("bomb.png", saved(Image.new("1", (side, side)), "PNG"))
    monkeypatch.setattr(image_loader, "MAX_PIXELS", 560 * 180)
    assert_read(load_bytes("a.png", saved(small(), "PNG")))
