"""Bytes to text: byte order marks, UTF-8, UTF-16 and UTF-32 with and without one, a declared charset, legacy guesses.

In: the bytes of a text file, and the charset that the file itself declares, if it does. Out: text, the encoding that
was read, and how many characters could not be. Must not: drop a character without counting it.
"""

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from charset_normalizer import from_bytes

from rag_service.errors import LoadFailed

_MARKS = (  # UTF-32 LE begins like UTF-16 LE: the longer mark is tried first
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Legacy charsets in real use. The rest of what Python knows mostly competes with these by chance on short texts.
_LEGACY = (
    *(
        "cp1252",
        "cp1250",
        "cp1251",
        "cp1253",
        "cp1254",
        "cp1255",
        "cp1256",
        "koi8_r",
        "iso8859_2",
        "mac_roman",
        "cp850",
    ),
    *("gb18030", "big5", "cp932", "euc_jp", "cp949"),
)
_HIGH_BYTE = re.compile(rb"[\x80-\xff]")
_AROUND = 200  # bytes of the line before and after
_SAMPLE_BYTES = 65_536
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_WESTERN_LETTERS = frozenset("äöüßéèêëàâáãåæçðìíîïñòóôõøœùúûÿýþšžÄÖÜÉÈÊËÀÂÁÃÅÆÇÌÍÎÏÑÒÓÔÕØŒÙÚÛŸÝÞŠŽºªƒ")
_WESTERN_SIGNS = frozenset("€‚„…†‡‰‹‘’“”•–—™›¡¢£¥§©«¬®°±²³´µ¶·»¼½¾¿×÷\xa0\xad")
# Languages whose charset shares most places with cp1252: letters that their texts show when misread, and letters that
# speak against them (Danish has ø but å too, Portuguese õ but ã, Icelandic ý and þ but æ).
_NEIGHBOURS = (("cp1250", "øì", "å"), ("cp1250", "õé", "ãä"), ("cp1254", "ýþ", "æ"))
_SIGN_INSIDE_WORD = re.compile(
    r"[a-z][¡£¥¿±³´¶¹¼¾][a-z]|[a-z]¿|[a-z][\u00c0-\u00d6\u00d8-\u00de\u0160\u017d\u0178][a-z]"
)


STRAY_NULS = 8  # so many are dropped from any text; more than that, and one in a thousand bytes, is binary data


@dataclass(frozen=True, slots=True)
class Decoded:
    """`replaced` counts the U+FFFD that stand for bytes nobody could read; `encoding` is a Python codec name."""

    text: str
    encoding: str
    replaced: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What people must be told."""
        if not self.replaced:
            return ()
        characters = "1 character" if self.replaced == 1 else f"{self.replaced} characters"
        return (f"{characters} could not be decoded as {self.encoding} and read as \ufffd",)


def decode(data: bytes, declared: str | None = None) -> Decoded:
    """The text of `data`. Raises LoadFailed when the bytes are no text in any known encoding.

    Order: byte order mark, UTF-16/32 told by their zero bytes, UTF-8, the declared charset, a guess.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _replacing(data[len(mark) :], encoding)
    if b"\x00" in data:
        return _wide(data)
    try:
        return Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        pass
    if declared and (text := _strict(data, declared)) is not None:
        return Decoded(text, declared)
    sequences = len(_MULTIBYTE.findall(data))
    damaged = len(re.findall(rb"[\x80-\xff]", _MULTIBYTE.sub(b"", data)))
    if sequences > 4 * damaged:  # UTF-8 with damage: a legacy reading would garble every other character
        return _replacing(data, "utf-8")
    return _guessed(data)


def _strict(data: bytes, encoding: str) -> str | None:
    """None when the bytes do not fit, or the name is none that decodes to text."""
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError, ValueError):
        return None


def _replacing(data: bytes, encoding: str) -> Decoded:
    text = data.decode(encoding, "replace")
    genuine = data.decode(encoding, "ignore").count("\ufffd") if "\ufffd" in text else 0
    return Decoded(text, encoding, text.count("\ufffd") - genuine)


def _wide(data: bytes) -> Decoded:
    """UTF-16 or UTF-32 without a mark, or text with stray NULs. Zero bytes occur in no other text."""
    found = _unmarked(data, ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"))
    if found is not None:
        return found
    if data.count(b"\x00") > max(STRAY_NULS, len(data) // 1000):
        raise LoadFailed("binary data, not text")
    return decode(data.replace(b"\x00", b""))


def _unmarked(data: bytes, encodings: tuple[str, ...]) -> Decoded | None:
    readings = [Decoded(text, encoding) for encoding in encodings if (text := _strict(data, encoding))]
    best = max(readings, key=lambda reading: _plausibility(reading.text), default=None)
    return best if best is not None and _plausibility(best.text) > 0.95 else None


def _plausibility(text: str) -> float:
    """Share of characters that text is made of; of two readings, the one with fewer scripts is likelier.

    A character whose low byte is zero is rare in text and common in other data (but for the ideographic space).
    """
    sample = text[:20_000]
    good = sum(
        c in "\t\n\r\u3000" or (ord(c) & 0xFF != 0 and unicodedata.category(c) not in {"Cc", "Cn", "Co", "Cs"})
        for c in sample
    )
    scripts = len({ord(c) >> 8 for c in sample})
    return good / len(sample) - min(0.04, 0.0004 * scripts)


def _guessed(data: bytes) -> Decoded:
    """A legacy charset. Only the surroundings of high bytes are looked at: the rest says nothing, and may be long."""
    if _looks_binary(data):
        raise LoadFailed("binary data, not text")
    sample = b"\n".join(islice(_around_high_bytes(data), _SAMPLE_BYTES))[:_SAMPLE_BYTES]
    candidates = _candidates(sample)
    for encoding in candidates:
        if (text := _strict(data, encoding)) is not None:
            return Decoded(text, encoding)
    wide = _unmarked(data, ("utf-16-le", "utf-16-be"))  # Chinese or Japanese without one space or line end
    return wide if wide is not None else _replacing(data, candidates[0] if candidates else "cp1252")


def _around_high_bytes(data: bytes) -> Iterator[bytes]:
    """Stretches of lines. One pattern for them would go over a long line without high bytes some hundred times."""
    done = 0
    while high := _HIGH_BYTE.search(data, done):
        at = high.start()
        start = max(done, at - _AROUND)
        end = data.find(b"\n", at, at + _AROUND)
        end = end if end >= 0 else at + _AROUND
        yield data[max(start, data.rfind(b"\n", start, at) + 1) : end]
        done = end


def _candidates(sample: bytes) -> list[str]:
    western = sample.decode("cp1252", "replace")
    if not _looks_western(western):
        return _ranked(sample)
    for encoding, present, absent in _NEIGHBOURS:
        if all(c in western for c in present) and not any(c in western for c in absent):
            return [encoding, "cp1252"]
    return ["cp1252", *_ranked(sample)]


def _looks_binary(data: bytes) -> bool:
    controls = len(re.findall(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]", data[:_SAMPLE_BYTES]))
    return controls * 20 > min(len(data), _SAMPLE_BYTES)


def _looks_western(sample: str) -> bool:
    """Whether Western European letters stand where such languages put them: a few of many, and inside words."""
    high = Counter(c for c in sample if ord(c) >= 0x80)
    if set(high) - _WESTERN_LETTERS - _WESTERN_SIGNS or _SIGN_INSIDE_WORD.search(sample):
        return False
    return sum(high.values()) * 2 <= sum(c.isalpha() for c in sample)


def _ranked(sample: bytes) -> list[str]:
    """Charsets that the bytes could be in, likeliest first: least disorder, then most like a known language."""
    matches = from_bytes(sample, cp_isolation=list(_LEGACY), enable_fallback=False)
    order = sorted(matches, key=lambda m: (round(m.chaos, 2), -m.coherence, _LEGACY.index(m.encoding)))
    return [match.encoding for match in order]
