"""What an EPUB file says of itself: which documents it is made of, in which order, and what its contents page calls them.

In: an open archive. Out: frozen values. Must not: read a chapter; follow a name out of the archive; expand entities.
Source of the format: https://www.w3.org/TR/epub-33/ (and EPUB 2, whose contents are an NCX file).
"""

import posixpath
import zipfile
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from lxml import etree

from rag_service.errors import LoadFailed

_FONT_SCRAMBLING = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_CONTENTS_DEPTH = 6


@dataclass(frozen=True, slots=True)
class SpineItem:
    """A document of the reading order. `name` is its member of the archive, None when that is missing; `aside` tells that
    the book itself leaves it out of the flow, or that it is the list of contents."""

    name: str | None
    aside: bool


@dataclass(frozen=True, slots=True)
class Book:
    """`contents` gives for a member's name the level and the words of the first entry that leads to it."""

    metadata: dict[str, str | None]
    spine: tuple[SpineItem, ...]
    contents: dict[str, tuple[int, str]]


def read_book(archive: zipfile.ZipFile) -> Book:
    """Raises LoadFailed when there is no package document, or when the chapters are encrypted."""
    names = {name.lower(): name for name in archive.namelist()}
    package_name = _package_name(archive, names)
    package = xml_of(archive, package_name)
    if package is None:
        raise LoadFailed("not an EPUB: broken file (no readable package document)")
    items = {
        item.get("id", ""): (_resolved(names, package_name, item.get("href", "")), item)
        for item in package.iterfind(".//{*}manifest/{*}item")
    }
    spine = tuple(_spine_item(items, reference) for reference in package.iterfind(".//{*}spine/{*}itemref"))
    if not spine:
        raise LoadFailed("not an EPUB: broken file (no chapters listed)")
    _refuse_protected(archive, names, {item.name for item in spine})
    return Book(_metadata(package), spine, _contents(archive, names, package, items))


def xml_of(archive: zipfile.ZipFile, name: str | None) -> etree._Element | None:
    """The root of a member; None when it is missing or beyond repair."""
    if name is None:
        return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
    try:
        return etree.fromstring(archive.read(name), parser)
    except (etree.XMLSyntaxError, KeyError, ValueError):
        return None


def _package_name(archive: zipfile.ZipFile, names: dict[str, str]) -> str | None:
    container = xml_of(archive, names.get("meta-inf/container.xml"))
    if container is not None:
        for root_file in container.iterfind(".//{*}rootfile"):
            if found := names.get(root_file.get("full-path", "").lower()):
                return found
    return next((name for lower, name in names.items() if lower.endswith(".opf")), None)


def _resolved(names: dict[str, str], base: str | None, href: str) -> str | None:
    """The archive's own name for what a link leads to; None when nothing is there."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(base or ""), unquote(_path_of(href))))
    return names.get(path.lower())


def _path_of(href: str) -> str:
    try:
        return urlsplit(href).path
    except ValueError:  # such as "http://[": no place inside an archive
        return ""


def _spine_item(items: dict[str, tuple[str | None, etree._Element]], reference: etree._Element) -> SpineItem:
    name, item = items.get(reference.get("idref", ""), (None, None))
    is_contents = item is not None and "nav" in item.get("properties", "").split()
    return SpineItem(name, is_contents or reference.get("linear", "yes").lower() == "no")


def _metadata(package: etree._Element) -> dict[str, str | None]:
    def texts(tag: str) -> list[str]:
        found = (" ".join("".join(element.itertext()).split()) for element in package.iterfind(f".//{{*}}{tag}"))
        return [text for text in found if text]

    titles = texts("title")
    return {
        "title": titles[0] if titles else None,
        "author": "; ".join(texts("creator")) or None,
        "language": next(iter(texts("language")), None),
        "publisher": next(iter(texts("publisher")), None),
    }


def _refuse_protected(archive: zipfile.ZipFile, names: dict[str, str], chapters: set[str | None]) -> None:
    """Scrambled fonts are usual and harm nothing; an encrypted chapter cannot be read without its seller's key."""
    encryption = xml_of(archive, names.get("meta-inf/encryption.xml"))
    if encryption is None:
        return
    for entry in encryption.iterfind(".//{*}EncryptedData"):
        method = entry.find("{*}EncryptionMethod")
        if method is not None and method.get("Algorithm", "") in _FONT_SCRAMBLING:
            continue
        for reference in entry.iterfind(".//{*}CipherReference"):
            if _resolved(names, None, reference.get("URI", "")) in chapters - {None}:
                raise LoadFailed("copy-protected (DRM): its chapters are encrypted, so there is nothing to read")


def _contents(
    archive: zipfile.ZipFile,
    names: dict[str, str],
    package: etree._Element,
    items: dict[str, tuple[str | None, etree._Element]],
) -> dict[str, tuple[int, str]]:
    spine = package.find(".//{*}spine")
    ncx = items.get(spine.get("toc", "") if spine is not None else "", (None, None))[0]
    found: dict[str, tuple[int, str]] = {}
    for name, item in items.values():
        if "nav" in item.get("properties", "").split() and (root := xml_of(archive, name)) is not None:
            for link in root.iterfind(".//{*}nav//{*}a[@href]"):
                depth = sum(1 for above in link.iterancestors("{*}ol"))
                _enter(found, _resolved(names, name, link.get("href", "")), depth, link.itertext())
    if not found and (root := xml_of(archive, ncx)) is not None:
        for point in root.iter("{*}navPoint"):
            content, label = point.find("{*}content"), point.find("{*}navLabel")
            if content is not None and label is not None:
                depth = 1 + sum(1 for above in point.iterancestors("{*}navPoint"))
                _enter(found, _resolved(names, ncx, content.get("src", "")), depth, label.itertext())
    return found


def _enter(
    found: dict[str, tuple[int, str]], name: str | None, depth: int, words: "etree._ElementTextIterator"
) -> None:
    title = " ".join("".join(words).split())
    if name is not None and title:
        found.setdefault(name, (max(1, min(depth, _CONTENTS_DEPTH)), title))
