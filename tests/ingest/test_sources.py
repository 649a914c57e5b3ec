"""What the arguments of a run name, and names from standard input that are data and nothing else."""

import io
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.discover import Found, Refused
from ingest.sources import incoming, sources_of
from ingest.stdin import named, received
from rag_service.errors import InvalidSettings

HOSTILE = [
    *("../x.txt", "..\\x.txt", "/etc/x", "a/../../b", "x\0.txt", "%2e%2e/x", "CON", "~/x.md", "-", "--yes", "a\nb.md"),
    *("n" * 300 + ".txt", "\udcff.md", "stdin:///x", "x.md/", "e\u202egnp.md"),
]


def test_arguments_are_paths_addresses_and_standard_input() -> None:
    sources = sources_of(["docs", "https://example.com/a", "HTTP://example.com/b", "./-", "-"], name="n.md")
    assert sources.paths == (Path("docs"), Path("./-"))
    assert sources.addresses == ("https://example.com/a", "HTTP://example.com/b")
    assert sources.stdin is not None
    assert sources.stdin.uri == "stdin:///n.md"
    assert sources_of(["http:", "a:b"]).paths == (Path("http:"), Path("a:b"))


@pytest.mark.parametrize("argument", ["ftp://example.com/x", "file:///etc/passwd", "gopher://127.0.0.1/", "", "a\0b"])
def test_br_43_only_http_addresses_and_paths_are_sources(argument: str) -> None:
    with pytest.raises(InvalidSettings):
        sources_of([argument])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "--name"),
        ({"name": ""}, "--name"),
        ({"name": "."}, "--name"),
        ({"name": ".."}, "--name"),
        ({"name": "  "}, "--name"),
        ({"name": "n" * 1001}, "--name"),
        ({"name": "a", "uri": "file:///etc/passwd"}, "--uri"),
        ({"name": "a", "uri": "https://example.com/a"}, "--uri"),
        ({"name": "a", "uri": "upload://host/a"}, "--uri"),
        ({"name": "a", "uri": "upload:///"}, "--uri"),
        ({"name": "a", "uri": "upload:///.."}, "--uri"),
        ({"name": "a", "uri": "upload:///a\nb"}, "--uri"),
        ({"name": "a", "title": " "}, "--title"),
    ],
)
def test_br_29_what_describes_standard_input_is_checked(options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidSettings, match=told):
        sources_of(["-"], **options)


@pytest.mark.parametrize("option", ["name", "uri", "title"])
def test_a_description_without_standard_input_is_wrong_usage(option: str) -> None:
    with pytest.raises(InvalidSettings, match=f"--{option}"):
        sources_of(["docs"], **{option: "x"})


@pytest.mark.parametrize("name", HOSTILE)
def test_br_29_a_name_stays_a_name_and_never_becomes_a_path(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "deep" / "incoming"
    folder.mkdir(parents=True)
    wanted = named(name)
    found = received(wanted, io.BytesIO(b"text"), folder, 100)
    assert isinstance(found, Found)
    assert found.path.parent == folder
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [found.path]
    assert found.uri.startswith("stdin:///")
    rest = found.uri.removeprefix("stdin:///")
    assert "/" not in rest
    assert unquote_to_bytes(rest).decode("utf-8", "surrogateescape") == name
    assert "\n" not in found.title
    assert "\0" not in found.title


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_two_names_have_two_uris_and_one_has_one(one: str, other: str) -> None:
    try:
        uris = [named(name).uri for name in (one, other, one)]
    except InvalidSettings:
        return
    assert uris[0] == uris[2]
    assert (uris[0] == uris[1]) == (one == other)
    assert all(uri.isascii() and uri.isprintable() for uri in uris)


def test_the_suffix_of_the_name_tells_the_type_and_options_go_before_the_name(tmp_path: Path) -> None:
    wanted = named("report.PDF", "upload:///r%2Fq", "Report <b>")
    found = received(wanted, io.BytesIO(b"%PDF"), tmp_path, 100)
    assert isinstance(found, Found)
    assert (found.uri, found.title, found.path.suffix) == ("upload:///r%2Fq", "Report <b>", ".PDF")
    assert found.temporary


@pytest.mark.parametrize(("size", "taken"), [(100, True), (101, False), (5_000_000, False)])
def test_br_44_standard_input_beyond_the_limit_is_not_read_to_its_end(tmp_path: Path, size: int, taken: bool) -> None:
    stream = io.BytesIO(b"x" * size)
    outcome = received(named("x.txt"), stream, tmp_path, 100)
    assert isinstance(outcome, Found) == taken
    if not taken:
        assert isinstance(outcome, Refused)
        assert "RAG_LOAD__MAX_FILE_MB" in outcome.reason
        assert stream.tell() <= 1 << 20
        assert [*tmp_path.iterdir()] == []


def test_what_a_killed_run_left_behind_is_deleted_and_so_is_what_this_one_brings(tmp_path: Path) -> None:
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "left.html").write_text("old")
    with incoming(tmp_path) as folder:
        assert [*folder.iterdir()] == []
        (folder / "new.html").write_text("new")
    assert [*tmp_path.iterdir()] == []
