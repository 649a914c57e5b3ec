"""The vector store on a real Chroma: batches, similarities, and what it refuses."""

import asyncio
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import chromadb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_service.errors import FingerprintMismatch, LocalServerFailed, VectorStoreUnavailable
from rag_service.index.async_vector_store import AsyncVectorStore
from rag_service.index.chroma_client import chroma_name, similarity
from rag_service.index.embeddings import Vectors
from rag_service.index.rows import Place
from rag_service.index.settings import COLLECTION_HELP, ChromaSettings, IndexSettings, explain
from rag_service.index.vector_store import VectorStore
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


async def test_questions_at_the_same_time_share_a_call_and_each_gets_its_own_answer(
    store: VectorStore, reader: AsyncVectorStore, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, vectors = many(100)
    store.upsert(collection, ids, ["v"] * 100, vectors)
    sizes: list[int] = []
    search = reader._search  # noqa: SLF001

    async def counted(collection: str, place: Place, vectors: Vectors, limit: int, where: object) -> object:
        sizes.append(len(vectors))
        return await search(collection, place, vectors, limit, where)

    monkeypatch.setattr(reader, "_search", counted)
    asked = [reader.query(collection, vectors[row : row + 1], 1 + row % 2) for row in range(40)]
    found = await asyncio.gather(*asked, reader.query(collection, vectors[40:42], 1))
    assert [next(iter(answer[0])) for answer in found[:40] if answer] == ids[:40]
    assert [len(answer[0]) for answer in found[:40] if answer] == [1, 2] * 20
    assert found[40] is not None
    assert [[*row] for row in found[40]] == [[ids[40]], [ids[41]]]
    assert sorted(sizes) == [20, 22], "one call for each number of results"


async def test_br_23_identical_is_one_and_the_nearer_comes_first(
    store: VectorStore, reader: AsyncVectorStore, collection: str
) -> None:
    vectors = unit((1, 0, 0), (1, 0.5, 0), (0, 0, 1), (-1, 0, 0))
    store.upsert(collection, ["identical", "related", "unrelated", "opposite"], ["v"] * 4, vectors)
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
    store.upsert(collection, ids[:6_000], ["v"] * 6_000, vectors[:6_000])
    assert store.count(collection) == 6_000
    store.upsert(collection, ids[6_000:], ["w"] * len(ids[6_000:]), vectors[6_000:])
    assert store.count(collection) == 50_000
    assert store.ids_of(collection, "w") == {*ids[6_000:]}
    store.delete_version(collection, "w")
    assert store.count(collection) == 6_000


async def test_versions_restrict_the_search_however_many_they_are(
    store: VectorStore, reader: AsyncVectorStore, collection: str
) -> None:
    vectors = unit((1, 0), (1, 0.1), (1, 0.2))
    for name, vector in zip("abc", vectors, strict=True):
        store.upsert(collection, [name], [f"v{name}"], vector[None])
    question = unit((1, 0))
    assert [*(await reader.query(collection, question, 9, ["vb", "vc"]))[0]] == ["b", "c"]
    assert await reader.query(collection, question, 9, []) == [{}]
    others = [f"{number:032x}" for number in range(40_000)]
    (found,) = await reader.query(collection, question, 1, ["vc", *others, "vb"])
    assert [*found] == ["b"]


async def test_a_collection_that_is_not_there_is_told_from_one_without_candidates(reader: AsyncVectorStore) -> None:
    assert await reader.query("never-made", unit((1, 0), (0, 1)), 3) is None


async def test_br_01_a_collection_that_was_deleted_and_made_anew_is_found_again(
    store: VectorStore, reader: AsyncVectorStore, url: str, collection: str
) -> None:
    store.upsert(collection, ["old"], ["v"], unit((1, 0)))
    assert [*(await reader.query(collection, unit((1, 0)), 3))[0]] == ["old"]
    address = urlsplit(url)
    with chromadb.HttpClient(host=str(address.hostname), port=address.port or 0) as raw:
        raw.delete_collection(chroma_name(collection))
        raw._server._session.close()  # noqa: SLF001  Chroma leaves its connections open
        raw._admin_client._server._session.close()  # noqa: SLF001
    assert await reader.query(collection, unit((1, 0)), 3) is None
    store.close()
    store.upsert(collection, ["new"], ["v"], unit((1, 0)))
    assert [*(await reader.query(collection, unit((1, 0)), 3))[0]] == ["new"]


def test_writing_the_same_vectors_twice_changes_nothing(store: VectorStore, collection: str) -> None:
    for _ in range(2):
        store.upsert(collection, ["a", "b"], ["v", "w"], unit((1, 0), (0, 1)))
    assert (store.ids_of(collection, "v"), store.ids_of(collection, "w")) == ({"a"}, {"b"})
    assert store.count(collection) == 2
    store.delete_version(collection, "another")
    store.upsert(collection, [], [], np.empty((0, 2), dtype=np.float32))
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


@pytest.mark.parametrize("one", ["a", "hr", "10.0.0.1", "a..b", "x" * 100])
def test_br_102_every_collection_name_is_one_that_chroma_takes(store: VectorStore, one: str) -> None:
    store.open_collection(one)
    assert store.count(one) == 0


@pytest.mark.parametrize(
    "name", ["My Docs", "collection_3 ", "", "x" * 600, "文档", "資料", "a~rebuild", "../x", "rag/x", "a\n"]
)
def test_br_102_another_name_is_refused_at_the_edge_with_the_rule(name: str) -> None:
    with pytest.raises(ValidationError) as refused:
        IndexSettings(collection=name)
    assert explain(refused.value).message == f"RAG_COLLECTION: a collection's name is {COLLECTION_HELP}"


def test_br_102_no_two_names_or_generations_share_a_place_in_chroma() -> None:
    names = [
        "a",
        "1-a",
        "rag-a",
        "rag.1-a",
        "a.b",
        "a..b",
        "A",
        "1",
        "rag.1",
        "1-a..b",
        "a._2e",
        "a_2e_2eb",
        "..a",
        "a...b",
    ]
    places = [chroma_name(name, generation) for name in names for generation in (0, 1, 2, 11)]
    assert len({*places}) == len(places)


def content(file: Path) -> object:
    """The tables and rows of an SQLite file but those by which Chroma tries whether it may write; the bytes of any other."""
    connection = sqlite3.connect(file)
    try:
        return sorted(line for line in connection.iterdump() if "acquire_write" not in line)
    except sqlite3.DatabaseError:
        return file.read_bytes()
    finally:
        connection.close()


@pytest.mark.parametrize("statement", [None, "UPDATE migrations SET hash = 'of another version' WHERE dir = 'sysdb'"])
async def test_br_85_files_that_this_chroma_cannot_read_are_told_with_what_to_do_and_left_alone(
    tmp_path: Path, statement: str | None
) -> None:
    server = chroma_server(tmp_path)
    file = tmp_path / "chroma" / "chroma.sqlite3"
    with server:
        assert file.is_file()
    if statement is None:
        file.write_bytes(b"no database" * 500)
    else:
        connection = sqlite3.connect(file)
        assert connection.execute(statement).rowcount > 0
        connection.commit()
        connection.close()
    before = content(file)

    async def address() -> str:
        return await asyncio.to_thread(server.acquire)

    writer, reader = (
        VectorStore(ChromaSettings(), server.acquire),
        AsyncVectorStore(ChromaSettings(timeout_s=60), address),
    )
    with pytest.raises(LocalServerFailed, match=r"another version of Chroma.*rag-ingest verify --repair"):
        writer.open_collection("documents")
    with pytest.raises(LocalServerFailed, match=r"another version of Chroma.*rag-ingest verify --repair"):
        await reader.check()
    assert content(file) == before
    file.parent.rename(tmp_path / "old")
    writer.open_collection("documents")
    assert writer.count("documents") == 0
    writer.close()
    server.release()
