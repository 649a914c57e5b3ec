"""`rag-ingest run` as people and programs use it: output, exit codes, models."""

import shutil
from pathlib import Path

from ingest.cli import FAILED, UNUSABLE
from rag_service.index.catalog import Catalog
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.settings import EmbeddingsSettings
from tests.support.ingest_cli import COLLECTION, parse, uris
from tests.support.service import run_ingest

RESULT_KEYS = ["uri", "status", "reason", "chunks", "seconds"]


def test_results_are_json_lines_of_one_schema_and_a_bad_file_gives_exit_code_1(first_run, corpus: Path) -> None:  # type: ignore[no-untyped-def]
    _, done = first_run
    assert done.returncode == FAILED, done.stderr
    assert done.stderr == ""
    lines, summary = parse(done.stdout)
    for line in lines:
        assert [*line] == [key for key in RESULT_KEYS if key != "reason" or "reason" in line]
    found = {line["uri"]: line for line in lines}
    assert {uri: line["status"] for uri, line in found.items()} == {
        (corpus / "broken.pdf").as_uri(): "failed",
        (corpus / "film.mp4").as_uri(): "skipped",
        (corpus / "hr" / "leave.md").as_uri(): "indexed",
        (corpus / "hr" / "sick [draft].md").as_uri(): "indexed",
        (corpus / "vpn 100%.md").as_uri(): "indexed",
    }
    assert found[(corpus / "film.mp4").as_uri()]["reason"] == "unsupported type .mp4"
    assert found[(corpus / "broken.pdf").as_uri()]["reason"]
    assert summary == {"indexed": 3, "unchanged": 0, "skipped": 1, "failed": 1, "deleted": 0, "chunks": 3}


def test_an_unchanged_folder_needs_no_model_and_skips_alone_give_exit_code_0(home: Path, corpus: Path) -> None:
    # The model would fail on this device, so it was not loaded.
    done = run_ingest(home, "run", str(corpus / "hr"), str(corpus / "film.mp4"), EMBEDDINGS__DEVICE="no-such-device")
    assert done.returncode == 0, done.stderr
    assert parse(done.stdout)[1] == {
        "indexed": 0,
        "unchanged": 2,
        "skipped": 1,
        "failed": 0,
        "deleted": 0,
        "chunks": 0,
    }


def test_a_model_that_fails_ends_the_run_with_exit_code_3_and_the_index_as_it_was(home: Path, tmp_path: Path) -> None:
    before = uris(home)
    (tmp_path / "new.md").write_text("New words.\n")
    done = run_ingest(home, "run", str(tmp_path / "new.md"), EMBEDDINGS__DEVICE="no-such-device")
    assert done.returncode == UNUSABLE
    assert "RAG_EMBEDDINGS__DEVICE" in done.stderr
    assert "Traceback" not in done.stderr
    assert uris(home) == before


def test_a_chroma_folder_that_was_deleted_is_made_anew(home: Path, corpus: Path) -> None:
    shutil.rmtree(home / "chroma")
    done = run_ingest(home, "run", str(corpus))
    restored = [line for line in parse(done.stdout)[0] if line["status"] == "indexed"]
    assert len(restored) == 3
    assert all("made anew" in line["reason"] for line in restored)


def test_br_22_another_model_is_refused_with_exit_code_3_and_nothing_changes(home: Path, corpus: Path) -> None:
    other = home.parent / "other-model"
    shutil.copytree(EmbeddingModel(EmbeddingsSettings()).folder, other)
    with (other / "tokenizer.json").open("a") as file:
        file.write(" ")
    before = uris(home)
    done = run_ingest(home, "run", str(corpus), EMBEDDINGS__MODEL=str(other))
    assert done.returncode == UNUSABLE
    assert done.stdout == ""
    assert "RAG_EMBEDDINGS__MODEL=all-MiniLM-L6-v2" in done.stderr
    assert "RAG_COLLECTION" in done.stderr
    assert uris(home) == before
    assert run_ingest(home, "run", str(corpus / "hr"), EMBEDDINGS__DEVICE="no-such-device").returncode == 0


def test_br_12_no_stored_chunk_passes_what_the_model_reads(tmp_path: Path) -> None:
    docs, home = tmp_path / "docs", tmp_path / "home"
    docs.mkdir()
    texts = {
        "english.txt": "The quick brown fox jumps over the lazy dog. " * 120,
        "german.md": "# Verantwortung\n"
        + "Donaudampfschifffahrtsgesellschaftskapitän übernimmt die Verantwortung. " * 50,
        "code.md": "```\n" + "def f(x):\n    return {'a': [x ** 2 for x in range(10)]}\n" * 60 + "```\n",
        "base64.txt": "QmFzZTY0IGlzIGEgZ3JvdXAgb2YgYmluYXJ5LXRvLXRleHQgZW5jb2Rpbmcgc2NoZW1lcw" * 30,
        "numbers.csv": "a,b,c\n" + "1234.56,7890.12,3.1415\n" * 120,
    }
    for name, text in texts.items():
        (docs / name).write_text(text)
    done = run_ingest(home, "run", str(docs), CHUNKS__MAX_TOKENS="1000")
    assert done.returncode == 0, done.stderr
    assert "RAG_CHUNKS__MAX_TOKENS is 1000, but all-MiniLM-L6-v2 reads no more than 254 tokens" in done.stderr
    model = EmbeddingModel(EmbeddingsSettings())
    catalog = Catalog(home / "catalog.sqlite3")
    for document in catalog.documents(COLLECTION):
        chunks = catalog.chunks_of(COLLECTION, document.version)
        assert len(chunks) > 1
        assert max(model.count_tokens([chunk.embedded_text for chunk in chunks])) <= model.max_tokens
    catalog.close()


def test_real_documents_are_indexed_or_skipped_with_a_reason_and_only_the_encrypted_one_fails(
    shared_documents: Path, tmp_path: Path
) -> None:
    """The largest ones are left out: they take minutes to embed."""
    docs, home = tmp_path / "docs", tmp_path / "home"
    large = ("handbook-872*", "government-report*", "german-maths*", "paper-14*", "encyclopedia*", "page-with-*")
    shutil.copytree(shared_documents, docs, ignore=shutil.ignore_patterns(*large))
    done = run_ingest(home, "run", str(docs))
    assert done.returncode == FAILED, done.stderr
    lines, _ = parse(done.stdout)
    assert len(lines) == sum(1 for _ in docs.iterdir())
    failed = {line["uri"].rsplit("/", 1)[-1]: line["reason"] for line in lines if line["status"] == "failed"}
    assert [*failed] == ["encrypted.pdf"]
    assert "encrypted" in failed["encrypted.pdf"]
    for line in lines:
        assert line["status"] in ("indexed", "skipped", "failed")
        assert line["chunks"] > 0 if line["status"] == "indexed" else line["reason"]
    again = run_ingest(home, "run", str(docs), EMBEDDINGS__DEVICE="no-such-device")
    statuses = {line["uri"]: line["status"] for line in lines}
    assert {line["uri"]: line["status"] for line in parse(again.stdout)[0]} == {
        uri: "unchanged" if status == "indexed" else status for uri, status in statuses.items()
    }
