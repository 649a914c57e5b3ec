"""The SQL of listing: documents and problems, a page at a time, those that mention a text.

In: nothing. Out: SQL, and the function it calls. Must not: run any.
"""

import unicodedata
from urllib.parse import unquote

# Pages go by URI, which is unique in a collection: rows that come or go meanwhile shift nothing.
DOCUMENTS = """
SELECT d.*, v.notes, (SELECT count(*) FROM chunks c WHERE c.collection = d.collection AND c.version = d.version) AS chunks
FROM documents d JOIN versions v ON v.collection = d.collection AND v.id = d.version
WHERE d.collection = ? AND d.uri > ? AND (? = '' OR mentions(d.title, d.uri, ?))
ORDER BY d.uri LIMIT ?
"""
PROBLEMS = """
SELECT uri, status, reason, attempt FROM problems
WHERE collection = ? AND uri > ? AND (? = '' OR mentions('', uri, ?))
ORDER BY uri LIMIT ?
"""
COUNT_DOCUMENTS = "SELECT count(*) AS n FROM documents WHERE collection = ? AND (? = '' OR mentions(title, uri, ?))"
COUNT_PROBLEMS = "SELECT count(*) AS n FROM problems WHERE collection = ? AND (? = '' OR mentions('', uri, ?))"


def mentions(title: str, uri: str, folded: str) -> bool:
    """Whether the text stands in the title, or in the URI as it is or as people read it. `folded` is `fold` of the text."""
    return folded in fold(f"{title}\n{uri}\n{unquote(uri)}")


def fold(text: str) -> str:
    """Without the differences of case and of composed characters."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
