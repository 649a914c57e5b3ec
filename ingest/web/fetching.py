"""Documents from the web: one address in, one file out; or a sitemap's address in, its pages' addresses out.

In: an address that a person named (there is no other way in: reading the web is off unless an http(s) address is given), and
what an earlier run remembered of it. Out: a file in the caller's folder, or a value that says why there is none.
Must not: raise for anything that a site does, or follow links in pages.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from ingest.web.bodies import pieces
from ingest.web.charsets import is_text_type, keep_charset
from ingest.web.client import Answer, Client
from ingest.web.expansion import Expansion, Listing
from ingest.web.media import charset_of, media_type_of, suffix_of, title_hint
from ingest.web.options import WebOptions
from ingest.web.refusals import Refusal
from ingest.web.robots import Manners
from ingest.web.sitemaps import entries, may_be_sitemap
from ingest.web.system import System
from ingest.web.urls import canonical_url, without_password

_NOT_MODIFIED, _TOO_MANY_REQUESTS, _RESTING = 304, 429, 503
_GONE = frozenset((404, 410))
_REASONS = {
    401: "it asks for a login",
    403: "the site does not give it out",
    404: "there is no such page (any more)",
    410: "the site says that it is gone for good",
    _TOO_MANY_REQUESTS: "the site has too many requests: run again later, or raise RAG_WEB__DELAY_S",
    _RESTING: "the site is not available at the moment",
}


@dataclass(frozen=True, slots=True)
class Fetched:
    """`uri` is the canonical form of the address that was asked for, and the document's own; `final_uri` is where its
    redirects ended. `path` is a file in the caller's folder, its suffix fitting `media_type`; the caller deletes it.
    Hand `etag` and `last_modified` to the next fetch of the same `uri`."""

    uri: str
    final_uri: str
    path: Path
    media_type: str
    etag: str | None
    last_modified: str | None
    title_hint: str


@dataclass(frozen=True, slots=True)
class NotModified:
    uri: str


@dataclass(frozen=True, slots=True)
class FetchRefused:
    """`gone`: the site says that there is no such document (404, 410), so what is indexed of it may be deleted. Nothing
    else says that: a site that cannot be reached, or a page that robots.txt now forbids, may still be there. `cut_short`: a
    limit left out pages that this sitemap may list."""

    uri: str
    status: Literal["skipped", "failed"]
    reason: str
    gone: bool = False
    cut_short: bool = False


class WebFetcher:
    """For one run and one thread: connections, robots.txt files and pauses are remembered until it is closed."""

    def __init__(self, options: WebOptions | None = None, system: System | None = None) -> None:
        self._options = options or WebOptions()
        system = system or System()
        self._client = Client(self._options, system)
        self._manners = Manners(self._client, self._options, system)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.__exit__(kind, error, traceback)

    def fetch(
        self, url: str, *, etag: str | None = None, last_modified: str | None = None, into: Path
    ) -> Fetched | NotModified | FetchRefused:
        """Download one document to a new file in the folder `into`. Raises OSError only, for that folder."""
        uri = without_password(url)
        conditions = {"If-None-Match": etag, "If-Modified-Since": last_modified}
        headers = {name: value for name, value in conditions.items() if value}
        try:
            uri = canonical_url(url)
            self._client.deadline.start()
            with self._client.get(uri, before=self._manners.before, headers=headers) as answer:
                if answer.status == _NOT_MODIFIED and headers:
                    return NotModified(uri)
                return self._saved(uri, answer, into)
        except Refusal as refusal:
            return _value(uri, refusal)

    def expand(self, url: str) -> Iterator[str | FetchRefused]:
        """The pages of a sitemap (an index of sitemaps, a `.xml.gz`, a text file, a robots.txt that names some), as
        canonical addresses of the same site, each once; any other address gives itself. What a sitemap lists and is left
        out, and a sitemap that cannot be read, are values with its address."""
        try:
            start = canonical_url(url)
        except Refusal as refusal:
            yield _value(without_password(url), refusal)
            return
        if not may_be_sitemap(start):
            yield start
            return
        with tempfile.TemporaryDirectory(prefix="rag-sitemaps-") as folder:
            walk = Expansion(start, self._options.max_pages, lambda sitemap: self._listing(sitemap, Path(folder)))
            for outcome in walk.outcomes():
                yield outcome if isinstance(outcome, str) else _value(*outcome)

    def _listing(self, url: str, folder: Path) -> Listing:
        self._client.deadline.start()
        with self._client.get(url, before=self._manners.before) as answer:
            saved = self._saved(url, answer, folder)
        return Listing(saved.final_uri, entries(saved.path, url, self._options.max_bytes))

    def _saved(self, uri: str, answer: Answer, folder: Path) -> Fetched:
        self._check(answer)
        media_type = media_type_of(answer.headers)
        with _new_file(folder, suffix_of(media_type, answer.url, answer.headers)) as path:
            with path.open("wb") as file:
                for piece in pieces(answer, self._options.max_bytes):
                    file.write(piece)
            charset = charset_of(answer.headers)
            if charset and is_text_type(media_type):
                keep_charset(path, charset)
        validators = answer.headers.get("etag"), answer.headers.get("last-modified")
        return Fetched(uri, answer.url, path, media_type, *validators, title_hint(answer.url, answer.headers))

    def _check(self, answer: Answer) -> None:
        if answer.status in {_TOO_MANY_REQUESTS, _RESTING}:
            self._manners.asked_to_wait(answer.url, answer.headers.get("retry-after", ""))
        if answer.status != 200:
            words = _REASONS.get(answer.status, "the server does not hand it out")
            raise Refusal(f"{words} (status {answer.status})", gone=answer.status in _GONE)


@contextmanager
def _new_file(folder: Path, suffix: str) -> Iterator[Path]:
    """Deleted again when what is written to it turns out to be of no use."""
    with tempfile.NamedTemporaryFile(dir=folder, suffix=suffix, delete=False) as file:
        path = Path(file.name)
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _value(uri: str, refusal: Refusal) -> FetchRefused:
    return FetchRefused(uri, refusal.status, refusal.reason, refusal.gone, refusal.cut_short)
