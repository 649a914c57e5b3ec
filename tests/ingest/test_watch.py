"""Which changes belong together, and what is followed: real folders, and a clock that is set by hand."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.settings import WatchSettings
from ingest.watch import EVERYTHING, LONGEST, Burst, Changes, Following


def test_a_burst_is_due_when_nothing_more_has_come_for_a_while() -> None:
    burst = Burst(2.0)
    assert burst.take(100.0) is None
    burst.add({Path("a")}, 100.0)
    burst.add({Path("b")}, 101.5)
    assert burst.take(102.0) is None
    burst.add(set(), 103.0)  # nothing changed, so this puts nothing off
    assert burst.take(103.5) == Changes(frozenset({Path("a"), Path("b")}))
    assert burst.take(200.0) is None


def test_a_burst_without_a_pause_is_taken_in_the_end() -> None:
    burst, now = Burst(2.0), 0.0
    while burst.take(now) is None:
        burst.add({Path("log")}, now)
        now += 1.0
        assert now <= 2.0 * LONGEST + 1


def test_everything_goes_before_single_paths() -> None:
    burst = Burst(1.0)
    burst.add({Path("a")}, 0.0)
    burst.add(set(), 0.0, everything=True)
    assert burst.take(1.0) == EVERYTHING
    assert burst.take(9.0) is None


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 5)), max_size=30), st.floats(0.1, 3))
def test_no_change_is_lost_or_told_twice(changes: list[tuple[str, float]], settle_s: float) -> None:
    burst, now, told = Burst(settle_s), 0.0, 0
    waiting: set[Path] = set()
    for name, pause in changes:
        now += pause
        if (due := burst.take(now)) is not None:
            assert due.paths == waiting
            waiting, told = set(), told + 1
        burst.add({Path(name)}, now)
        waiting.add(Path(name))
    due = burst.take(now + 2 * settle_s)
    assert (due.paths if due is not None else frozenset()) == waiting
    assert told <= len(changes)


@pytest.mark.parametrize("poll", [False, True])
def test_what_happens_in_a_folder_is_told_by_path_and_the_index_and_hidden_names_are_not(
    tmp_path: Path, poll: bool
) -> None:
    docs, home = tmp_path / "docs", tmp_path / "docs" / "home"
    home.mkdir(parents=True)
    (docs / "old.md").write_text("old")
    (docs / "gone.md").write_text("gone")
    changes = Following([docs], home, WatchSettings(settle_s=0.3, poll=poll)).changes()
    assert next(changes) == EVERYTHING
    (home / "catalog.sqlite3").write_text("rows")
    (docs / ".git").mkdir()
    (docs / ".git" / "index").write_text("hidden")
    (docs / "old.md").write_text("another text")
    (docs / "gone.md").unlink()
    (docs / "b.md.meta.yaml").write_text("team: hr")
    (docs / "new").mkdir()
    (docs / "new" / "a.md").write_text("new")
    seen: set[Path] = set()
    wanted = {docs / "old.md", docs / "gone.md", docs / "b.md", docs / "b.md.meta.yaml"}
    new = {docs / "new", docs / "new" / "a.md"}  # a folder may be told instead of what is in it
    while not wanted <= seen or new.isdisjoint(seen):
        told = next(changes).paths
        assert told is not None
        seen |= told
    changes.close()
    assert seen <= wanted | new


def test_rules_that_change_and_folders_that_come_and_go_mean_everything(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    changes = Following([docs], tmp_path / "home", WatchSettings(settle_s=0.3)).changes()
    assert next(changes) == EVERYTHING
    (docs / ".ragignore").write_text("drafts/\n")
    assert next(changes) == EVERYTHING
    (docs / ".ragignore").unlink()
    assert next(changes) == EVERYTHING
    docs.rmdir()
    assert next(changes) == EVERYTHING
    docs.mkdir()
    assert next(changes) == EVERYTHING
    (docs / "a.md").write_text("back")
    assert next(changes) == Changes(frozenset({docs / "a.md"}))
    changes.close()


def test_a_file_that_is_given_itself_is_followed_through_replacements(tmp_path: Path) -> None:
    note, other = tmp_path / "note.md", tmp_path / "other.md"
    note.write_text("one")
    changes = Following([note], tmp_path / "home", WatchSettings(settle_s=0.1)).changes()
    assert next(changes) == EVERYTHING
    other.write_text("two")
    other.replace(note)
    assert next(changes) == Changes(frozenset({note}))
    note.unlink()
    assert next(changes) == Changes(frozenset({note}))
    changes.close()


def test_everything_is_looked_at_again_after_a_while(tmp_path: Path) -> None:
    hours = itertools.count()
    changes = Following([tmp_path], tmp_path / "home", WatchSettings(), clock=lambda: 3_600.0 * next(hours)).changes()
    assert next(changes) == EVERYTHING
    assert next(changes) == EVERYTHING
    changes.close()
