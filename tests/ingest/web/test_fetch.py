"""A document from a site: its bytes, its name and type, and nothing at all when it has not changed."""

import codecs
import shutil
import socket
import subprocess
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import pytest

from ingest.documents import load
from ingest.web.fetching import Fetched, FetchRefused, NotModified, WebFetcher
from ingest.web.options import WebOptions
from ingest.web.system import System
from tests.ingest.web.conftest import Fetch
from tests.ingest.web.site import Page, Site, html, redirect

FetchedOne = Callable[..., Fetched]
Refused = Callable[..., FetchRefused]


def test_br_43_a_page_becomes_a_file_that_loads(site: Site, fetched: FetchedOne) -> None:
    site.pages["/leave"] = html(
        "<h1>Leave</h1><p>Twenty-five days.", ETag='"v1"', **{"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT"}
    )
    found = fetched(f"{site.base}/leave#top")
    assert found.uri == found.final_uri == f"{site.base}/leave"
    assert (found.media_type, found.path.suffix, found.title_hint) == ("text/html", ".html", "leave")
    assert (found.etag, found.last_modified) == ('"v1"', "Mon, 02 Nov 2026 10:00:00 GMT")
    assert "Twenty-five days." in load(found.path).text


def test_br_43_redirects_keep_the_address_that_was_asked_for(site: Site, fetched: FetchedOne) -> None:
    site.pages = {"/old": redirect("../new;v=2?x=1", 301), "/new;v=2?x=1": html()}
    found = fetched(f"{site.base}/old")
    assert (found.uri, found.final_uri) == (f"{site.base}/old", f"{site.base}/new;v=2?x=1")


def test_br_43_the_request_names_its_sender_and_carries_nothing_else(site: Site, fetched: FetchedOne) -> None:
    site.pages["/a"] = html(**{"Set-Cookie": "id=1"})
    fetched(f"{site.base}/a", user_agent="rag-ingest (+mailto:docs@example.com)")
    sent = site.requests[-1][1]
    assert sent["user-agent"] == "rag-ingest (+mailto:docs@example.com)"
    assert sent.keys() == {"host", "user-agent", "accept", "accept-encoding"}


def unless_unchanged(headers: dict[str, str]) -> Page:
    known = (
        headers.get("if-none-match") == '"v1"' or headers.get("if-modified-since") == "Mon, 02 Nov 2026 10:00:00 GMT"
    )
    return Page(b"", 304) if known else html(ETag='"v1"')


def test_br_43_an_unchanged_page_is_not_sent_again(site: Site, fetch: Fetch, tmp_path: Path) -> None:
    site.pages["/a"] = unless_unchanged
    assert fetch(f"{site.base}/a", etag='"v1"') == NotModified(f"{site.base}/a")
    assert fetch(f"{site.base}/a", last_modified="Mon, 02 Nov 2026 10:00:00 GMT") == NotModified(f"{site.base}/a")
    assert list(tmp_path.iterdir()) == []
    assert isinstance(fetch(f"{site.base}/a", etag='"v0"'), Fetched)


def test_br_43_an_etag_is_not_shown_to_another_site(site: Site, fetch: Fetch) -> None:
    site.pages = {"/a": redirect(f"http://localhost:{site.port}/b"), "/b": unless_unchanged}
    assert isinstance(fetch(f"{site.base}/a", etag='"v1"'), Fetched)


def test_br_43_a_304_that_nobody_asked_for_is_no_document(site: Site, refused: Refused) -> None:
    site.pages["/a"] = Page(b"", 304)
    assert "status 304" in refused(f"{site.base}/a").reason


@pytest.mark.parametrize("status", [404, 410])
def test_br_43_a_page_that_is_gone_is_told_from_one_that_fails(status: int, site: Site, refused: Refused) -> None:
    site.pages["/a"] = Page(b"<p>Not here", status)
    outcome = refused(f"{site.base}/a")
    assert (outcome.status, outcome.gone) == ("failed", True)


@pytest.mark.parametrize("status", [204, 206, 300, 302, 400, 401, 403, 429, 500, 502, 503])
def test_br_43_any_other_status_fails_and_deletes_nothing(status: int, site: Site, refused: Refused) -> None:
    site.pages["/a"] = Page(b"" if status == HTTPStatus.NO_CONTENT else b"<p>Sorry", status)
    outcome = refused(f"{site.base}/a")
    assert (outcome.status, outcome.gone) == ("failed", False)
    assert str(status) in outcome.reason


@pytest.mark.parametrize(
    ("path", "headers", "suffix", "title"),
    [
        ("/a.pdf", {"Content-Type": "application/octet-stream"}, ".pdf", "a.pdf"),
        ("/notes.md", {"Content-Type": "text/plain; charset=utf-8"}, ".md", "notes.md"),
        ("/release-1.0", {"Content-Type": "text/plain"}, ".txt", "release-1.0"),
        ("/export?id=3", {"Content-Type": "text/csv"}, ".csv", "export"),
        ("/index.php", {"Content-Type": "text/html"}, ".html", "index.php"),
        ("/get.php", {"Content-Type": "application/pdf"}, ".pdf", "get.php"),
        (
            "/get",
            {"Content-Disposition": "attachment; filename*=UTF-8''Urlaub%20%C3%BC.docx"},
            ".docx",
            "Urlaub ü.docx",
        ),
        ("/get", {"Content-Disposition": 'attachment; filename="../../etc/x.csv"'}, ".csv", "x.csv"),
        ("/", {"Content-Type": "TEXT/HTML"}, ".html", ""),
        ("/Urlaub%20%C3%BC.html", {"Content-Type": "text/html"}, ".html", "Urlaub ü.html"),
        ("/x.unknown", {}, ".bin", "x.unknown"),
        ("/x.html", {"Content-Type": ";;;"}, ".html", "x.html"),
    ],
)
def test_br_43_a_file_s_suffix_and_name(
    path: str, headers: dict[str, str], suffix: str, title: str, site: Site, fetched: FetchedOne, tmp_path: Path
) -> None:
    site.pages[path] = Page(b"x", 200, headers)
    found = fetched(f"{site.base}{path}")
    assert (found.path.suffix, found.title_hint) == (suffix, title or site.base.removeprefix("http://"))
    assert found.path.parent == tmp_path


GERMAN = "<html><meta charset=utf-8><p>Größe: fünf Meter"


@pytest.mark.parametrize(
    ("charset", "body"),
    [
        ("ISO-8859-1", GERMAN.encode("cp1252")),
        ('"windows-1252"', GERMAN.encode("cp1252")),
        ("utf-16le", GERMAN.encode("utf-16-le")),
        ("utf-8", GERMAN.encode()),
        ("iso-8859-1", GERMAN.encode()),
        ("shift_jis", codecs.BOM_UTF8 + GERMAN.encode()),
        ("no-such-charset", GERMAN.encode("cp1252")),
        ("unicode_escape", GERMAN.encode()),
        ("rot13", GERMAN.encode()),
        ("utf-32", GERMAN.encode()),
    ],
)
def test_br_78_a_header_s_charset_is_kept_where_it_is_true(
    charset: str, body: bytes, site: Site, fetched: FetchedOne
) -> None:
    site.pages["/a"] = Page(body, 200, {"Content-Type": f"text/html; charset={charset}"})
    assert "Größe: fünf Meter" in load(fetched(f"{site.base}/a").path).text


def test_br_78_charsets_that_only_the_header_tells(site: Site, fetched: FetchedOne) -> None:
    russian, japanese = "Ежегодный отпуск", "年次休暇は二十五日です"
    site.pages["/ru"] = Page(
        f"<meta charset=windows-1252><p>{russian}".encode("koi8_r"), 200, {"Content-Type": "text/html;charset=koi8-r"}
    )
    site.pages["/ja"] = Page(japanese.encode("iso2022_jp"), 200, {"Content-Type": "text/plain; charset=iso-2022-jp"})
    assert russian in load(fetched(f"{site.base}/ru").path).text
    assert japanese in load(fetched(f"{site.base}/ja").path).text


def test_br_78_a_file_that_needs_no_charset_stays_as_it_is(site: Site, fetched: FetchedOne) -> None:
    body = "Größe\r\n".encode()
    for charset in ("utf-8", "iso-8859-1"):
        site.pages["/a.txt"] = Page(body, 200, {"Content-Type": f"text/plain; charset={charset}"})
        assert fetched(f"{site.base}/a.txt").path.read_bytes() == body


def test_br_43_a_kept_connection_that_the_server_closed_is_opened_anew(site: Site, tmp_path: Path) -> None:
    site.pages["/a"] = html()
    with WebFetcher(WebOptions(allow_private=True, delay_s=0.0)) as fetcher:
        for _ in range(3):
            assert isinstance(fetcher.fetch(f"{site.base}/a", into=tmp_path), Fetched)
    assert len(site.requests) == 4, "robots.txt once"


def test_br_43_nobody_listens(refused: Refused) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        outcome = refused(f"http://127.0.0.1:{nobody.getsockname()[1]}/a", respect_robots=False)
    assert (outcome.status, outcome.gone) == ("failed", False)
    assert "no connection" in outcome.reason


def test_br_43_a_wrong_address_is_a_value_with_no_password_in_it(refused: Refused) -> None:
    outcome = refused("https://user:secret@example.com/")
    assert outcome.uri == "https://example.com/"
    assert "secret" not in outcome.reason


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_br_43_tls_asks_for_the_name_not_for_the_address(
    site: Site, fetch: Fetch, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "3650",
         "-subj", "/CN=docs.example", "-addext", "subjectAltName=DNS:docs.example"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    site.speak_tls(folder / "cert.pem", folder / "key.pem")
    site.pages["/a"] = html()
    site.pages["/down"] = redirect(f"http://docs.example:{site.port}/a")
    system = System(resolve=lambda host, timeout_s: System().resolve("127.0.0.1", timeout_s))
    stranger = fetch(f"https://docs.example:{site.port}/a", system=system)
    assert isinstance(stranger, FetchRefused)
    assert "certificate is not valid" in stranger.reason
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "cert.pem"))
    assert isinstance(fetch(f"https://docs.example:{site.port}/a", system=system), Fetched)
    assert site.server_names[-1] == "docs.example"
    other = fetch(f"https://other.example:{site.port}/a", system=system)
    assert isinstance(other, FetchRefused)
    assert "certificate is not valid" in other.reason
    down = fetch(f"https://docs.example:{site.port}/down", system=system)
    assert isinstance(down, FetchRefused)
    assert "from https to http" in down.reason
