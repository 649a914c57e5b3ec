"""The SQL of searching: which documents a filter admits, and the words of a question as a full-text query.

In: filters, questions. Out: SQL and its values. Must not: run any, or put text from outside into SQL.
"""

import re
import unicodedata
from typing import Any

from rag_service.index.rows import Filters

FILTER_COLUMNS = {"document_id": "id", "uri": "uri", "title": "title", "media_type": "media_type"}
IDENTITY = frozenset({"document_id", "uri", "media_type"})  # what a file says of itself must not count for these
METADATA_KEY = re.compile(r"[\w.-]{1,100}")

# Lists are JSON text in the metadata. What only looks like one is not read as one: json_each fails on it.
ONE_OF_SEVERAL = """EXISTS (SELECT 1 FROM json_each(CASE WHEN json_extract(metadata, ?) LIKE '[%'
 AND json_valid(json_extract(metadata, ?)) THEN json_extract(metadata, ?) ELSE '[]' END) WHERE value IN ({marks}))"""

# Bare columns beside min() are those of the row with the least uri: SQLite defines that.
LIVE_CHUNKS = """
SELECT c.id, c.version, c.start, c."end", c.page_starts, c.heading_path, c.ocr, f.text,
       d.id AS document_id, d.title, d.media_type, min(d.uri) AS uri, json_group_array(d.uri) AS uris
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
    document, or a key of its metadata, equal to one of the given values. A list (tags) is equal to each of its
    parts. `title` is the file's name or the title in its metadata. A key that no metadata has matches nothing."""
    conditions = ["collection = ?"]
    values: list[Any] = [collection]
    for name, wanted in filters.items():
        marks = ", ".join("?" * len(wanted))
        either: list[str] = []
        if name in FILTER_COLUMNS:
            either.append(f"{FILTER_COLUMNS[name]} IN ({marks})")
            values.extend(_comparable(value) for value in wanted)
        if METADATA_KEY.fullmatch(name) and name not in IDENTITY:
            either.append(f"json_extract(metadata, ?) IN ({marks}) OR {ONE_OF_SEVERAL.format(marks=marks)}")
            path, several = f'$."{name}"', [_comparable(value) for value in wanted]
            values.extend([path, *several, path, path, path, *several])
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
