"""What stands before the first element of an XML part: where entities are declared, if there are any.

In: the first bytes of a part. Out: whether the first element has begun, or LoadFailed. Must not: read further; resolve,
load or expand anything.

OOXML forbids declarations altogether, ODF and EPUB have no use for more than a named character, and no parser here needs
one; but libxml2 expands entities in attributes even when told not to, and expat those of a workbook's cells.
"""

import re
from xml.parsers import expat

from rag_service.errors import LoadFailed

PROLOG_BYTES = 1 << 16  # so far the first element is looked for
_ENTITY_CHARS = 16  # `<!ENTITY nbsp "&#160;">` stands in real books; what is longer makes much text out of little
_DECLARATION = re.compile(rb"<!\s*(?:ENTITY|ATTLIST)", re.I)
_LEADING = b"\xef\xbb\xbf\xfe\xff\x00 \t\r\n"


def is_xml(head: bytes) -> bool:
    """Whether these first bytes could be markup."""
    return head.lstrip(_LEADING).startswith(b"<")


def is_past_prolog(head: bytes) -> bool:
    """Whether the first element stands in `head`, which begins the part. Raises LoadFailed for what is declared before it:
    entities from elsewhere or with much in them, and default values of attributes."""
    parser = expat.ParserCreate()
    parser.StartElementHandler = _stop
    parser.EntityDeclHandler = _entity
    parser.AttlistDeclHandler = _attributes
    try:
        parser.Parse(head, False)
    except _Element:
        return True
    except (expat.ExpatError, ValueError, LookupError) as error:  # the last two: an encoding that expat does not read
        if _DECLARATION.search(head.replace(b"\x00", b"")):  # without zero bytes, UTF-16 reads like ASCII
            raise _refused() from error
        return True  # broken, or HTML: its parser knows no entities of the page's own
    return False


class _Element(Exception):  # noqa: N818 - not an error, but the way out of expat
    pass


def _stop(name: str, attributes: dict[str, str]) -> None:
    raise _Element


def _entity(
    name: str,
    is_parameter: bool,
    value: str | None,
    base: str | None,
    system_id: str | None,
    public_id: str | None,
    notation: str | None,
) -> None:
    if is_parameter or value is None or len(value) > _ENTITY_CHARS or "&" in value:
        raise _refused()


def _attributes(element: str, name: str, kind: str, default: str | None, required: bool) -> None:
    if default is not None and len(default) > _ENTITY_CHARS:
        raise _refused()


def _refused() -> LoadFailed:
    return LoadFailed("hostile XML in it: a document type that declares entities (XXE or billion laughs)")
