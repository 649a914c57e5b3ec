"""Chroma: where the vectors are. One blocking client for `rag-ingest`, one asynchronous for the service.

In: chunk ids with their version and unit vectors; question vectors. Out: ids with cosine similarities.
Must not: decide what is live (the catalog does: what is found here is only a candidate), or hold texts and metadata beyond
the version: Chroma is an index that can be made anew from the catalog.

Every failure to reach or use Chroma becomes VectorStoreUnavailable. The address is asked for again after a lost connection,
because a local server that died is replaced by one on another port.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

import chromadb
import httpx
from chromadb.api.collection_configuration import CreateCollectionConfiguration, CreateHNSWConfiguration
from chromadb.config import Settings as ChromaConfig
from chromadb.errors import ChromaError, NotFoundError

from rag_service.errors import FingerprintMismatch, IndexUnusable, VectorStoreUnavailable
from rag_service.index.embeddings import Vectors
from rag_service.index.settings import ChromaSettings

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.async_api import AsyncClientAPI
    from chromadb.api.models.AsyncCollection import AsyncCollection
    from chromadb.api.models.Collection import Collection

Result = TypeVar("Result")

OWNER = "catalog"  # key in the metadata of a Chroma collection: the identity of the catalog that fills it
SPACE: Literal["cosine"] = "cosine"
VERSIONS_AT_ONCE = 10_000  # in one filter: the local Chroma's SQLite takes 32,766 values in one statement
LOST = (httpx.TransportError, ConnectionError, OSError)  # what a dead or replaced server looks like


def chroma_name(collection: str) -> str:
    """Chroma wants 3 characters at least, so ours get a prefix; the mapping is one to one."""
    return f"rag-{collection}"


def similarity(distance: float) -> float:
    """Cosine similarity in 0..1 from Chroma's cosine distance (1 - cosine, so 0..2). Opposite directions count as 0."""
    return min(1.0, max(0.0, 1.0 - distance))


def nearest(similarities: dict[str, float], limit: int) -> dict[str, float]:
    """The `limit` highest, highest first."""
    return dict(sorted(similarities.items(), key=lambda item: -item[1])[:limit])


class VectorStore:
    """The blocking client. `address` returns the base URL of a live server and may start one."""

    def __init__(self, settings: ChromaSettings, address: Callable[[], str]) -> None:
        self._settings = settings
        self._address = address
        self._client: ClientAPI | None = None
        self._collections: dict[str, Collection] = {}
        self._owners: dict[str, str] = {}

    def close(self) -> None:
        if self._client is not None:
            client: Any = self._client
            client.close()
            # That leaves the connections open: its own, and those of the second client that it made to look for the database.
            client._server._session.close()  # noqa: SLF001
            client._admin_client._server._session.close()  # noqa: SLF001
        self._client = None
        self._collections.clear()

    def open_collection(self, collection: str, owner: str | None = None) -> None:
        """Make the collection, or check that it measures cosine and is of the catalog `owner` (None: whoever's).

        Raises FingerprintMismatch, and IndexUnusable when another catalog fills it.
        """
        if owner is not None:
            self._owners[collection] = owner
        self._call(lambda: self._collection(collection))

    def upsert(
        self,
        collection: str,
        version: str,
        ids: Sequence[str],
        vectors: Vectors,
    ) -> None:
        """Write vectors of shape (len(ids), dimension), in batches of at most what this server takes at once."""

        def write() -> None:
            target = self._collection(collection)
            step = self._connected().get_max_batch_size()
            for first in range(0, len(ids), step):
                part = list(ids[first : first + step])
                target.upsert(
                    ids=part, embeddings=vectors[first : first + step], metadatas=[{"version": version} for _ in part]
                )

        self._call(write)

    def ids_of(self, collection: str, version: str) -> set[str]:
        """Ids of a version's vectors that are stored, for example by a run that was killed."""
        found = self._call(lambda: self._collection(collection).get(where={"version": version}, include=[]))
        return set(found["ids"])

    def delete_version(self, collection: str, version: str) -> None:
        """Delete a version's vectors, in batches too: one request for 50,000 would outlast the time limit."""
        ids = sorted(self.ids_of(collection, version))
        step = self._call(lambda: self._connected().get_max_batch_size())
        for first in range(0, len(ids), step):
            part = ids[first : first + step]
            self._call(lambda part=part: self._collection(collection).delete(ids=part))  # type: ignore[misc]

    def count(self, collection: str) -> int:
        return self._call(lambda: self._collection(collection).count())

    def _connected(self) -> "ClientAPI":
        if self._client is None:
            self._client = chromadb.HttpClient(**_connection(self._settings, self._address()))
            server: Any = self._client._server  # type: ignore[attr-defined]  # noqa: SLF001  the only way to a time limit
            server._session.timeout = self._settings.timeout_s  # noqa: SLF001
        return self._client

    def _collection(self, name: str) -> "Collection":
        if name not in self._collections:
            owner = self._owners.get(name)
            found = self._connected().get_or_create_collection(
                chroma_name(name),
                metadata=None if owner is None else {OWNER: owner},
                configuration=CreateCollectionConfiguration(hnsw=CreateHNSWConfiguration(space=SPACE)),
                embedding_function=None,
            )
            _require_cosine(found.configuration_json, name)
            _require_owner((found.metadata or {}).get(OWNER, owner), owner, name)
            self._collections[name] = found
        return self._collections[name]

    def _call(self, action: Callable[[], Result]) -> Result:
        """Run `action`; after a lost connection ask for the address again and run it once more (all are idempotent)."""
        try:
            try:
                return action()
            except LOST:
                self.close()
                return action()
        except (*LOST, ChromaError, ValueError) as error:
            raise _unavailable(error) from error


class AsyncVectorStore:
    """The asynchronous client. One per event loop; calls may overlap."""

    def __init__(self, settings: ChromaSettings, address: Callable[[], Awaitable[str]]) -> None:
        self._settings = settings
        self._address = address
        self._client: AsyncClientAPI | None = None
        self._collections: dict[str, AsyncCollection] = {}

    async def close(self) -> None:
        client, self._client = self._client, None
        self._collections.clear()
        if client is not None:
            server: Any = client._server  # type: ignore[attr-defined]  # noqa: SLF001  Chroma's AsyncClient has no close of its own
            await server.__aexit__(None, None, None)

    async def query(
        self, collection: str, vectors: Vectors, limit: int, versions: Sequence[str] | None = None
    ) -> list[dict[str, float]]:
        """Nearest chunks of each row of `vectors`: chunk id to similarity in 0..1, nearest first.

        `versions` restricts the search to those. A collection that Chroma does not have has no candidates.
        """
        if versions is None:
            return await self._search(collection, vectors, limit, None)
        best: list[dict[str, float]] = [{} for _ in vectors]
        for first in range(0, len(versions), VERSIONS_AT_ONCE):
            where = {"version": {"$in": list(versions[first : first + VERSIONS_AT_ONCE])}}
            found = await self._search(collection, vectors, limit, where)
            best = [nearest({**one, **other}, limit) for one, other in zip(best, found, strict=True)]
        return best

    async def _search(self, collection: str, vectors: Vectors, limit: int, where: Any) -> list[dict[str, float]]:
        async def search() -> Any:
            try:
                target = await self._collection(collection)
            except NotFoundError:
                return None
            return await target.query(query_embeddings=vectors, n_results=limit, where=where, include=["distances"])

        found = await self._call(search)
        if found is None:
            return [{} for _ in vectors]
        return [
            {chunk: similarity(distance) for chunk, distance in zip(ids, distances, strict=True)}
            for ids, distances in zip(found["ids"], found["distances"], strict=True)
        ]

    async def check(self) -> None:
        """Raises VectorStoreUnavailable when Chroma does not answer."""

        async def beat() -> int:
            return await (await self._connected()).heartbeat()

        await self._call(beat)

    async def _connected(self) -> "AsyncClientAPI":
        if self._client is None:
            self._client = await chromadb.AsyncHttpClient(**_connection(self._settings, await self._address()))
        return self._client

    async def _collection(self, name: str) -> "AsyncCollection":
        if name not in self._collections:
            found = await (await self._connected()).get_collection(chroma_name(name), embedding_function=None)
            _require_cosine(found.configuration_json, name)
            self._collections[name] = found
        return self._collections[name]

    async def _call(self, action: Callable[[], Awaitable[Result]]) -> Result:
        """As in VectorStore. A collection that was deleted and made anew has another id: that is looked up again too."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                try:
                    return await action()
                except NotFoundError:
                    self._collections.clear()
                    return await action()
                except LOST:
                    await self.close()
                    return await action()
        except (*LOST, ChromaError, ValueError) as error:
            raise _unavailable(error) from error


def _connection(settings: ChromaSettings, url: str) -> dict[str, Any]:
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


def _require_cosine(configuration: dict[str, Any], collection: str) -> None:
    """Looks at the raw form: Chroma's own reading of it warns about collections without an embedding function, as ours are."""
    space = (configuration.get("hnsw") or {}).get("space")
    if space != SPACE:
        raise FingerprintMismatch(
            f"The Chroma collection {chroma_name(collection)!r} measures {space!r}, not {SPACE!r}, so its scores would mean"
            " something else. It was not made by rag-ingest: choose a new RAG_COLLECTION, or delete that collection in Chroma."
        )


def _require_owner(found: object, owner: str | None, collection: str) -> None:
    if owner is not None and found != owner:
        raise IndexUnusable(
            f"The Chroma collection {chroma_name(collection)!r} belongs to the catalog of another RAG_HOME, and two would"
            " delete each other's vectors. Choose a new RAG_COLLECTION. If that other catalog is gone for good, delete the"
            " collection in Chroma instead (with RAG_CHROMA__URL unset: the folder RAG_HOME/chroma)."
        )


def _unavailable(error: Exception) -> VectorStoreUnavailable:
    return VectorStoreUnavailable(
        f"Chroma cannot be used ({type(error).__name__}). Check that the server of RAG_CHROMA__URL is up; with that setting"
        " unset, see the log in RAG_HOME/run."
    )
