"""Rules and sidecars at work: what they take out of the index, what they never do, and what a dry run tells of it."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from ingest.discover import discover
from ingest.dry_run import DryRun, Onlooker
from ingest.loaders.options import DEFAULT_OPTIONS
from ingest.metadata import Metadata
from ingest.pipeline import Pipeline
from ingest.results import FileResult
from ingest.scan import Scan
from ingest.selection import Selection
from ingest.targets import NotWanted
from rag_service.index.catalog_writer import CatalogWriter
from tests.support.ingest_parts import HashEmbedder, assert_consistent, facts, pipeline_on


class Runs:
    """Runs over one folder, each as the command line builds it."""

    def __init__(self, chroma: str, home: Path, collection: str, docs: Path) -> None:
        self._chroma, self._home, self._collection, self._docs = chroma, home, collection, docs
        self.calls = 0

    @contextmanager
    def pipeline(self, given: Metadata) -> Iterator[Pipeline]:
        model = HashEmbedder()
        with pipeline_on(self._home, self._chroma, self._collection, model, given=given) as pipeline:
            yield pipeline
            assert_consistent(pipeline)
        self.calls = model.calls

    def run(self, *, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> dict[str, tuple[str, str | None]]:
        selection, given = Selection(include, exclude), Metadata()
        with self.pipeline(given) as pipeline:
            items = given.checked(discover([self._docs], self._home, selection))
            outcomes = [*pipeline.run([self._docs], items=items, unwanted=NotWanted(selection))]
        return named(item for item in outcomes if isinstance(item, FileResult))

    def planned(self, *, sure: bool = False) -> dict[str, tuple[str, str | None]]:
        selection, given = Selection(), Metadata()
        with self.pipeline(given) as pipeline:
            catalog = Onlooker(pipeline.catalog.path)
            scan = Scan(
                self._collection,
                cast("CatalogWriter", catalog),
                embedder=pipeline.scan._embedder,  # noqa: SLF001  the one that the runs have
                chunker=pipeline.scan._chunker,  # noqa: SLF001
                options=DEFAULT_OPTIONS,
                given=given,
            )
            items = given.checked(discover([self._docs], self._home, selection))
            plan = DryRun(self._collection, catalog, scan)
            found = [*plan.run([self._docs], items, prune=True, prune_empty=sure, unwanted=NotWanted(selection))]
            catalog.close()
        return named(found)

    def problems(self) -> list[str]:
        with self.pipeline(Metadata()) as pipeline:
            return [problem.uri.rsplit("/", 1)[-1] for problem in pipeline.catalog.problems(self._collection)]

    def versions(self, **filters: str | int) -> int:
        with self.pipeline(Metadata()) as pipeline:
            wanted = {name: [value] for name, value in filters.items()}
            return len(pipeline.catalog.versions_where(self._collection, wanted))


def named(results: Iterator[FileResult] | list[FileResult]) -> dict[str, tuple[str, str | None]]:
    return {result.uri.rsplit("/", 1)[-1]: (result.status, result.reason) for result in results}


def statuses(found: dict[str, tuple[str, str | None]]) -> dict[str, str]:
    return {name: status for name, (status, _) in found.items()}


@pytest.fixture
def runs(chroma: str, docs: Path, request: pytest.FixtureRequest) -> Iterator[Runs]:
    with tempfile.TemporaryDirectory() as home:
        yield Runs(chroma, Path(home) / "home", request.node.name[:80], docs)


def test_br_19_what_a_ragignore_rules_out_is_deleted_and_comes_back_without_it(runs: Runs, docs: Path) -> None:
    for name in ("a.md", "drafts/b.md", "sub/c.md", "sub/d.md"):
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text(facts(2, name))
    runs.run()
    (docs / ".ragignore").write_text("drafts/\n")
    (docs / "sub" / ".ragignore").write_text("c.md\n")
    expected = {
        "a.md": ("unchanged", None),
        "d.md": ("unchanged", None),
        "b.md": ("deleted", "ignored by .ragignore"),
        "c.md": ("deleted", "ignored by sub/.ragignore"),
    }
    assert runs.planned() == expected
    assert runs.run() == expected
    (docs / ".ragignore").unlink()
    assert runs.run()["b.md"][0] == "indexed"


def test_br_19_rules_of_one_run_delete_nothing(runs: Runs, docs: Path) -> None:
    for name in ("a.md", "b.txt", "c~"):
        (docs / name).write_text(facts(2, name))
    runs.run()
    assert statuses(runs.run(include=("*.md",))) == {"a.md": "unchanged"}
    assert statuses(runs.run(exclude=("*.md",))) == {"b.txt": "unchanged"}
    assert statuses(runs.run(exclude=("*",))) == {}
    assert statuses(runs.run()) == {"a.md": "unchanged", "b.txt": "unchanged"}


def test_br_18_a_sidecar_changes_the_filters_and_embeds_nothing(runs: Runs, docs: Path) -> None:
    (docs / "a.md").write_text(facts(2))
    (docs / "b.md").write_text(facts(3))
    runs.run()
    sidecar = docs / "a.md.meta.yaml"
    sidecar.write_text("tags: [hr, leave]\nyear: 2026\n")
    assert statuses(runs.run()) == {"a.md": "updated", "b.md": "unchanged"}
    assert runs.calls == 0
    assert runs.versions(tags="hr") == runs.versions(tags="leave") == runs.versions(year=2026) == 1
    assert runs.versions(tags="lea") == runs.versions(tags='["hr"') == runs.versions(year=2025) == 0
    assert statuses(runs.run()) == {"a.md": "unchanged", "b.md": "unchanged"}
    sidecar.unlink()
    assert statuses(runs.run()) == {"a.md": "updated", "b.md": "unchanged"}
    assert runs.versions(tags="hr") == 0


def test_a_broken_sidecar_is_a_problem_until_it_is_mended(runs: Runs, docs: Path) -> None:
    (docs / "a.md").write_text(facts(2))
    (docs / "a.md.meta.json").write_text("{")
    assert statuses(runs.run()) == {"a.md.meta.json": "failed", "a.md": "indexed"}
    assert statuses(runs.run()) == {"a.md.meta.json": "failed", "a.md": "unchanged"}
    assert runs.problems() == ["a.md.meta.json"]
    (docs / "a.md.meta.json").write_text('{"team": "hr"}')
    assert statuses(runs.run()) == {"a.md": "updated"}
    assert runs.problems() == []
    assert runs.versions(team="hr") == 1


def test_br_57_filters_stand_any_metadata(runs: Runs, docs: Path) -> None:
    for number, tags in enumerate(["[not json", "[1, 2", '"x"', "[a, [b]]", "{a: 1}", "[]", "[1, true, 2.5]"]):
        (docs / f"{number}.md").write_text(facts(1, str(number)))
        (docs / f"{number}.md.meta.yaml").write_text(f"tags: {tags!r}\n" if number < 2 else f"tags: {tags}\n")
    assert {*statuses(runs.run()).values()} == {"indexed"}
    assert runs.versions(tags="[not json") == runs.versions(tags="x") == runs.versions(tags="a") == 1
    assert runs.versions(tags=2) == 0


def test_a_dry_run_tells_what_the_run_then_does(runs: Runs, docs: Path) -> None:
    for name in ("same.md", "changed.md", "gone.md", "moved.md"):
        (docs / name).write_text(facts(2, name))
    runs.run()
    (docs / "changed.md").write_text(facts(2, "other"))
    (docs / "new.md").write_text(facts(2, "new"))
    (docs / "film.mp4").write_bytes(b"\0")
    (docs / "gone.md").unlink()
    (docs / "moved.md").rename(docs / "there.md")
    planned = runs.planned()
    assert runs.calls == 0
    assert runs.planned() == planned  # nothing was remembered of the first time
    assert statuses(planned) == statuses(runs.run())
    assert Counter(statuses(planned).values()) == {
        "unchanged": 1,
        "updated": 1,
        "indexed": 2,
        "skipped": 1,
        "deleted": 1,
    }


def test_br_19_a_dry_run_keeps_what_the_run_would_keep(runs: Runs, docs: Path) -> None:
    (docs / "a.md").write_text(facts(2))
    runs.run()
    (docs / "a.md").unlink()
    assert statuses(runs.planned()) == {"docs": "skipped"}
    assert statuses(runs.planned(sure=True)) == {"a.md": "deleted"}
    assert statuses(runs.run()) == {"docs": "skipped"}
