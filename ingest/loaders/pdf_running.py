"""Running headers and footers: lines that come again at the same place of page after page.

In: the lines of every page, one page at a time; then the same pages again. Out: each page without them. Must not: know
PDFium (pure); keep more of a page than the lines at its top and foot; take away a line that says something new.

The first time that such a line comes it stays, so that nothing it says is lost. Numbers may differ only as page numbers
do: a balance or an invoice number at the foot of every page is no running line.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ingest.loaders.pdf_lines import Line

MIN_PAGES = 4
_EDGE_ROWS = 3
_MARGIN = 0.1  # of the height that is printed on
_MIN_SHARE = 0.4  # of the pages between its first and last; left and right pages often have lines of their own
_MAX_SEGMENTS = 3  # left, middle and right; more is the header of a table
_SAME_PLACE = 4.0  # points
_NUMBER = re.compile(r"\d+")

Place = tuple[str, int]  # the words, with # for each number, and the step of the page's height


@dataclass(frozen=True, slots=True)
class _Seen:
    page: int
    numbers: tuple[int, ...]


class RunningLines:
    """Show it every page with `learn`, then take the running lines out of each with `without`, in the same order."""

    def __init__(self) -> None:
        self._seen: dict[Place, list[_Seen]] = defaultdict(list)
        self._running: dict[Place, bool] = {}
        self._kept: set[str] = set()
        self._lowest, self._highest = math.inf, -math.inf
        self.left_out = 0

    def learn(self, page: int, lines: Sequence[Line]) -> None:
        """`page` is its position, from 1."""
        for line in lines:
            if line.upright:
                self._lowest, self._highest = min(self._lowest, line.baseline), max(self._highest, line.baseline)
        for line in _at_the_edges(lines):
            words, step = _place(line)
            numbers = tuple(int(number[:18]) for number in _NUMBER.findall(line.text))
            self._seen[words, step].append(_Seen(page, numbers))

    def without(self, lines: Sequence[Line]) -> list[Line]:
        """The lines of the next page that are not running, or come for the first time."""
        edge = {id(line) for line in _at_the_edges(lines)}
        return [line for line in lines if id(line) not in edge or not self._drops(line)]

    def _drops(self, line: Line) -> bool:
        place = _place(line)
        if place not in self._running:
            self._running[place] = self._is_in_a_margin(line) and self._runs(place)
        if not self._running[place]:
            return False
        words = place[0]
        if words not in self._kept and any(c.isalpha() for c in words):
            self._kept.add(words)
            return False
        self.left_out += 1
        return True

    def _is_in_a_margin(self, line: Line) -> bool:
        """Of all that the document prints: pages with a line or two have their text next to the edges, too."""
        margin = _MARGIN * (self._highest - self._lowest)
        return not self._lowest + margin < line.baseline < self._highest - margin

    def _runs(self, place: Place) -> bool:
        words, step = place
        seen = sorted((s for near in (step - 1, step, step + 1) for s in self._seen.get((words, near), ())), key=_page)
        pages = {s.page for s in seen}
        if len(pages) < MIN_PAGES or len(pages) < _MIN_SHARE * (seen[-1].page - seen[0].page + 1):
            return False
        return all(_is_constant_or_counts(values, seen) for values in zip(*(s.numbers for s in seen), strict=True))


def _page(seen: _Seen) -> int:
    return seen.page


def _is_constant_or_counts(values: Sequence[int], seen: Sequence[_Seen]) -> bool:
    """Whether most values are one and the same, or most go up with the page. Some books begin to count again."""
    steady = Counter(values).most_common(1)[0][1]
    counting = Counter(value - s.page for value, s in zip(values, seen, strict=True)).most_common(1)[0][1]
    return max(steady, counting) > len(values) / 2


def _at_the_edges(lines: Iterable[Line]) -> list[Line]:
    """The lines of the topmost and the lowest rows."""
    level = [line for line in lines if line.upright and len(line.segments) <= _MAX_SEGMENTS]
    rows = sorted({round(line.baseline / _SAME_PLACE) for line in level})
    edges = {*rows[:_EDGE_ROWS], *rows[-_EDGE_ROWS:]}
    return [line for line in level if round(line.baseline / _SAME_PLACE) in edges]


def _place(line: Line) -> Place:
    return " ".join(_NUMBER.sub("#", line.text).casefold().split()), round(line.baseline / _SAME_PLACE)
