"""The header of a mail as people read it, however broken it was sent.

In: a message of the standard library. Out: text. Must not: raise because of what stands in a header or a charset's name.
"""

import re
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message

from ingest.loaders.encoding import Decoded, decode
from rag_service.errors import LoadFailed

# Charsets that write every character with ASCII bytes: their bytes are valid UTF-8, and mean something else.
_SEVEN_BIT = re.compile(r"iso-2022|utf-?7|hz-gb", re.I)
_LINE_FOLD = re.compile(r"[\r\n]+[ \t]*")


def header(message: Message, name: str) -> str:
    """All fields of this name on one line, encoded words decoded; empty when there is none."""
    values = (str(value) for field, value in message.raw_items() if field.lower() == name.lower())
    return ", ".join(filter(None, (header_text(value) for value in values)))


def header_text(value: str) -> str:
    """One field's value. Bytes that no header may have, the parser gives as surrogates; people's programs send them."""
    if any("\udc80" <= c <= "\udcff" for c in value):
        value = _decoded(value.encode("utf-8", "surrogateescape"), None)
    unfolded = _LINE_FOLD.sub(" ", value)
    try:
        words = decode_header(unfolded)
    except (HeaderParseError, ValueError):
        words = [(unfolded, None)]
    text = "".join(word if isinstance(word, str) else _decoded(word, charset) for word, charset in words)
    return " ".join(text.split())


def file_name(message: Message) -> str:
    """The name of an attachment; empty when it has none."""
    try:
        return header_text(message.get_filename("") or "")
    except (ValueError, LookupError, TypeError):  # an unknown charset in the name's own encoding
        return "unnamed"


def in_charset(data: bytes, charset: str | None) -> Decoded:
    """The text of a part. Raises LoadFailed when it is none."""
    if charset and _SEVEN_BIT.search(charset):
        try:
            return Decoded(data.decode(charset), charset)
        except (UnicodeDecodeError, LookupError):
            pass
    return decode(data, charset)


def _decoded(data: bytes, charset: str | None) -> str:
    if charset in {None, "unknown-8bit"} and data.isascii():
        return data.decode("ascii")
    try:
        return in_charset(data, charset).text
    except LoadFailed:
        return data.decode("utf-8", "replace")
