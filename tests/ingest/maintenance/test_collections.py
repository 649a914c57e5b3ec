"""Two collections in one home, with the same files in both: whatever is done to one, the other is as it was."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ingest.maintenance.compact import Compacted, compact
from ingest.maintenance.findings import Verdict
from ingest.maintenance.index import Index
from ingest.maintenance.rebuild import Rebuilt, rebuild
from ingest.maintenance.repair import repair
from ingest.maintenance.verify import verify
from rag_service.local.chroma import chroma_folder, chroma_server
from rag_service.question import Question
from tests.ingest.maintenance.parts import index_on, last_of
from tests.ingest.maintenance.test_service import QUESTION, retriever
from tests.support.ingest_parts import HashEmbedder, assert_consistent, facts, index_of, pipeline_on, results, statuses

Address = Callable[[], str]
Work = Callable[[Path, Address, Path], None]

OURS, THEIRS = "ours", "theirs"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def address(home: Path, docs: Path) -> Iterator[Address]:
    """Of a Chroma with both collections; only theirs has the document `secret.md`."""
    server = chroma_server(home)
    fill(home, server.acquire, docs, OURS)
    (docs / "secret.md").write_text(facts(5, "99 EUR"))
    fill(home, server.acquire, docs, THEIRS)
    (docs / "secret.md").unlink()
    yield server.acquire
    server.release()


def fill(home: Path, address: Address, docs: Path, collection: str) -> None:
    with pipeline_on(home, "", collection, HashEmbedder(), address=address) as pipeline:
        results(pipeline, docs)


def delete_all(home: Path, address: Address, docs: Path) -> None:
    with pipeline_on(home, "", OURS, HashEmbedder(), address=address) as pipeline:
        pipeline.open()
        for document in pipeline.catalog.documents(OURS):
            assert pipeline.delete(document).status == "deleted"
        pipeline.sweep()
        assert pipeline.store.count(OURS) == 0


def prune(home: Path, address: Address, docs: Path) -> None:
    (docs / "a.md").unlink()
    with pipeline_on(home, "", OURS, HashEmbedder(), address=address) as pipeline:
        assert statuses(pipeline, docs) == {"a.md": "deleted", "b.md": "unchanged", "copy.md": "unchanged"}


def update(home: Path, address: Address, docs: Path) -> None:
    (docs / "a.md").write_text(facts(4, "11 EUR"))
    with pipeline_on(home, "", OURS, HashEmbedder(), address=address) as pipeline:
        assert statuses(pipeline, docs)["a.md"] == "updated"


def on_index(work: Callable[[Index], object], model: HashEmbedder | None = None) -> Work:
    def done(home: Path, address: Address, docs: Path) -> None:
        chosen = model or HashEmbedder()
        with index_on(home, "", OURS, chosen, chroma=chroma_folder(home), address=address) as index:
            work(index)

    return done


def mend(index: Index) -> None:
    place = index.catalog.place(OURS)
    index.store.open_collection(OURS, place)
    (version, _), *_ = index.catalog.live_versions(OURS)
    index.store.delete_version(OURS, version)
    assert last_of(repair(index, 20), Verdict).mended


WORKS: dict[str, Work] = {
    "delete": delete_all,
    "prune": prune,
    "update": update,
    "compact": on_index(lambda index: last_of(compact(index), Compacted)),
    "rebuild": on_index(lambda index: last_of(rebuild(index), Rebuilt)),
    "rebuild with another model": on_index(
        lambda index: last_of(rebuild(index), Rebuilt), HashEmbedder("other", dimension=16)
    ),
    "verify --repair": on_index(mend),
}


@pytest.mark.parametrize("name", WORKS)
def test_br_30_what_is_done_to_one_collection_never_touches_the_other(
    home: Path, address: Address, docs: Path, name: str
) -> None:
    with pipeline_on(home, "", THEIRS, HashEmbedder(), address=address) as pipeline:
        pipeline.open()
        before = index_of(pipeline)
        place = pipeline.catalog.place(THEIRS)
    WORKS[name](home, address, docs)
    with pipeline_on(home, "", THEIRS, HashEmbedder(), address=address) as pipeline:
        pipeline.open()
        assert index_of(pipeline) == before
        assert pipeline.catalog.place(THEIRS) == place
        assert_consistent(pipeline)
    with index_on(home, "", THEIRS, HashEmbedder(), address=address) as index:
        assert verify(index, 50).findings == ()


async def test_br_30_retrieval_of_one_collection_never_returns_what_is_in_the_other(
    home: Path, address: Address
) -> None:
    secret = "Item 3 has the price 99 EUR."
    async with retriever(home, address, OURS, HashEmbedder()) as reader:
        for question in (secret, QUESTION):
            ours = await reader.ainvoke(question)
            assert ours
            assert all("99 EUR" not in found.page_content for found in ours)
        theirs = await reader.ainvoke(secret, question=Question(secret, THEIRS))
        assert theirs[0].page_content == secret
        named = await reader.ainvoke(secret, question=Question(secret, OURS, filters={"title": ("secret.md",)}))
        assert named == []
