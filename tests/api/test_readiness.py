"""Readiness names each missing part, and what to do about it; nothing is faked but the model's endpoint."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rag_service.index.async_catalog import AsyncCatalog
from rag_service.index.async_vector_store import AsyncVectorStore
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.settings import ChromaSettings, EmbeddingsSettings
from rag_service.local.chroma import chroma_server
from rag_service.readiness import Readiness, check
from rag_service.settings import LlmSettings
from rag_service.upstream import Upstream, client_session
from tests.support.fake_vllm import FakeVllm
from tests.support.service import free_port


@asynccontextmanager
async def readiness(
    home: Path,
    llm_url: str,
    *,
    chroma: str | None = None,
    collection: str = "documents",
    llm: LlmSettings = LlmSettings(),  # noqa: B008  frozen
    model: EmbeddingModel | None = None,
) -> AsyncIterator[Readiness]:
    async with AsyncExitStack() as stack:
        address = chroma or stack.enter_context(chroma_server(home))

        async def found() -> str:
            return address

        store = AsyncVectorStore(ChromaSettings(), found)
        stack.push_async_callback(store.close)
        catalog = AsyncCatalog(home / "catalog.sqlite3")
        stack.push_async_callback(catalog.close)
        session = await stack.enter_async_context(client_session(llm))
        upstream = Upstream(session, llm_url, llm, 0.0)
        yield Readiness(collection, store, catalog, model or EmbeddingModel(EmbeddingsSettings()), upstream)


async def problems(readiness: Readiness) -> dict[str, str]:
    return {check.name: check.problem for check in await readiness.checks() if check.problem is not None}


async def test_all_is_well(home: Path, fake: FakeVllm) -> None:
    async with readiness(home, fake.base_url) as ready:
        assert await problems(ready) == {}


async def test_chroma_is_down(home: Path, fake: FakeVllm) -> None:
    async with readiness(home, fake.base_url, chroma=f"http://127.0.0.1:{free_port()}") as ready:
        found = await problems(ready)
    assert list(found) == ["chroma"]
    assert "RAG_CHROMA__URL" in found["chroma"]


async def test_there_is_no_catalog(tmp_path: Path, fake: FakeVllm) -> None:
    async with readiness(tmp_path, fake.base_url, chroma=f"http://127.0.0.1:{free_port()}") as ready:
        found = await problems(ready)
    assert list(found) == ["chroma", "catalog", "fingerprint"]
    assert "rag-ingest" in found["catalog"]


async def test_there_is_no_such_collection(home: Path, fake: FakeVllm) -> None:
    async with readiness(home, fake.base_url, collection="empty") as ready:
        found = await problems(ready)
    assert list(found) == ["fingerprint"]
    assert "'empty'" in found["fingerprint"]
    assert "rag-ingest" in found["fingerprint"]


async def test_br_22_the_index_was_made_by_another_model(home: Path, fake: FakeVllm) -> None:
    model = EmbeddingModel(EmbeddingsSettings())
    model.fingerprint = replace(model.fingerprint, model="another", weights="f00")
    async with readiness(home, fake.base_url, model=model) as ready:
        found = await problems(ready)
    assert list(found) == ["fingerprint"]
    assert "RAG_EMBEDDINGS__MODEL=all-MiniLM-L6-v2" in found["fingerprint"]


async def test_br_51_the_model_is_not_there(home: Path) -> None:
    async with readiness(home, f"http://127.0.0.1:{free_port()}/v1") as ready:
        found = await problems(ready)
    assert list(found) == ["llm"]
    assert "RAG_LLM__BASE_URL" in found["llm"]


async def test_br_74_the_configured_model_is_not_served(home: Path, fake: FakeVllm) -> None:
    async with readiness(home, fake.base_url, llm=LlmSettings(model="qwen2.5")) as ready:
        found = await problems(ready)
    assert list(found) == ["llm"]
    assert "'qwen2.5'" in found["llm"]
    assert "'fake-model'" in found["llm"]


async def test_a_part_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_service.readiness.CHECK_LIMIT_S", 0.01)

    found = await check("chroma", asyncio.Event().wait())
    assert found.problem is not None
    assert "No answer" in found.problem


async def test_a_check_that_fails_unforeseen_is_a_problem_too() -> None:
    async def broken() -> None:
        raise ValueError("secret detail")

    found = await check("chroma", broken())
    assert found.problem is not None
    assert "secret detail" not in found.problem
