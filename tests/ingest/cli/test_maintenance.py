"""`rag-ingest verify`, `rebuild` and `compact` as people and programs call them."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.cli import FAILED, UNUSABLE
from rag_service.index.catalog import Catalog
from rag_service.index.settings import ChromaSettings
from rag_service.index.vector_store import VectorStore
from rag_service.local.chroma import chroma_server
from tests.ingest.cli.test_terminal import on_terminal
from tests.support.ingest_cli import COLLECTION, lock_held, uris
from tests.support.service import run_ingest

COMMANDS = ("verify", "rebuild", "compact")


def lines(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def verdict(home: Path, *arguments: str, code: int) -> dict[str, Any]:
    """Of `rag-ingest verify`, its last line."""
    done = run_ingest(home, "verify", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = lines(done.stdout)[-1]["verdict"]
    return found


def kinds(findings: list[dict[str, Any]]) -> dict[str, int]:
    return {found["kind"]: found["count"] for found in findings}


def version_of(home: Path, name: str) -> str:
    catalog = Catalog(home / "catalog.sqlite3")
    (version,) = [one.version for one in catalog.documents(COLLECTION) if one.title == name]
    catalog.close()
    return version


def damage_chroma(home: Path, lost: str) -> None:
    """The vectors of one document are deleted, and two of nobody are put there."""
    catalog = Catalog(home / "catalog.sqlite3")
    place = catalog.place(COLLECTION)
    catalog.close()
    with chroma_server(home) as url:
        store = VectorStore(ChromaSettings(), lambda: url)
        store.open_collection(COLLECTION, place)
        store.delete_version(COLLECTION, version_of(home, lost))
        store.upsert(COLLECTION, ["x1", "x2"], ["elsewhere"] * 2, np.eye(2, 384, dtype=np.float32))
        store.close()


def damage_catalog(home: Path, statement: str, version: str) -> None:
    connection = sqlite3.connect(home / "catalog.sqlite3")
    assert connection.execute(statement, (version,)).rowcount == 1
    connection.commit()
    connection.close()


def test_damage_made_by_hand_is_told_mended_and_gone(home: Path) -> None:
    sound = verdict(home, code=0)
    assert (sound["documents"], sound["chunks"], sound["vectors"], sound["sampled"]) == (3, 3, 3, 3)
    assert sound["findings"] == sound["mended"] == []
    damage_chroma(home, "leave.md")
    sick = version_of(home, "sick [draft].md")
    damage_catalog(home, "DELETE FROM fulltext_1 WHERE rowid IN (SELECT rowid FROM chunks WHERE version = ?)", sick)
    expected = {"vectors_missing": 1, "vectors_dead": 2, "chunks_wrong": 1}
    for _ in range(2):  # looking changes nothing
        found = verdict(home, code=FAILED)["findings"]
        assert kinds(found) == expected
    assert all("rag-ingest verify --repair" in one["remedy"] and one["meaning"] for one in found)
    assert {example.rsplit("/", 1)[-1] for one in found for example in one["examples"]} == {
        "leave.md",
        "sick%20%5Bdraft%5D.md",
        "x1",
        "x2",
    }
    code, text = on_terminal(home, "verify", "--sample", "0")
    assert code == FAILED
    assert "Comparing catalog and Chroma" in text
    assert "Looking for documents" not in text
    assert re.search(r"1 +chunks without a vector in Chroma +`rag-ingest verify --repair` makes them anew", text)
    assert re.search(r"2 +vectors in Chroma that belong to no document", text)
    mended = verdict(home, "--repair", code=0)
    assert mended["findings"] == []
    assert kinds(mended["mended"]) == expected
    assert verdict(home, code=0) == sound


def test_a_text_that_is_lost_needs_its_file_again(home: Path, corpus: Path) -> None:
    damage_catalog(home, "DELETE FROM versions WHERE id = ?", version_of(home, "leave.md"))
    code, text = on_terminal(home, "verify", "--repair")
    assert code == FAILED
    assert re.search(r"1 +documents whose text is lost", text)
    assert "rag-ingest run" in text
    assert len(uris(home)) == 2
    assert run_ingest(home, "run", str(corpus / "hr")).returncode == 0
    assert verdict(home, code=0)["documents"] == 3


def test_a_rebuild_with_other_chunks_and_a_compaction_of_it(home: Path, corpus: Path) -> None:
    done = run_ingest(home, "rebuild", CHUNKS__MAX_TOKENS="16")
    assert done.returncode == 0, done.stderr
    plan, rebuilt = lines(done.stdout)
    assert plan["plan"].pop("seconds") >= 0
    assert plan == {"plan": {"documents": 3, "chunks": 3, "to_embed": 3, "cut_anew": True, "model": "all-MiniLM-L6-v2"}}
    assert rebuilt == {"rebuilt": {"documents": 3, "chunks": 3, "embedded": 3, "kept": 0}}
    again = run_ingest(home, "run", str(corpus / "hr"), CHUNKS__MAX_TOKENS="16")
    assert lines(again.stdout)[-1]["summary"]["unchanged"] == 2
    code, text = on_terminal(home, "rebuild")
    assert code == 0
    assert "3 documents, 3 chunks to be cut anew and embedded with all-MiniLM-L6-v2, about" in text
    assert "Rebuilt: 3 documents, 3 chunks; 3 embedded now." in text
    assert run_ingest(home, "delete", str(corpus / "hr" / "leave.md")).returncode == 0
    compacted = run_ingest(home, "compact")
    assert compacted.returncode == 0, compacted.stderr
    (told,) = lines(compacted.stdout)
    assert (told["compacted"]["undone"], told["compacted"]["notes"]) == ([], [])
    assert told["compacted"]["before"] > 0 < told["compacted"]["after"]
    code, text = on_terminal(home, "compact")
    assert code == 0
    assert re.search(r"RAG_HOME took [\d.]+ MB before and takes [\d.]+ MB now\.", text)
    assert "What was deleted is gone from all its files." in text
    assert verdict(home, code=0)["documents"] == 2


def test_a_compaction_says_what_it_cannot_do(home: Path, corpus: Path) -> None:
    """Vectors that were deleted in other collections stay in Chroma's files until those are copied, too."""
    other = run_ingest(home, "run", str(corpus / "hr"), COLLECTION="hr")
    assert other.returncode == 0, other.stderr
    done = run_ingest(home, "compact", "--json")
    assert done.returncode == 0, done.stderr
    (note,) = lines(done.stdout)[-1]["compacted"]["notes"]
    assert "RAG_COLLECTION" in note
    assert note.endswith(": hr.")
    code, text = on_terminal(home, "compact", COLLECTION="hr")
    assert code == 0
    assert "gone from all its files" not in text
    assert "RAG_COLLECTION" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_without_an_index_each_says_how_to_make_one_and_makes_none(tmp_path: Path, command: str) -> None:
    done = run_ingest(tmp_path / "home", command)
    assert done.returncode == UNUSABLE
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "rag-ingest run FOLDER" in done.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_without_the_collection_each_says_what_to_check(home: Path, command: str) -> None:
    done = run_ingest(home, command, COLLECTION="nobodys")
    assert done.returncode == UNUSABLE
    assert done.stdout == ""
    assert "'nobodys'" in done.stderr
    assert "RAG_COLLECTION" in done.stderr


def test_br_02_while_another_run_writes_each_names_it_and_does_nothing(home: Path) -> None:
    with lock_held(home) as other:
        for command in COMMANDS:
            done = run_ingest(home, command)
            assert done.returncode == UNUSABLE
            assert done.stdout == ""
            assert len(done.stderr.splitlines()) == 1
            assert f"process {other.pid}" in done.stderr
            assert "--wait" in done.stderr
