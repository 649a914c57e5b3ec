"""What may be wrong within a catalog, as queries: each gives the documents or versions it is wrong with.

In: a catalog that nobody writes to meanwhile. Out: examples and counts. Must not: change anything but through FTS5's own
check, which is written as an INSERT and inserts nothing.
"""

import sqlite3
from collections.abc import Iterator

from rag_service.errors import CatalogUnavailable
from rag_service.index.catalog_maintenance import CatalogMaintenance

WITHOUT_VERSION = """
SELECT uri, version FROM documents d WHERE collection = ? AND NOT EXISTS
    (SELECT 1 FROM versions v WHERE v.collection = d.collection AND v.id = d.version)
ORDER BY uri
"""
DEAD_ROWS = (
    "SELECT id FROM versions v WHERE collection = ? AND NOT EXISTS"
    " (SELECT 1 FROM documents d WHERE d.collection = v.collection AND d.version = v.id)",
    "SELECT DISTINCT version AS id FROM chunks c WHERE collection = ? AND NOT EXISTS"
    " (SELECT 1 FROM documents d WHERE d.collection = c.collection AND d.version = c.version)",
)
ORPHAN_WORDS = "SELECT rowid AS id FROM {table} WHERE rowid NOT IN (SELECT rowid FROM chunks WHERE collection = ?)"
CHUNKS = """
SELECT c.id, c.start, c."end", c.heading_path, f.text AS text, f.headings AS headings
FROM chunks c LEFT JOIN {table} f ON f.rowid = c.rowid
WHERE c.collection = ? AND c.version = ?
"""
SAMPLE = """
SELECT id, version FROM chunks c WHERE collection = ? AND EXISTS
    (SELECT 1 FROM documents d WHERE d.collection = c.collection AND d.version = c.version)
ORDER BY random() LIMIT ?
"""


class CatalogChecks(CatalogMaintenance):
    """The catalog that can examine itself."""

    def damage(self) -> list[str]:
        """What SQLite says of its file; the full-text index has a check of its own."""
        found = [str(row[0]) for row in self._all("PRAGMA integrity_check(20)")]
        return [line for line in found if line != "ok" and "FTS5" not in line] + [
            f"a row of {row[0]} refers to a row of {row[2]} that is not there"
            for row in self._all("PRAGMA foreign_key_check")
        ]

    def fulltext_is_sound(self, collection: str) -> bool:
        """Whether the words that are searched are those of the texts beside them."""
        table = self._fulltext(collection)
        try:
            with self.transaction():
                self._db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")  # noqa: S608
        except CatalogUnavailable as error:
            if isinstance(error.__cause__, sqlite3.DatabaseError):
                return False
            raise
        return True

    def documents_without_version(self, collection: str) -> list[str]:
        return [row["uri"] for row in self._all(WITHOUT_VERSION, collection)]

    def dead_rows(self, collection: str) -> list[str]:
        """Versions without a document, chunks and words of such."""
        table = self._fulltext(collection)
        queries = (*DEAD_ROWS, ORPHAN_WORDS.format(table=table))
        return sorted({str(row["id"]) for sql in queries for row in self._all(sql, collection)})

    def is_cut_well(self, collection: str, version: str) -> bool:
        """Whether a version has chunks, all within its text, and the full-text rows say what stands there."""
        text, _ = self.text(collection, version)
        rows = self._all(CHUNKS.format(table=self._fulltext(collection)), collection, version)
        return bool(rows) and all(
            0 <= row["start"] < row["end"] <= len(text) and row["text"] == text[row["start"] : row["end"]]
            for row in rows
        )

    def badly_cut(self, collection: str) -> Iterator[str]:
        """Live versions of which that is not so."""
        lost = {row["version"] for row in self._all(WITHOUT_VERSION, collection)}
        for version, _ in self.live_versions(collection):
            if version not in lost and not self.is_cut_well(collection, version):
                yield version

    def uri_of(self, collection: str, version: str) -> str:
        """A document that has it, by which people know it."""
        row = self._one(
            "SELECT min(uri) AS uri FROM documents WHERE collection = ? AND version = ?", collection, version
        )
        return row["uri"] or version

    def has_chunks_beyond(self, collection: str, version: str, ids: set[str]) -> bool:
        """Whether a version has chunks other than `ids`."""
        rows = self._all("SELECT id FROM chunks WHERE collection = ? AND version = ?", collection, version)
        return any(row["id"] not in ids for row in rows)

    def live_chunk_count(self, collection: str) -> int:
        sql = (
            "SELECT count(*) AS n FROM chunks c WHERE collection = ? AND EXISTS"
            " (SELECT 1 FROM documents d WHERE d.collection = c.collection AND d.version = c.version)"
        )
        return int(self._one(sql, collection)["n"])

    def live_among(self, collection: str, versions: set[str]) -> set[str]:
        return {version for version in versions if self.version_is_live(collection, version)}

    def sample(self, collection: str, limit: int) -> list[tuple[str, str]]:
        """Some live chunks at random: id and version."""
        return [(row["id"], row["version"]) for row in self._all(SAMPLE, collection, limit)]

    def forget_lost(self, collection: str) -> None:
        """Take out the documents whose text is lost, so that the next run reads their files again."""
        for uri in self.documents_without_version(collection):
            document = self.document_at(collection, uri)
            if document is not None:
                self.delete(document)
