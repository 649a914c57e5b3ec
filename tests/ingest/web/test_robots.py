"""A site's wishes: what not to read, and how fast."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.web.fetching import Fetched, FetchRefused, WebFetcher
from ingest.web.options import WebOptions
from ingest.web.robots import MAX_BYTES
from ingest.web.system import System
from tests.ingest.web.conftest import Fetch
from tests.ingest.web.site import Page, Site, html, redirect

Refused = Callable[..., FetchRefused]


def robots(text: str) -> Page:
    return Page(text.encode(), 200, {"Content-Type": "text/plain"})


def test_br_43_what_robots_txt_disallows_is_skipped(site: Site, refused: Refused) -> None:
    site.pages = {"/robots.txt": robots("User-agent: *\nDisallow: /private"), "/private/a": html()}
    outcome = refused(f"{site.base}/private/a")
    assert (outcome.status, outcome.gone) == ("skipped", False)
    assert "robots.txt" in outcome.reason
    assert site.paths == []


@pytest.mark.parametrize(
    ("text", "agent", "allowed"),
    [
        ("User-agent: *\nDisallow: /\nAllow: /private/a", "rag-ingest", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: rag-ingest\nDisallow:", "rag-ingest/1.0 (+mailto:docs@example.com)", True),
        ("User-agent: Rag-Ingest\nDisallow: /", "rag-ingest", False),
        ("User-agent: example\nDisallow: /", "rag-ingest (+https://example.com)", True),
        ("User-agent: otherbot\nDisallow: /", "rag-ingest", True),
        ("\ufeffUser-agent: *\r\nDisallow: /*/a$\r\n", "rag-ingest", False),
        ("<html>Not a robots.txt at all", "rag-ingest", True),
        ("User-agent: *\nDisallow: /" + "x" * MAX_BYTES, "rag-ingest", True),
    ],
)  # fmt: skip
def test_br_43_robots_txt_is_read_as_meant(text: str, agent: str, allowed: bool, site: Site, fetch: Fetch) -> None:
    site.pages = {"/robots.txt": robots(text), "/private/a": html()}
    assert isinstance(fetch(f"{site.base}/private/a", user_agent=agent), Fetched) == allowed


def test_br_43_robots_txt_can_be_passed_over(site: Site, fetch: Fetch) -> None:
    site.pages = {"/robots.txt": robots("User-agent: *\nDisallow: /"), "/a": html()}
    assert isinstance(fetch(f"{site.base}/a", respect_robots=False), Fetched)
    assert [path for path, _ in site.requests] == ["/a"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_br_43_no_robots_txt_allows(status: int, site: Site, fetch: Fetch) -> None:
    site.pages = {"/robots.txt": Page(b"User-agent: *\nDisallow: /", status), "/a": html()}
    assert isinstance(fetch(f"{site.base}/a"), Fetched)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_br_43_a_robots_txt_that_cannot_be_read_forbids(status: int, site: Site, refused: Refused) -> None:
    site.pages = {"/robots.txt": Page(b"", status), "/a": html()}
    outcome = refused(f"{site.base}/a")
    assert (outcome.status, outcome.gone) == ("failed", False)
    assert "robots.txt cannot be read" in outcome.reason
    assert str(status) in outcome.reason
    assert site.paths == []


def test_br_43_a_redirect_asks_the_other_host_s_robots_txt(site: Site, refused: Refused) -> None:
    other = f"http://localhost:{site.port}"
    site.pages = {
        "/robots.txt": lambda headers: robots(
            f"User-agent: *\nDisallow: {'/' if 'localhost' in headers['host'] else ''}"
        ),
        "/a": redirect(f"{other}/b"),
        "/b": html(),
    }
    assert refused(f"{site.base}/a").status == "skipped"
    assert site.paths == ["/a"]


class Watch:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    @property
    def system(self) -> System:
        return System(clock=lambda: self.now, sleep=self.sleep)


@pytest.mark.parametrize(
    ("text", "pause_s"),
    [
        ("", 0.5),
        ("User-agent: *\nCrawl-delay: 2", 2.0),
        ("User-agent: *\nCrawl-delay: 86400", 30.0),
        ("User-agent: *\nCrawl-delay: 0", 0.5),
    ],
)
def test_br_43_requests_to_one_host_keep_their_distance(text: str, pause_s: float, site: Site, tmp_path: Path) -> None:
    site.pages = {"/robots.txt": robots(text), "/a": html(), "/b": html()}
    watch = Watch()
    with WebFetcher(WebOptions(allow_private=True, timeout_s=10.0), watch.system) as fetcher:
        for path in ("a", "b", "a"):
            assert isinstance(fetcher.fetch(f"{site.base}/{path}", into=tmp_path), Fetched), "the pause is not its time"
        fetcher.fetch(f"http://localhost:{site.port}/a", into=tmp_path)
    assert watch.slept == [pause_s, pause_s]


@pytest.mark.parametrize(
    ("retry_after", "pause_s"), [("7", 7.0), ("9" * 400, 30.0), ("Mon, 02 Nov 2026 10:00:00 GMT", 3.0)]
)
def test_br_43_a_site_that_asks_for_time_gets_it(retry_after: str, pause_s: float, site: Site, tmp_path: Path) -> None:
    site.pages = {"/a": Page(b"", 429, {"Retry-After": retry_after}), "/b": html()}
    watch = Watch()
    with WebFetcher(WebOptions(allow_private=True), watch.system) as fetcher:
        outcome = fetcher.fetch(f"{site.base}/a", into=tmp_path)
        assert isinstance(outcome, FetchRefused)
        assert "too many requests" in outcome.reason
        assert isinstance(fetcher.fetch(f"{site.base}/b", into=tmp_path), Fetched)
    assert watch.slept == [pause_s]
