"""What a cell shows: values as the number format of their cell shows them (ECMA-376 part 1, 18.8.30).

In: a value and a number format. Out: one line of text. Must not: put in separators of thousands, which mean another
number in another country; show a date other than as ISO 8601.
"""

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache

CellValue = str | int | float | bool | datetime | date | time | timedelta | None

_MAX_DECIMALS = 15  # a double has no more
_MAX_FORMAT_CHARS = 255  # as in spreadsheet programs
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<currency>[^\]-]*)(?:-[^\]]*)?\]|\[[^\]]*\]|_.|\*.'
    r"|(?P<digits>[#0?,.]+)|(?P<percent>%)|(?P<plain>[-+ ()$€£¥:])|(?P<other>.)",
    re.S,
)


@dataclass(frozen=True, slots=True)
class _Format:
    before: str
    after: str
    whole: int  # digits before the point, filled with zeros
    decimals: int
    least_decimals: int
    percent: bool


def shown(value: CellValue, number_format: str = "General") -> str:
    """The text of a cell; empty for nothing."""
    match value:
        case None:
            return ""
        case str():
            return " ".join(value.split())
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            return _number(value, number_format)
        case datetime() if value.time() == time():
            return value.date().isoformat()
        case datetime():
            return value.isoformat(" ", "seconds").removesuffix(":00")
        case time():
            return value.isoformat("seconds").removesuffix(":00")
        case _:
            return str(value)


def _number(value: int | float, number_format: str) -> str:
    form = _format(number_format[: _MAX_FORMAT_CHARS + 1])
    if form is None:
        return _plain(value)
    scaled = abs(value) * 100 if form.percent else abs(value)
    digits = f"{scaled:.{form.decimals}f}"
    whole, _, decimals = digits.partition(".")
    while len(decimals) > form.least_decimals and decimals.endswith("0"):
        decimals = decimals[:-1]
    number = f"{whole.zfill(form.whole)}.{decimals}" if decimals else whole.zfill(form.whole)
    return f"{'-' if value < 0 else ''}{form.before}{number}{form.after}"


def _plain(value: int | float) -> str:
    """Without the noise of binary fractions: 3 for 3.0, 0.3 for 0.1 + 0.2."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.15g}" if isinstance(value, float) else str(value)


@lru_cache(maxsize=1_000)
def _format(number_format: str) -> _Format | None:
    """The first section of a format if it is a plain number with something before and after it, such as a currency."""
    around = ["", ""]
    digits: str | None = None
    percent = False
    if len(number_format) > _MAX_FORMAT_CHARS:
        return None
    for token in _TOKEN.finditer(number_format):
        kind, text = token.lastgroup, token.group(token.lastgroup) if token.lastgroup else ""
        if kind == "other" and text == ";":
            break
        if kind == "other" or (kind == "digits" and digits is not None):
            return None
        if kind == "digits":
            digits = text
        elif kind is not None and not (kind == "plain" and text in "-+()"):  # signs are put by the value
            percent = percent or kind == "percent"
            around[digits is not None] += text
    if digits is None or digits.endswith(",") or digits.count(".") > 1:  # a comma at the end divides by a thousand
        return None
    whole, _, decimals = digits.partition(".")
    least = len(decimals.rstrip("#?"))
    return _Format(
        around[0].lstrip(), around[1].rstrip(), whole.count("0"), min(len(decimals), _MAX_DECIMALS), least, percent
    )
