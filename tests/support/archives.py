"""Small valid documents of every kind that is an archive, and archives written byte by byte, where they may lie.

In: the members. Out: bytes. Must not: check anything; what is written may be as broken as a test wants it.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import docx
import openpyxl
import pptx

ODF = "urn:oasis:names:tc:opendocument:xmlns"
WORDS = "The kettle holds two litres."
# The part that holds WORDS, by kind.
MAIN_PART = {
    "docx": "word/document.xml",
    "pptx": "ppt/slides/slide1.xml",
    "xlsx": "xl/worksheets/sheet1.xml",
    "odt": "content.xml",
    "odp": "content.xml",
    "ods": "content.xml",
    "epub": "OEBPS/one.xhtml",
}


@dataclass(frozen=True)
class Member:
    """`packed` is what stands in the file; `size` and `crc` are what the archive says of it unpacked. `at` is the place of
    another member's header to be used instead of an own one."""

    name: str
    packed: bytes
    size: int
    crc: int
    method: int = zipfile.ZIP_DEFLATED
    flags: int = 0
    at: int | None = None


def member(name: str, data: bytes, **said: int) -> Member:
    """An honest member, but for what is `said` otherwise."""
    return replace(Member(name, deflated(data), len(data), zlib.crc32(data)), **said)


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def bomb(size: int, unit: bytes = b"A" * 1_000_000, before: bytes = b"", after: bytes = b"") -> bytes:
    """Deflated data of `size` bytes and more, made without packing that much: whole blocks are repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = packer.compress(before) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(unit) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * -(-size // len(unit)) + deflated(after)


def archive(members: Iterable[Member]) -> bytes:
    body, directory, count = bytearray(), bytearray(), 0
    for one in members:
        name = one.name.encode()
        fields = (one.method, 0, 0x21, one.crc, len(one.packed), one.size)
        at = len(body) if one.at is None else one.at
        if one.at is None:
            body += struct.pack("<4s5H3I2H", b"PK\3\4", 20, one.flags, *fields, len(name), 0) + name + one.packed
        directory += struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 20, 20, one.flags, *fields, len(name), 0, 0, 0, 0, 0, at
        )  # fmt: skip
        directory += name
        count += 1
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, len(directory), len(body), 0)
    return bytes(body + directory + end)


def members_of(data: bytes) -> list[Member]:
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        return [member(info.filename, found.read(info)) for info in found.infolist()]


def changed(data: bytes, *members: Member) -> bytes:
    """The archive again, with members put in place of those of their name, or added."""
    fresh = {one.name: one for one in members}
    kept = [fresh.pop(one.name, one) for one in members_of(data)]
    return archive([*kept, *fresh.values()])


def part(data: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        return found.read(name)


def a_docx(words: str = WORDS) -> bytes:
    document = docx.Document()
    document.add_heading("Kettles", 1)
    document.add_paragraph(words)
    return _saved(document.save)


def a_pptx(words: str = WORDS) -> bytes:
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = words
    return _saved(deck.save)


def an_xlsx(words: str = WORDS) -> bytes:
    book = openpyxl.Workbook()
    for row in (["item", "fact"], ["kettle", words]):
        book.active.append(row)
    return _saved(book.save)


def an_odf(kind: str, words: str = WORDS) -> bytes:
    """`kind` is text, spreadsheet or presentation."""
    paragraph = f"<text:p>{words}</text:p>"
    body = {
        "text": paragraph,
        "spreadsheet": '<table:table table:name="Kettles"><table:table-row><table:table-cell'
        f' office:value-type="string">{paragraph}</table:table-cell></table:table-row></table:table>',
        "presentation": f'<draw:page draw:name="one"><draw:frame><draw:text-box>{paragraph}</draw:text-box></draw:frame>'
        "</draw:page>",
    }[kind]
    spaces = "".join(
        f' xmlns:{prefix}="{ODF}:{name}:1.0"'
        for prefix, name in {"office": "office", "text": "text", "table": "table", "draw": "drawing"}.items()
    )
    content = f"<office:document-content{spaces}><office:body><office:{kind}>{body}</office:{kind}></office:body>"
    mime = f"application/vnd.oasis.opendocument.{kind}".encode()
    return archive(
        [
            Member("mimetype", mime, len(mime), zlib.crc32(mime), zipfile.ZIP_STORED),
            member("META-INF/manifest.xml", f'<m:manifest xmlns:m="{ODF}:manifest:1.0"/>'.encode()),
            member("content.xml", f"{content}</office:document-content>".encode()),
        ]
    )


def an_epub(words: str = WORDS) -> bytes:
    mime = b"application/epub+zip"
    parts = {
        "META-INF/container.xml": f'<container xmlns="{ODF}:container"><rootfiles><rootfile full-path="OEBPS/book.opf"'
        ' media-type="application/oebps-package+xml"/></rootfiles></container>',
        "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="c" href="one.xhtml"'
        ' media-type="application/xhtml+xml"/></manifest><spine><itemref idref="c"/></spine></package>',
        "OEBPS/one.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><body><p>{words}</p></body></html>',
    }
    return archive(
        [
            Member("mimetype", mime, len(mime), zlib.crc32(mime), zipfile.ZIP_STORED),
            *(member(name, text.encode()) for name, text in parts.items()),
        ]
    )


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "docx": a_docx,
    "pptx": a_pptx,
    "xlsx": an_xlsx,
    "odt": lambda: an_odf("text"),
    "odp": lambda: an_odf("presentation"),
    "ods": lambda: an_odf("spreadsheet"),
    "epub": an_epub,
}


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def sharing(name: str, data: bytes, names: Sequence[str]) -> list[Member]:
    """One member whose bytes all the `names` share; it must be written first."""
    first = member(name, data)
    return [first, *(replace(first, name=other, at=0) for other in names)]
