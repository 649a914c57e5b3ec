"""Documents that are archives: bombs and lies are told before a parser unpacks them; good ones pass."""

import io
import random
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.documents import load
from ingest.loaders.options import LoadOptions
from rag_service.errors import LoadFailed
from tests.support.archives import (
    ARCHIVES,
    MAIN_PART,
    WORDS,
    Member,
    a_docx,
    archive,
    bomb,
    changed,
    deflated,
    member,
    members_of,
    part,
    sharing,
)

from .conftest import LoadBytes

GIGABYTE = 1_000_000_000
kinds = pytest.mark.parametrize("kind", ARCHIVES)


def refusal(load_bytes: LoadBytes, name: str, data: bytes) -> str:
    with pytest.raises(LoadFailed) as failure:
        load_bytes(name, data)
    return failure.value.message


@kinds
def test_good_archives_of_every_kind_are_read(load_bytes: LoadBytes, kind: str) -> None:
    assert WORDS in load_bytes(f"good.{kind}", ARCHIVES[kind]()).text


@kinds
def test_br_45_a_gigabyte_of_one_letter_is_refused_by_what_the_archive_says(load_bytes: LoadBytes, kind: str) -> None:
    data = changed(ARCHIVES[kind](), Member(MAIN_PART[kind], bomb(GIGABYTE), GIGABYTE, 0))
    reason = refusal(load_bytes, f"bomb.{kind}", data)
    assert reason.startswith("unpacks to 1,00")
    assert reason.endswith(" MB or more; the limit is 500 MB (RAG_LOAD__MAX_UNPACKED_MB)")


@kinds
def test_br_45_a_gigabyte_that_says_it_is_little_is_refused_by_unpacking(load_bytes: LoadBytes, kind: str) -> None:
    packed = bomb(GIGABYTE, before=b"<a>")
    for said in (10_000, 40_000_000):
        data = changed(ARCHIVES[kind](), Member(MAIN_PART[kind], packed, said, 0))
        reason = refusal(load_bytes, f"lies.{kind}", data)
        assert reason == "damaged, or a zip bomb: a file in it is larger than it says"


def test_br_45_many_files_that_are_too_much_together(load_bytes: LoadBytes) -> None:
    photos = [Member(f"word/media/{n}.bin", bomb(49_000_000), 49_000_000, 0) for n in range(20)]
    reason = refusal(load_bytes, "sum.docx", changed(a_docx(), *photos))
    assert "RAG_LOAD__MAX_UNPACKED_MB" in reason


def test_br_45_below_the_limit_the_ratio_tells_a_bomb(load_bytes: LoadBytes) -> None:
    data = changed(a_docx(), Member("word/document.xml", bomb(100_000_000), 100_000_000, 0))
    reason = refusal(load_bytes, "ratio.docx", data)
    assert reason.startswith("a zip bomb: a file of 100 MB in it is packed to a 200th or less")
    assert "a tenth of RAG_LOAD__MAX_UNPACKED_MB" in reason


@kinds
def test_br_45_a_hundred_thousand_members_are_refused(load_bytes: LoadBytes, kind: str) -> None:
    extra = [Member(f"x/{n}", b"", 0, 0, zipfile.ZIP_STORED) for n in range(100_000)]
    reason = refusal(load_bytes, f"many.{kind}", archive([*members_of(ARCHIVES[kind]()), *extra]))
    assert reason.endswith("files; the limit is 10,000 (RAG_LOAD__MAX_MEMBERS)")


def test_br_45_just_too_many_members_are_counted(load_bytes: LoadBytes) -> None:
    good = members_of(a_docx())
    at_limit = [*good, *(Member(f"x/{n}", b"", 0, 0, 0) for n in range(10_000 - len(good)))]
    assert WORDS in load_bytes("limit.docx", archive(at_limit)).text
    reason = refusal(load_bytes, "over.docx", archive([*at_limit, member("one more", b"")]))
    assert reason == "an archive of 10,001 files; the limit is 10,000 (RAG_LOAD__MAX_MEMBERS)"


def test_br_45_files_that_share_their_bytes_are_a_bomb(load_bytes: LoadBytes) -> None:
    shared = sharing("a", b"A" * 1_000_000, [f"word/media/{n}" for n in range(400)])
    reason = refusal(load_bytes, "quilt.docx", archive([*shared, *members_of(a_docx())]))
    assert reason == "damaged, or a zip bomb: files in it overlap"


def test_br_45_an_archive_inside_is_not_entered(load_bytes: LoadBytes) -> None:
    nested = archive([Member("bomb", bomb(GIGABYTE), GIGABYTE, 0)])
    for level in range(5):
        nested = archive([member(f"{n}.zip", nested) for n in range(3 + level)])
    data = changed(a_docx(), member("word/embeddings/nested.zip", nested))
    assert WORDS in load_bytes("nested.docx", data).text


def test_br_45_the_limits_are_settings(tmp_path: Path) -> None:
    data = changed(a_docx(), member("word/media/photo.bin", random.Random(1).randbytes(2_000_000)))
    (tmp_path / "a.docx").write_bytes(data)
    for options in (LoadOptions(max_unpacked_bytes=1_000_000), LoadOptions(max_members=10)):
        with pytest.raises(LoadFailed, match=r"RAG_LOAD__MAX_(UNPACKED_MB|MEMBERS)"):
            load(tmp_path / "a.docx", options)
    assert WORDS in load(tmp_path / "a.docx", LoadOptions(max_unpacked_bytes=4_000_000)).text


@kinds
def test_br_45_names_that_climb_out_of_the_archive_write_nothing(
    load_bytes: LoadBytes, tmp_path: Path, kind: str
) -> None:
    names = ("../../climbed.txt", "/climbed.txt", "C:\\climbed.txt", "..\\climbed.txt", "a\x00.txt", "a/" * 2_000)
    data = archive([*members_of(ARCHIVES[kind]()), *(member(name, b"text") for name in names)])
    assert WORDS in load_bytes(f"slip.{kind}", data).text
    assert [path.name for path in tmp_path.iterdir()] == [f"slip.{kind}"]
    assert not list(tmp_path.parent.glob("climbed*"))
    assert not Path("/climbed.txt").exists()


def test_members_under_a_password_and_odd_packing_are_named(load_bytes: LoadBytes) -> None:
    good = members_of(a_docx())
    locked = [replace(one, flags=1) for one in good]
    assert refusal(load_bytes, "locked.docx", archive(locked)) == "encrypted, needs a password"
    for method, name in ((12, "bzip2"), (14, "LZMA"), (9, "deflate64"), (77, "method 77")):
        odd = archive([*good, replace(member("odd", b"text"), method=method)])
        assert refusal(load_bytes, "odd.docx", odd) == f"packed with {name}, which no such document uses: save it anew"


def test_a_name_that_stands_twice_is_counted_twice_and_read_once(load_bytes: LoadBytes) -> None:
    good = members_of(a_docx())
    document = next(one for one in good if one.name == "word/document.xml")
    assert load_bytes("twice.docx", archive([*good, document])).text.count(WORDS) == 1
    half = Member("word/document.xml", bomb(300_000_000, bytes(range(256)) * 4_000), 300_000_000, 0)
    assert "RAG_LOAD__MAX_UNPACKED_MB" in refusal(load_bytes, "both.docx", archive([*good, half, half]))


def test_an_archive_behind_other_bytes_is_looked_through_too(load_bytes: LoadBytes) -> None:
    data = changed(a_docx(), Member("word/document.xml", bomb(GIGABYTE), GIGABYTE, 0))
    assert "RAG_LOAD__MAX_UNPACKED_MB" in refusal(load_bytes, "behind.docx", b"#!/bin/sh\n" + data)


def test_a_damaged_picture_does_not_take_the_text_along(load_bytes: LoadBytes) -> None:
    picture = replace(member("word/media/a.png", bytes(range(256)) * 4_000), crc=1)
    broken = Member("word/media/b.png", b"\xff\xff nothing deflated", 100, 0)
    assert WORDS in load_bytes("picture.docx", changed(a_docx(), picture, broken)).text


def test_large_good_archives_are_measured_and_pass(load_bytes: LoadBytes) -> None:
    """A book of pictures could unpack to far more than the limit, for all that its size tells."""
    noise = b"".join(deflated(bytes([n])) for n in range(256)) * 400
    photos = [member(f"word/media/{n}.bin", noise + bytes([n])) for n in range(20)]
    file = io.BytesIO(changed(a_docx(), *photos))
    with zipfile.ZipFile(file) as made:
        assert made.testzip() is None
    assert WORDS in load_bytes("book.docx", file.getvalue()).text
    assert part(file.getvalue(), "word/media/3.bin") == noise + b"\x03"
