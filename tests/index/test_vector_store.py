"""The vector store on a real Chroma: batches, similarities, and what it refuses."""

import socket
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import chromadb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_service.errors import FingerprintMismatch, VectorStoreUnavailable
from rag_service.index.embeddings import Vectors
from rag_service.index.settings import ChromaSettings
from rag_service.index.vector_store import AsyncVectorStore, VectorStore, chroma_name, similarity
from rag_service.local.chroma import chroma_server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma_server(tmp_path_factory.mktemp("chroma")) as address:
        yield address


@pytest.fixture
def store(url: str) -> Iterator[VectorStore]:
    made = VectorStore(ChromaSettings(timeout_s=120), lambda: url)
    yield made
    made.close()


@pytest.fixture
async def reader(url: str) -> AsyncIterator[AsyncVectorStore]:
    async def address() -> str:
        return url

    made = AsyncVectorStore(ChromaSettings(timeout_s=120), address)
    yield made
    await made.close()


@pytest.fixture
def collection(request: pytest.FixtureRequest) -> str:
    """Each test has its own."""
    return request.node.name[:60].strip("_[]")  # type: ignore[no-any-return]


def unit(*rows: tuple[float, ...]) -> Vectors:
    vectors = np.array(rows, dtype=np.float32)
    made: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return made


def many(count: int) -> tuple[list[str], Vectors]:
    rows = np.random.default_rng(7).normal(size=(count, 2)).astype(np.float32)
    return [f"{number:032x}" for number in range(count)], rows / np.linalg.norm(rows, axis=1, keepdims=True)


@given(st.floats(-0.5, 2.5))
def test_br_23_similarity_is_within_0_and_1_and_falls_with_the_distance(distance: float) -> None:
    assert 0.0 <= similarity(distance) <= 1.0
    assert similarity(distance) >= similarity(distance + 0.1)
    assert similarity(0.0) == 1.0
    assert similarity(1.0) == similarity(2.0) == 0.0


async def test_br_23_identical_is_one_and_the_nearer_comes_first(
    store: VectorStore, reader: AsyncVectorStore, collection: str
) -> None:
    vectors = unit((1, 0, 0), (1, 0.5, 0), (0, 0, 1), (-1, 0, 0))
    store.upsert(collection, "v", ["identical", "related", "unrelated", "opposite"], vectors)
    (found,) = await reader.query(collection, unit((5, 0, 0)), 4)
    assert [*found][:2] == ["identical", "related"]
    assert found["identical"] == pytest.approx(1.0, abs=1e-5)
    assert found["related"] == pytest.approx(1 / np.sqrt(1.25), abs=1e-5)
    assert found["unrelated"] == pytest.approx(0.0, abs=1e-5)
    assert found["opposite"] == 0.0
    (unnormalised,) = await reader.query(collection, np.array([[50, 0, 0]], dtype=np.float32), 4)
    assert unnormalised == pytest.approx(found, abs=1e-5)


async def test_br_23_a_collection_that_measures_l2_is_refused(
    store: VectorStore, reader: AsyncVectorStore, url: str
) -> None:
    address = urlsplit(url)
    with chromadb.HttpClient(host=str(address.hostname), port=address.port or 0) as raw:
        raw.create_collection(chroma_name("made-elsewhere"), embedding_function=None)
        with pytest.raises(FingerprintMismatch, match="'l2', not 'cosine'"):
            store.open_collection("made-elsewhere")
        with pytest.raises(FingerprintMismatch, match="'l2', not 'cosine'"):
            await reader.query("made-elsewhere", unit((1, 0)), 1)
        assert raw.get_collection(chroma_name("made-elsewhere")).configuration_json["hnsw"]["space"] == "l2"
        raw._server._session.close()  # noqa: SLF001  Chroma leaves its connections open
        raw._admin_client._server._session.close()  # noqa: SLF001


def test_br_33_more_chunks_than_the_server_takes_at_once_are_written_in_batches(
    store: VectorStore, collection: str
) -> None:
    ids, vectors = many(50_000)
    store.upsert(collection, "v", ids[:6_000], vectors[:6_000])
    assert store.count(collection) == 6_000
    store.upsert(collection, "w", ids[6_000:], vectors[6_000:])
    assert store.count(collection) == 50_000
    assert store.ids_of(collection, "w") == {*ids[6_000:]}
    store.delete_version(collection, "w")
    assert store.count(collection) == 6_000


async def test_versions_restrict_the_search_however_many_they_are(
    store: VectorStore, reader: AsyncVectorStore, collection: str
) -> None:
    vectors = unit((1, 0), (1, 0.1), (1, 0.2))
    for name, vector in zip("abc", vectors, strict=True):
        store.upsert(collection, f"v{name}", [name], vector[None])
    question = unit((1, 0))
    assert [*(await reader.query(collection, question, 9, ["vb", "vc"]))[0]] == ["b", "c"]
    assert await reader.query(collection, question, 9, []) == [{}]
    others = [f"{number:032x}" for number in range(40_000)]
    (found,) = await reader.query(collection, question, 1, ["vc", *others, "vb"])
    assert [*found] == ["b"]


async def test_a_collection_that_is_not_there_has_no_candidates(reader: AsyncVectorStore) -> None:
    assert await reader.query("never-made", unit((1, 0), (0, 1)), 3) == [{}, {}]


async def test_br_01_a_collection_that_was_deleted_and_made_anew_is_found_again(
    store: VectorStore, reader: AsyncVectorStore, url: str, collection: str
) -> None:
    store.upsert(collection, "v", ["old"], unit((1, 0)))
    assert [*(await reader.query(collection, unit((1, 0)), 3))[0]] == ["old"]
    address = urlsplit(url)
    with chromadb.HttpClient(host=str(address.hostname), port=address.port or 0) as raw:
        raw.delete_collection(chroma_name(collection))
        raw._server._session.close()  # noqa: SLF001  Chroma leaves its connections open
        raw._admin_client._server._session.close()  # noqa: SLF001
    assert await reader.query(collection, unit((1, 0)), 3) == [{}]
    store.close()
    store.upsert(collection, "v", ["new"], unit((1, 0)))
    assert [*(await reader.query(collection, unit((1, 0)), 3))[0]] == ["new"]


def test_writing_the_same_vectors_twice_changes_nothing(store: VectorStore, collection: str) -> None:
    for _ in range(2):
        store.upsert(collection, "v", ["a", "b"], unit((1, 0), (0, 1)))
    assert store.ids_of(collection, "v") == {"a", "b"}
    assert store.count(collection) == 2
    store.delete_version(collection, "another")
    store.upsert(collection, "v", [], np.empty((0, 2), dtype=np.float32))
    assert store.count(collection) == 2


async def test_no_server_is_told_in_words_that_help() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        closed = VectorStore(ChromaSettings(), lambda: url)
        with pytest.raises(VectorStoreUnavailable, match=r"RAG_CHROMA__URL"):
            closed.open_collection("documents")

        async def address() -> str:
            return url

        reader = AsyncVectorStore(ChromaSettings(), address)
        with pytest.raises(VectorStoreUnavailable, match=r"RAG_CHROMA__URL"):
            await reader.check()
        await reader.close()


@pytest.mark.parametrize("one", ["a", "hr", "10.0.0.1", "x" * 100])
def test_br_102_every_collection_name_is_one_that_chroma_takes(store: VectorStore, one: str) -> None:
    store.open_collection(one)
    assert store.count(one) == 0
