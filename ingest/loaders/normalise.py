"""The one form that every text and every piece of metadata has before anything is counted, hashed or stored.

In: strings and mappings as parsers bring them. Out: text that encodes as UTF-8 and metadata that Chroma accepts.
Must not: know formats or files (pure, standard library); drop a character that a reader would see.
"""

import json
import logging
import math
import re
import unicodedata
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

MetadataValue = str | int | float | bool

MAX_VALUE_CHARS = 1_000
MAX_KEY_CHARS = 100
_INT64 = 2**63
_INVISIBLE = str.maketrans("", "", "\x00\ufeff")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_PAIR_OR_LONE = re.compile(r"[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")
_ODD_KEY_CHARS = re.compile(r"[^\w.-]+")

log = logging.getLogger(__name__)


def normalise_text(s: str) -> str:
    """NFC, `\\n` line ends, no NUL, no byte order mark, no surrogates: pairs become one character, lone ones U+FFFD.

    Idempotent. NUL and marks go first, since what they part (CR and LF, the halves of a pair) belongs together.
    """
    s = s.translate(_INVISIBLE)
    if _SURROGATE.search(s):
        s = _PAIR_OR_LONE.sub(_joined, s)
    if "\r" in s:
        s = s.replace("\r\n", "\n").replace("\r", "\n")
    return unicodedata.normalize("NFC", s)


def _joined(match: re.Match[str]) -> str:
    found = match.group()
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le") if len(found) == 2 else "\ufffd"


def clean_metadata(mapping: Mapping[Any, Any]) -> dict[str, MetadataValue]:
    """What a vector store accepts: text, 64-bit ints, finite floats and bools under plain keys. Never raises.

    None, empty lists and mappings, NaN and infinities are dropped; lists, mappings, dates, bytes and ints beyond 64
    bits become text; text is cut at MAX_VALUE_CHARS. Keys keep letters, digits, `_`, `.` and `-`; two that come out equal
    are numbered.
    """
    cleaned: dict[str, MetadataValue] = {}
    for key, value in mapping.items():
        kept = _value(value)
        if kept is None:
            log.debug("metadata dropped: %r (%s)", key, type(value).__name__)
            continue
        name = _free_key(_key(key), cleaned)
        if name != key or kept is not value:
            log.debug("metadata mended: %r as %r", key, name)
        cleaned[name] = kept
    return cleaned


def _value(value: object) -> MetadataValue | None:
    if value is None or (isinstance(value, list | tuple | set | frozenset | Mapping) and not value):
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_INT64 <= value < _INT64 else _text(_digits(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return _text(value if isinstance(value, str) else _serialised(value))


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # Python refuses to write out thousands of digits
        return hex(value)


def _serialised(value: object) -> str:
    match value:
        case bytes() | bytearray():
            return bytes(value).decode("utf-8", "replace")
        case datetime() | date() | time():
            return value.isoformat()
        case set() | frozenset():
            return _json(sorted(map(str, value)))
        case list() | tuple() | Mapping():
            return _json(value)
        case _:
            return str(value)


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_serialised)
    except (TypeError, ValueError, RecursionError):  # odd keys, or a structure that holds itself
        return str(value)


def _text(value: str) -> str:
    return normalise_text(value)[:MAX_VALUE_CHARS]


def _key(key: object) -> str:
    name = _ODD_KEY_CHARS.sub("_", normalise_text(str(key))).strip("_.-")
    return name[:MAX_KEY_CHARS] or "key"


def _free_key(name: str, taken: Mapping[str, MetadataValue]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
