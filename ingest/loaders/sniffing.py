"""What a file is, told by its first bytes; its name has no say here.

In: a file. Out: the name of a family of formats, or of something that none reads. Must not: read more than a few KB (of
an archive, its directory at the end); open what an archive holds, but for the few bytes that name its type.
"""

import re
from pathlib import Path
from typing import IO

from ingest.loaders.archives import opened
from ingest.loaders.encoding import decode
from rag_service.errors import LoadFailed

SNIFFED_BYTES = 8192
_MAX_MEMBERS = 50_000  # the list of more files takes seconds to read; the suffix decides then, and the loader refuses

OLE = "ole"  # the old compound file: .doc, .ppt, .msg, and every encrypted Office document

_LEADING = b"\xef\xbb\xbf\xff\xfe \t\r\n\x00"
# Atomic and possessive where comments stand: else a page that begins with fifty of them would be tried in 2^50 ways.
_HTML = re.compile(rb"(?:<\?xml[^>]*>\s*)?(?:<!--(?>.*?-->)\s*)*+<(?:!doctype\s+html|html[\s>])", re.I | re.S)
# Texts that nobody asks about: drawings, print files, keys and certificates. Keys should not be found either.
_NO_PROSE = re.compile(
    rb"(?:<\?xml[^>]*>\s*)?(?:<!--(?>.*?-->)\s*)*+(?:<!doctype\s+svg[^>]*>\s*)?<svg[\s/>]|%!PS|-----BEGIN (?!PGP SIGNED)",
    re.I | re.S,
)
_MAGIC = (  # the order is of no account: no two can be true of one file
    (b"%PDF-", "pdf"),
    (b"{\\rtf", "rtf"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLE),
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"II*\x00", "image"),
    (b"MM\x00*", "image"),
    (b"GIF87a", "image"),
    (b"GIF89a", "image"),
)
_AFTER_SPACE = {b"%PDF-", b"{\\rtf"}  # read all the same with white space in front
# A member that only such a package has; the first that is found decides.
_MEMBERS = (
    (re.compile(r"word/document\d*\.xml"), "docx"),
    (re.compile(r"ppt/presentation\d*\.xml"), "pptx"),
    (re.compile(r"xl/workbook\d*\.(?:xml|bin)"), "xlsx"),
)
_MIME_TYPES = {
    b"application/epub+zip": "epub",
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.spreadsheet": "ods",
    b"application/vnd.oasis.opendocument.presentation": "odp",
}
_OLE_CONTENTS = (
    ("EncryptedPackage", "encrypted, needs a password"),
    ("WordDocument", "old Word format: save it as DOCX to have it read"),
    ("PowerPoint Document", "old PowerPoint format: save it as PPTX to have it read"),
    ("__properties_version1.0", "Outlook message: save it as EML to have it read"),
)
_FIELD = re.compile(rb"([!-9;-~]{1,60}):[^\r\n]{0,4000}(?:\r?\n[ \t][^\r\n]{0,4000})*(?:\r?\n|\Z)")
_CORRESPONDENTS = {b"from", b"to", b"subject", b"date", b"cc"}
_BY_MACHINES = {b"received", b"return-path", b"message-id", b"mime-version", b"content-type", b"dkim-signature"}
_STRING = rb'"(?:[^"\\\r\n]|\\.){0,2000}"'
_JSON = re.compile(
    rb"\{\s*(?:" + _STRING + rb"\s*:|\})|\[\s*(?:\{\s*[\"}]|\[\s*[\[{\"\d-]|" + _STRING + rb"\s*[,\]]|-?[\d.eE+-]+\s*,)"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


def sniff(path: Path) -> str | None:
    """`pdf`, `docx`, `html` and so on where the content leaves no doubt; None for everything else. Raises OSError."""
    with path.open("rb") as file:
        return _of(file.read(SNIFFED_BYTES), file)


def _of(head: bytes, file: IO[bytes]) -> str | None:
    start = head.replace(b"\x00", b"").lstrip(_LEADING)  # without zero bytes, UTF-16 reads like ASCII
    for magic, name in _MAGIC:
        if head.startswith(magic) or (magic in _AFTER_SPACE and start.startswith(magic)):
            return _compound(file) if name == OLE else name
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image"
    if head.startswith(b"BM") and head[6:10] == b"\0\0\0\0" and head[15:18] == b"\0\0\0":  # reserved; header's size
        return "image"
    if head.startswith(b"PK\x03\x04"):
        return _archive(file)
    if _HTML.match(start):
        return "html"
    return "eml" if _is_mail(head) else None


def _archive(file: IO[bytes]) -> str | None:
    """Looks at the directory at the end of the archive, not at what is packed in it."""
    try:
        with opened(Path(file.name), _MAX_MEMBERS) as archive:
            names = archive.namelist()
            if "mimetype" in names and archive.getinfo("mimetype").file_size < 200:
                declared = archive.read("mimetype").strip().removesuffix(b"-template")
                if declared in _MIME_TYPES:
                    return _MIME_TYPES[declared]
    except OSError:
        raise
    except Exception:  # noqa: BLE001 - zipfile raises half a dozen types on bad archives; the suffix decides then
        return None
    for member, name in _MEMBERS:
        if any(member.fullmatch(candidate) for candidate in names):
            return name
    is_book = "META-INF/container.xml" in names and any(name.endswith(".opf") for name in names)
    return "epub" if is_book else None


def sniff_text(path: Path) -> str | None:
    """`json`, `jsonl` or `text` for a text whose name says nothing; None for binary data, keys and drawings. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(SNIFFED_BYTES)
    start = head.lstrip(_LEADING)
    if _NO_PROSE.match(start) or not _is_text(head):
        return None
    if not _JSON.match(start):
        return "text"
    first, *others = start.splitlines()
    is_whole = first.rstrip()[-1:] in {b"}", b"]"}
    return "jsonl" if is_whole and others and _JSON.match(others[0].lstrip()) else "json"


def _is_mail(head: bytes) -> bool:
    """Whether a text begins with the header of a mail as programs write it: what people type lacks their fields.

    A mailbox (many mails in one file) begins with a `From ` line, which is no field.
    """
    names: set[bytes] = set()
    at = len(head) - len(head.lstrip(b"\xef\xbb\xbf\r\n"))
    while field := _FIELD.match(head, at):
        names.add(field.group(1).lower())
        at = field.end()
    return b"from" in names and len(names & _CORRESPONDENTS) >= 2 and bool(names & _BY_MACHINES)


def _is_text(head: bytes) -> bool:
    """Stricter than a loader that was told by the suffix: no stray zero bytes, hardly any control character."""
    try:
        text = decode(head).text
    except LoadFailed:
        return False
    if b"\x00" in head and not 0 < len(text) <= len(head) * 0.6:  # one-byte characters among zeros
        return False
    return len(_CONTROLS.findall(text)) * 100 <= len(text)


def _compound(file: IO[bytes]) -> str:
    """Old Excel books are read; of the rest `ole_reason` tells what to do."""
    names = _streams(file)
    return "xls" if any(name.encode("utf-16-le") in names for name in ("Workbook", "Book\x00")) else OLE


def ole_reason(path: Path) -> str | None:
    """Why an old compound file is not read, by the names of its streams. Raises OSError."""
    with path.open("rb") as file:
        names = _streams(file)
    return next((why for name, why in _OLE_CONTENTS if name.encode("utf-16-le") in names), None)


def _streams(file: IO[bytes]) -> bytes:
    """The first sectors of the directory, with the names in them."""
    file.seek(0)
    head = file.read(512)
    sector_bits = min(int.from_bytes(head[30:32], "little"), 12)
    file.seek((int.from_bytes(head[48:52], "little") + 1) << sector_bits)
    return file.read(SNIFFED_BYTES)
