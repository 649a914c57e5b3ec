"""Question vectors for the service, as a LangChain `Embeddings`: concurrent questions share one pass of the model.

In: questions. Out: unit vectors. Must not: block the event loop on its asynchronous side, or embed a question as a passage
(some models want other words before each).
"""

import asyncio
import contextvars

import numpy as np
from langchain_core.embeddings import Embeddings

from rag_service.index.embeddings import Embedder, Vectors
from rag_service.index.micro_batch import MicroBatcher

MAX_BATCH = 64  # questions in one pass; more gain nothing and would delay the first of them

Text = tuple[str, bool, contextvars.Context]  # and whether it is a question, and whose


class QueryEmbeddings(Embeddings):
    """Build it in a running loop; `close` when done. The one worker thread owns the model."""

    def __init__(self, model: Embedder) -> None:
        self.model = model
        self._batches: MicroBatcher[Text, Vectors] = MicroBatcher(self._embed, max_batch=MAX_BATCH, name="embeddings")

    async def aembed(self, question: str) -> Vectors:
        """One unit vector, shape (1, dimension)."""
        return await self._batches.submit((question, True, contextvars.copy_context()))

    async def aembed_query(self, text: str) -> list[float]:
        vector: list[float] = (await self.aembed(text))[0].tolist()
        return vector

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        rows = await asyncio.gather(
            *(self._batches.submit((text, False, contextvars.copy_context())) for text in texts)
        )
        return [row[0].tolist() for row in rows]

    def embed_query(self, text: str) -> list[float]:
        vector: list[float] = self.model.embed_queries([text])[0].tolist()
        return vector

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self.model.embed(texts).tolist()
        return vectors

    async def close(self) -> None:
        await self._batches.close()

    def _embed(self, batch: list[Text]) -> list[Vectors]:
        made: dict[int, Vectors] = {}
        for wanted, embed in ((True, self.model.embed_queries), (False, self.model.embed)):
            places = [place for place, (_, is_question, _) in enumerate(batch) if is_question is wanted]
            if not places:
                continue
            # In the context of the first of them: what is sent to an endpoint belongs to its trace.
            vectors = batch[places[0]][2].run(embed, [batch[place][0] for place in places])
            made.update((place, np.ascontiguousarray(vectors[row : row + 1])) for row, place in enumerate(places))
        return [made[place] for place in range(len(batch))]
