"""Files that are no documents, too large, cut short, garbled or oddly named: each is one failure with a reason, at once."""

import os
import random
import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document

from ingest.discover import Found, Refused, discover
from ingest.documents import assemble, family_for, load
from ingest.loaders.options import LoadOptions, OcrOptions
from ingest.settings import IngestSettings
from rag_service.errors import LoadFailed
from tests.support.archives import ARCHIVES, WORDS, bomb

from .conftest import LoadBytes

NO_OCR = LoadOptions(ocr=OcrOptions(enabled=False))


A_LINE = b"BT /F 12 Tf 72 700 Td (The kettle holds two litres.) Tj ET"


def a_pdf(packed: bytes = zlib.compress(A_LINE)) -> bytes:
    """One page whose content is `packed`."""
    entry = b"/Length %d /Filter /FlateDecode" % len(packed)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<<" + entry + b">>stream\n" + packed + b"\nendstream",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body, places = bytearray(b"%PDF-1.4\n"), []
    for number, one in enumerate(objects, start=1):
        places.append(len(body))
        body += b"%d 0 obj\n" % number + one + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(body)
    return bytes(body) + b"xref\n0 6\n0000000000 65535 f \n" + table + (
        b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % start
    )  # fmt: skip


VALID: dict[str, Callable[[], bytes]] = {
    **ARCHIVES,
    "pdf": a_pdf,
    "txt": lambda: f"{WORDS}\n".encode(),
    "md": lambda: f"# Kettles\n\n{WORDS}\n\n| a | b |\n| - | - |\n| 1 | 2 |\n".encode(),
    "html": lambda: f"<html><h1>Kettles</h1><table><tr><th>a<th>b<tr><td>1<td>2</table><p>{WORDS}</html>".encode(),
    "csv": lambda: f'item,fact\nkettle,"{WORDS}"\n'.encode(),
    "json": lambda: f'{{"kettle": [{{"fact": "{WORDS}", "litres": 2}}]}}'.encode(),
    "jsonl": lambda: f'{{"fact": "{WORDS}"}}\n{{"litres": 2}}\n'.encode(),
    "ipynb": lambda: f'{{"cells": [{{"cell_type": "markdown", "source": ["{WORDS}"]}}], "nbformat": 4}}'.encode(),
    "rtf": lambda: rf"{{\rtf1\ansi {{\b Kettles}}\par {WORDS}\par}}".encode(),
    "eml": lambda: f"From: a@b.org\nTo: c@d.org\nSubject: Kettles\nMIME-Version: 1.0\n\n{WORDS}\n".encode(),
    "py": lambda: f'def kettle() -> str:\n    return "{WORDS}"\n'.encode(),
}
kinds = pytest.mark.parametrize("kind", VALID)


def reason_of(path: Path, options: LoadOptions = NO_OCR) -> str:
    with pytest.raises(LoadFailed) as failure:
        load(path, options)
    return failure.value.message


def text_or_reason(path: Path, in_place_of_a_reason: str) -> str:
    """The text; where the file is refused with a reason fit for people, what is given in its place."""
    try:
        return load(path, NO_OCR).text
    except LoadFailed as failure:
        if 0 < len(failure.message) < 300 and failure.message.isprintable():
            return in_place_of_a_reason
        raise


@kinds
def test_good_files_are_read(load_bytes: LoadBytes, kind: str) -> None:
    assert WORDS in load_bytes(f"good.{kind}", VALID[kind]()).text


# -- too large


@pytest.mark.parametrize("kind", [*VALID, "log", "tsv"])
def test_br_82_ten_gigabytes_are_refused_before_they_are_read(tmp_path: Path, kind: str) -> None:
    """Reading the sparse file, be it for its hash, would take longer than the test may."""
    path = tmp_path / f"huge.{kind}"
    path.write_bytes(VALID.get(kind, lambda: b"a\tb\n")())
    os.truncate(path, 10_000_000_000)
    reason = "a file of 10,000 MB; the limit is 200 (RAG_LOAD__MAX_FILE_MB)"
    assert reason_of(path) == reason
    with pytest.raises(LoadFailed):
        family_for(path)


def test_br_82_a_text_that_cannot_fit_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"x" * 81_000)
    options = LoadOptions(max_text_chars=20_000)
    assert (
        reason_of(path, options) == "a text file of 0.1 MB; the limit is 0 million characters (RAG_LOAD__MAX_TEXT_MB)"
    )
    os.truncate(path, 90_000_000)
    assert "RAG_LOAD__MAX_TEXT_MB" in reason_of(path)


@kinds
def test_br_82_a_text_longer_than_the_limit_is_refused_not_cut(
    load_bytes: LoadBytes, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"long.{kind}"
    path.write_bytes(VALID[kind]())
    length = len(load(path, NO_OCR).text)
    assert load(path, LoadOptions(ocr=NO_OCR.ocr, max_text_chars=length)).text
    reason = reason_of(path, LoadOptions(ocr=NO_OCR.ocr, max_text_chars=length - 1, max_file_bytes=10**9))
    assert "RAG_LOAD__MAX_TEXT_MB" in reason


def test_br_82_parts_are_no_longer_asked_for_once_the_text_is_too_long() -> None:
    asked = 0

    def parts() -> Iterator[Document]:
        nonlocal asked
        for asked in range(1, 1_000):  # noqa: B007 - counted for the assertion below
            yield Document(page_content="x" * 100)

    with pytest.raises(LoadFailed) as failure:
        assemble(parts(), "text/plain", "text/1", 1_000)
    assert failure.value.message == ("at least 1,100 characters of text; the limit is 1,000 (RAG_LOAD__MAX_TEXT_MB)")
    assert asked == 11


def test_br_82_the_settings_reach_the_loaders(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"MAX_FILE_MB": 7, "MAX_TEXT_MB": 2, "MAX_UNPACKED_MB": 30, "MAX_MEMBERS": 44}
    for name, value in names.items():
        monkeypatch.setenv(f"RAG_LOAD__{name}", str(value))
    monkeypatch.setenv("RAG_OCR__ENABLED", "false")
    monkeypatch.setenv("RAG_OCR__MAX_PAGES", "5")
    made = IngestSettings().load_options
    assert (made.max_file_bytes, made.max_text_chars) == (7_000_000, 2_000_000)
    assert (made.max_unpacked_bytes, made.max_members) == (30_000_000, 44)
    assert (made.ocr.enabled, made.ocr.max_pages) == (False, 5)
    monkeypatch.undo()
    assert IngestSettings().load_options == LoadOptions()


def test_br_45_a_pdf_whose_page_unpacks_to_a_hundred_megabytes_ends(load_bytes: LoadBytes) -> None:
    """What is far larger is cut off by the memory limit of the parser's own process (`test_parser_pool.py`)."""
    packed = b"\x78\xda" + bomb(100_000_000, b" " * 1_000_000, after=A_LINE) + b"\x00" * 4
    assert WORDS in load_bytes("stream.pdf", a_pdf(packed)).text


# -- not a document


def test_br_21_no_pipe_device_or_socket_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path has little room
    os.mkfifo("pipe.txt")
    Path("device.txt").symlink_to("/dev/zero")
    Path("folder.txt").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.txt")
        for name in ("pipe.txt", "device.txt", "socket.txt", "folder.txt"):
            assert reason_of(tmp_path / name) == "not a regular file"
        items = list(discover([tmp_path]))
    assert all(isinstance(item, Refused) for item in items)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_br_21_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_text(WORDS)
    path.chmod(0)
    assert reason_of(path) == "unreadable: permission denied"


@kinds
def test_br_21_an_empty_file_is_blank_or_broken(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"empty.{kind}"
    path.touch()
    assert text_or_reason(path, "").strip() == ""


@pytest.mark.parametrize(
    "name",
    [
        b"two\nlines.txt",
        b"bell\x07\x1b[31m.txt",
        "right\u202eleft.txt".encode(),
        b"not\xff\xfeutf-8.txt",
        b"-rf *;$(x).txt",
        b"n" * 250 + b".txt",
    ],
)
def test_br_21_no_name_stops_a_file_from_being_read(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name)
    path.write_text(WORDS)
    assert load(path).text == WORDS
    (found,) = discover([tmp_path])
    assert isinstance(found, Found)
    assert found.title.isprintable()
    found.title.encode()
    found.uri.encode("ascii")


# -- cut short, garbled


@kinds
@given(
    cut=st.floats(0, 1), flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=8)
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_br_21_a_damaged_file_is_read_or_refused(
    tmp_path: Path, kind: str, cut: float, flips: list[tuple[float, int]]
) -> None:
    """Nothing but LoadFailed comes out, whatever the damage does to a parser; what comes out as text encodes."""
    whole = _cached(kind)
    data = bytearray(whole[: int(len(whole) * cut)] if cut > 0.05 else whole)
    for place, bits in flips:
        if data:
            data[int(place * len(data))] ^= bits
    path = tmp_path / f"damaged.{kind}"
    path.write_bytes(data)
    text_or_reason(path, "").encode()


_made: dict[str, bytes] = {}


def _cached(kind: str) -> bytes:
    if kind not in _made:
        _made[kind] = VALID[kind]()
    return _made[kind]


@kinds
def test_br_21_noise_with_the_suffix_of_a_document_brings_no_text(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"noise.{kind}"
    path.write_bytes(random.Random(kind).randbytes(20_000))
    assert text_or_reason(path, "").strip() == ""
