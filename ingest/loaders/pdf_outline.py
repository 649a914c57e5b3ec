"""A PDF's outline (its bookmarks) as headings, each at the line that it names.

In: a document, and the blocks of lines of one page. Out: the page's blocks with headings among them. Must not: trust the
file (an outline may be huge, a loop, or point nowhere); lose a line.
"""

import ctypes
import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from ingest.loaders.pdf_lines import Line
from ingest.loaders.pdf_words import clean_characters

_MAX_ENTRIES = 20_000
_MAX_PER_PAGE = 200
_MAX_DEPTH = 9
_MAX_TITLE_CHARS = 300
_MAX_LINES = 8  # that a heading may be broken into
_MAX_LABEL = 14
_MIN_RUN_IN = 4  # letters of a title that may begin a paragraph
_LABEL = re.compile(
    r"(?=.*\d|[ivxlc]+\Z).{1,14}", re.S
)  # "chapter 3", "1.2", "iv": on the page only, or in the outline only


@dataclass(frozen=True, slots=True)
class Entry:
    """A bookmark; `level` 1 is the highest."""

    title: str
    level: int


@dataclass(frozen=True, slots=True)
class Found:
    """A heading of the page, with the lines that it stands in; none where the page does not print it."""

    entry: Entry
    lines: tuple[Line, ...] = ()


def outline(pdf: pdfium.PdfDocument) -> dict[int, list[Entry]]:
    """For each page, counted from 1, the entries that point to it, in the order of the outline."""
    entries: dict[int, list[Entry]] = defaultdict(list)
    for mark in itertools.islice(pdf.get_toc(max_depth=_MAX_DEPTH), _MAX_ENTRIES):
        target = mark.get_dest()
        index = target.get_index() if target is not None else None
        title = clean_characters(text_from(lambda *to, mark=mark: pdfium_c.FPDFBookmark_GetTitle(mark, *to)))
        if index is not None and any(c.isalnum() for c in title) and len(entries[index + 1]) < _MAX_PER_PAGE:
            entries[index + 1].append(Entry(title[:_MAX_TITLE_CHARS], mark.level + 1))
    return entries


def text_from(ask: Callable[..., int]) -> str:
    """A string that PDFium hands out as UTF-16. A half character, which pypdfium2 fails on, is kept as it is."""
    size = ask(None, 0)
    buffer = ctypes.create_string_buffer(max(size, 2))
    ask(buffer, size)
    return buffer.raw[: max(size - 2, 0) // 2 * 2].decode("utf-16-le", "surrogatepass")


def with_headings(blocks: Iterable[Sequence[Line]], entries: Sequence[Entry]) -> Iterator[list[Line] | Found]:
    """The page in its order. An entry whose words the page does not print stands at the page's start, or directly before
    the next heading that is found."""
    page_blocks = [list(block) for block in blocks]
    places = list(_places(page_blocks, entries))
    for number, block in enumerate(page_blocks or [[]]):
        start = 0
        for (_, first, length), entry in [(p, e) for p, e in places if p[0] == number]:
            if first > start:
                yield block[start:first]
            yield Found(entry, tuple(block[first : first + length]))
            start = first + length
        if block[start:]:
            yield block[start:]


Stretch = tuple[int, int, int]  # the block, the first line in it, the number of lines


def _places(blocks: Sequence[Sequence[Line]], entries: Sequence[Entry]) -> Iterator[tuple[Stretch, Entry]]:
    """In order of the page. Entries are looked for one after the other, each after the one before it."""
    at = (0, 0)
    waiting: list[Entry] = []
    for entry in entries:
        found = _find(blocks, at, entry.title)
        if found is None and at == (0, 0):
            yield (0, 0, 0), entry
        elif found is None:
            waiting.append(entry)
        else:
            yield from (((found[0], found[1], 0), missed) for missed in waiting)
            waiting = []
            yield found, entry
            at = (found[0], found[1] + found[2])
    yield from (((at[0], at[1], 0), missed) for missed in waiting)


def _find(blocks: Sequence[Sequence[Line]], at: tuple[int, int], title: str) -> Stretch | None:
    """Whole lines that say the title; else such lines with a number that only the page or only the outline has (running
    headers look like this); else a line that begins with it and goes on."""
    wanted = _letters(title)
    numbered: Stretch | None = None
    run_in: Stretch | None = None
    for number in range(at[0], len(blocks)):
        block = blocks[number]
        for first in range(at[1] if number == at[0] else 0, len(block)):
            said = ""
            for length in range(1, min(_MAX_LINES, len(block) - first) + 1):
                said += _letters(block[first + length - 1].text)
                if said == wanted:
                    return number, first, length
                if numbered is None and _is_numbered(said, wanted):
                    numbered = (number, first, length)
                if len(said) > len(wanted) + 2 * _MAX_LABEL:
                    break
            if run_in is None and len(wanted) >= _MIN_RUN_IN and said.startswith(wanted):
                run_in = (number, first, 0)
    return numbered or run_in


def _letters(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if c.isalnum())  # accents aside


def _is_numbered(said: str, wanted: str) -> bool:
    longer, shorter = (said, wanted) if len(said) > len(wanted) else (wanted, said)
    return len(shorter) > 2 and longer.endswith(shorter) and bool(_LABEL.fullmatch(longer[: -len(shorter)]))
