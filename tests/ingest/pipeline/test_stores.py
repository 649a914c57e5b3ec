"""What the two stores must agree on: model, owner, sizes, metadata, and a server that dies."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.pipeline import Pipeline
from ingest.results import Progress
from rag_service.errors import FingerprintMismatch, IndexUnusable, RagError
from rag_service.local.chroma import chroma_server
from rag_service.local.state import ServerState
from tests.support.ingest_parts import (
    HashEmbedder,
    assert_consistent,
    facts,
    index_of,
    pipeline_on,
    results,
    statuses,
)

COLLECTION = "documents"


Open = Callable[..., Pipeline]


def calls(pipeline: Pipeline) -> int:
    assert isinstance(pipeline.model, HashEmbedder)
    return pipeline.model.calls


def test_the_indexs_own_files_are_no_documents(open_pipeline: Open, docs: Path, tmp_path: Path) -> None:
    (docs / "a.md").write_text(facts(1))
    pipeline = open_pipeline()
    (tmp_path / "home" / "run.log").write_text("not a document")
    assert statuses(pipeline, tmp_path) == {"a.md": "indexed"}


def test_two_collections_in_one_home_do_not_touch_each_other(open_pipeline: Open, docs: Path) -> None:
    (docs / "a.md").write_text(facts(3))
    one, other = open_pipeline(collection="one"), open_pipeline(collection="other")
    results(one, docs)
    results(other, docs)
    before = index_of(one)
    (document,) = other.catalog.documents("other")
    assert other.delete(document).status == "deleted"
    other.sweep()
    assert index_of(one) == before
    assert other.store.count("other") == 0
    assert_consistent(other)


def test_br_22_another_model_is_refused_and_the_index_is_as_it_was(open_pipeline: Open, docs: Path) -> None:
    (docs / "a.md").write_text(facts(3))
    ours = open_pipeline()
    results(ours, docs)
    before = index_of(ours)
    (docs / "a.md").write_text(facts(3, "changed"))
    for model in (HashEmbedder("other"), HashEmbedder("hash", dimension=16)):
        theirs = open_pipeline(model)
        with pytest.raises(FingerprintMismatch, match="RAG_EMBEDDINGS__MODEL=hash"):
            results(theirs, docs)
        assert model.calls == 0
    assert index_of(ours) == before


def test_two_catalogs_never_fill_one_chroma_collection(chroma: str, docs: Path, tmp_path: Path) -> None:
    """Each would take the other's vectors for its own, and delete them."""
    (docs / "a.md").write_text(facts(3))
    with pipeline_on(tmp_path / "ours", chroma, "contested", HashEmbedder()) as ours:
        results(ours, docs)
        with pipeline_on(tmp_path / "theirs", chroma, "contested", HashEmbedder()) as theirs:
            with pytest.raises(IndexUnusable, match=r"another RAG_HOME.*new RAG_COLLECTION"):
                results(theirs, docs)
            assert theirs.catalog.documents("contested") == []
        assert_consistent(ours)
    (tmp_path / "ours").rename(tmp_path / "moved")
    with pipeline_on(tmp_path / "moved", chroma, "contested", HashEmbedder()) as moved:
        assert statuses(moved, docs) == {"a.md": "unchanged"}


def test_br_33_a_file_of_6000_chunks_is_stored_batch_by_batch(open_pipeline: Open, docs: Path) -> None:
    (docs / "long.txt").write_text(facts(6_000))
    pipeline = open_pipeline()
    items = [*replace(pipeline, batch=256).run([docs])]
    steps = [item for item in items if isinstance(item, Progress)]
    assert sum(step.chunks for step in steps) == 6_000
    assert steps[-1].waiting == 0
    assert calls(pipeline) == 24
    assert_consistent(pipeline)


def test_br_57_awkward_metadata_of_a_file_reaches_the_catalog_clean(open_pipeline: Open, docs: Path) -> None:
    head = '<title>T</title><meta name="author" content=""><meta name="$where" content="a&quot;b"><meta name="date">'
    (docs / "a.html").write_text(f"<html><head>{head}</head><body><p>A page of words to be found.</p></body></html>")
    pipeline = open_pipeline()
    assert statuses(pipeline, docs) == {"a.html": "indexed"}
    (document,) = pipeline.catalog.documents(pipeline.collection)
    for key, value in document.metadata.items():
        assert isinstance(value, str | int | float | bool)
        assert pipeline.catalog.versions_where(pipeline.collection, {key: [value]}) == [document.version]


@pytest.mark.parametrize("left", [0.0, 0.5])
def test_br_03_files_of_chroma_that_a_full_disk_left_broken_are_made_anew(
    tmp_path: Path, docs: Path, left: float
) -> None:
    """So many vectors that Chroma has written its graph to files, whose header is lost, which fails every call, or cut, which
    ends the server."""
    (docs / "many.md").write_text(facts(1_100))
    (docs / "few.md").write_text(facts(3, "other"))
    home = tmp_path / "home"
    with (
        chroma_server(home) as url,
        pipeline_on(home, url, COLLECTION, HashEmbedder()) as pipeline,
    ):
        results(pipeline, docs)
        before = index_of(pipeline)
    (header,) = (home / "chroma").glob("*/header.bin")
    content = header.read_bytes()
    header.write_bytes(content[: int(len(content) * left)])
    server = chroma_server(home)
    server.acquire()
    try:
        with pipeline_on(home, "", COLLECTION, HashEmbedder(), address=server.acquire) as pipeline:
            told = sorted((result.uri.rsplit("/", 1)[-1], result.status) for result in results(pipeline, docs))
            assert told == [(name, status) for name in ("few.md", "many.md") for status in ("restored", "unchanged")]
            assert index_of(pipeline) == before
            assert_consistent(pipeline)
    finally:
        server.release()


def test_a_chroma_that_is_killed_during_the_run_is_replaced_or_the_run_fails_cleanly(
    tmp_path: Path, docs: Path
) -> None:
    for number in range(12):
        (docs / f"{number:02}.md").write_text(facts(3, str(number)))
    home = tmp_path / "home"
    server = chroma_server(home)
    killed = False
    try:
        server.acquire()
        model = HashEmbedder()
        with pipeline_on(home, "", COLLECTION, model, address=server.acquire) as pipeline:
            try:
                for _ in pipeline.run([docs]):
                    if model.calls and not killed:
                        state = ServerState.read(home / "run" / "chroma.json")
                        assert state is not None
                        os.kill(state.server, signal.SIGKILL)
                        killed = True
            except RagError as error:
                assert error.code in ("vector_store_unavailable", "local_server_failed")  # noqa: PT017  either end is right
        assert killed
        with pipeline_on(home, "", COLLECTION, HashEmbedder(), address=server.acquire) as pipeline:
            results(pipeline, docs)
            assert_consistent(pipeline)
            assert len(pipeline.catalog.documents(COLLECTION)) == 12
    finally:
        server.release()
