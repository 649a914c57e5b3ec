"""What a run does not do again: read a file that is as it was, or one that failed as it is."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

import ingest.scan
from ingest.discover import Found
from ingest.loaders.options import DEFAULT_OPTIONS, OcrOptions
from ingest.pipeline import Pipeline
from rag_service.index.rows import MetadataValue
from tests.support.ingest_parts import (
    HashEmbedder,
    InlineParsers,
    assert_consistent,
    facts,
    pipeline_on,
    results,
    statuses,
)

Open = Callable[..., Pipeline]
COLLECTION = "scan"


@pytest.fixture
def opened(chroma: str, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., object]:
    name = request.node.name.replace("[", "-").rstrip("]")[:80]

    @contextmanager
    def pipeline(**options: object) -> Iterator[Pipeline]:
        with pipeline_on(tmp_path / "home", chroma, name, HashEmbedder(), **options) as made:  # type: ignore[arg-type]
            yield made

    return pipeline


def read_by(pipeline: Pipeline) -> list[str]:
    return [path.name for path in cast("InlineParsers", pipeline.parsers).read]


def settle(folder: Path) -> None:
    """As if the files had lain there for an hour: only then is a stamp trusted."""
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 3_600, time.time() - 3_600))


@pytest.fixture
def _old_files_are_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest.scan, "SETTLED_NS", -1)


def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files whose content is hashed from now on."""
    seen: list[str] = []
    real = ingest.scan.content_hash

    def watched(path: Path) -> str:
        seen.append(path.name)
        return real(path)

    monkeypatch.setattr(ingest.scan, "content_hash", watched)
    return seen


@pytest.mark.usefixtures("_old_files_are_settled")
def test_a_file_with_the_same_stamp_is_not_even_opened(
    open_pipeline: Open, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "a.md").write_text(facts(2))
    results(open_pipeline(), docs)
    seen = hashed(monkeypatch)
    assert statuses(open_pipeline(), docs) == {"a.md": "unchanged"}
    assert seen == []


@pytest.mark.usefixtures("_old_files_are_settled")
def test_a_change_that_keeps_size_and_time_is_seen(
    open_pipeline: Open, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = docs / "a.md"
    path.write_text(facts(2, "10 EUR"))
    times = path.stat()
    results(open_pipeline(), docs)
    path.write_text(facts(2, "11 EUR"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    assert statuses(open_pipeline(), docs) == {"a.md": "updated"}


def test_a_file_that_was_written_just_now_is_hashed_again(
    open_pipeline: Open, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "a.md").write_text(facts(2))
    results(open_pipeline(), docs)
    seen = hashed(monkeypatch)
    assert statuses(open_pipeline(), docs) == {"a.md": "unchanged"}
    assert seen == ["a.md"]


def test_a_file_that_failed_is_not_read_again_until_it_changes(opened: Callable[..., object], docs: Path) -> None:
    (docs / "broken.pdf").write_bytes(b"%PDF-1.7 half")
    (docs / "blank.txt").write_text(" \n")
    with opened() as first:  # type: ignore[attr-defined]
        told = {result.uri: (result.status, result.reason) for result in results(first, docs)}
        assert sorted(read_by(first)) == ["blank.txt", "broken.pdf"]
    with opened() as again:  # type: ignore[attr-defined]
        assert {result.uri: (result.status, result.reason) for result in results(again, docs)} == told
        assert read_by(again) == []
    with opened(retry=True) as retried:  # type: ignore[attr-defined]
        assert {result.uri: (result.status, result.reason) for result in results(retried, docs)} == told
        assert sorted(read_by(retried)) == ["blank.txt", "broken.pdf"]
    (docs / "blank.txt").write_text(facts(1))
    with opened() as changed:  # type: ignore[attr-defined]
        assert statuses(changed, docs) == {"broken.pdf": "failed", "blank.txt": "indexed"}
        assert read_by(changed) == ["blank.txt"]
        assert [problem.uri.rsplit("/", 1)[-1] for problem in changed.catalog.problems(changed.collection)] == [
            "broken.pdf"
        ]


def test_other_metadata_from_outside_changes_filters_and_embeds_nothing(
    opened: Callable[..., object], docs: Path
) -> None:
    (docs / "a.md").write_text(facts(2))

    def team(name: str) -> Callable[[Found], dict[str, MetadataValue]]:
        return lambda _: {"team": name}

    with opened(given=team("red")) as first:  # type: ignore[attr-defined]
        assert statuses(first, docs) == {"a.md": "indexed"}
        assert first.catalog.versions_where(first.collection, {"team": ["red"]})
    with opened(given=team("red")) as same:  # type: ignore[attr-defined]
        assert statuses(same, docs) == {"a.md": "unchanged"}
    with opened(given=team("blue")) as other:  # type: ignore[attr-defined]
        assert statuses(other, docs) == {"a.md": "updated"}
        assert read_by(other) == []
        assert other.model.embedded == []
        assert not other.catalog.versions_where(other.collection, {"team": ["red"]})
        assert other.catalog.versions_where(other.collection, {"team": ["blue"]})
        assert_consistent(other)


def test_copies_found_while_the_first_is_read_share_its_version(open_pipeline: Open, docs: Path) -> None:
    for name in ("a.md", "b.md", "c.md"):
        (docs / name).write_text(facts(3))
    pipeline = open_pipeline()
    assert statuses(pipeline, docs) == {"a.md": "indexed", "b.md": "indexed", "c.md": "indexed"}
    assert len(pipeline.model.embedded) == 3  # type: ignore[attr-defined]
    (version,) = {document.version for document in pipeline.catalog.documents(pipeline.collection)}
    ids = [chunk.id for chunk in pipeline.catalog.chunks_of(pipeline.collection, version)]
    live = pipeline.catalog.live_chunks(pipeline.collection, ids)
    assert {chunk.uri for chunk in live.values()} == {(docs / "a.md").as_uri()}
    assert {chunk.also_at for chunk in live.values()} == {((docs / "b.md").as_uri(), (docs / "c.md").as_uri())}
    assert_consistent(pipeline)


def test_br_19_a_missing_folder_deletes_nothing_unless_told(open_pipeline: Open, docs: Path, tmp_path: Path) -> None:
    (docs / "a.md").write_text(facts(2))
    pipeline = open_pipeline()
    results(pipeline, docs)
    docs.rename(tmp_path / "elsewhere")
    (told,) = results(pipeline, docs)
    assert (told.uri, told.status) == (docs.as_uri(), "failed")
    assert told.reason is not None
    assert "there is no such file or folder now" in told.reason
    assert statuses(pipeline, docs, prune_empty=True) == {"a.md": "deleted"}


def test_br_19_documents_of_an_unmounted_file_system_stay(open_pipeline: Open, docs: Path) -> None:
    for name in ("share/a.md", "share/b.md", "c.md"):
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text(facts(2, name))
    pipeline = open_pipeline()
    results(pipeline, docs)
    # What a mounted share leaves behind when it goes: an empty folder of the file system below.
    stamps = {}
    for document in pipeline.catalog.documents(pipeline.collection):
        stamp = pipeline.catalog.stamp(pipeline.collection, document.uri)
        path = Path(document.uri.removeprefix("file://"))
        found = Found.at(path, path.stat())
        device = found.device + 1 if "/share/" in document.uri else found.device
        made = stamp or ingest.scan.Stamp(found.mark, device, document.content_hash, "markdown/1")
        stamps[document.uri] = replace(made, device=device)
    pipeline.catalog.put_stamps(pipeline.collection, stamps)
    shutil.rmtree(docs / "share")
    (docs / "share").mkdir()
    told = results(pipeline, docs)
    kept = next(result for result in told if result.status == "skipped")
    assert kept.reason is not None
    assert "2 documents come from a file system that is not mounted" in kept.reason
    assert len(pipeline.catalog.documents(pipeline.collection)) == 3
    results(pipeline, docs, prune_empty=True)
    assert len(pipeline.catalog.documents(pipeline.collection)) == 1


def test_br_11_pages_without_text_are_read_once_ocr_is_switched_on(
    opened: Callable[..., object], docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index knows that something was left unread; another OCR setting is a reason to read it again, and only it."""
    (docs / "a.md").write_text(facts(2))
    off, on = replace(DEFAULT_OPTIONS, ocr=OcrOptions(enabled=False)), DEFAULT_OPTIONS
    family = next(family for family in ingest.scan.LOADERS.values() if family.name == "markdown")
    monkeypatch.setitem(ingest.scan.LOADERS, family.fingerprint, replace(family, reads_images=True))
    with opened(options=off) as first:  # type: ignore[attr-defined]
        results(first, docs)
    with opened(options=on) as again:  # type: ignore[attr-defined]
        assert statuses(again, docs) == {"a.md": "unchanged"}
        (document,) = again.catalog.documents(again.collection)
        again.catalog._db.execute("UPDATE versions SET unread = 2 WHERE id = ?", (document.version,))  # noqa: SLF001  as a page that was not read would leave it
        assert statuses(again, docs) == {"a.md": "updated"}
        assert_consistent(again)


def test_a_run_that_is_told_to_stop_finishes_what_it_has_and_the_next_one_does_the_rest(
    opened: Callable[..., object], docs: Path
) -> None:
    for number in range(6):
        (docs / f"{number}.md").write_text(facts(3, str(number)))
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    with opened(stop=stop) as stopped:  # type: ignore[attr-defined]
        done = statuses(stopped, docs)
        assert 0 < len(done) < 6
        assert {*done.values()} == {"indexed"}
        assert_consistent(stopped)
        assert stopped.catalog.last_run(stopped.collection) is None
    with opened() as rest:  # type: ignore[attr-defined]
        found = statuses(rest, docs)
        assert {name for name, status in found.items() if status == "unchanged"} == {*done}
        assert len(found) == 6
        assert_consistent(rest)
