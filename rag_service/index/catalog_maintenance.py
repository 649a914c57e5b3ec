"""The catalog as maintenance sees it: what a rebuild stages and switches to, what a repair mends, what compaction frees.

In: collections, versions, chunks. Out: committed rows. Must not: touch Chroma; delete a text that a document has.

A rebuild that changes versions (another embedding model, other chunks) keeps them under a name of its own, with full-text rows
of its own, and `switch` makes them the collection's in one transaction, together with the fingerprint and the place of the
vectors. A reader sees all of the one or all of the other.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.chunks import Chunk
from rag_service.index.fingerprint import Fingerprint
from rag_service.index.rows import Making
from rag_service.index.schema import STAGING

LOG_BUSY_MS = 10_000  # a question is answered from the catalog in milliseconds


class CatalogMaintenance(CatalogWriter):
    """Raises CatalogUnavailable, as the writer does."""

    # -- versions

    def live_versions(self, collection: str) -> Iterator[tuple[str, str]]:
        """Versions that documents have, in order, each with the hash of its content."""
        sql = (
            "SELECT version, min(content_hash) AS content FROM documents WHERE collection = ? AND version > ?"
            " GROUP BY version ORDER BY version LIMIT 1000"
        )
        last = ""
        while rows := self._all(sql, collection, last):
            yield from ((row["version"], row["content"]) for row in rows)
            last = rows[-1]["version"]

    def notes(self, collection: str, version: str) -> list[str]:
        """What people were told of a version when it was read."""
        row = self._one("SELECT notes FROM versions WHERE collection = ? AND id = ?", collection, version)
        return list(json.loads(row["notes"])) if row else []

    def chunk_versions(self, collection: str, ids: Sequence[str]) -> dict[str, str]:
        """The version of each of `ids` that is a chunk here. `collection` may be the name of what is staged."""
        sql = "SELECT id, version FROM chunks WHERE collection = ? AND id IN (SELECT value FROM json_each(?))"
        return {row["id"]: row["version"] for row in self._all(sql, collection, json.dumps(list(ids)))}

    # -- a rebuild's versions

    def staged(self, collection: str) -> bool:
        return self.fingerprint(collection + STAGING) is not None

    def begin_staging(self, collection: str, fingerprint: Fingerprint) -> None:
        """Go on with what is staged for the same model, or begin anew."""
        stored = self.fingerprint(collection + STAGING)
        if stored is not None and fingerprint.differences(stored):
            self.discard_staging(collection)
        self.open_collection(collection + STAGING, fingerprint)

    def discard_staging(self, collection: str) -> None:
        if self.staged(collection):
            with self.transaction():
                self._drop_rows(collection + STAGING)
                self._db.execute("DELETE FROM collections WHERE name = ?", (collection + STAGING,))
            self._dropped = True

    def staged_versions(self, collection: str) -> set[str]:
        sql = "SELECT id FROM versions WHERE collection = ?"
        return {row["id"] for row in self._all(sql, collection + STAGING)}

    def stage(self, collection: str, old: str, new: str, making: Making, chunks: Sequence[Chunk]) -> None:
        """Keep the text of version `old` as version `new`, cut into `chunks`. It is not read before `switch`."""
        text, pages = self.text(collection, old)
        with self.transaction():
            self._put_version(collection + STAGING, new, text, pages, self.notes(collection, old), making)
            self._put_chunks(collection + STAGING, new, pages, chunks)

    def unstage(self, collection: str, version: str) -> None:
        with self.transaction():
            self._drop_chunks(collection + STAGING, version)
            self._db.execute("DELETE FROM versions WHERE collection = ? AND id = ?", (collection + STAGING, version))

    def switch(
        self, collection: str, generation: int, fingerprint: Fingerprint, versions: Mapping[str, str] | None = None
    ) -> None:
        """From now on the vectors of `generation` are read, made by `fingerprint`; with `versions` (old to new), what is staged
        as well."""
        staging = collection + STAGING
        with self.transaction():
            if versions is not None:
                self._db.executemany(
                    "UPDATE documents SET version = ? WHERE collection = ? AND version = ?",
                    [(new, collection, old) for old, new in versions.items()],
                )
                last_run = self.last_run(collection)
                self._drop_rows(collection)
                self._db.execute("DELETE FROM collections WHERE name = ?", (collection,))
                for table in ("versions", "chunks"):
                    self._db.execute(
                        f"UPDATE {table} SET collection = ? WHERE collection = ?",  # noqa: S608  fixed names
                        (collection, staging),
                    )
                self._db.execute(
                    "UPDATE collections SET name = ?, last_run = ? WHERE name = ?", (collection, last_run, staging)
                )
                self._dropped = True
            self._db.execute(
                "UPDATE collections SET generation = ?, fingerprint = ? WHERE name = ?",
                (generation, fingerprint.to_json(), collection),
            )
            # They were in the vectors that are not read any more, and go with those.
            self._db.execute("DELETE FROM loose_vectors WHERE collection = ?", (collection,))

    # -- mending

    def replace_chunks(self, collection: str, version: str, chunks: Sequence[Chunk]) -> None:
        """Chunk and full-text rows of a version anew; its text stays."""
        _, pages = self.text(collection, version)
        with self.transaction():
            self._drop_chunks(collection, version)
            self._put_chunks(collection, version, pages, chunks)

    def drop_dead_rows(self, collection: str) -> None:
        """Versions, chunks and full-text rows that belong to no document."""
        table = self._fulltext(collection)
        live = "(SELECT version FROM documents WHERE collection = ?)"
        with self.transaction():
            self._db.execute(
                f"DELETE FROM chunks WHERE collection = ? AND version NOT IN {live}",  # noqa: S608  fixed text
                (collection, collection),
            )
            self._db.execute(
                f"DELETE FROM versions WHERE collection = ? AND id NOT IN {live}",  # noqa: S608  fixed text
                (collection, collection),
            )
            self._db.execute(
                f"DELETE FROM {table} WHERE rowid NOT IN (SELECT rowid FROM chunks WHERE collection = ?)",  # noqa: S608
                (collection,),
            )
        self._dropped = True

    def rebuild_fulltext(self, collection: str) -> None:
        """FTS5's own: the words anew from the texts that the table keeps."""
        table = self._fulltext(collection)
        with self.transaction():
            self._db.execute(f"INSERT INTO {table} ({table}) VALUES ('rebuild')")  # noqa: S608  a name of ours

    # -- compaction

    def compact(self) -> bool:
        """Write the file anew without what was deleted, and empty the log. False when a reader was in the midst of something
        for too long: then the log still holds it."""
        for name in self.collections():
            table = self._fulltext(name)
            with self.transaction():
                self._db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608  a name of ours
        self._all("VACUUM")
        self._all(f"PRAGMA busy_timeout = {LOG_BUSY_MS}")
        ((busy, *_),) = self._all("PRAGMA wal_checkpoint(TRUNCATE)")
        self._dropped = False
        return not busy

    # -- parts of transactions

    def _drop_chunks(self, collection: str, version: str) -> None:
        table = self._fulltext(collection)
        self._db.execute(
            f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM chunks WHERE collection = ? AND version = ?)",  # noqa: S608
            (collection, version),
        )
        self._db.execute("DELETE FROM chunks WHERE collection = ? AND version = ?", (collection, version))

    def _drop_rows(self, collection: str) -> None:
        """All versions and chunks, and the full-text table. With the collection's row gone too, nothing of it is left."""
        table = self._fulltext(collection)
        self._db.execute(f"DROP TABLE IF EXISTS {table}")
        for name in ("chunks", "versions"):
            self._db.execute(f"DELETE FROM {name} WHERE collection = ?", (collection,))  # noqa: S608  fixed names
