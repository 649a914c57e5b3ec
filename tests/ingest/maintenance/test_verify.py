"""What `verify` finds, that `--repair` mends it without the files, and that nothing live is lost by that."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ingest.maintenance.findings import Verdict
from ingest.maintenance.index import Index
from ingest.maintenance.repair import repair
from ingest.maintenance.verify import verify
from rag_service.errors import FingerprintMismatch, NotFound
from rag_service.index.catalog_maintenance import CatalogMaintenance
from tests.ingest.maintenance.conftest import OpenIndex, OpenPipeline
from tests.ingest.maintenance.parts import last_of
from tests.support.ingest_parts import HashEmbedder, index_of, live_texts, statuses

Damage = Callable[[Index], None]


def kinds(verdict: Verdict) -> dict[str, int]:
    return {found.kind: found.count for found in verdict.findings}


def some_version(index: Index, name: str = "a.md") -> str:
    (version,) = {
        document.version for document in index.catalog.documents(index.collection) if document.uri.endswith(f"/{name}")
    }
    return version


def sql(index: Index, statement: str, *values: object) -> None:
    """As somebody else would who meddles with the file."""
    connection = sqlite3.connect(index.catalog.path)
    connection.execute(statement.replace("{fts}", "fulltext_1"), values)
    connection.commit()
    connection.close()


def unit(count: int) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]]":
    rows = np.random.default_rng(3).normal(size=(count, 8)).astype(np.float32)
    made: np.ndarray[tuple[int, int], np.dtype[np.float32]] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return made


def lose_vectors(index: Index) -> None:
    index.store.delete_version(index.collection, some_version(index))


def add_foreign_vectors(index: Index) -> None:
    index.store.upsert(index.collection, ["x1", "x2"], ["elsewhere"] * 2, unit(2))


def mislabel(index: Index) -> None:
    version = some_version(index, "b.md")
    ids = sorted(index.store.ids_of(index.collection, version))
    index.store.upsert(index.collection, ids[:2], ["elsewhere"] * 2, unit(2))


def leave_a_killed_runs_vectors(index: Index) -> None:
    index.catalog.begin(index.collection, "half-written")
    index.store.upsert(index.collection, ["h1", "h2", "h3"], ["half-written"] * 3, unit(3))


def lose_the_collection(index: Index) -> None:
    index.store.drop(index.collection, index.catalog.place(index.collection))


def change_vectors(index: Index) -> None:
    version = some_version(index)
    ids = sorted(index.store.ids_of(index.collection, version))
    index.store.upsert(index.collection, ids[:4], [version] * 4, unit(4))


def leave_a_dead_version(index: Index) -> None:
    sql(index, "INSERT INTO versions (collection, id, text, page_starts, notes) VALUES (?, 'dead', 'SECRET', '[]', '[]')",
        index.collection)  # fmt: skip


def leave_dead_words(index: Index) -> None:
    sql(index, "INSERT INTO {fts} (rowid, headings, text) VALUES (999, '', 'nobody has these words')")


def put_a_span_outside(index: Index) -> None:
    sql(index, 'UPDATE chunks SET "end" = 100000 WHERE version = ? AND start > 0', some_version(index))


def lose_a_full_text_row(index: Index) -> None:
    sql(index, "DELETE FROM {fts} WHERE rowid = (SELECT min(rowid) FROM chunks)")


def lose_chunks(index: Index) -> None:
    version = some_version(index, "b.md")
    sql(index, "DELETE FROM {fts} WHERE rowid IN (SELECT rowid FROM chunks WHERE version = ?)", version)
    sql(index, "DELETE FROM chunks WHERE version = ?", version)


def change_a_text_below_the_index(index: Index) -> None:
    sql(index, "UPDATE {fts}_content SET c1 = 'other words' WHERE id = 1")


DAMAGES: list[tuple[Damage, dict[str, int]]] = [
    (lose_vectors, {"vectors_missing": 10}),
    (add_foreign_vectors, {"vectors_dead": 2}),
    (mislabel, {"vectors_mislabelled": 2, "vectors_changed": 2}),
    (leave_a_killed_runs_vectors, {"vectors_loose": 3, "versions_loose": 1}),
    (lose_the_collection, {"vectors_missing": 13}),
    (change_vectors, {"vectors_changed": 4}),
    (leave_a_dead_version, {"rows_dead": 1}),
    (leave_dead_words, {"rows_dead": 1}),
    (put_a_span_outside, {"chunks_wrong": 1, "vectors_changed": 9}),
    (lose_a_full_text_row, {"chunks_wrong": 1}),
    (lose_chunks, {"chunks_wrong": 1, "vectors_dead": 3}),
    (change_a_text_below_the_index, {"chunks_wrong": 1, "fulltext_broken": 1}),
]


def test_a_sound_index_is_in_order_and_stays_as_it_is(open_index: OpenIndex, open_pipeline: OpenPipeline) -> None:
    before = index_of(open_pipeline())
    verdict = verify(open_index(), 100)
    assert (verdict.documents, verdict.versions, verdict.chunks, verdict.vectors, verdict.sampled) == (3, 2, 13, 13, 13)
    assert verdict.findings == ()
    assert last_of(repair(open_index(), 100), Verdict).findings == ()
    assert index_of(open_pipeline()) == before


@pytest.mark.parametrize(("damage", "expected"), DAMAGES, ids=lambda value: getattr(value, "__name__", ""))
def test_damage_is_found_and_named_and_mended_from_the_catalog(
    open_index: OpenIndex, open_pipeline: OpenPipeline, damage: Damage, expected: dict[str, int]
) -> None:
    pipeline, index = open_pipeline(), open_index()
    before, texts = index_of(pipeline), live_texts(pipeline.catalog, pipeline.collection)
    damage(index)
    index = open_index()
    found = verify(index, 100)
    assert kinds(found) == expected
    assert all(one.meaning and "rag-ingest" in one.remedy for one in found.findings)
    assert kinds(verify(index, 100)) == expected  # looking changes nothing
    mended = last_of(repair(open_index(), 100), Verdict)
    assert mended.findings == ()
    assert {one.kind for one in mended.mended} == set(expected)
    assert index_of(open_pipeline()) == before
    assert live_texts(open_pipeline().catalog, pipeline.collection) == texts


def test_a_document_whose_text_is_lost_is_taken_out_and_the_next_run_reads_it_again(
    open_index: OpenIndex, open_pipeline: OpenPipeline, docs: Path
) -> None:
    before = index_of(open_pipeline())
    index = open_index()
    sql(index, "DELETE FROM versions WHERE id = ?", some_version(index))
    verdict = verify(index, 100)
    assert kinds(verdict)["texts_lost"] == 1
    assert verdict.findings[0].examples == ((docs / "a.md").as_uri(),)
    after = last_of(repair(open_index(), 100), Verdict)
    assert kinds(after) == {"texts_lost": 1}  # still to be read again: the command is told
    assert "rag-ingest run" in after.findings[0].remedy
    assert verify(open_index(), 100).findings == ()
    assert statuses(open_pipeline(), docs)["a.md"] == "indexed"
    assert index_of(open_pipeline()) == before


def test_a_damaged_file_is_told_and_left_alone(open_index: OpenIndex) -> None:
    index = open_index()
    index.catalog.compact()
    damage = "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'stamps')"
    connection = sqlite3.connect(index.catalog.path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(f"{damage} WHERE name = 'problems'")
    connection.commit()
    connection.close()
    index = open_index()
    content = index.catalog.path.read_bytes()
    verdict = last_of(repair(index, 10), Verdict)
    assert [*kinds(verdict)] == ["catalog_damaged"]
    assert "backup" in verdict.findings[0].remedy
    assert index.catalog.path.read_bytes() == content


def test_only_the_sample_is_embedded(open_index: OpenIndex) -> None:
    model = HashEmbedder()
    assert verify(open_index(model), 5).sampled == 5
    assert len(model.embedded) == 5
    assert verify(open_index(model), 0).sampled == 0


def test_br_22_another_model_or_no_collection_is_refused(open_index: OpenIndex) -> None:
    with pytest.raises(FingerprintMismatch, match=r"rag-ingest rebuild"):
        verify(open_index(HashEmbedder("other")), 1)
    index = open_index()
    assert isinstance(index.catalog, CatalogMaintenance)
    sql(index, "UPDATE collections SET name = 'another'")
    with pytest.raises(NotFound, match="rag-ingest run"):
        verify(open_index(), 1)
