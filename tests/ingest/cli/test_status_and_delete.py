"""`rag-ingest status` and `rag-ingest delete`, and an index that is damaged or not there."""

import json
import re
from pathlib import Path

from ingest.cli import UNUSABLE, USAGE
from rag_service.index.catalog import Catalog
from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.settings import EmbeddingsSettings
from tests.support.ingest_cli import COLLECTION, parse, uris
from tests.support.service import run_ingest


def test_status_tells_what_is_in_the_index_and_what_is_not(home: Path, corpus: Path) -> None:
    done = run_ingest(home, "status", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["collection"] == COLLECTION
    assert facts["home"] == str(home)
    assert (facts["documents"], facts["versions"], facts["chunks"]) == (3, 3, 3)
    assert facts["bytes"] > 0
    assert facts["embedding_model"] == "all-MiniLM-L6-v2"
    assert facts["fingerprint"] == EmbeddingModel(EmbeddingsSettings()).fingerprint.id
    assert facts["last_run"].endswith("+00:00")
    assert re.fullmatch(r"rag-service [\d.]+, chromadb [\d.]+", facts["made_with"]), "BR-85: who filled the index"
    assert [(problem["uri"], problem["status"]) for problem in facts["problems"]] == [
        ((corpus / "broken.pdf").as_uri(), "failed"),
        ((corpus / "film.mp4").as_uri(), "skipped"),
    ]
    assert facts["uris"] == uris(home)
    assert facts["unread_pages"] == 0


def test_status_without_an_index_says_how_to_make_one(tmp_path: Path) -> None:
    done = run_ingest(tmp_path / "home", "status")
    assert done.returncode == UNUSABLE
    assert "rag-ingest run FOLDER" in done.stderr
    assert not (tmp_path / "home").exists()


def test_an_index_that_is_damaged_is_told(home: Path, corpus: Path) -> None:
    (home / "catalog.sqlite3").write_bytes(b"no database" * 500)
    for arguments in (["status"], ["run", str(corpus)]):
        done = run_ingest(home, *arguments)
        assert done.returncode == UNUSABLE
        assert "not a database" in done.stderr
        assert "Traceback" not in done.stderr


def test_delete_takes_paths_folders_uris_and_ids(home: Path, corpus: Path) -> None:
    catalog = Catalog(home / "catalog.sqlite3")
    ids = {document.uri: document.id for document in catalog.documents(COLLECTION)}
    catalog.close()
    leave, sick, vpn = sorted(ids)
    by_id = run_ingest(home, "delete", ids[leave])
    assert by_id.returncode == 0, by_id.stderr
    lines, summary = parse(by_id.stdout)
    assert [(line["uri"], line["status"]) for line in lines] == [(leave, "deleted")]
    assert {name: count for name, count in summary.items() if count} == {"deleted": 1}
    assert uris(home) == [sick, vpn]
    by_folder = run_ingest(home, "delete", (corpus / "hr").as_uri(), str(corpus / "hr" / "sick [draft].md"))
    assert [line["uri"] for line in parse(by_folder.stdout)[0]] == [sick]
    by_uri = run_ingest(home, "delete", vpn)
    assert [line["uri"] for line in parse(by_uri.stdout)[0]] == [vpn]
    assert uris(home) == []


def test_an_unknown_target_is_refused_before_anything_is_deleted(home: Path, corpus: Path) -> None:
    before = uris(home)
    for target in ("file:///no/such/file.md", "", str(corpus / "film.mp4")):
        done = run_ingest(home, "delete", str(corpus / "hr"), target)
        assert done.returncode == USAGE, (target, done.stderr)
        assert "Nothing was deleted" in done.stderr
        assert done.stdout == ""
    assert uris(home) == before
