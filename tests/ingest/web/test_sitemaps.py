"""A sitemap's address means its pages; nothing else does."""

import gzip
from collections.abc import Callable, Iterator
from xml.sax.saxutils import escape

import pytest

from ingest.web.expansion import MAX_DEPTH
from ingest.web.fetching import FetchRefused, WebFetcher
from ingest.web.options import WebOptions
from tests.ingest.web.site import Page, Site, html, redirect

NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


def sitemap(*urls: str, root: str = "urlset", entry: str = "url") -> bytes:
    listed = "".join(f"<{entry}>\n <loc> {escape(url)}\n</loc><lastmod>2026-11-01</lastmod></{entry}>" for url in urls)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{NAMESPACE}">{listed}</{root}>'.encode()


def index(*urls: str) -> bytes:
    return sitemap(*urls, root="sitemapindex", entry="sitemap")


def xml(body: bytes) -> Page:
    return Page(body, 200, {"Content-Type": "application/xml"})


Expand = Callable[..., tuple[list[str], list[FetchRefused]]]


@pytest.fixture
def expand(site: Site) -> Iterator[Expand]:
    """Paths of pages, and what was left out, of the sitemap at a path of the site."""

    def expand_it(path: str, **options: object) -> tuple[list[str], list[FetchRefused]]:
        with WebFetcher(WebOptions(**{"allow_private": True, "delay_s": 0.0, **options})) as fetcher:  # type: ignore[arg-type]
            found = list(fetcher.expand(f"{site.base}{path}"))
        pages = [item.removeprefix(site.base) for item in found if isinstance(item, str)]
        return pages, [item for item in found if isinstance(item, FetchRefused)]

    return expand_it


@pytest.mark.parametrize("path", ["/", "/handbook", "/handbook.html?page=2", "/a.pdf", "/robots.txt.html"])
def test_br_43_a_page_gives_itself_without_a_request(path: str, site: Site, expand: Expand) -> None:
    assert expand(path + "#part") == ([path], [])
    assert site.requests == []


def test_br_43_a_sitemap_gives_its_pages_each_once(site: Site, expand: Expand) -> None:
    site.pages["/sitemap.xml"] = xml(
        sitemap(f"{site.base}/a?x=1&y=2", f"{site.base}/b#top", f"{site.base}/b", f"{site.base}/c/../d")
    )
    assert expand("/sitemap.xml") == (["/a?x=1&y=2", "/b", "/d"], [])


def test_br_43_an_index_with_gzip_and_robots_txt_leads_to_all_pages(site: Site, expand: Expand) -> None:
    robots = f"User-agent: *\nDisallow:\nSitemap: {site.base}/index.xml\nSitemap: {site.base}/list.txt"
    encoded = {"Content-Encoding": "gzip", "Content-Type": "text/xml"}
    site.pages = {
        "/robots.txt": Page(robots.encode()),
        "/index.xml": xml(index(f"{site.base}/one.xml.gz", f"{site.base}/sitemap-two.php")),
        "/one.xml.gz": Page(gzip.compress(sitemap(f"{site.base}/a")), 200, {"Content-Type": "application/x-gzip"}),
        "/sitemap-two.php": Page(gzip.compress(sitemap(f"{site.base}/b")), 200, encoded),
        "/list.txt": Page(f"\ufeff{site.base}/c\r\n\r\n{site.base}/a\n".encode(), 200, {"Content-Type": "text/plain"}),
    }
    pages, left_out = expand("/robots.txt")
    assert sorted(pages) == ["/a", "/b", "/c"]
    assert left_out == []


def test_br_43_pages_of_other_hosts_are_left_out_and_counted(site: Site, expand: Expand) -> None:
    inside = ["http://169.254.169.254/latest/", "https://other.example/a", f"http://127.0.0.1:{site.port + 1}/b"]
    site.pages["/sitemap.xml"] = xml(sitemap(f"{site.base}/a", *inside, "file:///etc/passwd", "not an address"))
    pages, left_out = expand("/sitemap.xml")
    assert pages == ["/a"]
    assert {item.status for item in left_out} == {"skipped"}
    assert [item.reason.split(" (")[0] for item in left_out] == [
        "left out: 3 addresses of other hosts",
        "left out: 2 entries that are no web addresses",
    ]


def test_br_43_a_site_that_redirects_its_sitemap_may_list_where_it_went(site: Site, expand: Expand) -> None:
    other = f"http://localhost:{site.port}"
    site.pages = {"/sitemap.xml": redirect(f"{other}/s.xml"), "/s.xml": xml(sitemap(f"{other}/a", f"{site.base}/b"))}
    assert expand("/sitemap.xml") == ([f"{other}/a", "/b"], [])


def test_br_43_sitemaps_in_a_circle_end(site: Site, expand: Expand) -> None:
    site.pages = {
        "/a.xml": xml(index(f"{site.base}/b.xml", f"{site.base}/a.xml")),
        "/b.xml": xml(index(f"{site.base}/a.xml", f"{site.base}/c.xml")),
        "/c.xml": xml(sitemap(f"{site.base}/page")),
    }
    assert expand("/a.xml") == (["/page"], [])
    assert site.paths == ["/a.xml", "/b.xml", "/c.xml"]


def test_br_43_sitemaps_nested_without_end_are_cut_and_told(site: Site, expand: Expand) -> None:
    site.pages = {f"/{level}.xml": xml(index(f"{site.base}/{level + 1}.xml")) for level in range(20)}
    pages, left_out = expand("/0.xml")
    assert pages == []
    assert ["nested more than" in item.reason for item in left_out] == [True]
    assert len(site.paths) == MAX_DEPTH


def test_br_43_more_pages_than_allowed_are_cut_and_told(site: Site, expand: Expand) -> None:
    site.pages["/sitemap.xml"] = xml(sitemap(*(f"{site.base}/{number}" for number in range(50))))
    pages, left_out = expand("/sitemap.xml", max_pages=10)
    assert pages == [f"/{number}" for number in range(10)]
    assert ["RAG_WEB__MAX_PAGES" in item.reason for item in left_out] == [True]
    assert expand("/sitemap.xml", max_pages=50)[1] == []


def test_br_43_sitemaps_that_are_not_reached_any_more_are_told(site: Site, expand: Expand) -> None:
    site.pages = {
        "/index.xml": xml(index(f"{site.base}/1.xml", f"{site.base}/2.xml")),
        "/1.xml": xml(sitemap(f"{site.base}/a", f"{site.base}/b")),
        "/2.xml": xml(sitemap(f"{site.base}/c")),
    }
    pages, left_out = expand("/index.xml", max_pages=2)
    assert pages == ["/a", "/b"]
    assert ["1 sitemaps" in item.reason for item in left_out] == [True]


@pytest.mark.parametrize(
    ("page", "status", "why"),
    [
        (Page(b"", 404), "failed", "no such page"),
        (Page(b"", 500), "failed", "500"),
        (redirect("file:///etc/passwd"), "skipped", "only http"),
        (Page(b"x", 200, {"Content-Length": str(2**31)}), "failed", "RAG_WEB__MAX_MB"),
        (html(), "failed", "it is none"),
        (Page(gzip.compress(bytes(3_000_000))), "failed", "RAG_WEB__MAX_MB"),
        (Page(b"\x1f\x8bnot gzip"), "failed", "broken"),
    ],
)
def test_br_43_a_sitemap_that_cannot_be_read_is_a_value(
    page: Page, status: str, why: str, site: Site, expand: Expand
) -> None:
    site.pages = {
        "/index.xml": xml(index(f"{site.base}/bad.xml", f"{site.base}/good.xml")),
        "/bad.xml": page,
        "/good.xml": xml(sitemap(f"{site.base}/a")),
    }
    pages, left_out = expand("/index.xml", max_bytes=2_000_000)
    assert pages == ["/a"], "the others are read all the same"
    assert [(item.uri, item.status) for item in left_out] == [(f"{site.base}/bad.xml", status)]
    assert why in left_out[0].reason


def test_br_43_a_sitemap_that_breaks_off_gives_what_it_had(site: Site, expand: Expand) -> None:
    site.pages["/sitemap.xml"] = xml(sitemap(f"{site.base}/a", f"{site.base}/b").replace(b"</urlset>", b"<url"))
    pages, left_out = expand("/sitemap.xml")
    assert pages == ["/a", "/b"]
    assert [item.status for item in left_out] == ["failed"]
    assert "broken sitemap" in left_out[0].reason


def test_br_43_an_xml_file_that_is_no_sitemap_is_a_page(site: Site, expand: Expand) -> None:
    site.pages["/data.xml"] = xml(b"<catalogue><url><loc>http://127.0.0.1/</loc></url></catalogue>")
    assert expand("/data.xml") == (["/data.xml"], [])


def test_br_43_pictures_of_a_page_are_no_pages(site: Site, expand: Expand) -> None:
    picture = f"<i:image xmlns:i='urn:i'><i:loc>{site.base}/x.png</i:loc></i:image>".encode()
    body = sitemap(f"{site.base}/a").replace(b"<url>", b"<url>" + picture)
    site.pages["/sitemap.xml"] = xml(body.replace(b"</urlset>", b"<other><loc>/x</loc></other></urlset>"))
    assert expand("/sitemap.xml") == (["/a"], [])


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))


@pytest.mark.parametrize(
    ("declared", "pages"),
    [('<!ENTITY x SYSTEM "file:///etc/hostname">', ["/b"]), (f'<!ENTITY l0 "ha">{LAUGHS}<!ENTITY x "&l11;">', [])],
)
def test_br_43_entities_read_no_file_and_do_not_grow(
    declared: str, pages: list[str], site: Site, expand: Expand
) -> None:
    listed = f"<url><loc>{site.base}/&x;</loc></url><url><loc>{site.base}/b</loc></url>"
    site.pages["/sitemap.xml"] = xml(f"<!DOCTYPE urlset [{declared}]><urlset>{listed}</urlset>".encode())
    found, left_out = expand("/sitemap.xml")
    assert found == pages
    assert ["broken sitemap" in item.reason for item in left_out] == [True] * (not pages)


def test_br_43_a_sitemap_obeys_robots_txt(site: Site, expand: Expand) -> None:
    site.pages = {
        "/robots.txt": Page(b"User-agent: *\nDisallow: /sitemap"),
        "/sitemap.xml": xml(sitemap(f"{site.base}/a")),
    }
    pages, left_out = expand("/sitemap.xml")
    assert pages == []
    assert [item.status for item in left_out] == ["skipped"]


def test_br_43_what_is_no_address_expands_to_its_refusal() -> None:
    with WebFetcher() as fetcher:
        assert [item.status for item in fetcher.expand("file:///sitemap.xml") if isinstance(item, FetchRefused)] == [
            "skipped"
        ]
