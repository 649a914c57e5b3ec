"""Embedding and writing of vectors, while files are still being read: two threads and the chunks between them.

In: versions with their chunks, from many documents. Out: an event for every stored batch, on the queue that was passed in.
Must not: touch the catalog (its connection belongs to the run's own thread), hold more than a few batches of vectors, or
write vectors of a version that the catalog has not noted as loose (the run does that before `add`).

A batch is whatever waits when the model is free, from whichever documents, so small files share a pass of the model; the
model sorts it by length, so little of it is padding.
"""

import queue
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag_service.index.chunks import Chunk
from rag_service.index.embeddings import Embedder, Vectors
from rag_service.index.vector_store import VectorStore

EMBED_AT_ONCE = 256  # chunks in one pass; more would only wait longer for their commit
BATCHES_BETWEEN = 2  # embedded and not yet stored


@dataclass(frozen=True, slots=True)
class Stored:
    """Vectors of these chunks are in Chroma: version to how many."""

    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Broke:
    """A thread has ended with this error; nothing more will come."""

    error: BaseException


class EmbeddingStage:
    """Owns its threads: `close` ends both, after the batch in hand."""

    def __init__(
        self, collection: str, model: Embedder, store: VectorStore, events: "queue.Queue[object]", batch: int
    ) -> None:
        self._collection = collection
        self._model = model
        self._store = store
        self._events = events
        self._batch = batch
        self._waiting: deque[Chunk] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._vectors: queue.Queue[tuple[list[Chunk], Vectors] | None] = queue.Queue(BATCHES_BETWEEN)
        self._threads = (
            threading.Thread(target=self._embed, name="embed", daemon=True),
            threading.Thread(target=self._write, name="write-vectors", daemon=True),
        )
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Chunks that are not embedded yet."""
        return len(self._waiting)

    def add(self, chunks: Sequence[Chunk]) -> None:
        with self._changed:
            self._waiting.extend(chunks)
            self._changed.notify()

    def give_up(self, versions: Mapping[str, int]) -> list[str]:
        """Drop those of which all chunks (so many) still wait; returns them. Nothing of them is stored."""
        with self._changed:
            waiting = Counter(chunk.version for chunk in self._waiting)
            dropped = [version for version, count in versions.items() if waiting[version] == count]
            gone = set(dropped)
            self._waiting = deque(chunk for chunk in self._waiting if chunk.version not in gone)
            return dropped

    def close(self) -> None:
        """What waits is dropped; the batches in hand are finished."""
        self._stop()
        for thread in self._threads:
            thread.join()

    def _stop(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify()

    def _embed(self) -> None:
        try:
            while batch := self._next_batch():
                self._vectors.put((batch, self._model.embed([chunk.embedded_text for chunk in batch])))
        except BaseException as error:  # noqa: BLE001  the run's own thread raises it
            self._events.put(Broke(error))
        finally:
            self._vectors.put(None)

    def _next_batch(self) -> list[Chunk]:
        """Whatever waits, at most one pass; empty after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting)
            return [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]

    def _write(self) -> None:
        try:
            while (item := self._vectors.get()) is not None:
                self._store_batch(*item)
        except BaseException as error:  # noqa: BLE001  as above
            self._events.put(Broke(error))
            self._stop()
            while self._vectors.get() is not None:
                pass  # so that the other thread is not left waiting for room

    def _store_batch(self, chunks: list[Chunk], vectors: Vectors) -> None:
        ids, versions = [chunk.id for chunk in chunks], [chunk.version for chunk in chunks]
        self._store.upsert(self._collection, ids, versions, vectors)
        self._events.put(Stored(dict(Counter(versions))))
