"""The pages that a sitemap means, over all the sitemaps that it lists.

In: a sitemap's address and a way to fetch one. Out: canonical page addresses, each once, and what was left out, as
refusals with the sitemap's address. Must not: leave the site that was named, go in circles, or go on for ever.

The site is the host and port of the given address, or of the one it redirects to; `www.` before either makes no difference.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ingest.web.refusals import Refusal
from ingest.web.sitemaps import Entry
from ingest.web.urls import canonical_url, same_site

MAX_DEPTH = 4  # robots.txt, an index, an index of an index (not by the book), a sitemap
MAX_SITEMAPS = 500
_UNREAD_SITEMAPS = f"sitemaps (more than {MAX_SITEMAPS}, or nested more than {MAX_DEPTH} deep)"


@dataclass(frozen=True, slots=True)
class Listing:
    """One sitemap as fetched; `entries` is None for a file that is no sitemap."""

    final_url: str
    entries: Iterator[Entry] | None


Outcome = str | tuple[str, Refusal]  # a page, or a sitemap's address and what is the matter


class Expansion:
    """One walk. `listing` raises Refusal."""

    def __init__(self, start: str, max_pages: int, listing: Callable[[str], Listing]) -> None:
        self._max_pages = max_pages
        self._listing = listing
        self._start = start
        self._homes = [start]
        self._sitemaps = deque([(start, 1)])
        self._known_sitemaps = {start}
        self._pages: set[str] = set()

    def outcomes(self) -> Iterator[Outcome]:
        while self._sitemaps:
            url, depth = self._sitemaps.popleft()
            try:
                found = self._listing(url)
                if url == self._start:
                    self._homes.append(found.final_url)
                if found.entries is not None:
                    yield from self._pages_of(url, depth, found.entries)
                elif url == self._start:
                    yield url  # a page after all
                else:
                    yield url, Refusal("listed as a sitemap, but it is none")
            except Refusal as refusal:
                yield url, refusal
            if len(self._pages) >= self._max_pages and self._sitemaps:
                reason = f"left out: {len(self._sitemaps)} sitemaps after it (RAG_WEB__MAX_PAGES)"
                yield url, Refusal(reason, "skipped", cut_short=True)
                return

    def _pages_of(self, sitemap: str, depth: int, entries: Iterator[Entry]) -> Iterator[Outcome]:
        left_out: Counter[str] = Counter()
        for entry in entries:
            try:
                url = canonical_url(entry.url)
            except Refusal:
                left_out["entries that are no web addresses"] += 1
                continue
            if not any(same_site(url, home) for home in self._homes):
                left_out["addresses of other hosts (name those hosts' own sitemaps to read them)"] += 1
            elif entry.kind == "sitemap":
                if not self._queued(url, depth + 1):
                    left_out[_UNREAD_SITEMAPS] += 1
            elif url not in self._pages:
                if len(self._pages) >= self._max_pages:
                    reason = f"left out: pages after the first {self._max_pages} (RAG_WEB__MAX_PAGES)"
                    yield sitemap, Refusal(reason, "skipped", cut_short=True)
                    break
                self._pages.add(url)
                yield url
        for what, count in left_out.items():
            yield sitemap, Refusal(f"left out: {count} {what}", "skipped", cut_short=what == _UNREAD_SITEMAPS)

    def _queued(self, url: str, depth: int) -> bool:
        """Whether it is read; one that is known already is, once."""
        if url in self._known_sitemaps:
            return True
        if depth > MAX_DEPTH or len(self._known_sitemaps) >= MAX_SITEMAPS:
            return False
        self._known_sitemaps.add(url)
        self._sitemaps.append((url, depth))
        return True
