"""The catalog: what is live, what is gone, and the file itself."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from rag_service.errors import CatalogUnavailable, FingerprintMismatch, NotFound
from rag_service.index.catalog import Catalog
from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.chunks import Chunk, chunk_id, document_id
from rag_service.index.rows import Problem
from rag_service.index.spans import PageStarts, Span
from tests.support.catalog_rows import COLLECTION, OURS, put, row


def test_a_new_version_takes_the_place_of_the_old_one_in_every_view(catalog: CatalogWriter) -> None:
    old = put(catalog, "file:///a.md", "v1", "the price is 10 EUR", "and the colour is red")
    new = put(catalog, "file:///a.md", "v2", "the price is 12 EUR")
    assert [*catalog.live_chunks(COLLECTION, [*old, *new])] == new
    assert [*catalog.bm25(COLLECTION, "price colour", 9)] == new
    assert catalog.counts(COLLECTION).chunks == 1
    assert catalog.loose_versions(COLLECTION) == ["v1"]
    with pytest.raises(NotFound, match="changed or was deleted"):
        catalog.text(COLLECTION, "v1")


def test_a_version_that_was_only_begun_is_loose_and_not_live(catalog: CatalogWriter) -> None:
    catalog.begin(COLLECTION, "v1")
    catalog.begin(COLLECTION, "v1")
    assert catalog.loose_versions(COLLECTION) == ["v1"]
    assert not catalog.version_is_live(COLLECTION, "v1")
    put(catalog, "file:///a.md", "v1", "text")
    assert catalog.loose_versions(COLLECTION) == []


def test_a_shared_version_lives_until_its_last_document_goes(catalog: CatalogWriter) -> None:
    (chunk,) = put(catalog, "file:///b.md", "v1", "shared text")
    assert catalog.share(row("file:///a.md", "v1")) is None
    live = catalog.live_chunks(COLLECTION, [chunk])[chunk]
    assert live.uri == "file:///a.md"
    assert live.document_id == document_id(COLLECTION, "file:///a.md")
    named = {"uri": ["file:///b.md"]}
    assert catalog.live_chunks(COLLECTION, [chunk], named)[chunk].uri == "file:///b.md"
    assert catalog.live_chunks(COLLECTION, [chunk], {"uri": ["file:///c.md"]}) == {}
    assert [*catalog.bm25(COLLECTION, "shared", 9)] == [chunk]
    assert catalog.delete(catalog.document(live.document_id)) is None
    assert catalog.live_chunks(COLLECTION, [chunk])[chunk].uri == "file:///b.md"
    assert catalog.delete(catalog.document(document_id(COLLECTION, "file:///b.md"))) == "v1"
    assert catalog.live_chunks(COLLECTION, [chunk]) == {}
    assert catalog.bm25(COLLECTION, "shared", 9) == {}


def test_a_live_chunk_carries_its_span_its_headings_and_its_own_pages(catalog: CatalogWriter) -> None:
    first, second = put(catalog, "file:///a.md", "v1", "page one", "page two", headings=("Leave", "Sick leave"))
    live = catalog.live_chunks(COLLECTION, [second, first, "no such chunk"])
    assert live[second].text == "page two"
    assert live[second].span == Span(9, 17)
    assert live[second].heading_path == ("Leave", "Sick leave")
    assert live[second].pages == PageStarts((9,), 2)
    text, pages = catalog.text(COLLECTION, "v1")
    assert live[second].span.of(text) == live[second].text
    assert pages == PageStarts((0, 9))
    assert [chunk.id for chunk in catalog.chunks_of(COLLECTION, "v1")] == [first, second]
    assert catalog.chunks_of(COLLECTION, "v1")[1].page_start == 2


def test_two_collections_in_one_catalog_do_not_touch_each_other(catalog: CatalogWriter) -> None:
    catalog.open_collection("other", replace(OURS, weights="another model"))
    (ours,) = put(catalog, "file:///a.md", "v1", "the same words")
    (theirs,) = put(catalog, "file:///a.md", "v1", "the same words", collection="other")
    assert ours == theirs
    catalog.delete(catalog.document(document_id("other", "file:///a.md")))
    assert [*catalog.live_chunks(COLLECTION, [ours])] == [ours]
    assert [*catalog.bm25(COLLECTION, "words", 9)] == [ours]
    assert catalog.live_chunks("other", [ours]) == {} == catalog.bm25("other", "words", 9)
    assert catalog.loose_versions("other") == ["v1"]
    assert catalog.loose_versions(COLLECTION) == []


def test_a_collection_that_is_not_there_is_empty(catalog: CatalogWriter) -> None:
    assert catalog.fingerprint("nothing") is None
    assert catalog.live_chunks("nothing", ["x"]) == {} == catalog.bm25("nothing", "word", 3)
    assert catalog.counts("nothing").documents == 0
    assert catalog.last_run("nothing") is None


def test_br_22_another_fingerprint_is_refused_and_nothing_changes(catalog: CatalogWriter) -> None:
    with pytest.raises(FingerprintMismatch):
        catalog.open_collection(COLLECTION, replace(OURS, weights="other"))
    assert catalog.fingerprint(COLLECTION) == OURS


def test_deleted_text_is_gone_from_the_files_even_while_a_reader_has_them_open(
    catalog: CatalogWriter, tmp_path: Path
) -> None:
    put(catalog, "file:///keep.md", "v1", "ordinary words " * 50)
    put(catalog, "file:///secret.md", "v2", "the zyxwvutsecret word " * 3, headings=("qponmlsecret",))
    reader = Catalog(catalog.path)
    assert reader.bm25(COLLECTION, "zyxwvutsecret", 9)
    catalog.delete(catalog.document(document_id(COLLECTION, "file:///secret.md")))
    catalog.scrub(COLLECTION)
    assert not reader.bm25(COLLECTION, "zyxwvutsecret", 9)
    assert reader.bm25(COLLECTION, "ordinary", 9)
    left = b"".join(path.read_bytes() for path in tmp_path.glob("catalog.sqlite3*"))
    assert b"zyxwvutsecret" not in left
    assert b"qponmlsecret" not in left
    reader.close()


def test_problems_are_kept_until_they_are_cleared(catalog: CatalogWriter) -> None:
    catalog.note_problem(COLLECTION, "file:///x.pdf", "failed", "encrypted")
    catalog.note_problem(COLLECTION, "file:///x.pdf", "failed", "broken", "attempt")
    assert catalog.problems(COLLECTION) == [Problem("file:///x.pdf", "failed", "broken", "attempt")]
    assert catalog.problem(COLLECTION, "file:///x.pdf") == Problem("file:///x.pdf", "failed", "broken", "attempt")
    assert catalog.problem(COLLECTION, "file:///y.pdf") is None
    catalog.clear_problem(COLLECTION, "file:///x.pdf")
    catalog.clear_problem(COLLECTION, "file:///never.pdf")
    assert catalog.problems(COLLECTION) == []


def test_a_reader_makes_no_catalog_and_cannot_write(catalog: CatalogWriter, tmp_path: Path) -> None:
    with pytest.raises(CatalogUnavailable, match="rag-ingest run FOLDER"):
        Catalog(tmp_path / "none.sqlite3")
    assert not (tmp_path / "none.sqlite3").exists()
    reader = Catalog(catalog.path)
    assert reader.collections() == [COLLECTION]
    reader.close()


def test_a_reader_sees_the_old_version_until_the_new_one_is_committed(catalog: CatalogWriter) -> None:
    (old,) = put(catalog, "file:///a.md", "v1", "old words")
    reader = Catalog(catalog.path)
    twice = Chunk(chunk_id("v2", Span(0, 3)), "v2", Span(0, 3), "new")
    with pytest.raises(CatalogUnavailable, match="UNIQUE"):
        catalog.commit(row("file:///a.md", "v2"), "new", PageStarts(), [], [twice, twice])
    for view in (reader, catalog):
        assert [*view.live_chunks(COLLECTION, [old, twice.id])] == [old]
        assert view.counts(COLLECTION).versions == 1
    reader.close()


def test_br_85_a_catalog_of_another_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite3"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = path.read_bytes()
    for open_it in (Catalog, CatalogWriter):
        with pytest.raises(CatalogUnavailable, match=r"schema 99.* new RAG_HOME"):
            open_it(path)
    assert path.read_bytes()[100:] == before[100:]  # past the header, where a WAL mode may be noted
