"""The asynchronous client of Chroma, for the service.

In: question vectors. Out: chunk ids with cosine similarities. Must not: write, or decide what is live (the catalog does: what
is found here is only a candidate).

Every failure to reach or use Chroma becomes VectorStoreUnavailable. The address is asked for again after a lost connection,
because a local server that died is replaced by one on another port; and when a collection is not what the catalog says,
because its folder may have been deleted and be served anew.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import chromadb
import numpy as np
from chromadb.errors import ChromaError, NotFoundError

from rag_service.errors import LocalServerFailed
from rag_service.index.chroma_client import (
    LOST,
    OWNER,
    chroma_name,
    connection,
    explained,
    require_cosine,
    require_owner,
    similarity,
    unavailable,
)
from rag_service.index.embeddings import Vectors
from rag_service.index.micro_batch import CallBatcher
from rag_service.index.rows import Place
from rag_service.index.settings import ChromaSettings

if TYPE_CHECKING:
    from chromadb.api.async_api import AsyncClientAPI
    from chromadb.api.models.AsyncCollection import AsyncCollection

Result = TypeVar("Result")
Found = list[dict[str, float]] | None

QUESTIONS_AT_ONCE = 64  # in one call; more would delay the first of them
VERSIONS_AT_ONCE = 10_000  # in one filter: the local Chroma's SQLite takes 32,766 values in one statement


class AsyncVectorStore:
    """One per event loop; calls may overlap. Questions that are searched for at the same time share one call of Chroma."""

    def __init__(self, settings: ChromaSettings, address: Callable[[], Awaitable[str]]) -> None:
        self._settings = settings
        self._address = address
        self._client: AsyncClientAPI | None = None
        self._url = ""
        self._retired: list[
            AsyncClientAPI
        ] = []  # of servers that are gone; calls may still be in the midst of using them
        self._collections: dict[tuple[str, Place], AsyncCollection] = {}
        self._questions: CallBatcher[tuple[str, Place, int], Vectors, Found] = CallBatcher(
            self._search_together, max_batch=QUESTIONS_AT_ONCE
        )

    async def close(self) -> None:
        await self._questions.close()
        self._retire(self._client)
        retired, self._retired = self._retired, []
        for client in retired:
            server: Any = client._server  # type: ignore[attr-defined]  # noqa: SLF001  Chroma's AsyncClient has no close of its own
            await server.__aexit__(None, None, None)

    async def query(
        self,
        collection: str,
        vectors: Vectors,
        limit: int,
        versions: Sequence[str] | None = None,
        place: Place = Place(),  # noqa: B008  a frozen value
    ) -> Found:
        """Nearest chunks of each row of `vectors`: chunk id to similarity in 0..1, nearest first. None when Chroma has no such
        collection: it was never made, was replaced just now, or is lost; the catalog knows which.

        `versions` restricts the search to those; `place` is where the catalog says that the vectors are.
        """
        if versions is None:
            return await self._questions.submit((collection, place, limit), vectors)
        best: list[dict[str, float]] = [{} for _ in vectors]
        for first in range(0, len(versions), VERSIONS_AT_ONCE):
            where = {"version": {"$in": list(versions[first : first + VERSIONS_AT_ONCE])}}
            found = await self._search(collection, place, vectors, limit, where)
            if found is None:
                return None
            best = [nearest({**one, **other}, limit) for one, other in zip(best, found, strict=True)]
        return best

    async def check(self) -> None:
        """Raises VectorStoreUnavailable when Chroma does not answer."""

        async def beat() -> int:
            return await (await self._connected()).heartbeat()

        await self._call(beat)

    async def _search_together(self, key: tuple[str, Place, int], questions: list[Vectors]) -> list[Found]:
        collection, place, limit = key
        found = await self._search(collection, place, np.concatenate(questions), limit, None)
        if found is None:
            return [None] * len(questions)
        rows = iter(found)
        return [[next(rows) for _ in vectors] for vectors in questions]

    async def _search(self, collection: str, place: Place, vectors: Vectors, limit: int, where: Any) -> Found:
        async def search() -> Any:
            target = await self._collection(collection, place)
            return await target.query(query_embeddings=vectors, n_results=limit, where=where, include=["distances"])

        try:
            found = await self._call(search)
        except NotFoundError:
            return None
        return [
            {chunk: similarity(distance) for chunk, distance in zip(ids, distances, strict=True)}
            for ids, distances in zip(found["ids"], found["distances"], strict=True)
        ]

    async def _connected(self) -> "AsyncClientAPI":
        if self._client is None:
            try:
                self._url = await self._address()
            except LocalServerFailed as error:
                raise explained(error) from error
            self._client = await chromadb.AsyncHttpClient(**connection(self._settings, self._url))
        return self._client

    async def _collection(self, collection: str, place: Place) -> "AsyncCollection":
        key = collection, place
        if key not in self._collections:
            name = chroma_name(collection, place.generation)
            found = await (await self._connected()).get_collection(name, embedding_function=None)
            require_cosine(found.configuration_json, name)
            if place.owner is not None and (found.metadata or {}).get(OWNER, place.owner) != place.owner:
                # The index's folder was deleted and filled anew, and this may still be the server of the deleted one.
                await self._move()
                found = await (await self._connected()).get_collection(name, embedding_function=None)
                require_owner((found.metadata or {}).get(OWNER, place.owner), place.owner, name)
            self._collections = {known: one for known, one in self._collections.items() if known[0] != collection}
            self._collections[key] = found
        return self._collections[key]

    async def _call(self, action: Callable[[], Awaitable[Result]]) -> Result:
        """As in VectorStore. A collection that was deleted and made anew has another id: that is looked up again, and then the
        address, for the folder of the server may have been deleted. Raises NotFoundError when it still is not there."""
        used = self._client
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                try:
                    return await action()
                except NotFoundError:
                    self._collections.clear()
                    try:
                        return await action()
                    except NotFoundError:
                        if not await self._move():
                            raise
                        return await action()
                except LOST:
                    if self._client is used:  # and no other call has replaced it yet
                        self._retire(used)
                    return await action()
        except NotFoundError:
            raise
        except (*LOST, ChromaError, ValueError) as error:
            raise unavailable(error) from error

    async def _move(self) -> bool:
        """Leave a server that has been replaced at another address."""
        moved = await self._address() != self._url
        if moved:
            self._retire(self._client)
        return moved

    def _retire(self, client: "AsyncClientAPI | None") -> None:
        if client is not None:
            self._retired.append(client)
        self._client = None
        self._collections.clear()


def nearest(similarities: dict[str, float], limit: int) -> dict[str, float]:
    """The `limit` highest, highest first."""
    return dict(sorted(similarities.items(), key=lambda item: -item[1])[:limit])
