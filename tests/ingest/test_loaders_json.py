"""JSON: each line can be answered from, with its path beside it; nothing is rounded, and little is lost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents.base import Blob

from ingest.documents import LoadedDocument, assemble
from ingest.loaders.json import JsonLoader
from ingest.loaders.normalise import normalise_text
from rag_service.errors import LoadFailed

from .conftest import LoadBytes

PROSE = "A sentence of some length that says something. " * 10


def loaded(source: str | bytes | list[Any] | dict[str, Any], *, lines: bool = False) -> LoadedDocument:
    data = source if isinstance(source, str | bytes) else json.dumps(source)
    return assemble(JsonLoader(lines=lines).lazy_parse(Blob.from_data(data)), "application/json", "json/1")


def atoms(document: LoadedDocument) -> list[str]:
    return [atom.of(document.text) for atom in document.atoms]


def test_settings_are_lines_with_their_path() -> None:
    document = loaded(
        '{"name": "Shop", "address": {"street": "Main St 1", "geo": {"lat": 1.50}}, "tags": ["a", "b"], "x": {}}'
    )
    assert atoms(document) == [
        "name: Shop",
        "address.street: Main St 1",
        "address.geo.lat: 1.50",
        "tags: a, b",
        "x: {}",
    ]


def test_records_are_rows_under_the_path_of_their_list() -> None:
    document = loaded(
        {"title": "List", "data": {"items": [{"sku": "A", "price": 3}, {"sku": "B", "sizes": [{"cm": 1}]}]}}
    )
    assert atoms(document) == ["title: List", "sku: A; price: 3", "sku: B; sizes[0].cm: 1"]
    assert [(h.level, h.text) for h in document.headings] == [(1, "data"), (2, "data.items")]


def test_a_list_of_records_at_the_top_is_rows() -> None:
    assert atoms(loaded([{"a": 1}, {"a": 2, "b": {"c": True}}, [1, 2], "x", None])) == [
        "a: 1", "a: 2; b.c: true", "1, 2", "x", "null",
    ]  # fmt: skip


def test_long_strings_are_prose_under_their_path() -> None:
    document = loaded([{"id": 7, "title": "Leave", "body": PROSE, "author": {"name": "Ann"}}])
    assert [(h.level, h.text) for h in document.headings] == [(1, "[0]: Leave"), (2, "body")]
    assert atoms(document) == ["id: 7", "title: Leave", "author.name: Ann"]
    assert document.text.endswith(f"body\n\n{PROSE.strip()}\n\n")


def test_a_record_with_very_many_values_is_a_section_with_a_line_for_each() -> None:
    document = loaded([{f"key{i}": "some value" for i in range(200)}, {"a": 1}])
    assert "key199: some value" in atoms(document)
    assert atoms(document)[-1] == "a: 1"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("42", "42"), ('"words"', "words"), ("null", "null"), ("true", "true"), ("", ""), ("  \n", ""), ('""', '""'),
        ("[]", ""), ("NaN", "NaN"), ("123456789012345678901234567890.10", "123456789012345678901234567890.10"),
        ("9" * 5_000, "9" * 5_000), ('{"a": 1e999}', "a: 1e999"), ('{"a": 1, "a": 2}', "a: 1\na: 2"),
        ('{"a": "\\ud83d\\ude0a"}', "a: 😊"), ('{"a": "line\nbreak"}', "a: line break"),
    ],
)  # fmt: skip
def test_values_are_shown_as_they_are_written(source: str, text: str) -> None:
    document = loaded(source)
    assert document.text.strip() == text
    assert document.notes == ()


def test_json_lines_are_rows_and_broken_lines_are_told() -> None:
    document = loaded('{"a": 1}\n\n{"a": \n{"a": 2}\r\nnot json\n{"a": {"b": 3}}', lines=True)
    assert atoms(document) == ["a: 1", "a: 2", "a.b: 3"]
    assert document.notes == ("2 lines are no valid JSON and left out: 3, 5",)


def test_a_long_record_in_json_lines_says_which_line_it_is() -> None:
    document = loaded('{"a": 1}\n' + json.dumps({"text": PROSE}), lines=True)
    assert [h.text for h in document.headings] == ["line 2", "text"]


def test_files_are_read_as_they_are_not_as_they_are_called(load_bytes: LoadBytes) -> None:
    assert load_bytes("lines.json", b'{"a": 1}\n{"a": 2}').text == "a: 1\na: 2\n"
    assert load_bytes("pretty.jsonl", b'{\n "a": 1\n}').text == "a: 1\n\n"
    assert load_bytes("arrays.ndjson", b"[1, 2]\n[3]").text == "1, 2\n3\n"
    assert load_bytes("wide.json", '{"größe": "ü"}'.encode("utf-16")).text == "größe: ü\n\n"
    assert load_bytes("old.json", '{"größe": "schön"}'.encode("cp1252")).text == "größe: schön\n\n"


def test_what_breaks_off_keeps_what_was_read_and_the_rest_as_text() -> None:
    document = loaded('[{"a": 1},\n {"a": 2},\n {"a": oops, "b": "kept"}]')
    assert document.text.startswith("a: 1\na: 2\n")
    assert '"b": "kept"' in document.text
    assert document.notes == ("not valid JSON at line 3, column 8: read from there as plain text",)
    commented = loaded('// settings\n{\n  "port": 80, // the usual\n}')
    assert '"port": 80, // the usual' in commented.text
    assert len(commented.notes) == 1
    assert "trailing" in loaded('{"a": 1} trailing').text


@pytest.mark.parametrize(
    "source", ["[" * 10_000 + "]" * 10_000, '{"a":' * 10_000 + "1" + "}" * 10_000, '{"a":[' * 150 + "1" + "]}" * 150]
)
def test_br_44_depth_without_end_is_one_clear_failure(source: str) -> None:
    with pytest.raises(LoadFailed, match="nested too deeply"):
        loaded(source)


def test_a_line_that_nests_without_end_is_left_out() -> None:
    document = loaded('{"a": 1}\n' + "[" * 10_000 + "]" * 10_000 + '\n{"a": 2}', lines=True)
    assert atoms(document) == ["a: 1", "a: 2"]
    assert document.notes == ("1 line is no valid JSON and left out: 2",)


def test_binary_data_is_refused() -> None:
    with pytest.raises(LoadFailed, match="binary data"):
        loaded(bytes(range(256)) * 10)


words = st.text("abcXYZ019äß日", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words | st.just(PROSE),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=15,
)


def leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in [key, *leaves(inner)]]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value.strip()] if isinstance(value, str) else [json.dumps(value)]


@given(values)
def test_no_key_and_no_value_is_lost(value: Any) -> None:
    document = loaded(json.dumps(value))
    for leaf in leaves(value):
        assert normalise_text(leaf) in document.text
    assert document.notes == ()


@given(st.lists(st.dictionaries(words, values, max_size=3), min_size=1, max_size=4))
def test_json_lines_and_a_list_hold_the_same_rows(records: list[dict[str, Any]]) -> None:
    as_lines = loaded("\n".join(map(json.dumps, records)), lines=True)
    assert [*map(str.strip, atoms(as_lines))] == [*map(str.strip, atoms(loaded(records)))]
