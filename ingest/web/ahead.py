"""Fetching ahead: one thread that reads the web while others parse and embed, a few documents before them.

In: addresses, and what earlier runs remembered of pages. Out: events, in order. Must not: run further ahead than its bound
(what was fetched lies on the disk), touch the index but for reading what was remembered, or outlive its context.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ingest.web.fetching import Fetched, FetchRefused, NotModified, WebFetcher
from ingest.web.options import WebOptions
from ingest.web.refusals import Refusal
from ingest.web.system import System
from ingest.web.titles import page_title
from ingest.web.urls import canonical_url

AHEAD = 8  # documents that are fetched and not yet taken
STOPPING_S = 2.0  # what a request in hand may take to notice that nobody waits for it


@dataclass(frozen=True, slots=True)
class Validators:
    etag: str | None
    last_modified: str | None


Remembered = Callable[[str], Validators | None]  # of a page that is in the index
OpenMemory = Callable[[], AbstractContextManager[Remembered]]  # called, used and closed in the thread


@dataclass(frozen=True, slots=True)
class Page:
    """One page, and the address given to the run that listed it (None: it was given itself)."""

    uri: str
    sitemap: str | None
    outcome: Fetched | NotModified | FetchRefused
    title: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """A sitemap has been gone through. `failed`: some of it could not be read; `cut_short`: a limit left out some."""

    sitemap: str
    pages: frozenset[str]
    failed: bool
    cut_short: bool


@dataclass(frozen=True, slots=True)
class Drained:
    """All that was asked for is there. The thread waits for pages to fetch once more, or for none."""


@dataclass(frozen=True, slots=True)
class Broke:
    error: BaseException


Event = Page | Listed | FetchRefused | Drained | Broke


class _Stopped(Exception):  # noqa: N818  nobody ever sees it
    pass


class Ahead:
    """Used by the thread that takes the events."""

    def __init__(self, addresses: Sequence[str], options: WebOptions, folder: Path, open_memory: OpenMemory) -> None:
        self._addresses = addresses
        self._options = options
        self._folder = folder
        self._open_memory = open_memory
        self._events: queue.Queue[Event] = queue.Queue(AHEAD)
        self._orders: queue.Queue[Sequence[Page]] = queue.Queue()
        self._stop = threading.Event()
        self._seen: set[str] = set()

    @contextmanager
    def running(self) -> "Iterator[Ahead]":
        thread = threading.Thread(target=self._work, name="fetching", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._orders.put(())
            thread.join(STOPPING_S)

    def next(self, stop: Callable[[], bool]) -> Event | None:
        """None once `stop` says so. Raises what ended the thread."""
        while not stop():
            try:
                event = self._events.get(timeout=0.2)
            except queue.Empty:
                continue
            if isinstance(event, Broke):
                raise event.error
            return event
        return None

    def again(self, pages: Sequence[Page]) -> None:
        """After `Drained`: fetch these whether or not they have changed; without any, the thread ends."""
        self._orders.put(pages)

    # -- in the thread

    def _work(self) -> None:
        try:
            system = replace(System(), sleep=self._sleep)
            with WebFetcher(self._options, system) as fetcher, self._open_memory() as remembered:
                for address in self._addresses:
                    self._go_through(fetcher, address, remembered)
                self._put(Drained())
                while pages := self._orders.get():
                    for page in pages:
                        self._fetch(fetcher, page.uri, page.sitemap, None)
                    self._put(Drained())
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001  the thread that takes the events raises it
            if not self._stop.is_set():
                self._put(Broke(error))

    def _go_through(self, fetcher: WebFetcher, address: str, remembered: Remembered) -> None:
        try:
            start = canonical_url(address)
        except Refusal:
            start = None
        pages: set[str] = set()
        failed = cut_short = is_page = False
        for item in fetcher.expand(address):
            if isinstance(item, FetchRefused):
                failed = failed or item.status == "failed"
                cut_short = cut_short or item.cut_short
                self._put(item)
                continue
            is_page = is_page or item == start
            if item != start:
                pages.add(item)
            if item not in self._seen:
                self._seen.add(item)
                self._fetch(fetcher, item, None if item == start else start, remembered(item))
        if start is not None and not is_page:
            self._put(Listed(start, frozenset(pages), failed, cut_short))

    def _fetch(self, fetcher: WebFetcher, uri: str, sitemap: str | None, known: Validators | None) -> None:
        if self._stop.is_set():
            raise _Stopped
        etag, last_modified = (known.etag, known.last_modified) if known else (None, None)
        title = ""
        try:
            outcome = fetcher.fetch(uri, etag=etag, last_modified=last_modified, into=self._folder)
            if isinstance(outcome, Fetched):
                title = page_title(outcome.path, outcome.media_type) or outcome.title_hint
        except OSError as error:
            outcome = FetchRefused(uri, "failed", f"it could not be saved: {error.strerror or error}")
        self._put(Page(uri, sitemap, outcome, title))

    def _put(self, event: Event) -> None:
        while not self._stop.is_set():
            try:
                self._events.put(event, timeout=0.2)
            except queue.Full:
                continue
            return
        raise _Stopped

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Stopped
