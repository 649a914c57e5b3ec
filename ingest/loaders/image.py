"""Image files: scans, photos and screenshots, read as pictures. A TIFF's images are its pages.

In: an image. Out: parts, all of them marked as read by OCR. Must not: unpack more pixels than MAX_PIXELS; take the frames
of an animation for pages.
"""

import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from PIL import ExifTags, Image, ImageStat, UnidentifiedImageError

from ingest.loaders.ocr import Pixels
from ingest.loaders.ocr_pages import BrokenPictureError, PageNotes, PictureReader
from ingest.loaders.options import DEFAULT_OPTIONS, LoadOptions
from ingest.loaders.parts import about, note, of_type, part, unread
from ingest.loaders.pdf_paragraphs import passages
from ingest.loaders.pdf_words import Hyphens
from rag_service.errors import LoadFailed

MAX_PIXELS = 90_000_000  # of one image; A3 at 600 dpi has 70 million. Pillow's own limit is about the same
_MAX_SHORT_SIDE = 2_000
_MAX_LONG_SIDE = 16_000  # long ones are screenshots of whole pages; they are read in bands
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF")  # Pillow knows dozens more, some of them risky
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, ArithmeticError, struct.error)
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_DAMAGED = "broken image (its data are cut off or damaged)"
_BRIGHT = 128  # of 255; letters as bright as this get a dark ground where the image is transparent


class ImageLoader(BaseBlobParser):
    """Raises LoadFailed when the image is broken or too large, or OCR cannot start."""

    def __init__(self, options: LoadOptions = DEFAULT_OPTIONS) -> None:
        self._options = options

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        with _opened(blob) as image:
            yield of_type(Image.MIME[str(image.format)])
            yield about({"format": image.format})
            pages = int(getattr(image, "n_frames", 1)) if image.format == "TIFF" else 1
            reader, notes = PictureReader(self._options.ocr), PageNotes("page" if pages > 1 else "image")
            for number in range(1, pages + 1):
                try:
                    yield from _page(image, number, reader, notes, position=number if pages > 1 else None)
                except BrokenPictureError as error:
                    if pages == 1:
                        raise LoadFailed(_DAMAGED) from error
                    notes.count_broken()
            for sentence in notes.sentences(reader):
                yield note(sentence)
            if pages == 1 and getattr(image, "is_animated", False):
                yield note("an animation: only its first image was looked at")
            if notes.unread:
                yield unread(notes.unread)


@contextmanager
def _opened(blob: Blob) -> Iterator[Image.Image]:
    with blob.as_bytes_io() as file:
        try:
            with warnings.catch_warnings(action="ignore"):  # on odd metadata and on size, which is checked below
                image = Image.open(file, formats=_FORMATS)
        except UnidentifiedImageError as error:
            raise LoadFailed("not an image that can be read: broken file") from error
        except Image.DecompressionBombError as error:
            raise LoadFailed(f"more pixels than the limit of {MAX_PIXELS:,}") from error
        except _BROKEN as error:
            raise LoadFailed(_DAMAGED) from error
        with image:
            yield image


def _page(
    image: Image.Image, number: int, reader: PictureReader, notes: PageNotes, *, position: int | None
) -> Iterator[Document]:
    yield part("", page=position)
    reading = reader.read(lambda: _pixels(image, number))
    notes.count(has_text=bool(reading.blocks), why_not=reading.why_not)
    hyphens = Hyphens()
    hyphens.learn(line.text for block in reading.blocks for line in block)
    for block in reading.blocks:
        for passage in passages(list(block), hyphens):
            yield part(passage.text, "table" if passage.is_table else "prose", page=position, ocr=True)


def _pixels(image: Image.Image, number: int) -> Pixels:
    """Upright by its EXIF data, on a plain ground, and no larger than what helps to read it.

    Raises BrokenPictureError, and LoadFailed where it is too large.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            image.seek(number - 1)
            if image.width * image.height > MAX_PIXELS:
                raise LoadFailed(f"{image.width:,} × {image.height:,} pixels are more than the limit of {MAX_PIXELS:,}")
            short, long = sorted(image.size)
            scale = min(1.0, _MAX_SHORT_SIDE / short, _MAX_LONG_SIDE / long)
            wanted = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
            image.draft("RGB", wanted)  # a JPEG is unpacked no larger than it must be
            image.load()
            plain = _on_a_ground(_in_eight_bits(image).resize(wanted, Image.Resampling.LANCZOS))
            return np.ascontiguousarray(np.asarray(_upright(image, plain).convert("RGB"))[:, :, ::-1])
    except LoadFailed:
        raise
    except (*_BROKEN, Image.DecompressionBombError) as error:
        raise BrokenPictureError from error


def _in_eight_bits(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):  # 16 or 32 bits: the darkest to the brightest, since there is no usual range
        values = np.nan_to_num(np.asarray(image, np.float32))
        low, high = float(values.min()), float(values.max())
        return Image.fromarray(((values - low) * (255 / max(high - low, 1e-6))).astype(np.uint8))
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image.convert("L" if image.mode in {"1", "L"} else "RGB")


def _on_a_ground(image: Image.Image) -> Image.Image:
    """White below what is transparent, or black if the letters are bright."""
    if image.mode != "RGBA":
        return image
    visible = image.getchannel("A")
    if visible.getextrema()[1] == 0:
        return Image.new("L", image.size, 255)
    brightness = ImageStat.Stat(image.convert("L"), visible.point(lambda value: 255 * (value > 0))).mean[0]
    ground = Image.new("RGBA", image.size, "black" if brightness >= _BRIGHT else "white")
    return Image.alpha_composite(ground, image)


def _upright(image: Image.Image, plain: Image.Image) -> Image.Image:
    """`plain` turned as the EXIF data of `image` say."""
    try:
        turn = _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except _BROKEN:  # broken metadata take no word away
        turn = None
    return plain.transpose(turn) if turn is not None else plain
