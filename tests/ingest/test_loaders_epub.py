"""A book: its chapters in order, each a page, under their titles; what cannot or should not be read is told."""

import zipfile
from pathlib import Path

import pytest
from langchain_core.documents.base import Blob

from ingest.documents import assemble, load
from ingest.loaders.epub import EpubLoader
from ingest.loaders.options import LoadOptions
from rag_service.errors import LoadFailed

from .conftest import LoadShared

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
NAV = (
    '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><body><nav epub:type="toc"><ol>'
    '<li><a href="one.xhtml">One</a></li><li><a href="two%20b.xhtml#top">The second</a></li></ol></nav></body></html>'
)
NCX = (
    '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>Second of old</text></navLabel>'
    '<content src="two%20b.xhtml"/></navPoint></navMap></ncx>'
)


def chapter(body: str, head: str = "<title/>") -> str:
    return (
        f'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head>{head}</head><body>{body}</body></html>'
    )


def package(spine: str = "", nav: bool = True) -> str:
    return (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<dc:title>Tea &amp; Time</dc:title><dc:creator>Ann</dc:creator><dc:creator>Bob</dc:creator>"
        "<dc:language>en</dc:language></metadata><manifest>"
        + ('<item id="nav" href="nav.xhtml" properties="nav"/>' if nav else "")
        + '<item id="ncx" href="toc.ncx"/><item id="c1" href="one.xhtml"/><item id="c2" href="two%20b.xhtml"/>'
        '<item id="c3" href="gone.xhtml"/></manifest><spine toc="ncx">'
        + (spine or '<itemref idref="nav"/><itemref idref="c2"/><itemref idref="c1"/>')
        + "</spine></package>"
    )


def book(path: Path, **changed: str) -> Path:
    """A small EPUB; `changed` replaces or adds members (`__` stands for a slash, `_` for a dot)."""
    members = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": package(),
        "OEBPS/nav.xhtml": NAV,
        "OEBPS/toc.ncx": NCX,
        "OEBPS/one.xhtml": chapter("<h1>First</h1><p>Alpha&nbsp;words.</p>", '<script src="x.js"/>'),
        "OEBPS/two b.xhtml": chapter("<p>Beta words.</p>"),
    }
    members.update({name.replace("__", "/").replace("_", "."): text for name, text in changed.items()})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_chapters_come_in_the_order_of_the_spine_each_on_its_page(tmp_path: Path) -> None:
    document = load(book(tmp_path / "a.epub"))
    assert document.text.split("\n\n") == ["The second", "Beta words.", "First", "Alpha\xa0words.", ""]
    assert [(h.level, h.text) for h in document.headings] == [(1, "The second"), (1, "First")]
    assert document.pages.page_at(document.text.index("Beta")) == 2
    assert document.pages.page_at(document.text.index("First")) == 3
    assert (document.metadata["title"], document.metadata["author"]) == ("Tea & Time", "Ann; Bob")
    assert document.metadata["language"] == "en"
    assert document.notes == ("left out: documents beside the reading order (1)",)


def test_an_older_book_has_its_contents_in_an_ncx(tmp_path: Path) -> None:
    spine = '<itemref idref="c2"/><itemref idref="c1" linear="no"/>'
    document = load(book(tmp_path / "a.epub", OEBPS__book_opf=package(spine, nav=False)))
    assert document.text == "Second of old\n\nBeta words.\n\n"
    assert document.notes == ("left out: documents beside the reading order (1)",)


def test_a_title_set_as_a_paragraph_is_not_read_twice(tmp_path: Path) -> None:
    path = book(tmp_path / "a.epub", **{"OEBPS/two b_xhtml": chapter("<p>The  second</p><p>Beta.</p>")})
    assert load(path).text.startswith("The second\n\nBeta.\n\n")


def test_a_chapter_that_is_missing_or_broken_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    spine = '<itemref idref="c3"/><itemref idref="nowhere"/><itemref idref="c1"/>'
    document = load(
        book(tmp_path / "a.epub", OEBPS__book_opf=package(spine), OEBPS__one_xhtml="<p>Tag <b>soup &nbsp; kept")
    )
    assert document.text.split() == ["One", "Tag", "soup", "kept"]
    assert document.notes == ("2 documents of the book missing or damaged: at 1, 2 in its order",)


def encryption(uri: str, algorithm: str) -> str:
    return (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><EncryptedData'
        f' xmlns="http://www.w3.org/2001/04/xmlenc#"><EncryptionMethod Algorithm="{algorithm}"/><CipherData>'
        f'<CipherReference URI="{uri}"/></CipherData></EncryptedData></encryption>'
    )


def test_a_protected_book_is_refused_in_plain_words(tmp_path: Path) -> None:
    aes = "http://www.w3.org/2001/04/xmlenc#aes256-cbc"
    path = book(tmp_path / "a.epub", **{"META-INF__encryption_xml": encryption("OEBPS/two%20b.xhtml", aes)})
    with pytest.raises(LoadFailed, match=r"copy-protected \(DRM\): its chapters are encrypted"):
        load(path)
    fonts = encryption("OEBPS/font.otf", "http://www.idpf.org/2008/embedding")
    assert "Beta" in load(book(tmp_path / "b.epub", **{"META-INF__encryption_xml": fonts})).text
    cover = encryption("OEBPS/cover.jpg", aes)
    assert "Beta" in load(book(tmp_path / "c.epub", **{"META-INF__encryption_xml": cover})).text


def test_br_45_a_book_that_unpacks_beyond_the_limits_is_refused(tmp_path: Path) -> None:
    path = book(tmp_path / "a.epub", OEBPS__one_xhtml="A" * 3_000_000)
    assert path.stat().st_size < 20_000
    with pytest.raises(LoadFailed, match="RAG_LOAD__MAX_UNPACKED_MB"):
        load(path, LoadOptions(max_unpacked_bytes=1_000_000))
    with pytest.raises(LoadFailed, match="RAG_LOAD__MAX_MEMBERS"):
        load(path, LoadOptions(max_members=5))
    assert load(path).text.count("A") == 3_000_000


def test_entities_are_not_expanded_and_nothing_outside_the_archive_is_read(tmp_path: Path) -> None:
    """Such a book is refused before; its loader would not fall for it either."""
    (tmp_path / "secret.txt").write_text("canary")
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    outside = (tmp_path / "secret.txt").as_uri()
    doctype = f'<!DOCTYPE x [<!ENTITY l0 "canary">{laughs}<!ENTITY f SYSTEM "{outside}">]>'
    path = book(
        tmp_path / "a.epub",
        OEBPS__one_xhtml=doctype + chapter('<p title="&l11;">&l11; &f; end</p>').partition("?>")[2],
        OEBPS__book_opf=f'<!DOCTYPE x [<!ENTITY f SYSTEM "{outside}">]>' + package().replace("Tea", "&f;"),
    )
    with pytest.raises(LoadFailed):
        load(path)
    parts = EpubLoader().lazy_parse(Blob.from_path(path))
    document = assemble(parts, "application/epub+zip", "epub/1")
    assert "canary" not in document.text + str(document.metadata)
    assert document.text.rstrip().endswith("end")
    assert len(document.text) < 500


def test_br_21_what_is_no_book_says_so(tmp_path: Path) -> None:
    damaged = bytearray(book(tmp_path / "a.epub").read_bytes())
    (tmp_path / "cut.epub").write_bytes(damaged[: len(damaged) // 2])
    with pytest.raises(LoadFailed, match=r"not an EPUB: broken file \(damaged archive\)"):
        load(tmp_path / "cut.epub")
    with pytest.raises(LoadFailed, match="no readable package document"):
        load(book(tmp_path / "b.epub", OEBPS__book_opf=""))
    with pytest.raises(LoadFailed, match="no chapters listed"):
        load(book(tmp_path / "c.epub", OEBPS__book_opf="<package><manifest/><spine/></package>"))


def test_a_real_book_has_its_chapters_in_order(load_shared: LoadShared) -> None:
    document = load_shared("winter-sports.epub")
    chapters = [h for h in document.headings if h.text.startswith("CHAPTER")]
    assert [h.text.split()[1] for h in chapters] == ["I", "II", "III", "IV", "V", "VI", "VII", "VIII"]
    assert chapters[0].text == "CHAPTER I THE SUN-SEEKER"
    assert document.pages.page_at(chapters[1].start) == 3
    assert document.metadata["title"] == "Winter Sports in Switzerland"
    assert document.metadata["author"] == "E. F. Benson"
    assert "winter the silence which he speaks of at evening" in " ".join(document.text.split())
