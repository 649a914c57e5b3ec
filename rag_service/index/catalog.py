"""The catalog as readers see it: documents, versions, live chunks and the BM25 index.

In: ids, queries. Out: frozen rows. Must not: write, or know Chroma. A chunk is live when a document has its version; what
is not live is never returned, so half-written and replaced versions cannot be answered from.
"""

import json
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_service.errors import CatalogUnavailable, NotFound
from rag_service.index.chunks import Chunk
from rag_service.index.fingerprint import Fingerprint
from rag_service.index.schema import connect, fulltext_table
from rag_service.index.spans import PageStarts, Span

Filters = Mapping[str, Sequence[str | int | float | bool]]


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document as it stands in the index. `size` is bytes of the file, `indexed_at` ISO 8601 in UTC."""

    id: str
    collection: str
    uri: str
    title: str
    media_type: str
    size: int
    content_hash: str
    version: str
    metadata: dict[str, str | int | float | bool]
    indexed_at: str


@dataclass(frozen=True, slots=True)
class LiveChunk:
    """A chunk together with the document it is cited under. Its `pages` are those inside the chunk."""

    id: str
    document_id: str
    version: str
    title: str
    uri: str
    span: Span
    text: str
    heading_path: tuple[str, ...]
    pages: PageStarts


@dataclass(frozen=True, slots=True)
class Counts:
    documents: int
    versions: int
    chunks: int


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

    def collections(self) -> list[str]:
        return [row["name"] for row in self._all("SELECT name FROM collections ORDER BY name")]

    def last_run(self, collection: str) -> str | None:
        """When the last ingest run ended, ISO 8601 in UTC."""
        row = self._one("SELECT last_run FROM collections WHERE name = ?", collection)
        return row["last_run"] if row else None

    def counts(self, collection: str) -> Counts:
        tables = ("documents", "versions", "chunks")
        numbers = [
            self._one(f"SELECT count(*) AS n FROM {table} WHERE collection = ?", collection)["n"]  # noqa: S608  fixed names
            for table in tables
        ]
        return Counts(*numbers)

    def problems(self, collection: str) -> list[tuple[str, str, str]]:
        """(uri, status, reason) of the files that the last runs could not take."""
        rows = self._all("SELECT * FROM problems WHERE collection = ? ORDER BY status, uri", collection)
        return [(row["uri"], row["status"], row["reason"]) for row in rows]

    # -- documents

    def documents(self, collection: str) -> list[DocumentRow]:
        return [
            _document(row) for row in self._all("SELECT * FROM documents WHERE collection = ? ORDER BY uri", collection)
        ]

    def document(self, document_id: str) -> DocumentRow:
        """Raises NotFound."""
        row = self._one("SELECT * FROM documents WHERE id = ?", document_id)
        if row is None:
            raise NotFound(f"There is no document {document_id!r} in the index.")
        return _document(row)

    def has_document(self, document_id: str) -> bool:
        return self._one("SELECT 1 FROM documents WHERE id = ?", document_id) is not None

    def document_at(self, collection: str, uri: str) -> DocumentRow | None:
        row = self._one("SELECT * FROM documents WHERE collection = ? AND uri = ?", collection, uri)
        return _document(row) if row else None

    def documents_with_content(self, collection: str, content_hash: str) -> list[DocumentRow]:
        sql = "SELECT * FROM documents WHERE collection = ? AND content_hash = ? ORDER BY uri"
        return [_document(row) for row in self._all(sql, collection, content_hash)]

    def version_is_live(self, collection: str, version: str) -> bool:
        return (
            self._one("SELECT 1 FROM documents WHERE collection = ? AND version = ?", collection, version) is not None
        )

    def text(self, collection: str, version: str) -> tuple[str, PageStarts]:
        """The whole text of a live version and where its pages begin. Raises NotFound."""
        row = self._one("SELECT text, page_starts FROM versions WHERE collection = ? AND id = ?", collection, version)
        if row is None:
            raise NotFound(f"There is no version {version!r} in the index: the document has changed or was deleted.")
        return row["text"], _pages(row["page_starts"])

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
                row["id"], version, span, span.of(text), tuple(json.loads(row["heading_path"])), *pages.pages_of(span)
            )
            for row, span in zip(rows, spans, strict=True)
        ]

    # -- search

    def live_chunks(self, collection: str, ids: Iterable[str], filters: Filters | None = None) -> dict[str, LiveChunk]:
        """The live ones among `ids`, by id. A version that several documents share is cited under the first by URI of those
        that match the `filters`."""
        wanted = list(ids)
        table = self._fulltext(collection)
        if not wanted or table is None:
            return {}
        condition, values = matching(collection, filters or {})
        sql = LIVE_CHUNKS.format(table=table, condition=condition)
        rows = self._all(sql, *values, collection, json.dumps(wanted))
        return {row["id"]: _chunk(row) for row in rows}

    def bm25(
        self, collection: str, question: str, limit: int, versions: Sequence[str] | None = None
    ) -> dict[str, float]:
        """The best chunks for the words of `question`: id to BM25 score (higher is better, unbounded), best first.

        `versions` restricts the search to those; dead versions have no rows here.
        """
        match = match_expression(question)
        table = self._fulltext(collection)
        if not match or table is None:
            return {}
        restriction = "" if versions is None else "AND version IN (SELECT value FROM json_each(?))"
        values: list[Any] = [match] if versions is None else [match, json.dumps(list(versions))]
        rows = self._all(BM25.format(table=table, restriction=restriction), *values, limit)
        return {row["id"]: -row["score"] for row in rows}

    # -- plumbing

    def _fulltext(self, collection: str) -> str | None:
        row = self._one("SELECT id FROM collections WHERE name = ?", collection)
        return fulltext_table(row["id"]) if row else None

    def _one(self, sql: str, *values: Any) -> Any:
        rows = self._all(sql, *values)
        return rows[0] if rows else None

    def _all(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise CatalogUnavailable(f"The catalog {self.path} cannot be read: {error}.") from error


FILTER_COLUMNS = {"document_id": "id", "uri": "uri", "title": "title", "media_type": "media_type"}
IDENTITY = frozenset({"document_id", "uri", "media_type"})  # what a file says of itself must not count for these
METADATA_KEY = re.compile(r"[\w.-]{1,100}")

# Bare columns beside min() are those of the row with the least uri: SQLite defines that.
LIVE_CHUNKS = """
SELECT c.id, c.version, c.start, c."end", c.page_starts, c.heading_path, f.text,
       d.id AS document_id, d.title, min(d.uri) AS uri
FROM chunks c
JOIN {table} f ON f.rowid = c.rowid
JOIN (SELECT * FROM documents WHERE {condition}) d ON d.version = c.version
WHERE c.collection = ? AND c.id IN (SELECT value FROM json_each(?))
GROUP BY c.id
"""

# bm25() weighs the heading column half: a word in a heading counts for every chunk below it.
BM25 = """
SELECT c.id, bm25({table}, 0.5, 1.0) AS score
FROM {table} JOIN chunks c ON c.rowid = {table}.rowid
WHERE {table} MATCH ? {restriction}
ORDER BY score LIMIT ?
"""

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by can do does for from has have how i in is it its me my of on or that the their there they"
        " this to was we were what when where which who why will with you your"
        " auf aus bei das dem den der des die ein eine einen einer es für hat ich im in ist kann man mit nach oder sich sie"
        " sind und von was wann wer wie wird wo zu zum zur",
    )
)


def matching(collection: str, filters: Filters) -> tuple[str, list[Any]]:
    """An SQL condition on `documents`, and its values: of the collection, and matching all `filters`: a field of the
    document, or a key of its metadata, equal to one of the given values. `title` is the file's name or the title in its
    metadata. A key that no metadata has matches nothing."""
    conditions = ["collection = ?"]
    values: list[Any] = [collection]
    for name, wanted in filters.items():
        marks = ", ".join("?" * len(wanted))
        either: list[str] = []
        if name in FILTER_COLUMNS:
            either.append(f"{FILTER_COLUMNS[name]} IN ({marks})")
            values.extend(_comparable(value) for value in wanted)
        if METADATA_KEY.fullmatch(name) and name not in IDENTITY:
            either.append(f"json_extract(metadata, ?) IN ({marks})")
            values.extend([f'$."{name}"', *(_comparable(value) for value in wanted)])
        conditions.append(f"({' OR '.join(either) or 'FALSE'})")
    return " AND ".join(conditions), values


def match_expression(question: str) -> str:
    """An FTS5 query for any of the question's words. Each is quoted, so no character of it is an operator.

    Composed as the texts are: a letter apart from its accent would be two words. FTS5 folds case itself.
    """
    words = list(dict.fromkeys(re.findall(r"\w+", unicodedata.normalize("NFC", question))))
    telling = [word for word in words if word.lower() not in STOP_WORDS] or words
    return " OR ".join(f'"{word}"' for word in telling[:64])


def _comparable(value: str | int | float | bool) -> str | int | float | bool:
    """A filter's value as the metadata would hold it: ints beyond 64 bits are text there, and no text has surrogates."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def pages_json(pages: PageStarts) -> str:
    return json.dumps([pages.first, *pages.offsets]) if pages.offsets else "[]"


def _pages(data: str) -> PageStarts:
    numbers = json.loads(data)
    return PageStarts(tuple(numbers[1:]), numbers[0]) if numbers else PageStarts()


def _document(row: sqlite3.Row) -> DocumentRow:
    return DocumentRow(**{**dict(row), "metadata": json.loads(row["metadata"])})


def _chunk(row: sqlite3.Row) -> LiveChunk:
    return LiveChunk(
        id=row["id"],
        document_id=row["document_id"],
        version=row["version"],
        title=row["title"],
        uri=row["uri"],
        span=Span(row["start"], row["end"]),
        text=row["text"],
        heading_path=tuple(json.loads(row["heading_path"])),
        pages=_pages(row["page_starts"]),
    )
