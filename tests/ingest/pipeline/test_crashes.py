"""Killed anywhere, an ingest run loses nothing and doubles nothing: the next one finishes its work."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_service.errors import CatalogUnavailable
from rag_service.index.catalog import Catalog
from rag_service.index.catalog_writer import CatalogWriter
from tests.ingest.pipeline.crashing_run import watched_parts
from tests.support.crashing import crashing
from tests.support.ingest_parts import (
    BATCH,
    HashEmbedder,
    assert_consistent,
    facts,
    index_of,
    live_texts,
    pipeline_on,
    results,
    statuses,
)

PROGRAM = Path(__file__).with_name("crashing_run.py")


def write_first(folder: Path) -> None:
    """10 + 3 + 3 + 2 chunks."""
    folder.mkdir(exist_ok=True)
    (folder / "a.md").write_text(facts(10, "10 EUR"))
    (folder / "gone.md").write_text(facts(3, "7 EUR"))
    (folder / "moved.md").write_text(facts(3, "8 EUR"))
    (folder / "same.md").write_text(facts(2, "9 EUR"))


def write_second(folder: Path) -> None:
    """One file shrinks, one goes, one moves, one is new, one cannot be read, one stays."""
    (folder / "a.md").write_text(facts(6, "12 EUR"))
    (folder / "gone.md").unlink()
    (folder / "sub").mkdir()
    (folder / "moved.md").rename(folder / "sub" / "moved.md")
    (folder / "new.md").write_text(facts(5, "13 EUR"))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")


def test_br_03_killed_at_any_step_the_next_run_repairs_and_no_answer_is_missing_between(
    chroma: str, tmp_path: Path
) -> None:
    folder = tmp_path / "docs"
    write_first(folder)
    write_second(folder)
    with pipeline_on(tmp_path / "undisturbed", chroma, "undisturbed", HashEmbedder()) as pipeline:
        results(pipeline, folder)
        undisturbed = index_of(pipeline)
    seen: set[str] = set()
    with crashing(PROGRAM) as crash:
        for number, die_at in enumerate(boundaries(crash, chroma, tmp_path / "counted", folder)):
            home, collection = tmp_path / f"home-{number}", f"killed-{number}"
            order = prepared(home, chroma, collection, folder)
            ended = crash(order | {"die_at": die_at})
            # How many batches there are depends on what waits together: the last ones may not come again.
            assert ended.startswith("killed") or "upsert" in die_at or "commit" in die_at, (die_at, ended)
            seen.add(ended.partition("[")[0])
            assert assert_whole(home, chroma, collection, folder, ended) == undisturbed, ended
    steps = ("begin", "upsert", "commit", "share", "delete", "delete_version", "settled")
    assert {f"killed {when} {step}" for when in ("before", "after") for step in steps} <= seen


def prepared(home: Path, url: str, collection: str, folder: Path) -> dict[str, Any]:
    """An index of the first state of the folder, which then is in its second: an order for a run that brings it there."""
    write_back(folder)
    with pipeline_on(home, url, collection, HashEmbedder()) as pipeline:
        results(pipeline, folder)
    write_second(folder)
    return {"home": str(home), "url": url, "collection": collection, "folder": str(folder)}


def boundaries(crash: Callable[[dict[str, Any]], str], url: str, home: Path, folder: Path) -> list[str]:
    """Those of a run that nobody kills."""
    ended = crash(prepared(home, url, "counted", folder) | {"die_at": "never"})
    assert ended.startswith("ended")
    found: list[str] = json.loads(ended.removeprefix("ended"))
    return found


def write_back(folder: Path) -> None:
    """Undo `write_second`."""
    (folder / "sub" / "moved.md").rename(folder / "moved.md")
    (folder / "sub").rmdir()
    (folder / "new.md").unlink()
    (folder / "broken.pdf").unlink()
    write_first(folder)


def assert_whole(home: Path, url: str, collection: str, folder: Path, where: str) -> dict[str, Any]:
    """After a kill each document is there in one version; returns the index that the next run leaves."""
    reader = Catalog(home / "catalog.sqlite3")
    texts = live_texts(reader, collection)
    reader.close()
    assert lines(texts[(folder / "a.md").as_uri()]) in (facts(10, "10 EUR"), facts(6, "12 EUR")), where
    moved = [uri for uri in texts if uri.endswith("moved.md")]
    assert len(moved) == 1, where
    assert lines(texts[moved[0]]) == facts(3, "8 EUR"), where
    with pipeline_on(home, url, collection, HashEmbedder()) as pipeline:
        results(pipeline, folder)
        assert_consistent(pipeline)
        return index_of(pipeline)


def lines(texts: list[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def test_br_03_a_changed_document_is_never_absent_and_never_double(chroma: str, tmp_path: Path) -> None:
    folder, home, collection = tmp_path / "docs", tmp_path / "home", "watched"
    write_first(folder)
    with pipeline_on(home, chroma, collection, HashEmbedder()) as pipeline:
        results(pipeline, folder)
    write_second(folder)
    changed = (folder / "a.md").as_uri()
    reader = Catalog(home / "catalog.sqlite3")
    seen: list[str] = []
    looking = threading.Lock()  # the boundaries are met in several threads, and a snapshot is of one of them

    def live() -> dict[str, set[str]]:
        with reader.snapshot():
            versions = [document.version for document in reader.documents(collection)]
            return {version: {chunk.id for chunk in reader.chunks_of(collection, version)} for version in versions}

    def look(name: str) -> None:
        with looking:
            text = lines(live_texts(reader, collection)[changed])
            assert text in (facts(10, "10 EUR"), facts(6, "12 EUR")), name
            for version, chunks in live().items():
                stored = pipeline.store.ids_of(collection, version)
                # Between the two reads the version may have been replaced; while it is live nothing of it may be missing.
                assert chunks <= stored or version not in live(), name
            seen.append(name)

    with pipeline_on(home, chroma, collection, HashEmbedder(), **watched_parts(look)) as pipeline:
        results(pipeline, folder)
        assert_consistent(pipeline)
    reader.close()
    assert {"after begin", "after upsert", "after commit", "before delete_version", "after settled"} <= {*seen}


def test_br_03_a_failing_batch_leaves_the_old_version_and_the_next_run_embeds_only_the_rest(
    chroma: str, tmp_path: Path
) -> None:
    folder, home, collection = tmp_path / "docs", tmp_path / "home", "failing"
    folder.mkdir()
    (folder / "a.md").write_text(facts(3, "10 EUR"))
    with pipeline_on(home, chroma, collection, HashEmbedder()) as pipeline:
        results(pipeline, folder)
    (folder / "a.md").write_text(facts(5 * BATCH, "12 EUR"))
    with pipeline_on(home, chroma, collection, HashEmbedder(fail_on=3)) as pipeline:
        with pytest.raises(RuntimeError, match="told to fail"):
            results(pipeline, folder)
        (texts,) = live_texts(pipeline.catalog, collection).values()
        assert lines(texts) == facts(3, "10 EUR")
    model = HashEmbedder()
    with pipeline_on(home, chroma, collection, model) as pipeline:
        assert statuses(pipeline, folder) == {"a.md": "updated"}
        assert len(model.embedded) == 3 * BATCH
        assert_consistent(pipeline)
        (texts,) = live_texts(pipeline.catalog, collection).values()
        assert lines(texts) == facts(5 * BATCH, "12 EUR")


class FullDisk(CatalogWriter):
    """SQLite's own "database or disk is full": it may not grow beyond the pages it has."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        (pages,) = self._db.execute("PRAGMA page_count").fetchone()
        self._db.execute(f"PRAGMA max_page_count = {pages + 2}")


def test_br_03_a_full_disk_fails_cleanly_and_the_next_run_completes(chroma: str, tmp_path: Path) -> None:
    folder, home, collection = tmp_path / "docs", tmp_path / "home", "full"
    write_first(folder)
    with pipeline_on(home, chroma, collection, HashEmbedder()) as pipeline:
        results(pipeline, folder)
        before = live_texts(pipeline.catalog, collection)
    (folder / "a.md").write_text(facts(800, "12 EUR"))
    with pipeline_on(home, chroma, collection, HashEmbedder(), max_tokens=200, catalog=FullDisk) as pipeline:
        with pytest.raises(CatalogUnavailable, match="full"):
            results(pipeline, folder / "a.md")
        assert live_texts(pipeline.catalog, collection) == before
    with pipeline_on(home, chroma, collection, HashEmbedder(), max_tokens=200) as pipeline:
        assert statuses(pipeline, folder)["a.md"] == "updated"
        assert_consistent(pipeline)


def test_vectors_that_chroma_lost_are_made_anew(chroma: str, tmp_path: Path) -> None:
    folder, home, collection = tmp_path / "docs", tmp_path / "home", "lost"
    write_first(folder)
    with pipeline_on(home, chroma, collection, HashEmbedder()) as pipeline:
        results(pipeline, folder)
        before = index_of(pipeline)
        for document in pipeline.catalog.documents(collection):
            if not document.uri.endswith("same.md"):
                pipeline.store.delete_version(collection, document.version)
    model = HashEmbedder()
    with pipeline_on(home, chroma, collection, model) as pipeline:
        found = results(pipeline, folder)
        assert index_of(pipeline) == before
        assert_consistent(pipeline)
    restored = [result for result in found if result.status == "restored"]
    assert {result.uri.rsplit("/", 1)[-1] for result in restored} == {"a.md", "gone.md", "moved.md"}
    assert all(result.reason and "made anew" in result.reason for result in restored)
    assert len(model.embedded) == 16
    with pipeline_on(home, chroma, collection, HashEmbedder()) as pipeline:
        assert {*statuses(pipeline, folder).values()} == {"unchanged"}
