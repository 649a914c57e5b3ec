"""The blocking client of Chroma, for `rag-ingest`: where the vectors are written.

In: chunk ids with their version and unit vectors. Out: what is stored. Must not: decide what is live (the catalog does), or
hold texts and metadata beyond the version: Chroma is an index that can be made anew from the catalog.

Every failure to reach or use Chroma becomes VectorStoreUnavailable. The address is asked for again after a lost connection,
because a local server that died is replaced by one on another port.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import chromadb
import httpx
import numpy as np
from chromadb.api.collection_configuration import CreateCollectionConfiguration, CreateHNSWConfiguration
from chromadb.errors import ChromaError, NotFoundError

from rag_service.errors import LocalServerFailed, VectorStoreUnavailable
from rag_service.index.chroma_client import (
    LOST,
    MADE_BY,
    OWNER,
    SPACE,
    chroma_name,
    connection,
    explained,
    require_cosine,
    require_owner,
    similarity,
    unavailable,
)
from rag_service.index.embeddings import Vectors
from rag_service.index.rows import Place
from rag_service.index.settings import ChromaSettings

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

Result = TypeVar("Result")

VECTORS_AT_ONCE = 5_000
ATTEMPTS = 3  # to read a collection, before its files count as damaged


@dataclass(frozen=True, slots=True)
class StoredLabels:
    """Some of what a collection holds: ids, and the version of each."""

    ids: tuple[str, ...]
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """Some of what a collection holds: ids, the version of each, and vectors of shape (len(ids), dimension)."""

    ids: tuple[str, ...]
    versions: tuple[str, ...]
    vectors: Vectors


class VectorStore:
    """`address` returns the base URL of a live server and may start one."""

    def __init__(self, settings: ChromaSettings, address: Callable[[], str]) -> None:
        self._settings = settings
        self._address = address
        self._client: ClientAPI | None = None
        self._collections: dict[str, Collection] = {}
        self._places: dict[str, Place] = {}
        self._turn = threading.RLock()  # one thread embeds and writes, another deletes

    def close(self) -> None:
        if self._client is not None:
            client: Any = self._client
            client.close()
            # That leaves the connections open: its own, and those of the second client that it made to look for the database.
            client._server._session.close()  # noqa: SLF001
            client._admin_client._server._session.close()  # noqa: SLF001
        self._client = None
        self._collections.clear()

    def open_collection(self, collection: str, place: Place = Place()) -> None:  # noqa: B008  a frozen value
        """Make the collection at its place, or check that it measures cosine and is of the catalog that owns the place.

        Raises FingerprintMismatch, and IndexUnusable when another catalog fills it.
        """
        if self._places.get(collection) != place:
            self._places[collection] = place
            self._collections.pop(collection, None)
        self._call(lambda: self._collection(collection))

    def remake_if_damaged(self, collection: str) -> bool:
        """Make the open collection anew, empty, where a local server cannot read its files: a full disk or a power cut may
        leave them so, and every call fails. What belongs there is in the catalog. Being slow is no damage."""
        if self._settings.url is not None or not self._fails_always(collection):
            return False

        def delete() -> None:
            with suppress(NotFoundError):
                self._connected().delete_collection(chroma_name(collection, self._places[collection].generation))

        self._call(delete)
        self._collections.pop(collection, None)
        self._call(lambda: self._collection(collection))
        return True

    def _fails_always(self, collection: str) -> bool:
        for _ in range(ATTEMPTS):
            try:
                self.count(collection)
            except VectorStoreUnavailable as error:
                if isinstance(error.__cause__, httpx.TimeoutException):
                    raise
                self.close()  # the next attempt asks for a live server
            else:
                return False
        return True

    def beside(self, collection: str, place: Place) -> "VectorStore":
        """Another client, to be closed by the caller, for which the collection is at `place`; it is made there."""
        other = VectorStore(self._settings, self._address)
        try:
            other.open_collection(collection, place)
        except BaseException:
            other.close()
            raise
        return other

    def made_by(self, collection: str, place: Place) -> str | None:
        """The command that began to fill this place; "" if no command is noted, None if there is no such collection."""
        found = self._find(collection, place)
        return None if found is None else str((found.metadata or {}).get(MADE_BY, ""))

    def is_ours(self, collection: str, place: Place) -> bool:
        """Whether there is a collection at this place, and the place's catalog owns it."""
        found = self._find(collection, place)
        return found is not None and (found.metadata or {}).get(OWNER) == place.owner

    def drop(self, collection: str, place: Place) -> bool:
        """Delete the collection at `place`, vectors and all, if there is one and the place's catalog owns it."""
        if not self.is_ours(collection, place):
            return False

        def delete() -> None:
            with suppress(NotFoundError):
                self._connected().delete_collection(chroma_name(collection, place.generation))

        self._call(delete)
        if self._places.get(collection) == place:
            self._collections.pop(collection, None)
        return True

    def upsert(
        self,
        collection: str,
        ids: Sequence[str],
        versions: Sequence[str],
        vectors: Vectors,
    ) -> None:
        """Write vectors of shape (len(ids), dimension), each with its version, in batches of at most what this server takes
        at once."""

        def write() -> None:
            target = self._collection(collection)
            step = self._connected().get_max_batch_size()
            for first in range(0, len(ids), step):
                part = slice(first, first + step)
                target.upsert(
                    ids=list(ids[part]),
                    embeddings=vectors[part],
                    metadatas=[{"version": version} for version in versions[part]],
                )

        self._call(write)

    def ids_of(self, collection: str, version: str) -> set[str]:
        """Ids of a version's vectors that are stored, for example by a run that was killed."""
        found = self._call(lambda: self._collection(collection).get(where={"version": version}, include=[]))
        return set(found["ids"])

    def delete_version(self, collection: str, version: str) -> None:
        """Delete a version's vectors, in batches too: one request for 50,000 would outlast the time limit."""
        self.delete_ids(collection, sorted(self.ids_of(collection, version)))

    def delete_ids(self, collection: str, ids: Sequence[str]) -> None:
        step = self._call(lambda: self._connected().get_max_batch_size())
        for first in range(0, len(ids), step):
            part = list(ids[first : first + step])
            self._call(lambda part=part: self._collection(collection).delete(ids=part))  # type: ignore[misc]

    def pages(self, collection: str) -> Iterator[StoredVectors]:
        """Everything that is stored, some thousand at a time."""
        offset = 0
        while True:
            found = self._call(
                lambda offset=offset: self._collection(collection).get(  # type: ignore[misc]
                    limit=VECTORS_AT_ONCE, offset=offset, include=["embeddings", "metadatas"]
                )
            )
            if not found["ids"]:
                return
            versions = tuple(str((metadata or {}).get("version", "")) for metadata in found["metadatas"] or ())
            yield StoredVectors(tuple(found["ids"]), versions, np.asarray(found["embeddings"], dtype=np.float32))
            offset += len(found["ids"])

    def put(self, collection: str, version: str, vectors: Mapping[str, Vectors]) -> None:
        """Write the vectors of some chunks of one version."""
        if vectors:
            self.upsert(collection, [*vectors], [version] * len(vectors), np.stack([*vectors.values()]))

    def labels(self, collection: str) -> Iterator[StoredLabels]:
        """Ids and versions of everything that is stored, some thousand at a time."""
        offset = 0
        while True:
            found = self._call(
                lambda offset=offset: self._collection(collection).get(  # type: ignore[misc]
                    limit=VECTORS_AT_ONCE, offset=offset, include=["metadatas"]
                )
            )
            if not found["ids"]:
                return
            versions = tuple(str((metadata or {}).get("version", "")) for metadata in found["metadatas"] or ())
            yield StoredLabels(tuple(found["ids"]), versions)
            offset += len(found["ids"])

    def vectors_of(self, collection: str, ids: Sequence[str]) -> dict[str, Vectors]:
        """Those of `ids` that are stored."""
        if not ids:
            return {}
        found = self._call(lambda: self._collection(collection).get(ids=list(ids), include=["embeddings"]))
        return dict(zip(found["ids"], np.asarray(found["embeddings"], dtype=np.float32), strict=True))

    def nearest(self, collection: str, vectors: Vectors, limit: int) -> list[dict[str, float]]:
        """An ordinary query: for each row of `vectors` chunk id to similarity in 0..1, nearest first."""
        found = self._call(
            lambda: self._collection(collection).query(query_embeddings=vectors, n_results=limit, include=["distances"])
        )
        distances = found["distances"] or []
        return [
            {chunk: similarity(distance) for chunk, distance in zip(ids, row, strict=True)}
            for ids, row in zip(found["ids"], distances, strict=True)
        ]

    def count(self, collection: str) -> int:
        return self._call(lambda: self._collection(collection).count())

    def _connected(self) -> "ClientAPI":
        if self._client is None:
            try:
                address = self._address()
            except LocalServerFailed as error:
                raise explained(error) from error
            self._client = chromadb.HttpClient(**connection(self._settings, address))
            server: Any = self._client._server  # type: ignore[attr-defined]  # noqa: SLF001  the only way to a time limit
            server._session.timeout = self._settings.timeout_s  # noqa: SLF001
        return self._client

    def _collection(self, collection: str) -> "Collection":
        if collection not in self._collections:
            place = self._places.get(collection, Place())
            name = chroma_name(collection, place.generation)
            labels = {OWNER: place.owner, MADE_BY: place.made_by}
            found = self._connected().get_or_create_collection(
                name,
                metadata={key: value for key, value in labels.items() if value is not None} or None,
                configuration=CreateCollectionConfiguration(hnsw=CreateHNSWConfiguration(space=SPACE)),
                embedding_function=None,
            )
            require_cosine(found.configuration_json, name)
            require_owner((found.metadata or {}).get(OWNER, place.owner), place.owner, name)
            self._collections[collection] = found
        return self._collections[collection]

    def _find(self, collection: str, place: Place) -> "Collection | None":
        def look() -> "Collection | None":
            name = chroma_name(collection, place.generation)
            with suppress(NotFoundError):
                return self._connected().get_collection(name, embedding_function=None)
            return None

        return self._call(look)

    def _call(self, action: Callable[[], Result]) -> Result:
        """Run `action`; after a lost connection ask for the address again and run it once more (all are idempotent)."""
        try:
            with self._turn:
                try:
                    return action()
                except LOST:
                    self.close()
                    return action()
        except (*LOST, ChromaError, ValueError) as error:
            raise unavailable(error) from error
