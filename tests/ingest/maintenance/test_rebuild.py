"""Chroma made anew from the catalog, with the same model or another one: nothing is lost, whatever is killed when."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import chromadb
import pytest

from ingest.maintenance.index import Index
from ingest.maintenance.rebuild import Plan, Rebuilt, rebuild
from ingest.maintenance.verify import verify
from rag_service.errors import FingerprintMismatch
from rag_service.index.chroma_client import chroma_name
from tests.ingest.maintenance.conftest import OpenIndex, OpenPipeline
from tests.ingest.maintenance.parts import index_on, last_of
from tests.support.crashing import crashing
from tests.support.ingest_parts import (
    HashEmbedder,
    assert_consistent,
    facts,
    index_of,
    live_texts,
    pipeline_on,
    results,
    statuses,
)

PROGRAM = Path(__file__).with_name("crashing_rebuild.py")


def chroma_collections(url: str, collection: str) -> set[str]:
    """The names in Chroma that end as this collection's do."""
    address = urlsplit(url)
    with chromadb.HttpClient(host=str(address.hostname), port=address.port or 0) as raw:
        names = {found.name for found in raw.list_collections() if found.name.endswith(f"-{collection}")}
        raw._server._session.close()  # noqa: SLF001  Chroma leaves its connections open
        raw._admin_client._server._session.close()  # noqa: SLF001
    return names


def in_order(index: Index) -> bool:
    return not verify(index, 100).findings


def test_the_same_vectors_stand_in_the_next_generation_and_the_old_one_is_gone(
    open_index: OpenIndex, open_pipeline: OpenPipeline, chroma: str, collection: str, docs: Path
) -> None:
    before = index_of(open_pipeline())
    model = HashEmbedder()
    plan, *_, done = rebuild(open_index(model))
    assert isinstance(plan, Plan)
    assert (plan.documents, plan.chunks, plan.to_embed, plan.cut_anew) == (3, 13, 13, False)
    assert done == Rebuilt(documents=3, chunks=13, embedded=13, kept=0)
    assert chroma_collections(chroma, collection) == {chroma_name(collection, 1)}
    pipeline = open_pipeline()
    assert set(statuses(pipeline, docs).values()) == {"unchanged"}
    assert index_of(pipeline) == before
    assert in_order(open_index())
    last_of(rebuild(open_index()), Rebuilt)
    assert chroma_collections(chroma, collection) == {chroma_name(collection, 2)}
    (docs / "a.md").write_text(facts(4, "changed"))
    pipeline = open_pipeline()
    assert statuses(pipeline, docs)["a.md"] == "updated"
    assert_consistent(pipeline)


def test_br_22_another_model_takes_over_texts_without_files(
    open_index: OpenIndex, open_pipeline: OpenPipeline, chroma: str, collection: str, docs: Path
) -> None:
    pipeline = open_pipeline()
    texts = live_texts(pipeline.catalog, collection)
    ids = {document.uri: document.id for document in pipeline.catalog.documents(collection)}
    (docs / "a.md").rename(docs.parent / "elsewhere.md")
    model = HashEmbedder("other", dimension=16)
    with pytest.raises(FingerprintMismatch, match=r"run `rag-ingest rebuild`"):
        open_pipeline(model).open()
    plan, *_, done = rebuild(open_index(model))
    assert isinstance(plan, Plan)
    assert (plan.chunks, plan.to_embed, plan.cut_anew, plan.model) == (13, 13, True, "other")
    assert done == Rebuilt(documents=3, chunks=13, embedded=13, kept=0)
    assert in_order(open_index(model))
    (docs.parent / "elsewhere.md").rename(docs / "a.md")
    theirs = open_pipeline(again := HashEmbedder("other", dimension=16))
    assert live_texts(theirs.catalog, collection) == texts
    assert {document.uri: document.id for document in theirs.catalog.documents(collection)} == ids
    assert theirs.catalog.collections() == [collection]
    assert set(statuses(theirs, docs).values()) == {"unchanged"}
    assert again.embedded == []
    assert_consistent(theirs)
    with pytest.raises(FingerprintMismatch, match="RAG_EMBEDDINGS__MODEL=other"):
        results(open_pipeline(), docs)


def test_a_rebuilt_index_is_the_one_that_a_run_with_these_settings_makes(
    open_index: OpenIndex, chroma: str, collection: str, docs: Path, tmp_path: Path
) -> None:
    (docs / "long.html").write_text(
        "<h1>Top</h1><p>Some words before it.</p><h2>Prices</h2><table><tr><th>Item</th><th>Price</th></tr>"
        + "".join(f"<tr><td>Thing {n}</td><td>{n} EUR</td></tr>" for n in range(8))
        + "</table>"
    )
    with pipeline_on(tmp_path / "home", chroma, collection, HashEmbedder()) as pipeline:
        results(pipeline, docs)
    for model, max_tokens in ((HashEmbedder("other"), 8), (HashEmbedder("other"), 30)):
        last_of(rebuild(open_index(model, max_tokens=max_tokens)), Rebuilt)
        with pipeline_on(tmp_path / "home", chroma, collection, model, max_tokens=max_tokens) as rebuilt:
            rebuilt.open()
            ours = index_of(rebuilt)
        fresh = f"fresh-{max_tokens}"
        with pipeline_on(tmp_path / fresh, chroma, fresh, model, max_tokens=max_tokens) as pipeline:
            results(pipeline, docs)
            assert index_of(pipeline) == ours
    assert len(ours["chunks"]) == 3


def test_what_a_broken_rebuild_has_embedded_is_not_embedded_again(
    open_index: OpenIndex, open_pipeline: OpenPipeline, docs: Path
) -> None:
    broken = HashEmbedder("other", fail_on=4)  # the first call measures
    with pytest.raises(RuntimeError, match="told to fail"):
        list(rebuild(open_index(broken)))
    index = open_index(HashEmbedder())
    assert [found.kind for found in verify(index, 10).findings] == ["rebuild_unfinished"]
    (docs / "b.md").unlink()
    (docs / "copy.md").unlink()
    ours = open_pipeline()
    assert statuses(ours, docs)["b.md"] == "deleted"  # the old model goes on, and what was staged for b.md is of no use
    model = HashEmbedder("other")
    plan, *_, done = rebuild(open_index(model))
    assert isinstance(plan, Plan)
    assert isinstance(done, Rebuilt)
    assert done.chunks == 10
    assert plan.to_embed == done.embedded
    assert 2 <= done.embedded <= 5  # two batches were stored, perhaps with the three chunks of b.md
    assert in_order(open_index(model))


@pytest.mark.parametrize(("name", "copy"), [("hash", False), ("hash", True), ("other", False)])
def test_killed_at_any_step_the_index_answers_and_the_next_rebuild_or_run_ends_it(
    chroma: str, tmp_path: Path, docs: Path, name: str, copy: bool
) -> None:
    def prepared(number: str) -> dict[str, Any]:
        home, collection = tmp_path / f"home-{number}", f"killed-{name}-{copy}-{number}"
        with pipeline_on(home, chroma, collection, HashEmbedder()) as pipeline:
            results(pipeline, docs)
        return {"home": str(home), "url": chroma, "collection": collection, "model": name, "copy": copy}

    with crashing(PROGRAM) as crash:
        ended = crash(prepared("never") | {"die_at": "never"})
        assert ended.startswith("ended")
        steps: list[str] = json.loads(ended.removeprefix("ended"))
        assert {"before switch 1", "after switch 1", "before drop 1", "after upsert 1"} <= set(steps)
        for number, die_at in enumerate(steps):
            order = prepared(str(number))
            assert crash(order | {"die_at": die_at}) == f"killed {die_at.rsplit(' ', 1)[0]}"
            home, collection = tmp_path / f"home-{number}", order["collection"]
            switched = steps.index(die_at) >= steps.index("after switch 1")
            now = HashEmbedder(name if switched else "hash")
            with pipeline_on(
                home, chroma, collection, now
            ) as pipeline:  # the index is whole, as it was or as it will be
                pipeline.open()
                assert {len(texts) for texts in live_texts(pipeline.catalog, collection).values()} == {3, 10}, die_at
                for document in pipeline.catalog.documents(collection):
                    live = {chunk.id for chunk in pipeline.catalog.chunks_of(collection, document.version)}
                    assert live == pipeline.store.ids_of(collection, document.version), die_at
            if number % 2:
                with pipeline_on(home, chroma, collection, now) as pipeline:
                    assert set(statuses(pipeline, docs).values()) == {"unchanged"}
                generations = chroma_collections(chroma, collection)
                assert len(generations) == 1 if switched else len(generations) <= 2, die_at
            with index_on(home, chroma, collection, HashEmbedder(name)) as index:
                done = last_of(rebuild(index, copy=copy), Rebuilt)
                assert done.embedded == 0 or not copy, die_at
                assert in_order(index), die_at
            assert len(chroma_collections(chroma, collection)) == 1, die_at
