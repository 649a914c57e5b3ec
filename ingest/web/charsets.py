"""A charset that only the HTTP header declares, written into the file, where the loaders see it.

In: a file and the declared charset. Out: the same file, in UTF-8 with a mark, when the declaration is needed and true.
Must not: touch a file that says itself what it is (a mark, valid UTF-8, binary data), so its content hash is that of the
same file from a disk; believe a declaration that does not fit the bytes.

A header outranks `<meta charset>` (HTML standard, 13.2.3.1), as a mark does for the loaders.
"""

import codecs
import os
import tempfile
from pathlib import Path

# What web pages mean by the names of smaller charsets (Encoding Standard, section 4.2).
_MEANT = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-16": "utf-16-le",  # without a mark
    "utf-32": "utf-32-le",
}
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ESCAPING = ("iso2022", "hz")  # 7-bit charsets: their bytes are valid UTF-8 and mean something else
_TEXT = ("cp", "iso8859", "koi8", "mac", "gb18030", "big5", "euc", "johab", "utf-16", "utf-32", "ptcp154", *_ESCAPING)
_CHUNK = 1 << 20


def is_text_type(media_type: str) -> bool:
    """Types whose charset the header may declare. XML and JSON say it themselves."""
    return (media_type.startswith("text/") and media_type != "text/xml") or media_type == "application/xhtml+xml"


def keep_charset(path: Path, declared: str) -> bool:
    """Whether the file was rewritten."""
    charset = _known(declared)
    with path.open("rb") as file:
        if charset is None or file.read(4).startswith(_MARKS):
            return False
    if not charset.startswith((*_ESCAPING, "utf-16", "utf-32")) and _fits(path, "utf-8"):
        return False
    return _rewritten(path, charset)


def _known(declared: str) -> str | None:
    """Python's name for a charset of the web; None for UTF-8, for what is none, and for Python's own (`unicode_escape`)."""
    try:
        name = codecs.lookup(declared.strip("'\" ")).name
    except (LookupError, ValueError):
        return None
    name = _MEANT.get(name, name)
    return name if name.startswith(_TEXT) else None


def _fits(path: Path, charset: str) -> bool:
    decoder = codecs.getincrementaldecoder(charset)()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _rewritten(path: Path, charset: str) -> bool:
    decoder = codecs.getincrementaldecoder(charset)()
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=path.suffix)
    copy = Path(name)
    try:
        with path.open("rb") as file, os.fdopen(handle, "wb") as out:
            out.write(codecs.BOM_UTF8)
            while chunk := file.read(_CHUNK):
                out.write(decoder.decode(chunk).encode("utf-8"))
            out.write(decoder.decode(b"", final=True).encode("utf-8"))
    except UnicodeError:  # the second half of it: a lone surrogate, which some decoders let through
        copy.unlink()
        return False
    copy.replace(path)
    return True
