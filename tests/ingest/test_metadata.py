"""Metadata from outside a file, and from its front matter: what is understood, and what is refused with which words."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.discover import Found, Refused, discover
from ingest.documents import load
from ingest.loaders.normalise import clean_metadata
from ingest.loaders.plain_values import ValuesError, from_json, from_yaml
from ingest.metadata import Metadata, is_good_sidecar, parse_pairs, why_no_document
from rag_service.errors import InvalidSettings

BROKEN = {
    "a list": "- a\n- b\n",
    "an open bracket": "a: [1\n",
    "an object": "a: !!python/object/apply:os.system [true]\n",
    "aliases": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "deep nesting": "a: " + "{a: " * 1_000 + "1",
    "a wrong date": "a: !!timestamp 2026-99-99\n",
    "a long text": "a: " + "x" * 100_001,
    "a control character": "a: \x01\n",
}


def found(path: Path) -> Found:
    return Found.at(path, path.stat())


def test_pairs_are_typed_and_a_repeated_key_has_all_its_values() -> None:
    pairs = ["team=hr", "year=2026", "share=0.5", "draft=true", "part=007", "note=a=b", "tag=x", "tag=y"]
    assert parse_pairs(pairs) == {
        "team": "hr",
        "year": 2026,
        "share": 0.5,
        "draft": True,
        "part": "007",
        "note": "a=b",
        "tag": '["x", "y"]',
    }


@pytest.mark.parametrize(
    "pair", ["team", "=hr", "te am=hr", "team=", "team= ", "uri=x", "document_id=1", "$.x=1", "_=1"]
)
def test_a_bad_pair_is_named(pair: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        parse_pairs([pair])
    assert repr(pair) in caught.value.message


@given(st.text(), st.sampled_from(["k", "a.b"]))
def test_br_57_any_value_of_a_pair_is_kept_or_refused(value: str, key: str) -> None:
    try:
        pairs = parse_pairs([f"{key}={value}"])
    except InvalidSettings:
        assert not value.strip()
    else:
        assert clean_metadata(pairs) == pairs


def test_a_sidecar_is_read_flat_and_goes_before_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.touch()
    (tmp_path / "a.pdf.meta.yaml").write_text(
        "team: it\nowner: {name: Ann, unit: {id: 7}}\ntags: [x, y]\nempty:\nno: no\n"
    )
    (tmp_path / "a.pdf.meta.json").write_text('{"year": 2026, "nan": NaN}')
    assert Metadata({"team": "hr", "site": "B"})(found(path)) == {
        "team": "it",
        "site": "B",
        "owner.name": "Ann",
        "owner.unit.id": 7,
        "tags": '["x", "y"]',
        "no": "no",
        "year": 2026,
    }


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_sidecar_is_told_and_its_document_comes_all_the_same(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.md").write_text("text")
    sidecar = tmp_path / "a.md.meta.yaml"
    sidecar.write_text(text)
    metadata = Metadata({"team": "hr"})
    told, document = metadata.checked(discover([tmp_path]))
    assert isinstance(told, Refused)
    assert (told.uri, told.status) == (sidecar.as_uri(), "failed")
    assert told.reason.startswith("a broken sidecar (")
    assert told.reason.endswith("a.md is indexed without it")
    assert isinstance(document, Found)
    assert metadata(document) == {"team": "hr"}
    assert not is_good_sidecar(sidecar.as_uri())
    sidecar.write_text("a: 1")
    assert is_good_sidecar(sidecar.as_uri())
    assert why_no_document(sidecar.as_uri()) == "it is the sidecar of a.md"
    assert why_no_document((tmp_path / "a.md").as_uri()) is None


def test_a_sidecar_that_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    os.mkfifo(tmp_path / "a.md.meta.yaml")
    told, _ = Metadata().checked(discover([tmp_path]))
    assert isinstance(told, Refused)
    assert "not a regular file" in told.reason


@given(st.text(max_size=200))
def test_any_text_is_metadata_or_refused(text: str) -> None:
    for read in (from_yaml, from_json):
        with suppress(ValuesError):
            clean_metadata(read(text))


@pytest.mark.parametrize(
    ("front", "said"),
    [
        ("---\ntitle: Leave\ntags: [hr, 2026]\ndate: 2026-01-31\nauthor: {name: Ann}\n---\n", True),
        ('+++\ntitle = "Leave"\ntags = ["hr", 2026]\ndate = 2026-01-31\nauthor.name = "Ann"\n+++\n', True),
        ("---\ntitle: [Leave\n---\n", False),
        ("---\n---\n", False),
        ("---\nonly words\n---\n", False),
    ],
)
def test_front_matter_is_metadata_and_stays_text(tmp_path: Path, front: str, said: bool) -> None:
    path = tmp_path / "a.md"
    path.write_text(f"{front}# Leave\n")
    document = load(path)
    assert document.text == f"{front}# Leave\n"
    metadata = {key: value for key, value in document.metadata.items() if key != "encoding"}
    expected = {"title": "Leave", "tags": '["hr", 2026]', "date": "2026-01-31", "author.name": "Ann"}
    assert metadata == (expected if said else {})
