"""The form of an upload: names are words and never paths, and every field is checked."""

import io
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import FormData, UploadFile

from rag_service.api.routes_listing import decoded, encoded
from rag_service.api.upload_form import MAX_METADATA_PAIRS, base_name, upload_form
from rag_service.errors import InvalidRequest
from rag_service.uploads import Received

HARMLESS = {
    "../x.txt": "x.txt",
    "..\\x.txt": "x.txt",
    "/etc/x": "x",
    "a/../../b": "b",
    "C:\\docs\\x.txt": "x.txt",
    "x\x00.txt": "x.txt",
    "%2e%2e/x": "x",
    "%2e%2e%2fx": "%2e%2e%2fx",
    "CON": "CON",
    ".env": ".env",
    "-rf.md": "-rf.md",
    "x\r\nSet-Cookie: a.md": "xSet-Cookie: a.md",
    "\u202egnp.exe": "gnp.exe",
    "  a \t b.md ": "a b.md",
    "A\u0308.md": "\u00c4.md",
    "n" * 300 + ".md": "n" * 300 + ".md",
}


def form(*files: str, **fields: str) -> FormData:
    parts: list[tuple[str, Any]] = [("file", UploadFile(io.BytesIO(b"x"), filename=name)) for name in files]
    return FormData([*parts, *fields.items()])


@pytest.mark.parametrize(("given_name", "name"), HARMLESS.items())
def test_br_29_a_name_is_what_stands_after_the_last_folder(given_name: str, name: str) -> None:
    assert base_name(given_name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "...", " ", "a/", "a/..", "\\", "\x00", "\u202e", ". .", "n" * 1001, "\u4e2d" * 400]
)
def test_br_29_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^file: "):
        base_name(name)


@given(st.text() | st.lists(st.sampled_from(["..", ".", "/", "\\", "%2e", "\x00", "a"])).map("".join))
def test_br_29_whatever_the_name_it_is_one_part_of_a_uri(given_name: str) -> None:
    try:
        name = base_name(given_name)
    except InvalidRequest:
        return
    uri = Received(name, io.BytesIO()).uri
    assert not set("/\\\x00\n") & set(name)
    assert uri.isascii()
    assert uri.count("/") == 3
    assert unquote(uri.removeprefix("upload:///")) == name
    assert base_name(name) == name


def test_fields_become_what_rag_ingest_takes() -> None:
    said = upload_form(
        form("a.md", title=" A\ttitle ", collection="zoo", metadata='{"team": ["hr", "it"], "n": 2.5, "draft": true}')
    )
    assert (said.title, said.collection) == ("A title", "zoo")
    assert said.metadata == (("team", "hr"), ("team", "it"), ("n", "2.5"), ("draft", "true"))


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (form(), "file"),
        (form(file="text"), "file"),
        (form("a/x.md", "b/x.md"), "file"),
        (form("a.md", fiel="x"), "fiel"),
        (form("a.md", "b.md", title="x"), "title"),
        (form("a.md", title=" \x00"), "title"),
        (form("a.md", title="x" * 501), "title"),
        (form("a.md", collection="../x"), "collection"),
        (form("a.md", metadata="{"), "metadata"),
        (form("a.md", metadata="[" * 100_000), "metadata"),
        (form("a.md", metadata="[1]"), "metadata"),
        (form("a.md", metadata='{"a b": 1}'), "metadata.a b"),
        (form("a.md", metadata='{"uri": "x"}'), "metadata.uri"),
        (form("a.md", metadata='{"a": null}'), "metadata.a"),
        (form("a.md", metadata='{"a": {"b": 1}}'), "metadata.a"),
        (form("a.md", metadata='{"a": [[1]]}'), "metadata.a"),
        (form("a.md", metadata='{"a": " "}'), "metadata.a"),
        (form("a.md", metadata='{"a": NaN}'), "metadata.a"),
        (form("a.md", metadata=f'{{"a": {[1] * (MAX_METADATA_PAIRS + 1)}}}'), "metadata"),
        (FormData([*form("a.md").multi_items(), ("title", "a"), ("title", "b")]), "title"),
    ],
)
def test_a_wrong_field_is_named(asked: FormData, named: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        upload_form(asked)
    assert caught.value.message.startswith(f"{named}: ")


@given(st.text(st.characters(exclude_categories=[])))
def test_a_cursor_leads_back_to_where_it_was(uri: str) -> None:
    assert decoded(encoded(uri)) == uri


@pytest.mark.parametrize("cursor", ["a", "%", "\u00e4", "====", "_w", "not a cursor"])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="next_cursor"):
        decoded(cursor)
