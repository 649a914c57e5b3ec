"""Files that cannot be taken, and files with odd names: told or indexed, and the run goes on."""

import os
import shutil
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path

from ingest.discover import discover
from ingest.pipeline import Pipeline
from ingest.results import FileResult
from tests.support.ingest_parts import (
    assert_consistent,
    facts,
    live_texts,
    results,
    statuses,
)

Open = Callable[..., Pipeline]


def texts_of(pipeline: Pipeline) -> dict[str, str]:
    found = live_texts(pipeline.catalog, pipeline.collection)
    return {uri.rsplit("/", 1)[-1]: "\n".join(texts) for uri, texts in found.items()}


def test_br_21_bad_files_are_named_with_reasons_and_the_good_ones_are_indexed(open_pipeline: Open, docs: Path) -> None:
    for number in range(50):
        (docs / f"good-{number}.md").write_text(facts(1, str(number)))
    (docs / "latin.txt").write_bytes("Die Größe der Straße ist für alle schön.".encode("latin-1"))
    (docs / "broken.pdf").write_bytes(b"%PDF-1.7\nand then nothing")
    with zipfile.ZipFile(docs / "truncated.docx", "w") as archive:
        archive.writestr("word/document.xml", "<w:document/>" * 999)
    (docs / "truncated.docx").write_bytes((docs / "truncated.docx").read_bytes()[:60])
    (docs / "empty.md").touch()
    (docs / "blank.txt").write_text(" \n\t\n")
    (docs / "movie.mp4").write_bytes(b"\x00\x01")
    os.mkfifo(docs / "pipe.md")
    expected = {
        "latin.txt": "indexed",
        "broken.pdf": "failed",
        "truncated.docx": "failed",
        "empty.md": "skipped",
        "blank.txt": "skipped",
        "movie.mp4": "skipped",
        "pipe.md": "skipped",
    }
    if os.getuid():
        (docs / "secret.md").write_text("text")
        (docs / "secret.md").chmod(0)
        expected["secret.md"] = "failed"
    pipeline = open_pipeline()
    found = {result.uri.rsplit("/", 1)[-1]: result for result in results(pipeline, docs)}
    for name, status in expected.items():
        assert found[name].status == status, found[name]
        assert bool(found[name].reason) == (status != "indexed"), found[name]
    assert [name for name, result in found.items() if result.status == "indexed" and name not in expected] == sorted(
        f"good-{number}.md" for number in range(50)
    )
    told = {problem.uri.rsplit("/", 1)[-1] for problem in pipeline.catalog.problems(pipeline.collection)}
    assert told == {name for name, status in expected.items() if status != "indexed"}
    assert_consistent(pipeline)


def test_br_21_a_file_that_vanishes_during_the_run_is_told(open_pipeline: Open, docs: Path) -> None:
    for name in ("a.md", "b.md", "c.md"):
        (docs / name).write_text(facts(1, name))
    pipeline = open_pipeline()
    seen = [*discover([docs])]
    (docs / "b.md").unlink()
    found = [item for item in pipeline.run([docs], items=seen) if isinstance(item, FileResult)]
    assert {result.uri.rsplit("/", 1)[-1]: result.status for result in found} == {
        "a.md": "indexed",
        "b.md": "failed",
        "c.md": "indexed",
    }
    assert [result.reason for result in found if result.status == "failed"] == ["it vanished during the run"]
    assert_consistent(pipeline)


def test_a_broken_save_keeps_the_version_that_there_was(open_pipeline: Open, docs: Path) -> None:
    (docs / "a.pdf").write_text("<html><body><p>A page of words that are kept.</p></body></html>")
    pipeline = open_pipeline()
    results(pipeline, docs)
    before = texts_of(pipeline)
    (docs / "a.pdf").write_bytes(b"%PDF-1.7 half")
    assert statuses(pipeline, docs) == {"a.pdf": "failed"}
    assert texts_of(pipeline) == before
    assert_consistent(pipeline)


def test_a_file_that_is_empty_now_answers_no_more(open_pipeline: Open, docs: Path) -> None:
    (docs / "a.md").write_text(facts(3))
    (docs / "b.md").write_text(facts(1, "other"))
    pipeline = open_pipeline()
    results(pipeline, docs)
    (docs / "a.md").write_text("\n")
    first, _ = results(pipeline, docs)
    assert first.status == "skipped"
    assert first.reason == "it has no text; its earlier version was removed"
    assert {*texts_of(pipeline)} == {"b.md"}
    assert_consistent(pipeline)


def test_a_problem_is_forgotten_when_its_file_is_mended_or_gone(open_pipeline: Open, docs: Path) -> None:
    for name in ("mended.pdf", "gone.pdf"):
        (docs / name).write_bytes(b"%PDF-1.7 broken")
    pipeline = open_pipeline()
    results(pipeline, docs)
    assert len(pipeline.catalog.problems(pipeline.collection)) == 2
    (docs / "mended.pdf").write_text("<html><body><p>A page of words that can be read.</p></body></html>")
    (docs / "gone.pdf").unlink()
    results(pipeline, docs)
    assert pipeline.catalog.problems(pipeline.collection) == []


def test_odd_names_are_indexed_and_known_again(open_pipeline: Open, docs: Path) -> None:
    names = [
        "with space.md",
        "100%.md",
        "a#b?c.md",
        "line\nbreak.md",
        unicodedata.normalize("NFC", "Größe.md"),
        unicodedata.normalize("NFD", "Größe.md"),
        "x" * 252 + ".md",
        os.fsdecode(b"not-utf8-\xff.md"),
    ]
    for name in names:
        (docs / name).write_text(facts(1, str(names.index(name))))
    pipeline = open_pipeline()
    assert [*statuses(pipeline, docs).values()] == ["indexed"] * len(names)
    assert [*statuses(pipeline, docs).values()] == ["unchanged"] * len(names)
    titles = {document.title for document in pipeline.catalog.documents(pipeline.collection)}
    assert {"line break.md", "not-utf8-\ufffd.md", unicodedata.normalize("NFC", "Größe.md")} <= titles
    assert_consistent(pipeline)


def test_a_copy_of_a_file_whose_name_is_not_utf8_takes_nothing_from_it(open_pipeline: Open, docs: Path) -> None:
    original = docs / os.fsdecode(b"a-\xff.md")
    original.write_text(facts(2))
    pipeline = open_pipeline()
    results(pipeline, docs)
    shutil.copy(original, docs / "b.md")
    results(pipeline, docs)
    assert len({document.id for document in pipeline.catalog.documents(pipeline.collection)}) == 2
    assert [*statuses(pipeline, docs).values()] == ["unchanged", "unchanged"]
