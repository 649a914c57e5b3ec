"""A file becomes a document: normalised text, true offsets, clean metadata, and one kind of failure."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from ingest.chunker import Chunker
from ingest.documents import (
    assemble,
    clean_metadata,
    family_for,
    load,
    normalise_text,
)
from rag_service.errors import LoadFailed, UnsupportedType

any_text = st.text(st.characters(exclude_categories=[]))  # lone surrogates included
awkward = st.text(st.sampled_from("ae\u0301\u0316\u1100\u1161\r\n\x00\ufeff\ud835\udc00# |"))


@given(any_text | awkward)
def test_normalising_twice_changes_nothing_more(s: str) -> None:
    once = normalise_text(s)
    assert normalise_text(once) == once
    once.encode("utf-8")
    assert not set(once) & {"\r", "\x00", "\ufeff"}


def test_normalised_text_has_composed_letters_and_plain_line_ends() -> None:
    assert normalise_text("\ufeffGro\u0308ße\r\nzwei\rdrei\x00") == "Größe\nzwei\ndrei"


@pytest.mark.parametrize(
    ("raw", "right"),
    [
        ("x \ud835 y", "x \ufffd y"),
        ("pair \ud835\udc00", "pair \U0001d400"),
        ("\udfff", "\ufffd"),
        ("\ud835\x00\udc00", "\U0001d400"),
    ],
)
def test_br_53_lone_surrogates_become_text_that_encodes(raw: str, right: str) -> None:
    document = assemble(
        [Document(page_content=raw), Document(page_content="", metadata={"document_metadata": {"title": raw}})],
        "t",
        "t/1",
    )
    assert document.text == right
    assert document.metadata["title"] == right


def test_br_53_no_chunk_ends_between_the_halves_of_a_pair() -> None:
    document = assemble([Document(page_content="\ud835\udc00" * 40 + "\ud835 " + "x\udfff" * 40)], "t", "t/1")
    chunks = Chunker(lambda texts: [len(text) for text in texts], 7, 7).chunks(document.text, "v")
    assert len(chunks) > 10
    assert "".join(chunk.text for chunk in chunks).encode().decode() == "\U0001d400" * 40 + "\ufffd" + "x\ufffd" * 40


parts = st.lists(
    st.builds(
        lambda text, kind, level, page: Document(
            page_content=text, metadata={"kind": kind, "level": level} | ({"page": page} if page else {})
        ),
        awkward | st.text(max_size=20),
        st.sampled_from(["prose", "heading", "table", "code"]),
        st.integers(1, 6),
        st.none(),
    ),
    max_size=8,
)


@given(parts)
def test_offsets_of_any_parts_point_at_their_text(parts: list[Document]) -> None:
    document = assemble(parts, "text/plain", "text/1")
    assert normalise_text(document.text) == document.text
    for heading in document.headings:
        assert " ".join(document.text[heading.start :].split()).startswith(heading.text)
    for atom in document.atoms:
        assert atom.of(document.text).strip()
        assert "\n" not in atom.of(document.text)
    assert list(document.atoms) == sorted(document.atoms)


def test_parts_are_joined_as_they_are() -> None:
    document = assemble(
        [
            Document(page_content="Intro\n\n", metadata={"kind": "heading", "level": 2}),
            Document(page_content="Some prose.\n\n"),
            Document(page_content="a: 1\nb: 2\n", metadata={"kind": "table", "note": "one row is odd"}),
        ],
        "text/plain",
        "text/1",
    )
    assert document.text == "Intro\n\nSome prose.\n\na: 1\nb: 2\n"
    assert [(h.start, h.level, h.text) for h in document.headings] == [(0, 2, "Intro")]
    assert [atom.of(document.text) for atom in document.atoms] == ["a: 1", "b: 2"]
    assert document.notes == ("one row is odd",)


def test_pages_without_text_keep_the_others_in_their_place() -> None:
    document = assemble(
        [
            Document(page_content="", metadata={"page": 1}),
            Document(page_content="two", metadata={"page": 2}),
            Document(page_content="five", metadata={"page": 5}),
            Document(page_content="", metadata={"page": 6}),
        ],
        "application/pdf",
        "pdf/1",
    )
    assert document.text == "twofive"
    assert [document.pages.page_at(i) for i in (0, 2, 3, 6)] == [2, 2, 5, 5]
    assert len(document.pages.offsets) == 6


def test_br_57_metadata_that_a_store_refuses_is_mended() -> None:
    itself: list[object] = []
    itself.append(itself)
    cleaned = clean_metadata(
        {
            "none": None, "empty": [], "void": {}, "nan": float("nan"), "inf": float("inf"),
            "authors": ["Ada", "Bob"], "nested": {"a": {"b": 1}}, "when": datetime(2026, 1, 2, tzinfo=UTC),
            "bytes": b"caf\xc3\xa9", "huge": 2**70, "astronomic": 10**5000, "long": "x" * 100_000,
            "$where": 1, "größe": 2, "": 3, 7: "seven", "a b": 4, "a/b": 5, "flag": True, "score": 0.5, "loop": itself,
        }
    )  # fmt: skip
    assert not cleaned.keys() & {"none", "empty", "void", "nan", "inf"}
    assert cleaned["authors"] == '["Ada", "Bob"]'
    assert cleaned["nested"] == '{"a": {"b": 1}}'
    assert cleaned["when"] == "2026-01-02T00:00:00+00:00"
    assert cleaned["bytes"] == "café"
    assert cleaned["huge"] == str(2**70)
    assert len(str(cleaned["long"])) == len(str(cleaned["astronomic"])) == 1_000
    assert (cleaned["where"], cleaned["größe"], cleaned["key"], cleaned["7"]) == (1, 2, 3, "seven")
    assert (cleaned["a_b"], cleaned["a_b_2"]) == (4, 5)
    assert cleaned["flag"] is True
    assert cleaned["score"] == 0.5


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text | st.binary() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(any_text | st.integers(), inner) | st.tuples(inner),
    max_leaves=5,
)


@given(st.dictionaries(any_text | st.integers() | st.tuples(st.integers()), values, max_size=5))
def test_br_57_no_mapping_is_refused_and_cleaning_twice_changes_nothing(mapping: dict[object, object]) -> None:
    cleaned = clean_metadata(mapping)
    assert clean_metadata(cleaned) == cleaned
    for key, value in cleaned.items():
        assert key == key.strip("$.")
        assert isinstance(value, str | int | float | bool)
        f"{key}{value}".encode()


def test_br_21_every_bad_file_is_one_failure_with_a_reason(tmp_path: Path) -> None:
    bad = {
        "corrupt.pdf": b"%PDF-1.7 and then nothing of the kind",
        "truncated.docx": b"PK\x03\x04" + b"\x00" * 50,
        "program.txt": bytes(range(256)) * 20,
        "sealed.docx": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 500,
    }
    reasons = {}
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(LoadFailed) as failure:
            load(tmp_path / name)
        reasons[name] = failure.value.message
    assert reasons["corrupt.pdf"].startswith("not a PDF: broken file (")
    assert reasons["truncated.docx"].startswith("not a DOCX: broken file (")
    assert reasons["program.txt"] == "binary data, not text"
    assert reasons["sealed.docx"].startswith("encrypted, needs a password")


def test_br_21_what_is_no_readable_file_fails_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")  # opening it would wait for a writer
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    for name, reason in (
        ("pipe.txt", "not a regular file"),
        ("loop.txt", "unreadable: too many"),
        ("gone.txt", "unreadable: no such"),
    ):
        with pytest.raises(LoadFailed, match=reason):
            load(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_br_21_a_file_without_permission_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("secret")
    (tmp_path / "mine.txt").chmod(0)
    with pytest.raises(LoadFailed, match="unreadable: permission denied"):
        load(tmp_path / "mine.txt")


def test_an_empty_file_is_a_blank_document(tmp_path: Path) -> None:
    for name in ("a.txt", "b.md", "c.csv", "d.html"):
        (tmp_path / name).write_bytes(b"")
        assert load(tmp_path / name).text.strip() == ""


def test_an_unsupported_type_is_named(tmp_path: Path) -> None:
    for name, reason in (("film.mp4", "unsupported type .mp4"), ("program", "unsupported type (no suffix)")):
        (tmp_path / name).write_bytes(bytes(range(256)) * 4)
        assert family_for(tmp_path / name) is None
        with pytest.raises(UnsupportedType) as failure:
            load(tmp_path / name)
        assert failure.value.message == reason


def test_the_fingerprint_is_that_of_the_loaded_document(shared_documents: Path) -> None:
    for path in sorted(shared_documents.iterdir()):
        family = family_for(path)
        if family is None:
            with pytest.raises(UnsupportedType):
                load(path)
        elif path.suffix not in {
            ".pdf",
            ".docx",
            ".pptx",
            ".xlsx",
        }:  # their loaders have tests of their own, and take long
            assert load(path).loader == family.fingerprint


def test_br_21_an_encrypted_file_says_what_it_needs(shared_documents: Path) -> None:
    family = family_for(shared_documents / "encrypted.pdf")
    assert family is not None
    assert family.name == "pdf"
    with pytest.raises(LoadFailed) as failure:
        load(shared_documents / "encrypted.pdf")
    assert failure.value.message == "encrypted, needs a password"


def test_whitespace_alone_is_no_failure(shared_documents: Path) -> None:
    assert load(shared_documents / "only-whitespace.txt").text.strip() == ""
