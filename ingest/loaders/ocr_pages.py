"""The pages of one file that are read as pictures, within the file's limits, and what people are told of them.

In: a function that draws a page, called only if the page will be read. Out: a `Reading` for each page; at the end, notes.
Must not: read past the limits; let a page that brought nothing go uncounted.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np

from ingest.loaders.ocr import Pixels, see
from ingest.loaders.ocr_layout import blocks
from ingest.loaders.options import OcrOptions
from ingest.loaders.pdf_lines import Line
from rag_service.errors import LoadFailed

OFF = "OCR is off: RAG_OCR__ENABLED"
TOO_MANY = "over the limit of RAG_OCR__MAX_PAGES"
TOO_SLOW = "over the limit of RAG_OCR__MAX_SECONDS"
NOTHING = "OCR found none"
FAILED = "OCR failed on it"
NO_MEMORY = "OCR needs more memory than RAG_LOAD__MEMORY_MB"
_WANT_OF_MEMORY = re.compile(r"alloc|insufficient memory", re.I)  # in errors of ONNX Runtime and OpenCV
_UNIFORM = 4  # of 255: a picture whose values differ by no more shows nothing

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a page brought. `why_not` says why it brought nothing; both are empty when there is nothing to see."""

    blocks: tuple[tuple[Line, ...], ...] = ()
    why_not: str = ""


class BrokenPictureError(Exception):
    """A picture that cannot be unpacked. A `PictureReader` hands it on to the loader, which knows what it means there."""


class PictureReader:
    """Reads pages until the limits are reached. `read_pages` and `doubtful` (lines left out) count as it goes."""

    def __init__(self, options: OcrOptions) -> None:
        self._options = options
        self._tried = 0
        self._seconds = 0.0
        self.read_pages = 0
        self.doubtful = 0

    def read(self, draw: Callable[[], Pixels], known: Collection[str] = ()) -> Reading:
        """Draw and read one page; lines that are `known` already are left out. Raises LoadFailed when OCR cannot be
        started."""
        refusal = self._refusal()
        if refusal:
            return Reading(why_not=refusal)
        started = time.monotonic()
        try:
            pixels = draw()
            if _is_uniform(pixels):
                return Reading()
            self._tried += 1
            seen = see(pixels, self._options.threads)
        except (LoadFailed, BrokenPictureError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - PDFium, OpenCV, ONNX Runtime and GEOS have errors of their own
            log.debug("a page could not be read: %s", type(error).__name__)
            return Reading(why_not=NO_MEMORY if _WANT_OF_MEMORY.search(str(error)) else FAILED)
        finally:
            self._seconds += time.monotonic() - started
        self.doubtful += seen.doubtful
        words = {_letters(line) for line in known}
        found = tuple(
            kept
            for block in blocks(seen)
            if (kept := tuple(line for line in block if _letters(line.text) not in words))
        )
        if not any(_letters(line.text) for block in found for line in block):
            return Reading(why_not=NOTHING)
        self.read_pages += 1
        return Reading(found)

    def _refusal(self) -> str:
        if not self._options.enabled:
            return OFF
        if self._tried >= self._options.max_pages:
            return TOO_MANY
        return TOO_SLOW if self._seconds >= self._options.max_seconds else ""


def _is_uniform(pixels: Pixels) -> bool:
    return pixels.size == 0 or bool((np.ptp(pixels, axis=(0, 1)) <= _UNIFORM).all())


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


class PageNotes:
    """Pages that brought no text, or hardly any, by reason. Truly blank ones hide nothing and are not counted.

    `noun` is what one of them is called: page, image.
    """

    def __init__(self, noun: str = "page") -> None:
        self._noun = noun
        self._pages = self._empty = self._broken = 0
        self._without_text: Counter[str] = Counter()
        self._stamped: Counter[str] = Counter()

    def count(self, *, has_text: bool, why_not: str = "", is_stamped: bool = False) -> None:
        """One page. `is_stamped` is one whose few letters stand beside a full-page image."""
        self._pages += 1
        if why_not:
            (self._stamped if is_stamped else self._without_text)[why_not] += 1
        self._empty += not has_text

    def count_broken(self) -> None:
        """A page that the parser gave up on."""
        self._pages += 1
        self._broken += 1

    @property
    def unread(self) -> int:
        """Pages that brought nothing though they show something, and stamped ones at which OCR did not look."""
        return self._without_text.total() + sum(n for why, n in self._stamped.items() if why != NOTHING)

    def sentences(self, reader: PictureReader) -> Iterator[str]:
        """What people must be told."""
        if self._empty == self._pages and not self._without_text:
            yield f"no extractable text: {self._of(self._empty)} no text"
        for why, some in self._without_text.items():
            prefix = "no extractable text: " if self._empty == self._pages else ""
            yield f"{prefix}{self._of(some)} no text ({why})"
        for why, some in self._stamped.items():
            told = "OCR found no more" if why == NOTHING else why
            yield f"{self._of(some)} hardly any text beside a full-page image ({told})"
        if reader.read_pages:
            yield f"{self._counted(reader.read_pages)} read by OCR"
        if reader.doubtful:
            lines = "1 line" if reader.doubtful == 1 else f"{reader.doubtful} lines"
            yield f"{lines} left out that OCR could not read with confidence"
        if self._broken:
            are = "is broken and was" if self._broken == 1 else "are broken and were"
            yield f"{self._counted(self._broken)} {are} left out"

    def _of(self, some: int) -> str:
        return f"{self._counted(some)} {'has' if some == 1 else 'have'}"

    def _counted(self, some: int) -> str:
        return f"{some} of {self._pages} {self._noun}{'' if self._pages == 1 else 's'}"
