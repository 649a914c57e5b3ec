"""A file is read as what it is, whatever its name says; what nobody reads is refused with a word on what to do."""

import io
import zipfile
from pathlib import Path

import pytest
from docx import Document as WordDocument
from hypothesis import given
from hypothesis import strategies as st

from ingest.documents import family_for, load
from ingest.loaders.sniffing import SNIFFED_BYTES, sniff, sniff_text
from rag_service.errors import LoadFailed, UnsupportedType

MAIL = b"Received: by mx\r\nFrom: Ann <ann@example.com>\r\nSubject: Hi\r\nMIME-Version: 1.0\r\n\r\nWords.\r\n"
WORD_DIRECTORY = "WordDocument".encode("utf-16-le")


def family_name(path: Path) -> str | None:
    family = family_for(path)
    return family.name if family is not None else None


def word_bytes() -> bytes:
    buffer = io.BytesIO()
    document = WordDocument()
    document.add_paragraph("From a DOCX.")
    document.save(buffer)
    return buffer.getvalue()


def zip_bytes(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def compound(stream: str) -> bytes:
    """The header of a compound file whose directory, in its first sector, holds one name."""
    header = bytearray(512)
    header[:8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    header[30:32] = (9).to_bytes(2, "little")
    return bytes(header) + stream.encode("utf-16-le").ljust(512, b"\0")


@pytest.mark.parametrize(
    ("name", "data", "family"),
    [
        ("report.txt", b"%PDF-1.4", "pdf"),
        ("report", b"%PDF-1.4", "pdf"),
        ("about-pdf.txt", b"A file that begins with %PDF-1.7 is a PDF.", "text"),
        ("letter.doc", b"{\\rtf1 words}", "rtf"),
        ("about-rtf.md", b"# {\\rtf1} explained", "markdown"),
        ("login.csv", b"\n<!DOCTYPE html><html><body>Log in</body></html>", "html"),
        ("wide.txt", "<!doctype HTML><p>wide</p>".encode("utf-16"), "html"),
        ("page.php", b"<!DOCTYPE html><html><?php echo 1; ?></html>", "code-php"),
        ("page.xml", b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><body/></html>", "html"),
        ("data.xml", b"<?xml version='1.0'?><data>1</data>", "code-xml"),
        ("saved", MAIL, "eml"),
        ("saved.txt", MAIL, "eml"),
        ("typed.txt", b"From: Ann\nTo: Bob\nSubject: Lunch\n\nAt one?", "text"),
        ("typed", b"From: Ann\nTo: Bob\nSubject: Lunch\n\nAt one?", "text"),
        ("dump", b'{"a": 1}', "json"),
        ("dump.dat", b' [{"a": 1}]', "json"),
        ("dump.bak", b'{"a": 1}\n{"a": 2}\n', "jsonl"),
        ("notes", b"[section]\nkey = value", "text"),
        ("list", b"[1] Smith, a title", "text"),
        ("README", b"words", "text"),
        ("LICENSE", "Grüße".encode("cp1252"), "text"),
        ("app.conf", "wide words".encode("utf-16"), "text"),
        ("thing.foo", b"words", "text"),
        ("Dockerfile", b"FROM scratch", "code-dockerfile"),
        ("Dockerfile.dev", b"FROM scratch", "code-dockerfile"),
        ("CMakeLists.txt", b"project(x)", "code-cmake"),
        ("a.txt", b"words", "text"),
        ("a.MD", b"# words", "markdown"),
        ("a.tsv", b"a\tb", "csv"),
        ("broken.docx", b"PK\x03\x04", "docx"),
        ("book.bin", zip_bytes({"mimetype": "application/epub+zip"}), "epub"),
        ("book.zip", zip_bytes({"META-INF/container.xml": "", "b.opf": ""}), "epub"),
        ("old.dat", compound("Workbook"), "xls"),
    ],
)
def test_content_tells_the_loader_before_the_suffix_does(tmp_path: Path, name: str, data: bytes, family: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert family_name(tmp_path / name) == family


def test_a_document_under_a_wrong_name_is_read(tmp_path: Path) -> None:
    (tmp_path / "export.dat").write_bytes(word_bytes())
    assert load(tmp_path / "export.dat").text.strip() == "From a DOCX."


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.txt", b"\x89PNG\r\n\x1a\n", "image"),
        ("a", b"\xff\xd8\xff\xe0", "image"),
        ("a", b"II*\x00", "image"),
        ("a", b"MM\x00*", "image"),
        ("a", b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image"),
        ("a", b"RIFF\x00\x00\x00\x00WAVEfmt ", None),
        ("a", b"BM\x8a\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00", "image"),
        ("a", b"BMW is a maker of cars in Munich", None),
        ("a", b"GIF89a", "image"),
        ("a", zip_bytes({"ppt/presentation.xml": ""}), "pptx"),
        ("a", zip_bytes({"xl/workbook.bin": ""}), "xlsx"),
        ("a", zip_bytes({"mimetype": "application/vnd.oasis.opendocument.text"}), "odt"),
        ("a", zip_bytes({"notes/word/document.xml": ""}), None),
    ],
)
def test_magic_bytes(tmp_path: Path, name: str, data: bytes, kind: str | None) -> None:
    (tmp_path / name).write_bytes(data)
    assert sniff(tmp_path / name) == kind


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("film.mp4", b"\x00\x00\x00\x18ftypmp42"),
        ("program", bytes(range(256)) * 4),
        ("blank.bin", b"\x00"),
        ("files.zip", zip_bytes({"a.txt": "words"})),
        ("id_rsa", b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n"),
        ("logo.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0'/></svg>"),
        ("logo", b"<?xml version='1.0'?>\n<svg/>"),
        ("print.out", b"%!PS-Adobe-3.0\n"),
        ("all.mbox", b"From ann@example.com Mon Jan 1\n" + MAIL),
    ],
)
def test_what_no_loader_reads_is_unsupported(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert family_name(tmp_path / name) is None
    with pytest.raises(UnsupportedType, match=r"unsupported type (\.|\(no suffix\))"):
        load(tmp_path / name)


def test_binary_data_with_the_suffix_of_a_text_is_refused(tmp_path: Path) -> None:
    for name in ("a.txt", "a.md", "a.py", "a.json"):
        (tmp_path / name).write_bytes(bytes(range(256)) * 40)
        with pytest.raises(LoadFailed, match="binary data, not text"):
            load(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "stream", "reason"),
    [
        ("letter.doc", "WordDocument", "old Word format: save it as DOCX to have it read"),
        ("talk.ppt", "PowerPoint Document", "old PowerPoint format: save it as PPTX to have it read"),
        ("talk.txt", "PowerPoint Document", "old PowerPoint format: save it as PPTX to have it read"),
        ("mail.msg", "__properties_version1.0", "Outlook message: save it as EML to have it read"),
        ("thing.bin", "Root Entry", "unsupported type .bin"),
    ],
)
def test_old_office_files_say_what_to_do(tmp_path: Path, name: str, stream: str, reason: str) -> None:
    (tmp_path / name).write_bytes(compound(stream))
    with pytest.raises(UnsupportedType) as failure:
        load(tmp_path / name)
    assert failure.value.message == reason


def test_br_21_an_encrypted_office_file_says_so_under_any_name(tmp_path: Path) -> None:
    for name in ("a.docx", "a.dat", "a.txt"):
        (tmp_path / name).write_bytes(compound("EncryptedPackage"))
        with pytest.raises(LoadFailed, match="encrypted, needs a password"):
            load(tmp_path / name)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn", "Co"]), min_size=1, max_size=2 * SNIFFED_BYTES))
def test_any_plain_text_is_told_from_binary_data(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "sample"
    path.write_bytes(text.encode("utf-8"))
    assert sniff_text(path) in {"text", "json", "jsonl"}


def test_the_shared_documents_are_what_their_names_say(shared_documents: Path) -> None:
    told = {path.name: family_name(path) for path in shared_documents.iterdir()}
    assert told["winter-sports.epub"] == "epub"
    assert told["mail.eml"] == "eml"
    assert told["tables.docx"] == "docx"
    assert told["slides.pptx"] == "pptx"
    assert told["empty.xlsx"] == "xlsx"
    assert None not in told.values()
