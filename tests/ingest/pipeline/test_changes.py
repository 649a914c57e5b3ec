"""Equal input means equal index: what is new, changed, moved, copied, gone, and what costs nothing."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ingest.pipeline import Pipeline
from rag_service.index.chunks import document_id
from tests.support.ingest_parts import (
    HashEmbedder,
    assert_consistent,
    facts,
    index_of,
    live_texts,
    results,
    statuses,
)

Open = Callable[..., Pipeline]


def calls(pipeline: Pipeline) -> int:
    assert isinstance(pipeline.model, HashEmbedder)
    return pipeline.model.calls


def texts_of(pipeline: Pipeline) -> dict[str, str]:
    found = live_texts(pipeline.catalog, pipeline.collection)
    return {uri.rsplit("/", 1)[-1]: "\n".join(texts) for uri, texts in found.items()}


def test_br_10_a_shorter_version_leaves_nothing_of_the_longer_one(open_pipeline: Open, docs: Path) -> None:
    (docs / "a.md").write_text(facts(10, "10 EUR"))
    pipeline = open_pipeline()
    assert statuses(pipeline, docs) == {"a.md": "indexed"}
    (docs / "a.md").write_text(facts(2, "12 EUR"))
    (result,) = results(pipeline, docs)
    assert (result.status, result.chunks) == ("updated", 2)
    assert pipeline.store.count(pipeline.collection) == 2
    assert "10 EUR" not in texts_of(pipeline)["a.md"]
    assert_consistent(pipeline)


def test_br_10_another_chunk_size_cuts_anew(open_pipeline: Open, docs: Path) -> None:
    (docs / "a.md").write_text(facts(10))
    results(open_pipeline(), docs)
    pipeline = open_pipeline(max_tokens=40)
    (result,) = results(pipeline, docs)
    assert (result.status, result.chunks) == ("updated", 2)
    assert result.reason == "not changed, but cut anew (other RAG_CHUNKS__… settings, or a newer version)"
    assert_consistent(pipeline)


def test_br_18_unchanged_files_cost_no_embedding_and_change_nothing(open_pipeline: Open, docs: Path) -> None:
    for number in range(20):
        (docs / f"{number}.md").write_text(facts(3, f"{number} EUR"))
    first = open_pipeline()
    assert [*statuses(first, docs).values()] == ["indexed"] * 20
    before = index_of(first)
    for path in docs.iterdir():
        os.utime(path, (1, 1))
    again = open_pipeline()
    assert [*statuses(again, docs).values()] == ["unchanged"] * 20
    assert calls(again) == 0
    assert index_of(again) == before
    (docs / "new.md").write_text(facts(3, "new"))
    more = open_pipeline()
    assert sorted(statuses(more, docs).values()) == ["indexed"] + ["unchanged"] * 20
    assert len(more.model.embedded) == 3  # type: ignore[attr-defined]
    assert_consistent(more)


def test_equal_input_gives_an_equal_index_in_any_order(open_pipeline: Open, docs: Path) -> None:
    for name in ("a.md", "b.md", "c.md"):
        (docs / name).write_text(facts(4, name))
    one = open_pipeline(collection="in-order")
    results(one, docs)
    other = open_pipeline(collection="in-turn")
    for name in ("c.md", "a.md", "b.md"):
        results(other, docs / name)
    assert index_of(one) == index_of(other)


def test_br_19_deleted_is_gone_and_renamed_is_there_once_under_its_new_path(open_pipeline: Open, docs: Path) -> None:
    (docs / "a.md").write_text(facts(3, "gone"))
    (docs / "b.md").write_text(facts(3, "kept"))
    (docs / "stays.md").write_text(facts(3, "stays"))
    first = open_pipeline()
    results(first, docs)
    kept = first.catalog.document_at(first.collection, (docs / "b.md").as_uri())
    assert kept is not None
    (docs / "a.md").unlink()
    (docs / "c").mkdir()
    (docs / "b.md").rename(docs / "c" / "b2.md")
    pipeline = open_pipeline()
    assert statuses(pipeline, docs) == {"b2.md": "indexed", "stays.md": "unchanged", "a.md": "deleted"}
    assert calls(pipeline) == 0
    assert {*texts_of(pipeline)} == {"b2.md", "stays.md"}
    moved = pipeline.catalog.document_at(pipeline.collection, (docs / "c" / "b2.md").as_uri())
    assert moved is not None
    assert moved.id == kept.id
    assert moved.title == "b2.md"
    assert_consistent(pipeline)


def test_br_19_an_empty_folder_deletes_nothing_unless_told(open_pipeline: Open, docs: Path, tmp_path: Path) -> None:
    (docs / "a.md").write_text(facts(3))
    pipeline = open_pipeline()
    results(pipeline, docs)
    before = index_of(pipeline)
    (docs / "a.md").rename(tmp_path / "a.md")
    (result,) = results(pipeline, docs)
    assert (result.uri, result.status) == (docs.as_uri(), "skipped")
    assert result.reason is not None
    assert "empty now" in result.reason
    assert "--yes" in result.reason
    assert index_of(pipeline) == before
    (tmp_path / "a.md").rename(docs / "a.md")
    assert statuses(pipeline, docs) == {"a.md": "unchanged"}
    (docs / "a.md").unlink()
    assert statuses(pipeline, docs, prune=False) == {}
    assert statuses(pipeline, docs, prune_empty=True) == {"a.md": "deleted"}
    assert pipeline.store.count(pipeline.collection) == 0
    assert_consistent(pipeline)


def test_pruning_stays_within_the_given_folder(open_pipeline: Open, docs: Path) -> None:
    for name in ("a/1.md", "a/2.md", "ab/1.md"):
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text(facts(2, name))
    pipeline = open_pipeline()
    results(pipeline, docs)
    (docs / "a" / "2.md").unlink()
    (docs / "ab" / "1.md").unlink()
    assert statuses(pipeline, docs / "a") == {"1.md": "unchanged", "2.md": "deleted"}
    assert len(pipeline.catalog.documents(pipeline.collection)) == 2
    assert statuses(pipeline, docs / "a" / "1.md") == {"1.md": "unchanged"}
    assert statuses(pipeline, docs)["1.md"] == "deleted"
    assert_consistent(pipeline)


def test_br_20_equal_names_in_two_folders_are_two_documents(open_pipeline: Open, docs: Path) -> None:
    for name, text in {"hr/readme.md": "25 days", "it/readme.md": "VPN", "x.md": "one", "x.txt": "other"}.items():
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text(facts(2, text))
    pipeline = open_pipeline()
    results(pipeline, docs)
    found = live_texts(pipeline.catalog, pipeline.collection)
    assert {uri: text[0].rpartition("price ")[2] for uri, text in found.items()} == {
        (docs / "hr/readme.md").as_uri(): "25 days.",
        (docs / "it/readme.md").as_uri(): "VPN.",
        (docs / "x.md").as_uri(): "one.",
        (docs / "x.txt").as_uri(): "other.",
    }
    assert_consistent(pipeline)


def test_br_20_a_moved_root_keeps_its_ids_and_embeds_nothing(open_pipeline: Open, docs: Path, tmp_path: Path) -> None:
    for name in ("hr/readme.md", "it/readme.md", "copy/one.md", "copy/two.md"):
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text(facts(2, "the same" if "copy" in name else name))
    first = open_pipeline()
    results(first, docs)
    old = {d.uri.removeprefix(docs.as_uri()): d.id for d in first.catalog.documents(first.collection)}
    moved = docs.rename(tmp_path / "elsewhere")
    pipeline = open_pipeline()
    results(pipeline, moved)
    assert calls(pipeline) == 0
    new = {d.uri.removeprefix(moved.as_uri()): d.id for d in pipeline.catalog.documents(pipeline.collection)}
    assert new == old
    assert_consistent(pipeline)


def test_a_new_file_at_the_place_of_a_moved_one_is_another_document(open_pipeline: Open, docs: Path) -> None:
    (docs / "a.md").write_text(facts(2, "old"))
    pipeline = open_pipeline()
    results(pipeline, docs)
    (docs / "a.md").rename(docs / "b.md")
    results(pipeline, docs)
    (docs / "a.md").write_text(facts(2, "new"))
    results(pipeline, docs)
    a, b = pipeline.catalog.documents(pipeline.collection)
    assert b.id == document_id(pipeline.collection, a.uri)
    assert a.id == document_id(pipeline.collection, a.uri, 1)
    assert_consistent(pipeline)


def test_two_files_that_change_places_end_in_their_new_places(open_pipeline: Open, docs: Path) -> None:
    (docs / "a.md").write_text(facts(2, "one"))
    (docs / "b.md").write_text(facts(2, "two"))
    pipeline = open_pipeline()
    results(pipeline, docs)
    (docs / "a.md").rename(docs / "c")
    (docs / "b.md").rename(docs / "a.md")
    (docs / "c").rename(docs / "b.md")
    results(pipeline, docs)
    assert "two" in texts_of(pipeline)["a.md"]
    assert "one" in texts_of(pipeline)["b.md"]
    assert_consistent(pipeline)


def test_copies_share_their_vectors_and_each_outlives_the_other(open_pipeline: Open, docs: Path) -> None:
    (docs / "a.md").write_text(facts(3))
    shutil.copy(docs / "a.md", docs / "b.md")
    pipeline = open_pipeline()
    one, copy = results(pipeline, docs)
    assert (one.chunks, copy.chunks) == (3, 0)
    assert copy.reason == "same content as an indexed document; nothing embedded"
    assert pipeline.store.count(pipeline.collection) == 3
    (docs / "a.md").unlink()
    assert statuses(pipeline, docs) == {"b.md": "unchanged", "a.md": "deleted"}
    assert pipeline.store.count(pipeline.collection) == 3
    (docs / "b.md").write_text(facts(1, "changed"))
    results(pipeline, docs)
    assert pipeline.store.count(pipeline.collection) == 1
    assert_consistent(pipeline)
