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

SCHEMA_VERSION = 2
STAGING = "~rebuild"  # ends the name under which a rebuild keeps what is not read yet; no collection's name has a "~"

SCHEMA = """
-- One row: which catalog this is. Its collections in Chroma carry that, so that two catalogs never fill one.
CREATE TABLE IF NOT EXISTS identity (id TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO identity SELECT lower(hex(randomblob(16))) WHERE NOT EXISTS (SELECT 1 FROM identity);
CREATE TABLE IF NOT EXISTS collections (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    fingerprint TEXT NOT NULL,
    last_run    TEXT,
    generation  INTEGER NOT NULL DEFAULT 0, -- of its vectors in Chroma: `rebuild` fills the next one, then counts up here
    made_with   TEXT NOT NULL DEFAULT ''    -- versions of the programs of the last run
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
    given        TEXT NOT NULL DEFAULT '{}', -- the part of the metadata that came from outside the file
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
    loader      TEXT NOT NULL DEFAULT '',   -- with the two below: how the text and its chunks were made
    chunker     TEXT NOT NULL DEFAULT '',
    ocr         TEXT NOT NULL DEFAULT '',
    unread      INTEGER NOT NULL DEFAULT 0, -- pages with something to see that brought no text
    metadata    TEXT NOT NULL DEFAULT '{}', -- what the file says of itself
    structure   TEXT NOT NULL DEFAULT '{}', -- headings, atoms and OCR stretches: chunks can be cut anew from these
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
    ocr          INTEGER NOT NULL DEFAULT 0,
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
    attempt    TEXT, -- which content was tried how: the same is not tried again. NULL: try at every run
    PRIMARY KEY (collection, uri)
) WITHOUT ROWID;
-- Files as they were when their content was last hashed: one with the same stamp is not read again.
CREATE TABLE IF NOT EXISTS stamps (
    collection   TEXT NOT NULL,
    uri          TEXT NOT NULL,
    stamp        TEXT NOT NULL,
    device       INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    loader       TEXT NOT NULL,
    PRIMARY KEY (collection, uri)
) WITHOUT ROWID;
-- What web servers said of a page, so that the next run can ask whether it has changed.
CREATE TABLE IF NOT EXISTS web_pages (
    collection    TEXT NOT NULL,
    uri           TEXT NOT NULL,
    etag          TEXT,
    last_modified TEXT,
    sitemap       TEXT, -- the address given to the run that listed the page; NULL: the page was given itself
    PRIMARY KEY (collection, uri)
) WITHOUT ROWID;
"""

# From the schema before, in order; what is only added is in SCHEMA above.
MIGRATIONS = {
    1: """
ALTER TABLE collections ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE collections ADD COLUMN made_with TEXT NOT NULL DEFAULT '';
ALTER TABLE documents ADD COLUMN given TEXT NOT NULL DEFAULT '{}';
ALTER TABLE versions ADD COLUMN loader TEXT NOT NULL DEFAULT '';
ALTER TABLE versions ADD COLUMN chunker TEXT NOT NULL DEFAULT '';
ALTER TABLE versions ADD COLUMN ocr TEXT NOT NULL DEFAULT '';
ALTER TABLE versions ADD COLUMN unread INTEGER NOT NULL DEFAULT 0;
ALTER TABLE versions ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';
ALTER TABLE versions ADD COLUMN structure TEXT NOT NULL DEFAULT '{}';
ALTER TABLE chunks ADD COLUMN ocr INTEGER NOT NULL DEFAULT 0;
ALTER TABLE problems ADD COLUMN attempt TEXT;
""",
}

# The heading path is a column of its own, so that a chunk is found by the words of the section it stands in.
FULLTEXT = """
CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING fts5(headings, text, tokenize = "unicode61 remove_diacritics 2")
"""


def fulltext_table(collection_id: int) -> str:
    """Name of a collection's full-text table; the id is an integer of ours, never text from outside."""
    return f"fulltext_{collection_id:d}"


def require_catalog(path: Path) -> None:
    """Raises CatalogUnavailable when there is none yet."""
    if not path.is_file():
        raise CatalogUnavailable(
            f"There is no catalog at {path}. Run `rag-ingest run FOLDER` with the same RAG_HOME first."
        )


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open the catalog. A reader gets CatalogUnavailable when there is none yet; a writer makes it.

    Raises CatalogUnavailable, which names the file and what is wrong with it.
    """
    if not write:
        require_catalog(path)
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA busy_timeout = 30000")
        if write:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a document reported as indexed survives a power cut
            connection.execute("PRAGMA secure_delete = ON")  # deleted text is overwritten, not only unlinked
        found = _check_version(connection, path, write=write)
        if write:
            _bring_up_to_date(connection, found)
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


def _check_version(connection: sqlite3.Connection, path: Path, *, write: bool) -> int:
    """The schema of the file; 0 for a new one. Raises CatalogUnavailable for one that this program cannot use."""
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if found in (0, SCHEMA_VERSION) or (write and found in MIGRATIONS):
        return found
    remedy = (
        "Any `rag-ingest run` brings it up to date."
        if found in MIGRATIONS
        else "Install the version that made it, or choose a new RAG_HOME and ingest again."
    )
    raise CatalogUnavailable(
        f"The catalog {path} has schema {found}; this version of rag-service reads schema {SCHEMA_VERSION}. {remedy}"
    )


def _bring_up_to_date(connection: sqlite3.Connection, found: int) -> None:
    """All or nothing: a run that is killed in the midst leaves the schema as it was."""
    steps = "".join(MIGRATIONS[version] for version in range(found, SCHEMA_VERSION)) if found else ""
    connection.executescript(f"BEGIN IMMEDIATE; {steps} {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
