"""What a text says in words: its tokens with exact offsets, and for each the term that is compared.

In: an answer's sentence or a source's text. Out: `Word` values in order. Must not: decide what supports what (pure,
standard library).

Terms: a number is `#` and its value ("1,000", "1.000" and "one thousand"'s digits meet), a content word its light stem,
a unit its first name in the table ("litres" and "Liter" meet); Chinese, Japanese, Korean and Thai become pairs of
characters; stop words have none.
"""

import re
import unicodedata
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rag_service.vocabulary import (
    NEGATIONS,
    NEGATIONS_CJK,
    NUMBER_WORDS,
    ONES,
    PARTICLES_CJK,
    SCALES,
    STOP,
    TENS,
    UNITS,
)

_PAIRED = (  # Thai, Lao, Khmer; kana, Han, Hangul
    "\u0e00-\u0eff\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
_MARKS = "\u00ad\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0dff\u200c\u200d"
_TOKEN = re.compile(
    rf"(?P<pair>[{_PAIRED}])"
    r"|(?P<number>(?<![\w.,])[-−]?\d+(?:[.,'’٫٬\u00a0\u202f\u2009]\d+)*|\d+(?:[.,'’٫٬\u00a0\u202f\u2009]\d+)*)"
    rf"|(?P<word>[^\W_{_PAIRED}](?:[^\W_{_PAIRED}]|[{_MARKS}]|['’](?=[^\W\d_]))*)"
    r"|(?P<sign>[%‰$€£¥₹°])"
)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:([.,'’٬\u00a0\u202f\u2009])\d{3})(?:\1\d{3})*")
_LAST_SEPARATOR = re.compile(r"[.,٫](\d+)$")
_SEPARATORS = re.compile(r"[.,'’٫٬\u00a0\u202f\u2009]")
_DROPPED = re.compile(r"[\u00ad\u200c\u200d]")


class Word(NamedTuple):
    """A token at `[start, end)`. `norm` is its folded form, `term` what is compared ("" for none). `unit` is the unit
    that it names, if it names one.
    """

    start: int
    end: int
    norm: str
    term: str = ""
    negates: bool = False
    capital: bool = False
    unit: str = ""


def words(text: str) -> list[Word]:
    """All tokens of `text`, in one pass; Markdown's signs, quotes and punctuation are none."""
    found: list[Word] = []
    pairs = scaled = False
    for match in _TOKEN.finditer(text):
        kind, start, end = match.lastgroup, match.start(), match.end()
        if kind == "word":
            norm, term, negates, capital, unit = _lexeme(match[0])
            scaled = scaled or norm in SCALES or norm in TENS
            found.append(Word(start, end, norm, term, negates, capital, unit))
        elif kind == "number":
            found.append(Word(start, end, match[0], "#" + number_value(match[0])))
        elif kind == "pair":
            pairs = True
            found.append(Word(start, end, match[0], "", match[0] in NEGATIONS_CJK))
        else:
            unit = UNITS.get(match[0], "")
            found.append(Word(start, end, match[0], unit, unit=unit))
    if scaled:
        _join_numbers(found, text)
    if pairs:
        _pair(found)
    return found


@lru_cache(maxsize=16384)
def _lexeme(raw: str) -> tuple[str, str, bool, bool, str]:
    norm = (
        raw.lower()
        if raw.isascii()
        else _DROPPED.sub("", unicodedata.normalize("NFKC", raw).casefold()).replace(" ", "")
    )
    if "'" in norm or "’" in norm:
        norm = norm.replace("’", "'")
        if norm.endswith("n't"):
            return norm, "", True, False, ""
        norm = norm.removesuffix("'s").rstrip("'")
    if norm in NEGATIONS:
        return norm, "", True, False, ""
    if norm in NUMBER_WORDS:
        return norm, f"#{NUMBER_WORDS[norm]}", False, False, ""
    if norm in STOP:
        return norm, "", False, False, ""
    capital = raw[0].isupper()
    if len(norm) == 1 and norm.isascii() and not capital:
        return norm, "", False, False, UNITS.get(norm, "")
    if norm in UNITS and len(norm) > 1:
        return norm, UNITS[norm], False, False, UNITS[norm]
    return norm, stem(norm), False, capital, UNITS.get(norm, "")


@lru_cache(maxsize=4096)
def number_value(raw: str) -> str:
    """The value as plain digits. Groups of three are thousands whatever sign divides them, unless the number begins
    with 0; what is neither that nor a decimal (a version, a date) keeps its groups, so it equals only itself.
    """
    sign = "-" if raw[0] in "-−" else ""
    raw = raw.lstrip("-−")
    if not raw.isascii():
        raw = "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in raw)
    if _THOUSANDS.fullmatch(raw):
        return sign + _SEPARATORS.sub("", raw)
    fraction = _LAST_SEPARATOR.search(raw)
    whole = raw[: fraction.start()] if fraction else raw
    if whole.isdigit() or _THOUSANDS.fullmatch(whole):
        digits = _SEPARATORS.sub("", whole).lstrip("0") or "0"
        decimals = fraction[1].rstrip("0") if fraction else ""
        return f"{sign}{digits}.{decimals}" if decimals else sign + digits
    return ".".join(part.lstrip("0") or "0" for part in _SEPARATORS.split(raw))


@lru_cache(maxsize=16384)
def stem(norm: str) -> str:
    """A light stem that serves English and German alike: equal forms of a word meet, and it never grows shorter than
    three characters.
    """
    word = norm
    if not word.isalpha() or len(word) < 4:
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for suffix, least in (("ing", 4), ("ed", 3), ("ly", 4), ("en", 3), ("er", 4), ("em", 4), ("e", 3), ("n", 5)):
        if word.endswith(suffix) and len(word) - len(suffix) >= least:
            word = word[: -len(suffix)]
            if suffix in ("ing", "ed") and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 else word


def _join_numbers(found: list[Word], text: str) -> None:
    """Join "twenty-five" and "1.5 million" to one value each, in the first word's place."""
    for i in range(len(found) - 1):
        one, two = found[i], found[i + 1]
        if one.norm in TENS and two.norm in ONES and text[one.end : two.start] in ("-", " "):
            found[i] = one._replace(term=f"#{TENS[one.norm] + ONES[two.norm]}")
            found[i + 1] = two._replace(term="")
    for i in range(len(found) - 1):
        one, two = found[i], found[i + 1]
        if one.term.startswith("#") and two.norm in SCALES and text[one.end : two.start].isspace():
            value = one.term[1:]
            if value.count(".") <= 1:
                scaled = f"{Decimal(value).scaleb(SCALES[two.norm]):f}"
                found[i] = one._replace(term=f"#{scaled.rstrip('0').rstrip('.') if '.' in scaled else scaled}")
                found[i + 1] = two._replace(term="")


def _pair(found: list[Word]) -> None:
    """Give each character of a run of unspaced script the pair that it begins; negations and particles stand outside
    the pairs.
    """
    run: list[int] = []
    for i, word in enumerate([*found, Word(-1, -1, " ")]):
        paired = _is_paired(word.norm)
        if run and not (paired and word.start == found[i - 1].end):
            kept = [k for k in run if not (found[k].negates or found[k].norm in PARTICLES_CJK)]
            for k, following in pairwise(kept):
                found[k] = found[k]._replace(term=found[k].norm + found[following].norm)
            if len(kept) == 1:
                found[kept[0]] = found[kept[0]]._replace(term=found[kept[0]].norm)
            run = []
        if paired:
            run.append(i)


def _is_paired(norm: str) -> bool:
    return len(norm) == 1 and norm >= "\u0e00" and norm.isalpha()
