"""The package of a text, presentation or sheet in OpenDocument: its parts, and what its styles hide.

In: an open file. Out: parsed parts (OASIS OpenDocument 1.3, parts 2 and 3). Must not: resolve entities; read a part beyond
a given size.
"""

import zipfile
from collections.abc import Iterator
from typing import IO, Any

from lxml import etree

from rag_service.errors import LoadFailed

_URN = "urn:oasis:names:tc:opendocument:xmlns:"
_PREFIXES = {
    "text": f"{_URN}text:1.0",
    "table": f"{_URN}table:1.0",
    "office": f"{_URN}office:1.0",
    "style": f"{_URN}style:1.0",
    "draw": f"{_URN}drawing:1.0",
    "svg": f"{_URN}svg-compatible:1.0",
    "meta": f"{_URN}meta:1.0",
    "presentation": f"{_URN}presentation:1.0",
    "manifest": f"{_URN}manifest:1.0",
    "dc": "http://purl.org/dc/elements/1.1/",
}


def q(name: str) -> str:
    """`text:p` as lxml spells it."""
    prefix, _, local = name.partition(":")
    return f"{{{_PREFIXES[prefix]}}}{local}"


class Package:
    """Content, styles and metadata of an .odt or .odp. Raises LoadFailed when it is encrypted or broken."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        try:
            with zipfile.ZipFile(file) as archive:
                manifest = _part(archive, "META-INF/manifest.xml", max_bytes)
                if manifest is not None and next(manifest.iter(q("manifest:encryption-data")), None) is not None:
                    raise LoadFailed("encrypted, needs a password")
                content = _part(archive, "content.xml", max_bytes)
                self.styles = _part(archive, "styles.xml", max_bytes)
                self.meta = _part(archive, "meta.xml", max_bytes)
        except LoadFailed:
            raise
        except Exception as error:
            raise LoadFailed("not an OpenDocument: broken file (parts missing or unreadable)") from error
        if content is None:
            raise LoadFailed("not an OpenDocument: broken file (content.xml is missing)")
        self.content = content

    def about(self) -> dict[str, Any]:
        """What the file says of itself."""
        wanted = {"title": "dc:title", "author": "meta:initial-creator", "created": "meta:creation-date"}
        meta = self.meta if self.meta is not None else etree.Element("none")
        found = {key: next(meta.iter(q(name)), None) for key, name in wanted.items()}
        language = next(meta.iter(q("dc:language")), None)
        return {k: element.text for k, element in {**found, "language": language}.items() if element is not None}

    def each_style(self) -> Iterator[etree._Element]:
        """Styles by name and automatic ones."""
        for root in (self.styles, self.content):
            if root is not None:
                yield from root.iter(q("style:style"))


def _part(archive: zipfile.ZipFile, name: str, max_bytes: int) -> etree._Element | None:
    if name not in archive.namelist():
        return None
    if archive.getinfo(name).file_size > max_bytes:  # zipfile never reads more than that
        raise LoadFailed(f"{name} unpacks to more than {max_bytes:,} bytes")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, remove_comments=True)
    return etree.fromstring(archive.read(name), parser)


def hidden_styles(package: Package) -> frozenset[str]:
    """Names of the styles whose text is not shown."""
    return frozenset(
        style.get(q("style:name"), "")
        for style in package.each_style()
        if any(properties.get(q("text:display")) == "none" for properties in style)
    )
