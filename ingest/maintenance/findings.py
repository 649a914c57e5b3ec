"""What `verify` can find, in words for people, and what mends it.

In: nothing. Out: frozen values. Must not: look for anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass

EXAMPLES = 5

REPAIR = "rag-ingest verify --repair"
REBUILD = "rag-ingest rebuild"

# kind: what it means, and what mends it
KINDS: dict[str, tuple[str, str]] = {
    "catalog_damaged": (
        "SQLite finds its file damaged",
        "put RAG_HOME back from a backup, or set a new RAG_HOME and run `rag-ingest run` on the documents",
    ),
    "texts_lost": (
        "documents whose text is lost",
        f"`{REPAIR}` takes them out; then `rag-ingest run` on their files reads them again",
    ),
    "rows_dead": ("texts, chunks or words that belong to no document", f"`{REPAIR}`"),
    "chunks_wrong": ("documents whose chunks do not fit their text", f"`{REPAIR}` cuts them anew"),
    "fulltext_broken": ("the full-text index does not fit its texts", f"`{REPAIR}`"),
    "vectors_missing": ("chunks without a vector in Chroma", f"`{REPAIR}` makes them anew"),
    "vectors_mislabelled": ("vectors in Chroma that are kept as another document's", f"`{REPAIR}`"),
    "vectors_loose": ("vectors that a killed run has left", f"`{REPAIR}`, or the next `rag-ingest run`"),
    "versions_loose": ("texts noted as half-written or replaced", f"`{REPAIR}`, or the next `rag-ingest run`"),
    "vectors_dead": ("vectors in Chroma that belong to no document", f"`{REPAIR}`"),
    "vectors_changed": (
        "sampled chunks whose stored vector is not what the model makes of them",
        f"`{REPAIR}` for these, `{REBUILD}` for all",
    ),
    "chunks_unfindable": ("sampled chunks that a query for their own text does not find", f"`{REBUILD}`"),
    "rebuild_unfinished": (
        "a rebuild that was killed",
        f"`{REBUILD}` finishes it, `rag-ingest compact` throws it away",
    ),
    "vectors_replaced": ("vectors that a rebuild has replaced", f"`{REPAIR}`, or the next `rag-ingest run`"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """`examples` are URIs, ids or sentences; at most `EXAMPLES`."""

    kind: str
    count: int
    examples: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        return KINDS[self.kind][0]

    @property
    def remedy(self) -> str:
        return KINDS[self.kind][1]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`findings` are what is wrong now, `mended` what was wrong before. `vectors` are those in Chroma, `sampled` the chunks
    that were embedded again."""

    documents: int
    versions: int
    chunks: int
    vectors: int
    sampled: int
    findings: tuple[Finding, ...]
    mended: tuple[Finding, ...] = ()


def finding(kind: str, examples: Sequence[str], count: int | None = None) -> list[Finding]:
    """None where there is nothing."""
    number = len(examples) if count is None else count
    return [Finding(kind, number, tuple(examples[:EXAMPLES]))] if number else []
