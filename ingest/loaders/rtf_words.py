"""The words of RTF that matter to its text (Rich Text Format specification 1.9.1): tables, no code that reads.

In: nothing. Out: which words stand for characters, begin a place of their own, or name a charset. Must not: list what only
sets how text looks.
"""

import codecs
from typing import Literal

CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "cp950", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437",
    255: "cp850",
}  # fmt: skip
SYSTEMS = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}
CHARACTERS = {
    "tab": "\t", "line": "\n", "lbr": "\n", "softline": "\n", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘",
    "rquote": "’", "ldblquote": "“", "rdblquote": "”", "emspace": " ", "enspace": " ", "qmspace": " ", "nestcell": " | ",
}  # fmt: skip
SYMBOLS = {"~": "\xa0", "_": "‑", "{": "{", "}": "}", "\\": "\\", "\n": None, "\r": None, "\t": "\t"}  # None: a \par

Destination = Literal["body", "skip", "fonts", "styles", "title", "author", "label"]

_NO_TEXT = """
colortbl info pict object objdata fldinst header headerl headerr headerf footer footerl footerr footerf footnote annotation
atnid atnauthor atnref shprslt upr nonesttables listtable listoverridetable revtbl rsidtbl filetbl xe tc rxe txe bkmkstart
bkmkend datafield formfield themedata private sn sv sp fontemb falt panose operator creatim revtim printim buptim comment
doccomm keywords subject category company manager hlinkbase template ftnsep ftnsepc ftncn aftnsep aftnsepc aftncn
"""
# What a group is about. Those that `\*` marks and that are not here are skipped, as the specification asks.
DESTINATIONS: dict[str, Destination] = {
    **dict.fromkeys(_NO_TEXT.split(), "skip"),
    "fonttbl": "fonts", "stylesheet": "styles", "title": "title", "author": "author", "pntext": "label",
    "listtext": "label", "shptxt": "body", "dptxbxtext": "body", "ud": "body", "result": "body", "fldrslt": "body",
}  # fmt: skip
COUNTED = {
    "footnote": "footnotes",
    "annotation": "comments",
    **dict.fromkeys(("header", "headerl", "headerr", "headerf"), "running headers"),
    **dict.fromkeys(("footer", "footerl", "footerr", "footerf"), "running footers"),
}
# Text inside of what else is skipped: text boxes, the Unicode form of a passage, what an object shows.
REVIVING = frozenset(["shptxt", "dptxbxtext", "ud", "result", "title", "author"])


def codec(number: int | None) -> str | None:
    """Python's name for a Windows code page; 10000 and on are Apple's."""
    name = {65001: "utf-8", 10000: "mac_roman", 10007: "mac_cyrillic", 10029: "mac_latin2"}.get(
        number or 0, f"cp{number}"
    )
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None
