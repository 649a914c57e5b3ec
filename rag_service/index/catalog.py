"""The catalog as readers see it: documents, versions, live chunks and the BM25 index.

In: ids, queries. Out: frozen rows. Must not: write, or know Chroma. A chunk is live when a document has its version; what
is not live is never returned, so half-written and replaced versions cannot be answered from.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rag_service.errors import CatalogUnavailable, NotFound
from rag_service.index.chunks import Chunk
from rag_service.index.fingerprint import Fingerprint
from rag_service.index.listing_sql import COUNT_DOCUMENTS, COUNT_PROBLEMS, DOCUMENTS, PROBLEMS, fold, mentions
from rag_service.index.rows import (
    Counts,
    DocumentRow,
    Filters,
    Listed,
    LiveChunk,
    Making,
    Place,
    Problem,
    Stamp,
    WebPage,
    document_from,
    listed_from,
    live_chunk_from,
    making_from,
    pages_from,
)
from rag_service.index.schema import STAGING, connect, fulltext_table
from rag_service.index.search_sql import BM25, LIVE_CHUNKS, match_expression, matching
from rag_service.index.spans import PageStarts, Span


class Catalog:
    """Reads one catalog file over one connection; one thread at a time. Raises CatalogUnavailable."""

    def __init__(self, path: Path, *, write: bool = False) -> None:
        self.path = path
        self._db = connect(path, write=write)

    def close(self) -> None:
        self._db.close()

    # -- collections

    def fingerprint(self, collection: str) -> Fingerprint | None:
        """The collection's fingerprint; None where there is no such collection."""
        row = self._one("SELECT fingerprint FROM collections WHERE name = ?", collection)
        return Fingerprint.from_json(row["fingerprint"]) if row else None

    @property
    def identity(self) -> str:
        """Tells this catalog from every other; moves with the file."""
        return str(self._one("SELECT id FROM identity")["id"])

    def place(self, collection: str) -> Place:
        """Where its vectors are in Chroma. As good as the fingerprint: read both in one go, and again after searching."""
        row = self._one("SELECT generation FROM collections WHERE name = ?", collection)
        return Place(row["generation"] if row else 0, self.identity)

    def collections(self) -> list[str]:
        """Those that are read; what a rebuild has not finished is none."""
        sql = "SELECT name FROM collections WHERE name NOT LIKE '%' || ? ORDER BY name"
        return [row["name"] for row in self._all(sql, STAGING)]

    def last_run(self, collection: str) -> str | None:
        """When the last ingest run ended, ISO 8601 in UTC."""
        row = self._one("SELECT last_run FROM collections WHERE name = ?", collection)
        return row["last_run"] if row else None

    def made_with(self, collection: str) -> str | None:
        """The versions of the programs of that run."""
        row = self._one("SELECT made_with FROM collections WHERE name = ?", collection)
        return row["made_with"] or None if row else None

    def counts(self, collection: str) -> Counts:
        tables = ("documents", "versions", "chunks")
        numbers = [
            self._one(f"SELECT count(*) AS n FROM {table} WHERE collection = ?", collection)["n"]  # noqa: S608  fixed names
            for table in tables
        ]
        return Counts(*numbers)

    def unread_pages(self, collection: str) -> int:
        """Pages in the index's documents that have something to see but brought no text."""
        return int(self._one("SELECT total(unread) AS n FROM versions WHERE collection = ?", collection)["n"])

    def problems(self, collection: str) -> list[Problem]:
        """Files that the last runs could not take."""
        sql = "SELECT uri, status, reason, attempt FROM problems WHERE collection = ? ORDER BY status, uri"
        return [Problem(*row) for row in self._all(sql, collection)]

    def problem(self, collection: str, uri: str) -> Problem | None:
        sql = "SELECT uri, status, reason, attempt FROM problems WHERE collection = ? AND uri = ?"
        row = self._one(sql, collection, uri)
        return Problem(*row) if row else None

    # -- documents

    def documents(self, collection: str) -> list[DocumentRow]:
        return [
            document_from(row)
            for row in self._all("SELECT * FROM documents WHERE collection = ? ORDER BY uri", collection)
        ]

    def document(self, document_id: str) -> DocumentRow:
        """Raises NotFound."""
        row = self._one("SELECT * FROM documents WHERE id = ?", document_id)
        if row is None:
            raise NotFound(f"There is no document {document_id!r} in the index.")
        return document_from(row)

    def has_document(self, document_id: str) -> bool:
        return self._one("SELECT 1 FROM documents WHERE id = ?", document_id) is not None

    def document_at(self, collection: str, uri: str) -> DocumentRow | None:
        row = self._one("SELECT * FROM documents WHERE collection = ? AND uri = ?", collection, uri)
        return document_from(row) if row else None

    def each_document(self, collection: str, uri_prefix: str = "") -> Iterator[DocumentRow]:
        """Documents whose URI begins so, by URI, without holding all of them. Rows changed meanwhile may be met or not."""
        sql = (
            "SELECT * FROM documents WHERE collection = ? AND uri > ? AND substr(uri, 1, ?) = ? ORDER BY uri LIMIT 1000"
        )
        last = ""
        while rows := self._all(sql, collection, max(last, uri_prefix[:-1]), len(uri_prefix), uri_prefix):
            yield from map(document_from, rows)
            last = rows[-1]["uri"]

    def listed_documents(self, collection: str, mentioned: str, after: str, limit: int) -> list[Listed]:
        """The next documents by URI that mention a text ("": all) in title or URI; `after` is the last URI before."""
        wanted = self._folded(mentioned)
        return [listed_from(row) for row in self._all(DOCUMENTS, collection, after, wanted, wanted, limit)]

    def listed_problems(self, collection: str, mentioned: str, after: str, limit: int) -> list[Problem]:
        """The next problems by URI, as `listed_documents`."""
        wanted = self._folded(mentioned)
        return [Problem(*row) for row in self._all(PROBLEMS, collection, after, wanted, wanted, limit)]

    def count_listed(self, collection: str, mentioned: str) -> tuple[int, int]:
        """How many documents and how many problems mention a text."""
        wanted = self._folded(mentioned)
        documents = self._one(COUNT_DOCUMENTS, collection, wanted, wanted)["n"]
        return documents, self._one(COUNT_PROBLEMS, collection, wanted, wanted)["n"]

    def documents_with_content(self, collection: str, content_hash: str) -> list[DocumentRow]:
        sql = "SELECT * FROM documents WHERE collection = ? AND content_hash = ? ORDER BY uri"
        return [document_from(row) for row in self._all(sql, collection, content_hash)]

    def version_is_live(self, collection: str, version: str) -> bool:
        return (
            self._one("SELECT 1 FROM documents WHERE collection = ? AND version = ?", collection, version) is not None
        )

    def text(self, collection: str, version: str) -> tuple[str, PageStarts]:
        """The whole text of a live version and where its pages begin. Raises NotFound."""
        row = self._one("SELECT text, page_starts FROM versions WHERE collection = ? AND id = ?", collection, version)
        if row is None:
            raise NotFound(f"There is no version {version!r} in the index: the document has changed or was deleted.")
        return row["text"], pages_from(row["page_starts"])

    def making(self, collection: str, version: str) -> Making:
        """How a live version was made. Raises NotFound."""
        sql = "SELECT loader, chunker, ocr, unread, metadata, structure FROM versions WHERE collection = ? AND id = ?"
        row = self._one(sql, collection, version)
        if row is None:
            raise NotFound(f"There is no version {version!r} in the index.")
        return making_from(row)

    def loose_versions(self, collection: str) -> list[str]:
        """Versions noted as not live, whose vectors are to be deleted from Chroma."""
        return [
            row["version"] for row in self._all("SELECT version FROM loose_vectors WHERE collection = ?", collection)
        ]

    def stamp(self, collection: str, uri: str) -> Stamp | None:
        """The file as it was when its content was last hashed."""
        sql = "SELECT stamp, device, content_hash, loader FROM stamps WHERE collection = ? AND uri = ?"
        row = self._one(sql, collection, uri)
        return Stamp(*row) if row else None

    def web_page(self, collection: str, uri: str) -> WebPage | None:
        """What its server said of an indexed page."""
        sql = "SELECT etag, last_modified, sitemap FROM web_pages WHERE collection = ? AND uri = ?"
        row = self._one(sql, collection, uri)
        return WebPage(*row) if row else None

    def pages_of_sitemap(self, collection: str, sitemap: str) -> list[str]:
        """URIs of the indexed pages that this sitemap listed when they were read."""
        sql = "SELECT uri FROM web_pages WHERE collection = ? AND sitemap = ? ORDER BY uri"
        return [row["uri"] for row in self._all(sql, collection, sitemap)]

    def versions_where(self, collection: str, filters: Filters) -> list[str]:
        """Live versions of the documents that match all `filters` (see `matching`)."""
        condition, values = matching(collection, filters)
        sql = f"SELECT DISTINCT version FROM documents WHERE {condition}"  # noqa: S608  fixed names, bound values
        return [row["version"] for row in self._all(sql, *values)]

    def chunks_of(self, collection: str, version: str) -> list[Chunk]:
        """The chunks of a live version as they were made, in order: what its vectors can be made from anew."""
        text, pages = self.text(collection, version)
        rows = self._all(
            'SELECT * FROM chunks WHERE collection = ? AND version = ? ORDER BY start, "end"', collection, version
        )
        spans = [Span(row["start"], row["end"]) for row in rows]
        return [
            Chunk(
                row["id"],
                version,
                span,
                span.of(text),
                tuple(json.loads(row["heading_path"])),
                *pages.pages_of(span),
                ocr=bool(row["ocr"]),
            )
            for row, span in zip(rows, spans, strict=True)
        ]

    # -- search

    def live_chunks(self, collection: str, ids: Iterable[str], filters: Filters | None = None) -> dict[str, LiveChunk]:
        """The live ones among `ids`, by id. A version that several documents share is cited under the first by URI of those
        that match the `filters`."""
        wanted = list(ids)
        condition, values = matching(collection, filters or {})
        with self.snapshot():
            table = self._fulltext(collection)
            if not wanted or table is None:
                return {}
            sql = LIVE_CHUNKS.format(table=table, condition=condition)
            rows = self._all(sql, *values, collection, json.dumps(wanted))
        return {row["id"]: live_chunk_from(row) for row in rows}

    def bm25(
        self, collection: str, question: str, limit: int, versions: Sequence[str] | None = None
    ) -> dict[str, float]:
        """The best chunks for the words of `question`: id to BM25 score (higher is better, unbounded), best first.

        `versions` restricts the search to those; dead versions have no rows here.
        """
        match = match_expression(question)
        if not match:
            return {}
        restriction = "" if versions is None else "AND version IN (SELECT value FROM json_each(?))"
        values: list[Any] = [match] if versions is None else [match, json.dumps(list(versions))]
        with self.snapshot():
            table = self._fulltext(collection)
            if table is None:
                return {}
            rows = self._all(BM25.format(table=table, restriction=restriction), *values, limit)
        return {row["id"]: -row["score"] for row in rows}

    # -- plumbing

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """What is read inside is of one moment: a rebuild gives a collection another full-text table."""
        if self._db.in_transaction:
            yield
            return
        self._all("BEGIN")
        try:
            yield
        finally:
            self._all("ROLLBACK")

    def _fulltext(self, collection: str) -> str | None:
        row = self._one("SELECT id FROM collections WHERE name = ?", collection)
        return fulltext_table(row["id"]) if row else None

    def _folded(self, mentioned: str) -> str:
        self._db.create_function("mentions", 3, mentions, deterministic=True)
        return fold(mentioned)

    def _one(self, sql: str, *values: Any) -> Any:
        rows = self._all(sql, *values)
        return rows[0] if rows else None

    def _all(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise CatalogUnavailable(f"The catalog {self.path} cannot be read: {error}.") from error
