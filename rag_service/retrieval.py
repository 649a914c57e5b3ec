"""The retriever: dense (Chroma) and BM25 (the catalog) searches, fused, joined with what is live, trimmed.

In: a `Question`. Out: LangChain documents, best first, each with a score in 0..1 and everything a source needs in its
metadata. Must not: number sources (prompt.py does), or return a chunk that is not live.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from rag_service.errors import NotFound, VectorStoreUnavailable
from rag_service.index.async_catalog import AsyncCatalog
from rag_service.index.async_vector_store import AsyncVectorStore
from rag_service.index.catalog import Catalog
from rag_service.index.embeddings import Vectors
from rag_service.index.query_embeddings import QueryEmbeddings
from rag_service.index.rows import LiveChunk, Place
from rag_service.question import Question
from rag_service.settings import RetrievalSettings
from rag_service.telemetry import Clock

DENSE_WEIGHT = 0.5  # an even sum: on the evaluation sets no other weight was better for every language


class HybridRetriever(BaseRetriever):
    """Asynchronous only. `ainvoke(text)` searches the default collection; the serve path passes a whole `question`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    embeddings: QueryEmbeddings
    store: AsyncVectorStore
    catalog: AsyncCatalog
    settings: RetrievalSettings
    collection: str

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        question: Question | None = None,
        clock: Clock | None = None,
    ) -> list[Document]:
        """Raises NotFound (no such collection), FingerprintMismatch, VectorStoreUnavailable, CatalogUnavailable."""
        question = question or Question(query, self.collection)
        clock = clock or Clock()
        while True:
            place, versions = await self.catalog.read(lambda catalog: self._admissible(catalog, question))
            if versions is not None and not versions:
                return []
            with clock.stage("embed"):
                vector = await self.embeddings.aembed(question.search_text)
            with clock.stage("search"):
                dense, scores, live, still = await self._search(question, vector, versions, place, clock)
            if still == place:
                break  # else a rebuild has replaced all vectors meanwhile: what was found is of both, or of neither
        best = max((dense[chunk] for chunk in live if chunk in dense), default=0.0)
        if best < self.settings.min_score:
            return []
        return trim(live, scores, question.top_k or self.settings.top_k, question.max_chars)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: object
    ) -> list[Document]:
        # LangChain looks at this signature to decide whether `ainvoke` passes `question` and `clock` on.
        raise NotImplementedError("this retriever is asynchronous: use ainvoke")

    async def _search(
        self, question: Question, vector: Vectors, versions: list[str] | None, place: Place, clock: Clock
    ) -> tuple[dict[str, float], dict[str, float], dict[str, LiveChunk], Place]:
        """Similarities, fused scores, the live chunks of those, and where the vectors are after all that."""
        limit = max(self.settings.candidates, question.top_k or 0)
        dense, lexical = await asyncio.gather(
            clock.timed("dense", self._dense(question, vector, limit, versions, place)),
            clock.timed(
                "bm25",
                self.catalog.read(
                    lambda catalog: catalog.bm25(question.collection, question.search_text, limit, versions)
                ),
            ),
        )
        scores = fuse(dense, lexical)
        live, still = await self.catalog.read(lambda catalog: self._live(catalog, question, scores))
        return dense, scores, live, still

    def _live(
        self, catalog: Catalog, question: Question, scores: Mapping[str, float]
    ) -> tuple[dict[str, LiveChunk], Place]:
        with catalog.snapshot():
            return catalog.live_chunks(question.collection, scores, question.filters), catalog.place(
                question.collection
            )

    async def _dense(
        self, question: Question, vector: Vectors, limit: int, versions: list[str] | None, place: Place
    ) -> dict[str, float]:
        """Similarities; none where the vectors have just moved. Raises VectorStoreUnavailable when they are lost."""
        failure: VectorStoreUnavailable | None = None
        try:
            found = await self.store.query(question.collection, vector, limit, versions, place)
        except VectorStoreUnavailable as error:  # or a rebuild has deleted the files while they were being read
            found, failure = None, error
        if found is not None:
            return found[0]
        now, counts = await self.catalog.read(
            lambda catalog: (catalog.place(question.collection), catalog.counts(question.collection))
        )
        if now != place:
            return {}
        if failure is not None:
            raise failure
        if counts.chunks:
            raise VectorStoreUnavailable(
                f"Chroma has lost the collection {question.collection!r}, but its texts are all there: run"
                " `rag-ingest verify --repair`, which makes the vectors anew."
            )
        return {}

    def _admissible(self, catalog: Catalog, question: Question) -> tuple[Place, list[str] | None]:
        """Where the vectors are, and the versions that the filters leave (None: all), after checking that the collection is
        there and ours."""
        with catalog.snapshot():
            place, stored = catalog.place(question.collection), catalog.fingerprint(question.collection)
        if stored is None:
            raise NotFound(
                f"There is no collection {question.collection!r}. Fill it with `rag-ingest run FOLDER`, or name one of: "
                f"{', '.join(catalog.collections()) or 'none yet'}."
            )
        self.embeddings.model.fingerprint.require(stored, question.collection)
        return place, catalog.versions_where(question.collection, question.filters) if question.filters else None


def fuse(dense: Mapping[str, float], lexical: Mapping[str, float]) -> dict[str, float]:
    """One score in 0..1 for each chunk: half its cosine similarity, half its BM25 score in parts of the best one."""
    best = max(lexical.values(), default=0.0) or 1.0
    return {
        chunk: DENSE_WEIGHT * dense.get(chunk, 0.0) + (1 - DENSE_WEIGHT) * max(0.0, lexical.get(chunk, 0.0)) / best
        for chunk in {**dense, **lexical}
    }


def trim(
    live: Mapping[str, LiveChunk], scores: Mapping[str, float], top_k: int, max_chars: int | None
) -> list[Document]:
    """The best `top_k` live chunks, no text twice, summed length within `max_chars`."""
    chosen: list[Document] = []
    texts: set[str] = set()
    room = float("inf") if max_chars is None else max_chars
    for chunk in sorted(live.values(), key=lambda chunk: (-scores[chunk.id], chunk.uri, chunk.span)):
        text = " ".join(chunk.text.split())
        if text in texts or len(chunk.text) > room:
            continue
        texts.add(text)
        room -= len(chunk.text)
        chosen.append(as_document(chunk, scores[chunk.id]))
        if len(chosen) == top_k:
            break
    return chosen


def as_document(chunk: LiveChunk, score: float) -> Document:
    """The chunk in LangChain's form. `chunk` itself is in the metadata, so that nothing is rebuilt from text."""
    metadata: dict[str, Any] = {
        "chunk": chunk,
        "score": round(score, 4),
        "source": chunk.uri,
        "title": chunk.title,
        "document_id": chunk.document_id,
    }
    return Document(page_content=chunk.text, metadata=metadata, id=chunk.id)


def chunk_of(document: Document) -> tuple[LiveChunk, float]:
    """What `as_document` put in."""
    return document.metadata["chunk"], document.metadata["score"]
