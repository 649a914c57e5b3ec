"""A damaged presentation made whole enough to open: what cannot be read is replaced by nothing, so that the rest can.

In: the package of a .pptx that python-pptx refuses. Out: a package without its broken parts; python-pptx passes over
links to missing ones.
Must not: change a part that is well; write anything to disk.
"""

import io
import re
import zipfile
from typing import IO

from lxml import etree

_TYPES = "[Content_Types].xml"
# Shows and templates are presentations by another name, and python-pptx takes only that one.
_ALIKE = re.compile(rb"(?<=presentationml\.)(?:slideshow|template)(?=\.main\+xml)")


def mended(file: IO[bytes]) -> IO[bytes]:
    """The package again, without its broken parts. Raises zipfile.BadZipFile or KeyError when no presentation is left."""
    whole = io.BytesIO()
    with zipfile.ZipFile(file) as package, zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as copy:
        good = {name for name in package.namelist() if _content(package, name) is not None}
        if _TYPES not in good:
            raise KeyError(_TYPES)
        for name in sorted(good):
            content = _content(package, name) or b""
            if name == _TYPES:
                content = _ALIKE.sub(b"presentation", content)
            copy.writestr(name, content)
    whole.seek(0)
    return whole


def _content(package: zipfile.ZipFile, name: str) -> bytes | None:
    try:
        content = package.read(name)
        if name.endswith((".xml", ".rels")):
            _parsed(content)
    except Exception:  # noqa: BLE001 - zipfile, zlib and lxml raise a dozen types; each means that the part is broken
        return None
    return content


def _parsed(content: bytes) -> etree._Element:
    return etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))
