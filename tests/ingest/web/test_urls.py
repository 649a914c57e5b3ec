"""One spelling for each web address, and none for what is read in two ways."""

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.web.refusals import Refusal
from ingest.web.urls import canonical_url, joined, same_site, without_password


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        ("https://example.com:443/a#part", "https://example.com/a"),
        ("http://example.com:80/", "http://example.com/"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("https://example.com:8443/a/./b/../c/", "https://example.com:8443/a/c/"),
        ("https://example.com/a/..", "https://example.com/"),
        ("https://example.com/../../etc/passwd", "https://example.com/etc/passwd"),
        ("https://example.com/%7euser/%2e%2e/x%2fy", "https://example.com/x%2Fy"),
        ("https://example.com/a b/Straße?q=grün tee&b=%7e&a=1", "https://example.com/a%20b/Stra%C3%9Fe?q=gr%C3%BCn%20tee&b=%7e&a=1"),
        ("https://example.com/100%?q=100%", "https://example.com/100%25?q=100%"),
        ("https://example.com//a//b;v=1?", "https://example.com//a//b;v=1"),
        ("https://example.com./", "https://example.com/"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://EXAMPLE。com/", "https://example.com/"),
        ("https://my_host.example.com/", "https://my_host.example.com/"),
        ("http://[2001:DB8:0::1]:8080/x", "http://[2001:db8::1]:8080/x"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://127.1/", "http://127.0.0.1/"),
        ("http://0177.0.0.1/", "http://127.0.0.1/"),
        ("http://１２７．０．０．１/", "http://127.0.0.1/"),
        ("http://①②⑦.0.0.1/", "http://127.0.0.1/"),
        ("  https://example.com/a\n", "https://example.com/a"),
    ],
)  # fmt: skip
def test_br_43_one_page_has_one_address(written: str, canonical: str) -> None:
    assert canonical_url(written) == canonical


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("file:///etc/passwd", "only http and https"), ("gopher://example.com/", "only http and https"),
        ("ftp://example.com/", "only http and https"), ("javascript:alert(1)", "only http and https"),
        ("data:text/html,x", "only http and https"), ("/etc/passwd", "only http and https"), ("", "only http and https"),
        ("https://user:secret@example.com/", "user name or password"),
        ("https://example.com@127.0.0.1/", "user name or password"),
        ("http://example.com\\@127.0.0.1/", "user name or password"), ("http://127.0.0.1\\.example.com/", "host"),
        ("https:///path", "no host"), ("https://", "no host"), ("http://exa mple.com/", "host"),
        ("http://%31%32%37.0.0.1/", "host"), ("http://a..b/", "host"), ("http://example.com../", "host"),
        ("http://1.2.3.4.5/", "IPv4"), ("http://999.1.1.1/", "IPv4"), ("http://4294967296/", "IPv4"), ("http://0x/x", "IPv4"),
        ("http://[fe80::1%25eth0]/", ""), ("http://[::1/", "not a valid"), ("http://[zz]/", ""),
        ("http://example.com:99999/", "not a valid"), ("http://example.com:x/", "not a valid"),
        ("http://example.com:25/", "port 25"), ("http://example.com:0/", "port 0"), ("https://example.com:22/", "port 22"),
        ("http://exam\tple.com/", "control"), ("http://example.com/\r\nHost: other", "control"),
        ("http://example.com/" + "a" * 9000, "characters"), ("http://" + "a" * 64 + ".com/", "host"),
        ("http://example.com/\udcff", "not a valid"),
    ],
)  # fmt: skip
def test_br_43_what_is_no_web_address_is_refused_with_its_reason(written: str, why: str) -> None:
    with pytest.raises(Refusal) as refusal:
        canonical_url(written)
    assert why in refusal.value.reason
    assert refusal.value.status == "skipped"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.text(max_size=20))
@example("a/..", "%")
@example("%2e%2E/%", "#?")
@example("/[x]", "a[0]=1|2")
def test_br_43_a_canonical_address_is_its_own_and_fit_for_the_wire(path: str, query: str) -> None:
    try:
        url = canonical_url(f"https://example.com/{path}?{query}")
    except Refusal:
        return
    assert canonical_url(url) == url
    assert url.isascii()
    assert not any(character in url for character in " \t\r\n#\\")
    assert urlsplit(url).netloc == "example.com"


@given(st.text(max_size=60))
def test_br_43_any_text_is_an_address_or_refused(text: str) -> None:
    for written in (text, f"http://{text}", f"http://[{text}]/", f"http://example.com:{text}"):
        try:
            assert canonical_url(written).startswith(("http://", "https://"))
        except Refusal:
            continue


def test_a_reference_is_read_from_where_it_stands() -> None:
    assert joined("https://example.com/a/b;v=1?q", "../c?x=1#y") == "https://example.com/c?x=1"
    assert joined("https://example.com/a", "//other.example/") == "https://other.example/"
    with pytest.raises(Refusal):
        joined("https://example.com/", "file:///etc/passwd")
    with pytest.raises(Refusal):
        joined("https://example.com/", "http://[::1")


def test_www_makes_no_other_site_and_a_port_does() -> None:
    assert same_site("http://example.com/a", "https://www.example.com/b")
    assert not same_site("https://example.com/", "https://example.com:8443/")
    assert not same_site("https://example.com/", "https://example.com.evil.example/")


def test_br_43_a_refused_address_is_shown_without_its_password() -> None:
    assert without_password("https://user:secret@example.com/a@b") == "https://example.com/a@b"
