"""What `compact` leaves in the files of an index with a local Chroma: nothing that was deleted, and no room that was its."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.facts import bytes_below
from ingest.maintenance import compact as compact_module
from ingest.maintenance.compact import LEFTOVERS, READER, Compacted, compact
from ingest.maintenance.verify import verify
from ingest.sources import INCOMING
from rag_service.index import catalog_maintenance
from rag_service.index.rows import DocumentRow
from rag_service.local.chroma import chroma_folder, chroma_server
from tests.ingest.maintenance.parts import index_on, last_of
from tests.ingest.maintenance.test_service import asked, retriever
from tests.support.ingest_parts import HashEmbedder, facts, pipeline_on, statuses

COLLECTION = "documents"
WORD = b"q7f3azz"  # of the canary: what the full-text index keeps of it
CANARY = f"SECRET-CANARY-{WORD.decode()}"
BATCH = 256
SYNCS = 50
OPEN = 64_000  # bytes that an open catalog has more: SQLite's log, and the index of it


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def address(home: Path) -> Iterator[Callable[[], str]]:
    """Of the Chroma that has its folder in the home, as with RAG_CHROMA__URL unset."""
    server = chroma_server(home)
    yield server.acquire
    server.release()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """One document that goes, and one so large that Chroma writes its vectors into the files of the graph."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / f"{CANARY}.md").write_text(
        f"# Of {CANARY}\n\nThe word is {CANARY} here.\n\nIt says {CANARY} once more.\n"
    )
    (folder / f"{CANARY}.md.meta.yaml").write_text(f"team: {CANARY}\n")
    (folder / "keep.md").write_text(facts(1_100))
    return folder


def sync(home: Path, address: Callable[[], str], folder: Path) -> dict[str, str]:
    with pipeline_on(home, "", COLLECTION, HashEmbedder(), address=address) as pipeline:
        return statuses(replace(pipeline, batch=BATCH), folder)


def compacted(home: Path, address: Callable[[], str]) -> Compacted:
    with index_on(home, "", COLLECTION, HashEmbedder(), chroma=chroma_folder(home), address=address) as index:
        return last_of(compact(replace(index, batch=BATCH)), Compacted)


def traces(home: Path, address: Callable[[], str]) -> set[bytes]:
    """The canary's word, and what Chroma has of the document: ids and vectors."""
    with pipeline_on(home, "", COLLECTION, HashEmbedder(), address=address) as pipeline:
        (document,) = [one for one in pipeline.catalog.documents(COLLECTION) if CANARY in one.uri]
        chunks = pipeline.catalog.chunks_of(COLLECTION, document.version)
        ids = [chunk.id for chunk in chunks]
        pipeline.open()
        vectors = pipeline.store.vectors_of(COLLECTION, ids)
        assert len(vectors) == len(ids) > 1
        return (
            {WORD, document.version.encode()} | {one.encode() for one in ids} | {v.tobytes() for v in vectors.values()}
        )


def found_in(home: Path, wanted: set[bytes]) -> set[str]:
    """The files below the home that hold any of it, in whatever case."""
    return {
        str(path.relative_to(home))
        for path in home.rglob("*")
        if path.is_file()
        for content in (path.read_bytes(),)
        if any(one in content or one in content.lower() for one in wanted)
    }


def delete(home: Path, address: Callable[[], str], *, killed: bool = False) -> None:
    """As `rag-ingest delete` does; killed, it does not come to the sweep."""
    with pipeline_on(home, "", COLLECTION, HashEmbedder(), address=address) as pipeline:
        pipeline.open()
        assert pipeline.delete(the_canary(pipeline.catalog.documents(COLLECTION))).status == "deleted"
        if not killed:
            pipeline.sweep()


def the_canary(documents: list[DocumentRow]) -> DocumentRow:
    (document,) = [one for one in documents if CANARY in one.uri]
    return document


async def test_br_40_a_deleted_document_is_gone_from_every_file_while_a_service_has_the_index_open(
    home: Path, address: Callable[[], str], docs: Path
) -> None:
    sync(home, address, docs)
    wanted = traces(home, address)
    async with retriever(home, address, COLLECTION, HashEmbedder()) as reader:
        assert await asked(reader) == pytest.approx(1.0, abs=1e-3)
        assert {name.split("/")[0] for name in found_in(home, wanted)} >= {"chroma"}
        await asyncio.to_thread(delete, home, address)
        assert found_in(home, {WORD}) == set()  # text goes with the deletion
        assert found_in(home, wanted) != set()  # ids and vectors do not, which is why there is `compact`
        (home / INCOMING).mkdir()
        for name in ("stdin-x.md", "tmpx.html"):  # what a killed run had received
            (home / INCOMING / name).write_text(CANARY)
        before = bytes_below(home)
        done = await asyncio.to_thread(compacted, home, address)
        assert found_in(home, wanted) == set()
        assert (done.undone, done.notes) == ((), ())
        assert done.before == pytest.approx(before, abs=OPEN)
        assert done.after == pytest.approx(bytes_below(home), abs=OPEN)
        assert done.after < done.before - OPEN
        assert await asked(reader) == pytest.approx(1.0, abs=1e-3)
    with index_on(home, "", COLLECTION, HashEmbedder(), address=address) as index:
        assert verify(index, 20).findings == ()
        (left,) = index.catalog.documents(COLLECTION)
        assert left.title == "keep.md"
    assert found_in(home, wanted) == set()


def test_br_40_a_deletion_that_was_killed_half_way_is_made_good(
    home: Path, address: Callable[[], str], docs: Path
) -> None:
    sync(home, address, docs)
    wanted = traces(home, address)
    delete(home, address, killed=True)
    assert WORD in b"".join(path.read_bytes() for path in home.glob("catalog.sqlite3*"))
    assert compacted(home, address).undone == ()
    assert found_in(home, wanted) == set()


def test_br_40_a_reader_that_holds_the_log_all_the_time_is_told_and_the_next_compaction_does_it(
    home: Path, address: Callable[[], str], docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_maintenance, "LOG_BUSY_MS", 50)
    sync(home, address, docs)
    wanted = traces(home, address)
    reader = sqlite3.connect(home / "catalog.sqlite3", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM documents").fetchone()
    delete(home, address, killed=True)
    assert compacted(home, address).undone == (READER,)
    assert {name for name in found_in(home, wanted) if not name.startswith("catalog.sqlite3")} == set()
    assert found_in(home, wanted) != set()
    reader.close()
    assert compacted(home, address).undone == ()
    assert found_in(home, wanted) == set()


@pytest.mark.parametrize("step", ["drop_orphans", "vacuum"])
def test_broken_off_in_the_midst_of_chromas_files_the_index_is_whole_and_the_next_compaction_ends_it(
    home: Path, address: Callable[[], str], docs: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    sync(home, address, docs)
    wanted = traces(home, address)
    delete(home, address)

    def broken_off(folder: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compact_module.chroma_files, step, broken_off)
        with pytest.raises(KeyboardInterrupt):
            compacted(home, address)
    assert found_in(home, wanted) != set()
    assert sync(home, address, docs / "keep.md") == {"keep.md": "unchanged"}
    with index_on(home, "", COLLECTION, HashEmbedder(), address=address) as index:
        assert verify(index, 20).findings == ()
    assert compacted(home, address).undone == ()
    assert found_in(home, wanted) == set()


def test_only_leftovers_are_deleted(home: Path, address: Callable[[], str], docs: Path) -> None:
    """People may keep files of theirs in the home."""
    sync(home, address, docs)
    theirs = [home / "stdin-notes.md", home / "notes" / "stdin-notes.md", home / "notes" / INCOMING / "x.md"]
    for path in theirs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("words of theirs")
    assert compacted(home, address).undone == ()
    assert all(path.read_text() == "words of theirs" for path in theirs)
    assert LEFTOVERS == INCOMING


def test_br_84_fifty_syncs_of_unchanged_files_take_no_room_and_those_of_changed_ones_none_after_compaction(
    home: Path, address: Callable[[], str], tmp_path: Path
) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.md").write_text(facts(100, f"{number} EUR"))
    assert set(sync(home, address, folder).values()) == {"indexed"}
    first = bytes_below(home)
    for _ in range(SYNCS):
        assert set(sync(home, address, folder).values()) == {"unchanged"}
    assert bytes_below(home) == pytest.approx(first, abs=OPEN)
    for number in range(SYNCS):
        changed = f"{number % 10}.md"
        (folder / changed).write_text(facts(100, f"{number + 100} EUR"))
        assert {name for name, status in sync(home, address, folder).items() if status == "updated"} == {changed}
    grown = bytes_below(home)
    done = compacted(home, address)
    assert done.before >= grown > 1.2 * first
    with index_on(home, "", COLLECTION, HashEmbedder(), address=address) as index:
        verdict = verify(index, 10)
        assert (verdict.findings, verdict.chunks, verdict.vectors) == ((), 1_000, 1_000)
    fresh = tmp_path / "fresh"
    server = chroma_server(fresh)
    sync(fresh, server.acquire, folder)
    server.release()
    assert bytes_below(home) <= 1.05 * bytes_below(fresh)
