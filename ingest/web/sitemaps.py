"""Sitemaps (sitemaps.org): XML, text and robots.txt, plain or gzip, as a stream of what they list.

In: a file. Out: its entries. Must not: resolve entities, fetch anything, or hold more than one entry.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from lxml import etree
from protego import Protego

from ingest.web.bodies import GZIP_MAGIC, limited, unpacked
from ingest.web.refusals import Refusal

_ROOTS: dict[str, Literal["page", "sitemap"]] = {"urlset": "page", "sitemapindex": "sitemap"}
_ENTRIES = frozenset(("url", "sitemap"))
_CHUNK = 65_536
_MAX_ROBOTS_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    kind: Literal["page", "sitemap"]
    url: str


def may_be_sitemap(url: str) -> bool:
    """By its canonical address: only such a one is looked into; any other is a page."""
    name = urlsplit(url).path.rpartition("/")[2].lower().removesuffix(".gz")
    return name == "robots.txt" or name.endswith(".xml") or "sitemap" in name


def entries(path: Path, url: str, max_bytes: int) -> Iterator[Entry] | None:
    """What the sitemap at `url` lists; None when the file is none. Reading raises Refusal when it breaks off."""
    if urlsplit(url).path == "/robots.txt":
        with path.open("rb") as file:
            rules = Protego.parse(file.read(_MAX_ROBOTS_BYTES).decode("utf-8-sig", "replace"))
        return (Entry("sitemap", listed) for listed in rules.sitemaps)
    with path.open("rb") as file:
        packed = file.read(2) == GZIP_MAGIC
    plain = _unpacked_file(path, max_bytes) if packed else path
    with plain.open("rb") as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith((b"http://", b"https://")):
        return _lines(plain)
    return _listed(plain) if _root_of(plain) in _ROOTS else None


def _unpacked_file(path: Path, max_bytes: int) -> Path:
    with path.open("rb") as file, tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as out:
        for piece in limited(unpacked(iter(lambda: file.read(_CHUNK), b"")), max_bytes):
            out.write(piece)
    return Path(out.name)


def _lines(path: Path) -> Iterator[Entry]:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for line in iter(lambda: file.readline(_CHUNK), ""):
            if line.strip():
                yield Entry("page", line.strip())


def _root_of(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            for _, element in _parsed(file, ("start",)):
                return _local(element)
    except etree.XMLSyntaxError:
        pass
    return None


def _listed(path: Path) -> Iterator[Entry]:
    kind: Literal["page", "sitemap"] = "page"
    root: etree._Element | None = None
    try:
        with path.open("rb") as file:
            for event, element in _parsed(file, ("start", "end")):
                if root is None:
                    root = element
                    kind = _ROOTS.get(_local(root) or "", kind)
                elif event == "end" and element.getparent() is root:
                    if _local(element) in _ENTRIES and (url := _location(element)):
                        yield Entry(kind, url)
                    element.clear()
                    while element.getprevious() is not None:
                        del root[0]
    except etree.XMLSyntaxError as error:
        raise Refusal(f"broken sitemap: {str(error).splitlines()[0][:200]}") from None


def _location(entry: "etree._Element") -> str | None:
    """Its own: pictures and videos of a page have a `loc` too, one level further down. One with an entity in it is none."""
    found = (child.text.strip() for child in entry if _local(child) == "loc" and child.text and not len(child))
    return next(found, None)


def _parsed(file: object, events: tuple[str, ...]) -> "etree.iterparse":
    return etree.iterparse(
        file, events=events, resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip


def _local(element: "etree._Element") -> str | None:
    return etree.QName(element).localname.lower() if isinstance(element.tag, str) else None
