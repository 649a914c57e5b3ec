"""A service goes on answering while the index under it is rebuilt, changes its model, is made compact, or is deleted."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from ingest.maintenance.compact import compact
from ingest.maintenance.rebuild import rebuild
from ingest.maintenance.repair import repair
from rag_service.errors import FingerprintMismatch, RagError, VectorStoreUnavailable
from rag_service.index.async_catalog import AsyncCatalog
from rag_service.index.async_vector_store import AsyncVectorStore
from rag_service.index.embeddings import Vectors
from rag_service.index.query_embeddings import QueryEmbeddings
from rag_service.index.settings import ChromaSettings
from rag_service.local.chroma import chroma_server
from rag_service.retrieval import HybridRetriever
from rag_service.settings import RetrievalSettings
from tests.ingest.maintenance.conftest import OpenIndex
from tests.ingest.maintenance.parts import index_on
from tests.support.ingest_parts import HashEmbedder, facts, pipeline_on, results

QUESTION = "Item 7 has the price 10 EUR."  # a chunk's very words, which the HashEmbedder needs to find it


@asynccontextmanager
async def retriever(
    home: Path, address: Callable[[], str], collection: str, model: HashEmbedder, **settings: float
) -> AsyncIterator[HybridRetriever]:
    async def current() -> str:
        return await asyncio.to_thread(address)

    embeddings = QueryEmbeddings(model)
    catalog = AsyncCatalog(home / "catalog.sqlite3")
    store = AsyncVectorStore(ChromaSettings(), current)
    try:
        yield HybridRetriever(
            embeddings=embeddings,
            store=store,
            catalog=catalog,
            settings=RetrievalSettings.model_validate(settings),
            collection=collection,
        )
    finally:
        await store.close()
        await catalog.close()
        await embeddings.close()


async def asked(reader: HybridRetriever) -> float:
    """The best score; 1 is the chunk itself in both searches."""
    best, *_ = await reader.ainvoke(QUESTION)
    assert best.page_content == QUESTION
    return float(best.metadata["score"])


async def asked_during(reader: HybridRetriever, work: Callable[[], object]) -> int:
    """Ask without a pause until the work is done; how often the answer was right, which is always."""
    task = asyncio.create_task(asyncio.to_thread(work))
    count = 0
    while not task.done():
        assert await asked(reader) == pytest.approx(1.0, abs=1e-3)
        count += 1
    await task
    assert await asked(reader) == pytest.approx(1.0, abs=1e-3)
    return count


async def test_br_34_a_rebuild_and_a_compaction_are_not_noticed_by_those_who_ask(
    open_index: OpenIndex, tmp_path: Path, chroma: str, collection: str
) -> None:
    index = open_index()
    async with retriever(tmp_path / "home", lambda: chroma, collection, HashEmbedder()) as reader:
        assert await asked(reader) == pytest.approx(1.0, abs=1e-3)
        for _ in range(3):
            assert await asked_during(reader, lambda: list(rebuild(index))) > 0
            assert await asked_during(reader, lambda: list(compact(index))) > 0


async def test_br_22_during_a_change_of_the_model_nobody_gets_a_mixed_result(
    open_index: OpenIndex, tmp_path: Path, chroma: str, collection: str
) -> None:
    model = HashEmbedder("other", dimension=16)
    index = open_index(model, max_tokens=20)
    home = tmp_path / "home"
    async with (
        retriever(home, lambda: chroma, collection, HashEmbedder()) as old,
        retriever(home, lambda: chroma, collection, HashEmbedder("other", dimension=16)) as new,
    ):
        task = asyncio.create_task(asyncio.to_thread(lambda: list(rebuild(index))))
        outcomes: list[str] = []
        refusals: list[str] = []
        while not task.done() or "new" not in outcomes:
            for name, reader in (("old", old), ("new", new)):
                try:
                    found = await reader.ainvoke(QUESTION)
                except FingerprintMismatch as error:
                    refusals.append(error.message)
                else:
                    assert any(QUESTION in document.page_content for document in found)
                    outcomes.append(name)
        await task
        with pytest.raises(FingerprintMismatch, match="RAG_EMBEDDINGS__MODEL=other"):
            await old.ainvoke(QUESTION)
    assert refusals
    assert all("rag-ingest rebuild" in message for message in refusals)
    assert outcomes[0] == "old"
    assert outcomes == sorted(outcomes, reverse=True)  # first the one, then the other, never by turns


async def test_br_34_the_index_is_deleted_and_made_anew_under_a_service_and_is_found_without_a_restart(
    tmp_path: Path, docs: Path
) -> None:
    home, collection = tmp_path / "home", "documents"
    service = chroma_server(home)
    service.acquire()
    try:
        with pipeline_on(home, "", collection, HashEmbedder(), address=service.ensure) as pipeline:
            results(pipeline, docs)
        async with retriever(home, service.ensure, collection, HashEmbedder()) as reader:
            assert await asked(reader) == pytest.approx(1.0, abs=1e-3)
            shutil.rmtree(home)
            with pytest.raises(RagError, match=r"rag-ingest"):
                await reader.ainvoke(QUESTION)
            (docs / "new.md").write_text(facts(12, "10 EUR"))
            (docs / "a.md").unlink()
            writer = chroma_server(home)
            with pipeline_on(home, "", collection, HashEmbedder(), address=writer.acquire) as pipeline:
                results(pipeline, docs)
            writer.release()
            assert await asked(reader) == pytest.approx(1.0, abs=1e-3)
            (found, *_) = await reader.ainvoke("Item 11 has the price 10 EUR.")
            assert found.metadata["title"] == "new.md"
    finally:
        service.release()


async def test_br_34_lost_vectors_are_told_with_what_to_do_and_not_answered_with_nothing(
    open_index: OpenIndex, tmp_path: Path, chroma: str, collection: str
) -> None:
    index = open_index()
    async with retriever(tmp_path / "home", lambda: chroma, collection, HashEmbedder()) as reader:
        index.store.drop(collection, index.catalog.place(collection))
        with pytest.raises(VectorStoreUnavailable, match=r"rag-ingest verify --repair"):
            await reader.ainvoke(QUESTION)
        with index_on(tmp_path / "home", chroma, collection, HashEmbedder()) as again:
            list(repair(again, 10))
        assert await asked(reader) == pytest.approx(1.0, abs=1e-3)


class Placed(HashEmbedder):
    """Puts texts where their first word says; a question's vector is not of length 1."""

    PLACES: ClassVar = {"Identical": (1.0, 0.0), "Related": (0.6, 0.8), "Unrelated": (0.0, 1.0)}

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[:2] = self.PLACES[text.split()[0]]
        return rows

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.embed(["Identical"] * len(texts)) * 50


async def test_br_23_the_nearest_comes_first_and_the_threshold_asks_for_a_similarity(
    tmp_path: Path, chroma: str, collection: str
) -> None:
    folder, home = tmp_path / "placed", tmp_path / "home"
    folder.mkdir()

    async def found(min_score: float) -> list[str]:
        with pipeline_on(home, chroma, collection, Placed()) as pipeline:
            results(pipeline, folder, prune_empty=True)
        async with retriever(home, lambda: chroma, collection, Placed(), min_score=min_score) as reader:
            passages = await reader.ainvoke("zebra")  # none of the words, so that only vectors count
        scores = [one.metadata["score"] for one in passages]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        return [one.metadata["title"].removesuffix(".md") for one in passages]

    for name in ("Unrelated", "Related", "Identical"):
        (folder / f"{name}.md").write_text(f"{name} words stand here.\n")
    assert await found(0.9) == ["Identical", "Related", "Unrelated"]  # it is the best passage that must reach it
    (folder / "Identical.md").unlink()
    assert await found(0.3) == ["Related", "Unrelated"]
    assert await found(0.9) == []
    (folder / "Related.md").unlink()
    assert await found(0.3) == []
    assert await found(0.0) == ["Unrelated"]
