"""The catalog's tables, and how a connection to them is opened.

In: a path. Out: a configured `sqlite3.Connection`. Must not: hold queries (catalog.py and catalog_writer.py have those).

One SQLite file in WAL mode: readers in the service never wait for the writer in `rag-ingest`, and see each document's old
version or its new one, never a mix. Full-text tables are one per collection, so that BM25 counts words of that collection
only; they are made by the writer (`fulltext_table`).
"""

import os
import sqlite3
from pathlib import Path

from rag_service.errors import CatalogUnavailable

SCHEMA_VERSION = 1

SCHEMA = """
-- One row: which catalog this is. Its collections in Chroma carry that, so that two catalogs never fill one.
CREATE TABLE IF NOT EXISTS identity (id TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO identity SELECT lower(hex(randomblob(16))) WHERE NOT EXISTS (SELECT 1 FROM identity);
CREATE TABLE IF NOT EXISTS collections (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    fingerprint TEXT NOT NULL,
    last_run    TEXT
);
CREATE TABLE IF NOT EXISTS documents (
    id           TEXT PRIMARY KEY,
    collection   TEXT NOT NULL REFERENCES collections (name),
    uri          TEXT NOT NULL,
    title        TEXT NOT NULL,
    media_type   TEXT NOT NULL,
    size         INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    version      TEXT NOT NULL,
    metadata     TEXT NOT NULL,
    indexed_at   TEXT NOT NULL,
    UNIQUE (collection, uri)
);
CREATE INDEX IF NOT EXISTS documents_by_version ON documents (collection, version);
CREATE INDEX IF NOT EXISTS documents_by_content ON documents (collection, content_hash);
CREATE TABLE IF NOT EXISTS versions (
    collection  TEXT NOT NULL,
    id          TEXT NOT NULL,
    text        TEXT NOT NULL,
    page_starts TEXT NOT NULL,
    notes       TEXT NOT NULL,
    PRIMARY KEY (collection, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS chunks (
    rowid        INTEGER PRIMARY KEY,
    collection   TEXT NOT NULL,
    id           TEXT NOT NULL,
    version      TEXT NOT NULL,
    start        INTEGER NOT NULL,
    "end"        INTEGER NOT NULL,
    page_starts  TEXT NOT NULL,
    heading_path TEXT NOT NULL,
    UNIQUE (collection, id)
);
CREATE INDEX IF NOT EXISTS chunks_by_version ON chunks (collection, version);
-- Versions whose vectors are in Chroma, or on their way there, without being live: half-written or replaced ones.
CREATE TABLE IF NOT EXISTS loose_vectors (
    collection TEXT NOT NULL,
    version    TEXT NOT NULL,
    PRIMARY KEY (collection, version)
) WITHOUT ROWID;
-- Files that are not in the index, and why; told by `rag-ingest status`.
CREATE TABLE IF NOT EXISTS problems (
    collection TEXT NOT NULL,
    uri        TEXT NOT NULL,
    status     TEXT NOT NULL,
    reason     TEXT NOT NULL,
    seen_at    TEXT NOT NULL,
    PRIMARY KEY (collection, uri)
) WITHOUT ROWID;
"""

# The heading path is a column of its own, so that a chunk is found by the words of the section it stands in.
FULLTEXT = """
CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING fts5(headings, text, tokenize = "unicode61 remove_diacritics 2")
"""


def fulltext_table(collection_id: int) -> str:
    """Name of a collection's full-text table; the id is an integer of ours, never text from outside."""
    return f"fulltext_{collection_id:d}"


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open the catalog. A reader gets CatalogUnavailable when there is none yet; a writer makes it.

    Raises CatalogUnavailable, which names the file and what is wrong with it.
    """
    if not write and not path.is_file():
        raise CatalogUnavailable(
            f"There is no catalog at {path}. Run `rag-ingest run FOLDER` with the same RAG_HOME first."
        )
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA busy_timeout = 30000")
        if write:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a document reported as indexed survives a power cut
            connection.execute("PRAGMA secure_delete = ON")  # deleted text is overwritten, not only unlinked
        _check_version(connection, path)
        if write:
            connection.executescript(SCHEMA)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        else:
            connection.execute("PRAGMA query_only = ON")
    except (sqlite3.Error, CatalogUnavailable) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, CatalogUnavailable):
            raise
        raise CatalogUnavailable(
            f"The catalog {path} cannot be opened: {error}. It must be a readable and writable file for user"
            f" {os.getuid()} on a local disk (RAG_HOME)."
        ) from error
    return connection


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found not in (0, SCHEMA_VERSION):
        raise CatalogUnavailable(
            f"The catalog {path} has schema {found}; this version of rag-service reads schema {SCHEMA_VERSION}."
            " Install the version that made it, or choose a new RAG_HOME and ingest again."
        )
