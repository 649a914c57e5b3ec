"""The catalog's schema: an older one is brought up to date as a whole, an unknown one is refused."""

import sqlite3
from pathlib import Path

import pytest

from rag_service.errors import CatalogUnavailable
from rag_service.index import schema
from rag_service.index.catalog import Catalog
from rag_service.index.catalog_writer import CatalogWriter
from tests.support.catalog_rows import COLLECTION, OURS, put

SCHEMA_1 = """
CREATE TABLE identity (id TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO identity VALUES ('the-old-one');
CREATE TABLE collections (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL, last_run TEXT);
CREATE TABLE documents (
    id TEXT PRIMARY KEY, collection TEXT NOT NULL REFERENCES collections (name), uri TEXT NOT NULL, title TEXT NOT NULL,
    media_type TEXT NOT NULL, size INTEGER NOT NULL, content_hash TEXT NOT NULL, version TEXT NOT NULL,
    metadata TEXT NOT NULL, indexed_at TEXT NOT NULL, UNIQUE (collection, uri)
);
CREATE TABLE versions (
    collection TEXT NOT NULL, id TEXT NOT NULL, text TEXT NOT NULL, page_starts TEXT NOT NULL, notes TEXT NOT NULL,
    PRIMARY KEY (collection, id)
) WITHOUT ROWID;
CREATE TABLE chunks (
    rowid INTEGER PRIMARY KEY, collection TEXT NOT NULL, id TEXT NOT NULL, version TEXT NOT NULL, start INTEGER NOT NULL,
    "end" INTEGER NOT NULL, page_starts TEXT NOT NULL, heading_path TEXT NOT NULL, UNIQUE (collection, id)
);
CREATE TABLE loose_vectors (
    collection TEXT NOT NULL, version TEXT NOT NULL, PRIMARY KEY (collection, version)
) WITHOUT ROWID;
CREATE TABLE problems (
    collection TEXT NOT NULL, uri TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL, seen_at TEXT NOT NULL,
    PRIMARY KEY (collection, uri)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE fulltext_1 USING fts5(headings, text, tokenize = "unicode61 remove_diacritics 2");
INSERT INTO documents VALUES
    ('d1', 'documents', 'file:///old.md', 'old.md', 'text/markdown', 9, 'hash', 'v1', '{"team": "red"}', '2026-01-01');
INSERT INTO versions VALUES ('documents', 'v1', 'old words', '[]', '[]');
INSERT INTO chunks VALUES (1, 'documents', 'c1', 'v1', 0, 9, '[]', '["Part"]');
INSERT INTO fulltext_1 (rowid, headings, text) VALUES (1, 'Part', 'old words');
PRAGMA user_version = 1;
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A catalog as version 0.1.0 left it."""
    path = tmp_path / "catalog.sqlite3"
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA_1)
    connection.execute("INSERT INTO collections VALUES (1, ?, ?, NULL)", (COLLECTION, OURS.to_json()))
    connection.commit()
    connection.close()
    return path


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(found)


def test_br_85_an_older_catalog_is_brought_up_to_date_by_the_first_run_and_keeps_its_documents(old: Path) -> None:
    with pytest.raises(CatalogUnavailable, match=r"schema 1.*Any `rag-ingest run` brings it up to date"):
        Catalog(old)
    writer = CatalogWriter(old)
    assert version_of(old) == schema.SCHEMA_VERSION
    assert [document.title for document in writer.documents(COLLECTION)] == ["old.md"]
    (chunk,) = writer.live_chunks(COLLECTION, ["c1"]).values()
    assert (chunk.text, chunk.ocr, chunk.heading_path) == ("old words", False, ("Part",))
    assert writer.bm25(COLLECTION, "old words", 9)
    assert writer.making(COLLECTION, "v1").recipe.chunker == ""
    put(writer, "file:///new.md", "v2", "new words")
    writer.close()
    reader = Catalog(old)
    assert len(reader.documents(COLLECTION)) == 2
    reader.close()


def test_br_85_a_migration_that_breaks_off_leaves_the_old_schema_whole(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(schema.MIGRATIONS, 1, schema.MIGRATIONS[1] + "ALTER TABLE nowhere ADD COLUMN x;")
    with pytest.raises(CatalogUnavailable, match="no such table"):
        CatalogWriter(old)
    monkeypatch.undo()
    assert version_of(old) == 1
    writer = CatalogWriter(old)
    assert [document.title for document in writer.documents(COLLECTION)] == ["old.md"]
    writer.close()


def test_an_old_and_a_new_catalog_have_the_same_columns(old: Path, tmp_path: Path) -> None:
    CatalogWriter(old).close()
    new = tmp_path / "new.sqlite3"
    CatalogWriter(new).close()
    assert columns(old) == columns(new)


def columns(path: Path) -> dict[str, list[tuple[str, str]]]:
    connection = sqlite3.connect(path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {
        table: [(row[1], row[2]) for row in connection.execute(f"PRAGMA table_info({table})")]
        for table in tables
        if not table.startswith("fulltext")
    }
    connection.close()
    return found


@pytest.mark.parametrize("write", [False, True])
def test_br_85_a_catalog_of_a_later_version_is_refused_and_left_alone(tmp_path: Path, write: bool) -> None:
    path = tmp_path / "catalog.sqlite3"
    CatalogWriter(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(CatalogUnavailable, match="schema 99"):
        CatalogWriter(path) if write else Catalog(path)
    assert version_of(path) == 99
