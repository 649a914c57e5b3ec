"""Question vectors for the service, as a LangChain `Embeddings`: concurrent questions share one pass of the model.

In: questions. Out: unit vectors. Must not: block the event loop on its asynchronous side.
"""

import asyncio

import numpy as np
from langchain_core.embeddings import Embeddings

from rag_service.index.embeddings import EmbeddingModel, Vectors
from rag_service.index.micro_batch import MicroBatcher

MAX_BATCH = 64  # questions in one pass; more gain nothing and would delay the first of them


class QueryEmbeddings(Embeddings):
    """Build it in a running loop; `close` when done. The one worker thread owns the model."""

    def __init__(self, model: EmbeddingModel) -> None:
        self.model = model
        self._batches: MicroBatcher[str, Vectors] = MicroBatcher(self._embed, max_batch=MAX_BATCH, name="embeddings")

    async def aembed(self, question: str) -> Vectors:
        """One unit vector, shape (1, dimension)."""
        return await self._batches.submit(question)

    async def aembed_query(self, text: str) -> list[float]:
        vector: list[float] = (await self.aembed(text))[0].tolist()
        return vector

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return list(await asyncio.gather(*(self.aembed_query(text) for text in texts)))

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self.model.embed(texts).tolist()
        return vectors

    async def close(self) -> None:
        await self._batches.close()

    def _embed(self, questions: list[str]) -> list[Vectors]:
        vectors = self.model.embed(questions)
        return [np.ascontiguousarray(vectors[row : row + 1]) for row in range(len(questions))]
