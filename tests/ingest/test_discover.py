"""What is found below a folder, under which URI, and what is refused with which reason."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.discover import Found, Refused, canonical_uri, discover, has_vanished, path_of, title_of

NAMES = [
    "plain.md",
    "with space.md",
    "100%.md",
    "50%25.md",
    "a#b?c=d&e.md",
    "semi;colon,comma.md",
    "line\nbreak.md",
    "Gr\u00f6\u00dfe.md",
    "Gro\u0308\u00dfe.md",
    "天地.md",
    "🦜.md",
    "[bold]markup[red].md",
    "-rf.md",
    "x" * 252 + ".md",
    os.fsdecode(b"not-utf8-\xff\xfe.md"),
]


def names(folder: Path, *paths: Path) -> list[str]:
    return [path_of(item.uri).relative_to(folder).as_posix() for item in discover(paths or (folder,))]


def refusals(*paths: Path) -> dict[str, tuple[str, str]]:
    return {path_of(item.uri).name: (item.status, item.reason) for item in discover(paths) if isinstance(item, Refused)}


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name_has_a_uri_that_leads_back_to_the_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("text")
    (item,) = discover([tmp_path])
    assert isinstance(item, Found)
    assert item.uri.isascii()
    assert path_of(item.uri) == tmp_path / name
    assert not has_vanished(item.uri)
    (tmp_path / name).unlink()
    assert has_vanished(item.uri)


@given(st.binary(min_size=1, max_size=40).filter(lambda name: not {0, ord("/")} & {*name}))
def test_path_of_is_the_inverse_of_as_uri(name: bytes) -> None:
    path = Path("/folder") / os.fsdecode(name)
    assert path_of(path.as_uri()) == path


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_title_is_one_line_that_can_be_stored_and_shown(name: str) -> None:
    title = title_of(name)
    title.encode("utf-8")
    assert "\n" not in title
    assert title_of(title) == title


def test_titles_hide_nothing_and_steer_nothing() -> None:
    assert title_of("Gro\u0308\u00dfe.md") == "Gr\u00f6\u00dfe.md"
    assert title_of("a\x1b[2Jb\u202efdp.md") == "a\ufffd[2Jb\ufffdfdp.md"


def test_files_come_in_a_stable_order_and_hidden_ones_only_when_named(tmp_path: Path) -> None:
    for name in ("b/2.md", "b/1.md", "a.md", ".git/config.md", ".hidden.md", "b/.cache/x.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    assert names(tmp_path) == ["a.md", "b/1.md", "b/2.md"]
    assert names(tmp_path, tmp_path / ".hidden.md", tmp_path / ".git") == [".hidden.md", ".git/config.md"]


def test_each_file_comes_once_however_often_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.md").write_text("text")
    (tmp_path / "link.md").symlink_to("sub/a.md")
    dotted = tmp_path / "sub" / ".." / "sub" / "a.md"
    assert names(tmp_path, tmp_path, tmp_path / "sub", dotted, Path(f"/{tmp_path}") / "sub" / "a.md") == ["sub/a.md"]
    assert canonical_uri(tmp_path / "link.md") == canonical_uri(dotted)


def test_links_out_of_the_folder_and_to_folders_are_refused_with_a_reason(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside.md").write_text("text")
    (root / "out.md").symlink_to(tmp_path / "outside.md")
    (root / "loop").symlink_to(root)
    (root / "nowhere.md").symlink_to("missing.md")
    (root / "self.md").symlink_to("self.md")
    found = refusals(root)
    assert found["out.md"] == ("skipped", "a link to a file outside this folder")
    assert found["loop"][0] == "skipped"
    assert found["nowhere.md"] == found["self.md"] == ("skipped", "a link that leads nowhere")
    assert len(found) == 4
    (item,) = discover([root / "out.md"])
    assert item.uri == (tmp_path / "outside.md").as_uri()


def test_a_linked_root_is_the_folder_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.md").write_text("text")
    (tmp_path / "link").symlink_to("real")
    assert names(tmp_path, tmp_path / "link") == ["real/a.md"]


def test_br_21_what_is_no_regular_file_is_refused_without_being_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    assert refusals(tmp_path) == {"pipe.md": ("skipped", "not a regular file")}
    assert refusals(tmp_path / "pipe.md") == {"pipe.md": ("skipped", "not a regular file")}
    assert refusals(tmp_path / "missing.md")["missing.md"] == ("failed", "unreadable: No such file or directory")


def test_folders_that_cannot_be_read_are_told_also_the_last_and_the_root_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path beyond the system's limit fails for every user, root included."""
    monkeypatch.chdir(tmp_path)
    depth = 0
    while depth < 4200:
        os.mkdir("d" * 250)  # noqa: PTH102  the whole path is too long for pathlib's users
        os.chdir("d" * 250)
        depth += 251
    found = [item for item in discover([tmp_path]) if isinstance(item, Refused)]
    assert [item.status for item in found] == ["failed"]
    assert found[0].reason == "unreadable folder: File name too long"


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_a_root_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o000)
    assert refusals(root)["root"] == ("failed", "unreadable folder: Permission denied")
    root.chmod(0o700)


def test_a_thousand_empty_folders_are_nothing(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / str(number % 10) / str(number)).mkdir(parents=True)
    assert [*discover([tmp_path])] == []


def test_the_indexs_own_folder_is_left_out(tmp_path: Path) -> None:
    home = tmp_path / "index"
    (home / "run").mkdir(parents=True)
    (home / "run" / "chroma.log").write_text("not a document")
    (tmp_path / "a.md").write_text("text")
    found = discover([tmp_path], leave_out=home)
    assert [path_of(item.uri).name for item in found] == ["a.md"]
