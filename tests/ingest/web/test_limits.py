"""BR-43: size and time have limits, whatever a server says and however slowly it says it."""

import gzip
import itertools
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.web.bodies import unpacked
from ingest.web.fetching import Fetched, FetchRefused
from ingest.web.system import System
from tests.ingest.web.site import Page, Site, html, redirect

FetchedOne = Callable[..., Fetched]
Refused = Callable[..., FetchRefused]
HTML = {"Content-Type": "text/html"}


def test_br_43_a_body_of_2_gb_is_refused_by_its_length(site: Site, refused: Refused) -> None:
    site.pages["/a"] = Page(b"x", 200, HTML | {"Content-Length": str(2**31)})
    outcome = refused(f"{site.base}/a")
    assert outcome.status == "failed"
    assert "larger than 50 MB (RAG_WEB__MAX_MB)" in outcome.reason


def test_br_43_an_endless_body_of_no_length_is_cut_at_the_limit(site: Site, refused: Refused) -> None:
    def endless(out: BinaryIO) -> None:
        while True:
            out.write(b"x" * 65_536)

    site.pages["/a"] = Page(headers=HTML, stream=endless)
    assert "RAG_WEB__MAX_MB" in refused(f"{site.base}/a", max_bytes=1_000_000).reason


def test_br_43_the_limit_itself_is_allowed(site: Site, fetched: FetchedOne) -> None:
    site.pages["/a"] = Page(b"x" * 1000)
    assert fetched(f"{site.base}/a", max_bytes=1000).path.stat().st_size == 1000


def test_br_43_one_byte_more_is_not(site: Site, refused: Refused) -> None:
    site.pages["/a"] = Page(headers=HTML, stream=lambda out: out.write(b"x" * 1001) and None)
    assert "RAG_WEB__MAX_MB" in refused(f"{site.base}/a", max_bytes=1000).reason


@pytest.mark.parametrize("layers", [1, 2])
def test_br_43_a_gzip_bomb_is_cut_at_the_limit(layers: int, site: Site, refused: Refused) -> None:
    bomb = gzip.compress(bytes(20_000_000))
    site.pages["/a"] = Page(bomb, 200, HTML | {"Content-Encoding": ", ".join(["gzip"] * layers)})
    reason = refused(f"{site.base}/a", max_bytes=1_000_000).reason
    assert ("RAG_WEB__MAX_MB" if layers == 1 else "not asked for") in reason


@pytest.mark.parametrize(
    ("body", "encoding", "why"),
    [
        (b"plain", "gzip", "broken"),
        (gzip.compress(b"<p>hello" * 100, mtime=0)[:-9], "gzip", "too early"),
        (b"x", "br", "'br'"),
        (b"x", "zstd", "'zstd'"),
        (zlib.compress(b"x"), "deflate", "'deflate'"),
    ],
)
def test_br_43_a_body_that_cannot_be_unpacked(
    body: bytes, encoding: str, why: str, site: Site, refused: Refused
) -> None:
    site.pages["/a"] = Page(body, 200, HTML | {"Content-Encoding": encoding})
    assert why in refused(f"{site.base}/a").reason


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP"])
def test_br_43_gzip_is_unpacked(encoding: str, site: Site, fetched: FetchedOne) -> None:
    site.pages["/a"] = Page(
        gzip.compress(b"<p>one") + gzip.compress(b" two"), 200, HTML | {"Content-Encoding": encoding}
    )
    assert fetched(f"{site.base}/a").path.read_bytes() == b"<p>one two"


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=3), st.integers(1, 50))
def test_br_43_unpacking_gives_every_byte_however_it_arrives(parts: list[bytes], size: int) -> None:
    packed = b"".join(gzip.compress(part) for part in parts)
    pieces = (packed[start : start + size] for start in range(0, len(packed), size))
    assert b"".join(unpacked(pieces)) == b"".join(parts)


def test_br_43_unpacking_never_gives_much_at_once() -> None:
    sizes = [len(piece) for piece in unpacked([gzip.compress(bytes(50_000_000))])]
    assert (sum(sizes), max(sizes)) == (50_000_000, 65_536)


def test_br_43_a_length_that_promises_more_is_a_broken_download(site: Site, refused: Refused) -> None:
    site.pages["/a"] = Page(b"<p>half", 200, HTML | {"Content-Length": "1000"})
    outcome = refused(f"{site.base}/a")
    assert (outcome.status, outcome.gone) == ("failed", False)
    assert "ended early" in outcome.reason


def test_br_43_a_length_that_promises_less_ends_the_document_there(site: Site, fetched: FetchedOne) -> None:
    site.pages["/a"] = Page(b"<p>whole<script>and more", 200, HTML | {"Content-Length": "8"})
    assert fetched(f"{site.base}/a").path.read_bytes() == b"<p>whole"


@pytest.mark.parametrize("length", ["-1", "x", "1" * 500, "3, 4"])
def test_br_43_a_length_that_is_none(length: str, site: Site, refused: Refused) -> None:
    site.pages["/a"] = Page(b"abc", 200, HTML | {"Content-Length": length})
    assert refused(f"{site.base}/a").status == "failed"


class Ticking:
    """A clock that moves by a second whenever it is asked."""

    def __init__(self) -> None:
        self.ticks = itertools.count()

    def __call__(self) -> float:
        return float(next(self.ticks))


def test_br_43_a_body_that_drips_ends_with_the_time_for_the_whole_fetch(site: Site, refused: Refused) -> None:
    def drips(out: BinaryIO) -> None:
        while True:
            out.write(b"x")

    site.pages["/a"] = Page(headers=HTML, stream=drips)
    outcome = refused(f"{site.base}/a", system=System(clock=Ticking()), timeout_s=40.0)
    assert outcome.status == "failed"
    assert "after 40 s (RAG_WEB__TIMEOUT_S)" in outcome.reason


def test_br_43_headers_that_drip_end_too(site: Site, refused: Refused) -> None:
    def drips(out: BinaryIO) -> None:
        for number in itertools.count():
            out.write(f"X-{number}: 1\r\n".encode())

    site.pages["/a"] = Page(status=103, stream=lambda out: drips(out))
    outcome = refused(f"{site.base}/a", system=System(clock=Ticking()), timeout_s=40.0)
    assert "RAG_WEB__TIMEOUT_S" in outcome.reason or "no HTTP" in outcome.reason


def test_br_43_a_server_that_falls_silent_is_not_waited_for(site: Site, refused: Refused) -> None:
    over = threading.Event()
    site.pages["/a"] = Page(b"<p>half", headers=HTML, stream=lambda out: over.wait(30) and None)
    try:
        assert "RAG_WEB__TIMEOUT_S" in refused(f"{site.base}/a", timeout_s=0.3).reason
    finally:
        over.set()


def test_br_43_a_name_server_that_falls_silent_is_not_waited_for(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: over.wait(30) and [])
    try:
        assert "could not be looked up" in refused("http://docs.example/", connect_timeout_s=0.1).reason
    finally:
        over.set()


@pytest.mark.parametrize("pages", [{"/a": redirect("/a")}, {"/a": redirect("/b"), "/b": redirect("/a")}])
def test_br_43_a_loop_of_redirects_ends(pages: dict[str, Page], site: Site, refused: Refused) -> None:
    site.pages.update(pages)
    assert "more than 5 redirects" in refused(f"{site.base}/a").reason
    assert len(site.paths) == 6


def test_br_43_as_many_redirects_as_allowed(site: Site, fetched: FetchedOne, tmp_path: Path) -> None:
    site.pages = {f"/{number}": redirect(f"/{number + 1}") for number in range(5)} | {"/5": html()}
    assert fetched(f"{site.base}/0").final_uri == f"{site.base}/5"
