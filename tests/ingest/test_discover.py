"""What is found below a folder, under which URI, and what is refused with which reason."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.discover import Found, Refused, canonical_uri, discover, has_vanished, path_of, title_of
from ingest.selection import Selection
from rag_service.errors import InvalidSettings

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


def test_br_42_links_out_of_the_folder_and_to_folders_are_refused_with_a_reason(tmp_path: Path) -> None:
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
    assert "File name too long" in found[0].reason  # whichever of its files or folders is the first beyond the limit


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


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("text")


def chosen(root: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> tuple[list[str], int]:
    """Relative names of what is taken, and how many were ignored."""
    selection = Selection(include, exclude)
    items = [*discover([root], selection=selection)]
    assert all(isinstance(item, Found) for item in items), items
    return [path_of(item.uri).relative_to(root).as_posix() for item in items], selection.ignored


def test_what_programs_leave_behind_is_passed_over_and_counted(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "~$a.docx", "a.md~", ".a.md.swp", "b.swp", "Thumbs.db", ".DS_Store", "node_modules/x/y.md")
    write(tmp_path, "sub/__pycache__/a.txt", "sub/node_modules.md")
    assert chosen(tmp_path) == (
        ["a.md", "sub/node_modules.md"],
        6,
    )  # hidden names are not counted, a folder counts once


def test_include_and_exclude_are_patterns_below_the_folder(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.txt", "drafts/a.md", "sub/drafts/c.md", "sub/d.txt")
    assert chosen(tmp_path, include=["*.md"]) == (["a.md", "drafts/a.md", "sub/drafts/c.md"], 2)
    assert chosen(tmp_path, include=["*.md"], exclude=["drafts/"]) == (["a.md"], 4)
    assert chosen(tmp_path, exclude=["/drafts/", "*.txt"])[0] == ["a.md", "sub/drafts/c.md"]
    assert chosen(tmp_path, include=["sub/**"])[0] == ["sub/d.txt", "sub/drafts/c.md"]


@pytest.mark.parametrize("pattern", ["!", "", " ", "!*.md", "/"])
def test_a_pattern_that_is_none_is_named(pattern: str) -> None:
    with pytest.raises(InvalidSettings, match="--exclude: "):
        Selection(exclude=[pattern])


def test_ragignore_files_work_as_git_reads_them(tmp_path: Path) -> None:
    write(
        tmp_path, "a.md", "a.log", "keep.log", "sub/b.log", "sub/b.md", "sub/deep/b.md", "out/x.md", "node_modules/n.md"
    )
    (tmp_path / ".ragignore").write_text("# logs\n*.log\n!keep.log\nout/\n!node_modules/\n!out/x.md\n!\n")
    (tmp_path / "sub" / ".ragignore").write_text("\ufeff!*.log\n/b.md\n")
    names, ignored = chosen(tmp_path)
    assert names == ["a.md", "keep.log", "node_modules/n.md", "sub/b.log", "sub/deep/b.md"]
    assert ignored == 3


def test_a_ragignore_that_cannot_be_read_keeps_its_folder_out(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "sub/b.md", "linked/c.md")
    (tmp_path / "sub" / ".ragignore").write_text("#" * 1_000_001)
    (tmp_path / "linked" / ".ragignore").symlink_to(tmp_path / "a.md")  # as git, a link brings no rules
    found = {path_of(item.uri).name: item for item in discover([tmp_path])}
    assert {*found} == {"a.md", "c.md", "sub"}
    assert isinstance(found["sub"], Refused)
    assert found["sub"].status == "failed"


def test_a_link_to_an_ignored_file_is_ignored_and_to_a_hidden_one_taken_once(tmp_path: Path) -> None:
    write(tmp_path, "secret/a.md", ".hidden/b.md", "c.md")
    (tmp_path / ".ragignore").write_text("secret/\n")
    for name, target in {"1.md": "secret/a.md", "2.md": ".hidden/b.md", "3.md": ".hidden/b.md", "4.md": "c.md"}.items():
        (tmp_path / name).symlink_to(target)
    assert chosen(tmp_path)[0] == [".hidden/b.md", "c.md"]


def test_a_folder_inside_another_one_brings_only_what_that_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "sub/b.md", "sub/out/c.md", ".hidden/d.md")
    (tmp_path / ".ragignore").write_text("out/\n")
    assert names(tmp_path, tmp_path, tmp_path / "sub", tmp_path / ".hidden", tmp_path / "a.md") == [
        "a.md",
        "sub/b.md",
        "sub/out/c.md",
        ".hidden/d.md",
    ]


def test_br_42_links_in_a_loop_end_and_each_real_file_comes_once(tmp_path: Path) -> None:
    write(tmp_path, "a/b/c.md")
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(".")
    (tmp_path / "chain1.md").symlink_to("chain2.md")
    (tmp_path / "chain2.md").symlink_to("a/b/c.md")
    (tmp_path / "host.md").symlink_to("/etc/hostname")
    found = [item.uri for item in discover([tmp_path]) if isinstance(item, Found)]
    assert found == [(tmp_path / "a/b/c.md").as_uri()]
    assert {*refusals(tmp_path)} == {"up", "self", "host.md"}


def test_br_20_names_that_only_look_equal_are_two_files(tmp_path: Path) -> None:
    write(tmp_path, "Gr\u00f6\u00dfe.md", "Gro\u0308\u00dfe.md", "x/readme.md", "y/readme.md")
    assert len({item.uri for item in discover([tmp_path])}) == 4


def test_a_sidecar_is_no_document_and_one_without_a_file_is_told(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "a.md.meta.yaml", "a.md.META.json", "b.md.meta.yml", ".meta.yaml", "c.meta.md")
    found = {path_of(item.uri).name: item for item in discover([tmp_path])}
    assert {*found} == {"a.md", "c.meta.md", "b.md.meta.yml"}
    assert refusals(tmp_path) == {"b.md.meta.yml": ("skipped", "a sidecar, but there is no b.md")}
    assert refusals(tmp_path / "a.md.meta.yaml") == {
        "a.md.meta.yaml": ("skipped", "a sidecar: it is read together with a.md")
    }


def test_folders_may_nest_deeper_than_python_does(tmp_path: Path) -> None:
    made = [tmp_path / "/".join("d" * depth) for depth in range(1, 1_200)]
    try:
        for folder in made:
            os.mkdir(folder)  # noqa: PTH102  beside os.rmdir
        write(made[-1], "a.md")
        assert len(names(tmp_path)) == 1
    finally:  # pytest, which clears up, is no deeper either
        (made[-1] / "a.md").unlink()
        for folder in reversed(made):
            os.rmdir(folder)  # noqa: PTH106  beside os.mkdir
