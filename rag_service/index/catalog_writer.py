"""The catalog as the one writer (`rag-ingest`, under its lock) sees it: the transactions of the commit protocol.

In: documents, chunks, fingerprints. Out: committed rows. Must not: touch Chroma (the pipeline orders the two).

Which vectors in Chroma are not live is always known: `begin` notes a version before its first vector is written, `commit`
makes it live and notes the one it replaced, both in one transaction, and `settled` forgets a version once its vectors are
gone. Killed anywhere, the next run reads `loose_versions` and finishes.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from rag_service.errors import CatalogUnavailable
from rag_service.index.catalog import Catalog
from rag_service.index.chunks import Chunk
from rag_service.index.fingerprint import Fingerprint
from rag_service.index.rows import DocumentRow, Making, Stamp, WebPage, pages_json
from rag_service.index.schema import FULLTEXT
from rag_service.index.spans import PageStarts

UNKNOWN_MAKING = Making()


class CatalogWriter(Catalog):
    """Reads and writes. Each public method is one transaction. Raises CatalogUnavailable; nothing is half done then.

    Several calls inside `with catalog.transaction():` are one transaction together: one write to the disk for many small
    documents.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, write=True)
        self._dropped = False  # whether a version's rows went since the last `scrub`
        self._depth = 0  # of transactions inside each other

    def open_collection(self, name: str, fingerprint: Fingerprint) -> None:
        """Make the collection, or check that it was made with the same fingerprint. Raises FingerprintMismatch."""
        stored = self.fingerprint(name)
        if stored is not None:
            fingerprint.require(stored, name)
            return
        with self.transaction():
            self._db.execute("INSERT INTO collections (name, fingerprint) VALUES (?, ?)", (name, fingerprint.to_json()))
            table = self._fulltext(name)
            self._db.execute(FULLTEXT.format(table=table))

    def begin(self, collection: str, version: str) -> None:
        """Note that vectors of `version` may be in Chroma from now on."""
        with self.transaction():
            self._db.execute("INSERT OR IGNORE INTO loose_vectors VALUES (?, ?)", (collection, version))

    def commit(
        self,
        document: DocumentRow,
        text: str,
        pages: PageStarts,
        notes: Sequence[str],
        chunks: Sequence[Chunk],
        making: Making = UNKNOWN_MAKING,
    ) -> str | None:
        """Make a new version live for `document`. Returns the version it replaced, if no other document has that."""
        with self.transaction():
            replaced = self._put_document(document)
            self._put_version(document.collection, document.version, text, pages, notes, making)
            self._put_chunks(document.collection, document.version, pages, chunks)
            self._db.execute(
                "DELETE FROM loose_vectors WHERE collection = ? AND version = ?",
                (document.collection, document.version),
            )
            return self._drop_if_unused(document.collection, replaced)

    def share(self, document: DocumentRow) -> str | None:
        """Let `document` have a version that is live already (a copy, or a moved file). Returns as `commit` does."""
        with self.transaction():
            return self._drop_if_unused(document.collection, self._put_document(document))

    def delete(self, document: DocumentRow) -> str | None:
        """Take a document out of the index. Returns its version, if no other document has it: its vectors can go."""
        with self.transaction():
            self._db.execute("DELETE FROM documents WHERE id = ?", (document.id,))
            for table in ("stamps", "web_pages"):
                self._db.execute(
                    f"DELETE FROM {table} WHERE collection = ? AND uri = ?",  # noqa: S608  fixed names
                    (document.collection, document.uri),
                )
            return self._drop_if_unused(document.collection, document.version)

    def settled(self, collection: str, version: str) -> None:
        """Forget a loose version: its vectors are gone from Chroma."""
        with self.transaction():
            self._db.execute("DELETE FROM loose_vectors WHERE collection = ? AND version = ?", (collection, version))

    def note_problem(self, collection: str, uri: str, status: str, reason: str, attempt: str | None = None) -> None:
        """`attempt` names what was tried how, so that the same is not tried again; None for what may have passed."""
        with self.transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO problems VALUES (?, ?, ?, ?, ?, ?)",
                (collection, uri, status, reason, now(), attempt),
            )

    def clear_problem(self, collection: str, uri: str) -> None:
        if self._one("SELECT 1 FROM problems WHERE collection = ? AND uri = ?", collection, uri) is None:
            return  # the usual case costs no write
        with self.transaction():
            self._db.execute("DELETE FROM problems WHERE collection = ? AND uri = ?", (collection, uri))

    def put_stamps(self, collection: str, stamps: Mapping[str, Stamp]) -> None:
        """Remember the files behind these URIs as they are now."""
        if stamps:
            rows = [
                (collection, uri, stamp.mark, stamp.device, stamp.content_hash, stamp.loader)
                for uri, stamp in stamps.items()
            ]
            with self.transaction():
                self._db.executemany("INSERT OR REPLACE INTO stamps VALUES (?, ?, ?, ?, ?, ?)", rows)

    def forget_stamp(self, collection: str, uri: str) -> None:
        with self.transaction():
            self._db.execute("DELETE FROM stamps WHERE collection = ? AND uri = ?", (collection, uri))

    def put_web_page(self, collection: str, uri: str, page: WebPage) -> None:
        if self.web_page(collection, uri) == page:
            return  # the usual case costs no write
        with self.transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO web_pages (collection, uri, etag, last_modified, sitemap) VALUES (?, ?, ?, ?, ?)",
                (collection, uri, page.etag, page.last_modified, page.sitemap),
            )

    def scrub(self, collection: str) -> None:
        """Make deleted text unreadable: its words stay in the full-text index and in SQLite's log for a while otherwise."""
        if not self._dropped:
            return
        table = self._fulltext(collection)
        with self.transaction():
            self._db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608  a name of ours
        self._all("PRAGMA wal_checkpoint(TRUNCATE)")  # a reader in the midst of something only puts it off
        self._dropped = False

    def finish_run(self, collection: str) -> None:
        with self.transaction():
            self._db.execute(
                "UPDATE collections SET last_run = ?, made_with = ? WHERE name = ?", (now(), programs(), collection)
            )

    # -- parts of transactions

    def _put_document(self, document: DocumentRow) -> str | None:
        row = self._one("SELECT version FROM documents WHERE id = ?", document.id)
        self._db.execute(
            "INSERT OR REPLACE INTO documents VALUES (:id, :collection, :uri, :title, :media_type, :size, :content_hash,"
            " :version, :metadata, :indexed_at, :given)",
            {
                "id": document.id,
                "collection": document.collection,
                "uri": document.uri,
                "title": document.title,
                "media_type": document.media_type,
                "size": document.size,
                "content_hash": document.content_hash,
                "version": document.version,
                "metadata": json.dumps(document.metadata, ensure_ascii=False),
                "indexed_at": document.indexed_at,
                "given": json.dumps(document.given, ensure_ascii=False),
            },
        )
        return row["version"] if row and row["version"] != document.version else None

    def _put_version(
        self, collection: str, version: str, text: str, pages: PageStarts, notes: Sequence[str], making: Making
    ) -> None:
        recipe = making.recipe
        self._db.execute(
            "INSERT OR REPLACE INTO versions (collection, id, text, page_starts, notes, loader, chunker, ocr, unread,"
            " metadata, structure) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                collection,
                version,
                text,
                pages_json(pages),
                json.dumps(list(notes)),
                recipe.loader,
                recipe.chunker,
                recipe.ocr,
                making.unread,
                json.dumps(making.metadata, ensure_ascii=False),
                making.structure,
            ),
        )

    def _put_chunks(self, collection: str, version: str, pages: PageStarts, chunks: Sequence[Chunk]) -> None:
        table = self._fulltext(collection)
        for chunk in chunks:
            cursor = self._db.execute(
                'INSERT INTO chunks (collection, id, version, start, "end", page_starts, heading_path, ocr)'
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    collection,
                    chunk.id,
                    version,
                    chunk.span.start,
                    chunk.span.end,
                    pages_json(pages.within(chunk.span)),
                    json.dumps(chunk.heading_path, ensure_ascii=False),
                    chunk.ocr,
                ),
            )
            self._db.execute(
                f"INSERT INTO {table} (rowid, headings, text) VALUES (?, ?, ?)",  # noqa: S608  a name of ours
                (cursor.lastrowid, "\n".join(chunk.heading_path), chunk.text),
            )

    def _drop_if_unused(self, collection: str, version: str | None) -> str | None:
        """Remove a version that no document has any more; note that its vectors are loose now."""
        if version is None or self.version_is_live(collection, version):
            return None
        table = self._fulltext(collection)
        self._db.execute(
            f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM chunks WHERE collection = ? AND version = ?)",  # noqa: S608
            (collection, version),
        )
        self._db.execute("DELETE FROM chunks WHERE collection = ? AND version = ?", (collection, version))
        self._db.execute("DELETE FROM versions WHERE collection = ? AND id = ?", (collection, version))
        self._db.execute("INSERT OR IGNORE INTO loose_vectors VALUES (?, ?)", (collection, version))
        self._dropped = True
        return version

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is called inside becomes visible, and durable, together; after an error nothing of it is."""
        if self._depth:
            yield
            return
        self._depth = 1
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise CatalogUnavailable(f"The catalog {self.path} cannot be written: {error}.") from error
        finally:
            self._depth = 0


def programs() -> str:
    """Who fills the index, for the day on which another version cannot read it."""
    return ", ".join(f"{name} {metadata.version(name)}" for name in ("rag-service", "chromadb"))


def now() -> str:
    """The time as it is stored: ISO 8601, UTC, seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
