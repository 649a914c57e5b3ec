"""What loaders are told: the limits of one file, and whether and how far images are read.

In: numbers from the settings. Out: a frozen value that travels to the parser's process. Must not: be read from anywhere.
"""

from dataclasses import dataclass

OCR_REVISION = 1  # raise it when the same image gives another text


@dataclass(frozen=True, slots=True)
class OcrOptions:
    """`max_pages` of one file are read at most, and in all for `max_seconds`; pages beyond are told as unread. `threads`
    of one parser's process: several of them run at once."""

    enabled: bool = True
    max_pages: int = 200
    max_seconds: float = 300.0
    threads: int = 1

    @property
    def fingerprint(self) -> str:
        """Empty when no image is read. Other limits matter only where a page brought no text."""
        return f"ocr/{OCR_REVISION}:{self.max_pages}:{self.max_seconds:g}" if self.enabled else ""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """`max_file_bytes` bounds a file, `max_text_chars` the text of one document, `max_unpacked_bytes` what an archive
    (DOCX, EPUB, …) unpacks to, `max_members` the files in it."""

    ocr: OcrOptions = OcrOptions()
    max_file_bytes: int = 200_000_000
    max_text_chars: int = 20_000_000
    max_unpacked_bytes: int = 500_000_000
    max_members: int = 10_000


DEFAULT_OPTIONS = LoadOptions()
