"""`rag-ingest run` as people and programs use it: output, exit codes, models."""

import json
import shutil
from pathlib import Path

from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from ingest.cli import FAILED, UNUSABLE, USAGE
from rag_service.index.catalog import Catalog
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.settings import EmbeddingsSettings
from tests.support.ingest_cli import COLLECTION, parse, uris
from tests.support.service import run_ingest

RESULT_KEYS = ["uri", "status", "reason", "chunks", "seconds"]
THINGS = ("Boats", "Oars", "Sails", "Ropes", "Lamps", "Bells", "Flags", "Nets", "Hooks", "Planks")  # one for a page
NOTHING = dict.fromkeys(
    ["indexed", "updated", "unchanged", "skipped", "failed", "deleted", "restored", "ignored", "chunks"], 0
)  # a summary


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
    assert summary == NOTHING | {"indexed": 3, "skipped": 1, "failed": 1, "chunks": 3}


def test_an_unchanged_folder_needs_no_model_and_skips_alone_give_exit_code_0(home: Path, corpus: Path) -> None:
    # The model would fail on this device, so it was not loaded.
    done = run_ingest(home, "run", str(corpus / "hr"), str(corpus / "film.mp4"), EMBEDDINGS__DEVICE="no-such-device")
    assert done.returncode == 0, done.stderr
    assert parse(done.stdout)[1] == NOTHING | {"unchanged": 2, "skipped": 1}


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
    lines, summary = parse(done.stdout)
    restored = [line for line in lines if line["status"] == "restored"]
    assert len(restored) == 3
    files = [line["uri"] for line in lines if line["status"] != "restored"]
    assert len(files) == len({*files}), "each file is told once, whatever was made anew"
    assert (summary["restored"], summary["updated"]) == (3, 0)
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
    assert "`rag-ingest rebuild`" in done.stderr
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


def test_br_11_the_run_and_the_status_tell_which_pages_have_no_text(tmp_path: Path) -> None:
    docs, home = tmp_path / "docs", tmp_path / "home"
    docs.mkdir()
    for name, texts in (("mixed", 10), ("scan", 0), ("stamped", 0)):
        canvas = Canvas(str(docs / f"{name}.pdf"), pagesize=(595, 842))
        for n in range(30 if texts else 2):
            if n >= texts:
                canvas.drawImage(ImageReader(Image.new("L", (20, 20), 128)), 0, 0, 595, 842)
            if n < texts or name == "stamped":
                canvas.drawString(72, 760, "DRAFT" if name == "stamped" else f"{THINGS[n]} are kept in the shed.")
            canvas.showPage()
        canvas.save()
    done = run_ingest(home, "run", str(docs), OCR__ENABLED="false")
    assert done.returncode == 0, done.stderr
    lines, summary = parse(done.stdout)
    told = {line["uri"].rsplit("/", 1)[-1]: (line["status"], line["reason"]) for line in lines}
    off = "OCR is off: RAG_OCR__ENABLED"
    assert told["mixed.pdf"] == ("indexed", f"20 of 30 pages have no text ({off})")
    assert told["scan.pdf"] == ("skipped", f"no extractable text: 2 of 2 pages have no text ({off})")
    assert told["stamped.pdf"][1] == f"2 of 2 pages have hardly any text beside a full-page image ({off})"
    assert (summary["indexed"], summary["skipped"]) == (2, 1)
    facts = json.loads(run_ingest(home, "status", "--json").stdout)
    assert facts["unread_pages"] == 22
    assert [problem["reason"] for problem in facts["problems"]] == [told["scan.pdf"][1]]


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


def test_a_dry_run_needs_no_model_and_writes_nothing(home: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "new.md").write_text("New words.\n")
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    arguments = ["run", str(corpus), str(tmp_path / "new.md"), "--dry-run", "--metadata", "team=hr"]
    done = run_ingest(home, *arguments, EMBEDDINGS__DEVICE="no-such-device")
    assert done.returncode == 0, done.stderr
    lines, summary = parse(done.stdout)
    assert {line["uri"].rsplit("/", 1)[-1]: line["status"] for line in lines} == {
        "broken.pdf": "failed",
        "film.mp4": "skipped",
        "leave.md": "updated",
        "new.md": "indexed",
        "sick%20%5Bdraft%5D.md": "updated",
        "vpn%20100%25.md": "updated",
    }
    assert summary == NOTHING | {
        "indexed": 1,
        "updated": 3,
        "skipped": 1,
        "failed": 1,
        "bytes": len("New words.\n"),
        "dry_run": True,
    }
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    nowhere = run_ingest(tmp_path / "no-home", *arguments, EMBEDDINGS__DEVICE="no-such-device")
    assert nowhere.returncode == 0, nowhere.stderr
    assert parse(nowhere.stdout)[1]["indexed"] == 5
    assert not (tmp_path / "no-home").exists()


def test_quiet_tells_what_failed_and_the_summary(home: Path, corpus: Path) -> None:
    done = run_ingest(home, "run", str(corpus), "--quiet", "--metadata", "team=hr", EMBEDDINGS__DEVICE="no-such-device")
    assert done.returncode == FAILED, done.stderr
    lines, summary = parse(done.stdout)
    assert [line["uri"] for line in lines] == [(corpus / "broken.pdf").as_uri()]
    assert summary == NOTHING | {"updated": 3, "skipped": 1, "failed": 1}


def test_br_19_a_path_that_is_gone_is_told_and_deleted_only_with_yes(home: Path, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "later gone"
    folder.mkdir()
    (folder / "leave.md").write_bytes((corpus / "hr" / "leave.md").read_bytes())  # equal content costs no model
    (folder / "sick.md").write_bytes((corpus / "hr" / "sick [draft].md").read_bytes())
    run_ingest(home, "run", str(folder))
    before = uris(home)
    shutil.rmtree(folder)
    kept = run_ingest(home, "run", str(folder))
    assert kept.returncode == FAILED, kept.stderr
    (line,), _ = parse(kept.stdout)
    assert (line["uri"], line["status"]) == (folder.as_uri(), "failed")
    assert "no such file or folder now" in line["reason"]
    assert "--yes" in line["reason"]
    assert uris(home) == before
    one = run_ingest(home, "run", str(folder / "sick.md"), "--yes")
    assert one.returncode == 0, one.stderr
    assert parse(one.stdout)[1]["deleted"] == 1
    rest = run_ingest(home, "run", str(folder), "--yes")
    assert rest.returncode == 0, rest.stderr
    assert [uri for uri in before if uri not in uris(home)] == [
        (folder / name).as_uri() for name in ("leave.md", "sick.md")
    ]
    unknown = run_ingest(home, "run", str(folder), "--yes")
    assert unknown.returncode == USAGE
    assert "does not exist" in unknown.stderr
