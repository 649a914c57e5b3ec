"""What both clients of Chroma share: names, the connection, what a usable collection is, and failures in our words.

In: settings, addresses, what Chroma says of a collection. Out: arguments, errors of ours. Must not: call Chroma.

A collection of ours is in Chroma as one of several generations: `rag-ingest rebuild` fills the next one while the service
reads the present one, and the catalog says, in the row that has the fingerprint too, which one is read.
"""

from importlib import metadata
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx
from chromadb.config import Settings as ChromaConfig

from rag_service.errors import FingerprintMismatch, IndexUnusable, LocalServerFailed, VectorStoreUnavailable
from rag_service.index.settings import ChromaSettings

OWNER = "catalog"  # key in the metadata of a Chroma collection: the identity of the catalog that fills it
MADE_BY = "made_by"  # key in the same place: the command that fills a generation which is not read yet
SPACE: Literal["cosine"] = "cosine"
LOST = (httpx.TransportError, ConnectionError, OSError)  # what a dead or replaced server looks like

UNREADABLE = (
    "MigrationError",
    "SqlxError",
)  # what a local server says, as of chromadb 1.5.9, when its files are not for it


def chroma_name(collection: str, generation: int = 0) -> str:
    """Chroma wants 3 characters at least, so ours get a prefix, and no two dots in a row, so such names get another prefix and
    are written without dots. The mapping is one to one."""
    if ".." in collection:
        return f"rag_{generation}-{collection.replace('_', '_5f').replace('.', '_2e')}"
    return f"rag.{generation}-{collection}" if generation else f"rag-{collection}"


def similarity(distance: float) -> float:
    """Cosine similarity in 0..1 from Chroma's cosine distance (1 - cosine, so 0..2). Opposite directions count as 0."""
    return min(1.0, max(0.0, 1.0 - distance))


def connection(settings: ChromaSettings, url: str) -> dict[str, Any]:
    """Arguments for Chroma's clients. Telemetry is off: nothing this product starts talks to anyone else."""
    parts = urlsplit(url)
    token = settings.token.get_secret_value() if settings.token else None
    return {
        "host": parts.hostname or "localhost",
        "port": parts.port or (443 if parts.scheme == "https" else 80),
        "ssl": parts.scheme == "https",
        "headers": {"Authorization": f"Bearer {token}"} if token else None,
        "settings": ChromaConfig(_env_file=None, anonymized_telemetry=False),
    }


def require_cosine(configuration: dict[str, Any], name: str) -> None:
    """Looks at the raw form: Chroma's own reading of it warns about collections without an embedding function, as ours are."""
    space = (configuration.get("hnsw") or {}).get("space")
    if space != SPACE:
        raise FingerprintMismatch(
            f"The Chroma collection {name!r} measures {space!r}, not {SPACE!r}, so its scores would mean"
            " something else. It was not made by rag-ingest: choose a new RAG_COLLECTION, or delete that collection in Chroma."
        )


def require_owner(found: object, owner: str | None, name: str) -> None:
    if owner is not None and found != owner:
        raise IndexUnusable(
            f"The Chroma collection {name!r} belongs to the catalog of another RAG_HOME, and two would"
            " delete each other's vectors. Choose a new RAG_COLLECTION. If that other catalog is gone for good, delete the"
            " collection in Chroma instead (with RAG_CHROMA__URL unset: the folder RAG_HOME/chroma)."
        )


def unavailable(error: Exception) -> VectorStoreUnavailable:
    return VectorStoreUnavailable(
        f"Chroma cannot be used ({type(error).__name__}). Check that the server of RAG_CHROMA__URL is up; with that setting"
        " unset, see the log in RAG_HOME/run; damaged files there are mended by the next `rag-ingest run`."
    )


def explained(error: LocalServerFailed) -> LocalServerFailed:
    """The same, with what to do when the server cannot use the files in its folder: they can be made anew."""
    if not any(word in error.message for word in UNREADABLE):
        return error
    return LocalServerFailed(
        "The files in RAG_HOME/chroma are damaged, or were made by another version of Chroma than the installed one"
        f" ({metadata.version('chromadb')}; `rag-ingest status` tells which filled it last). They can be made anew from the"
        " catalog, without the documents: stop the service, delete the folder RAG_HOME/chroma, and run"
        f" `rag-ingest verify --repair`. ({error.message})",
        details=error.details,
    )
