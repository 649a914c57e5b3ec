"""A PDF page as a picture: whether it is one, and how it is drawn to be read.

In: a PDFium page. Out: pixels, bounded whatever the page's size. Must not: draw a page larger than it can be read.
"""

from contextlib import closing

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ingest.loaders.ocr import Pixels

_DPI = 200
_ENOUGH = 1_600  # pixels across a page; more of a scan are not needed
_MAX_SHORT_SIDE = 2_000
_MAX_LONG_SIDE = 8_000
_MOST_OF_A_PAGE = 0.5


def is_mostly_image(page: pdfium.PdfPage) -> bool:
    """Whether one image covers most of the page."""
    return _density(page) > 0


def draw(page: pdfium.PdfPage) -> Pixels:
    """At 200 dpi; a page that is small in points, but not in the pixels of the image that fills it, with more. Raises
    PdfiumError."""
    short, long = sorted((page.get_width(), page.get_height()))
    if short <= 0:
        return np.zeros((0, 0, 3), np.uint8)
    wanted = max(_DPI / 72, min(_density(page), _ENOUGH / short))
    scale = min(wanted, _MAX_SHORT_SIDE / short, _MAX_LONG_SIDE / long)
    with closing(page.render(scale=scale, force_bitmap_format=pdfium_c.FPDFBitmap_BGR)) as bitmap:
        return np.array(bitmap.to_numpy()[:, :, :3])  # a copy: the bitmap's memory is PDFium's


def _density(page: pdfium.PdfPage) -> float:
    """Pixels for each point of the image that covers most of the page; 0 if none does."""
    area = page.get_width() * page.get_height()
    for image in page.get_objects(filter=[pdfium_c.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = image.get_bounds()
        if (right - left) * (top - bottom) > _MOST_OF_A_PAGE * area > 0:
            pixels = min(image.get_px_size())
            return float(max(pixels / max(min(right - left, top - bottom), 0.1), 0.01))
    return 0.0
