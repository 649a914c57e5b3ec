"""The index under a running service is deleted, made anew, rebuilt, or loses its vectors: no restart is needed."""

import shutil
from pathlib import Path

import httpx2

from tests.e2e.routes import refused
from tests.support.fake_vllm import FakeVllm
from tests.support.service import ingested, run_ingest, running_service

ANNA = "The badger called Anna weighs 12 kilograms."
OTTO = "The otter called Otto eats 3 trout a day."


def titles(client: httpx2.Client, question: str) -> set[str]:
    found = client.post("/retrieve", json={"question": question}).raise_for_status().json()["sources"]
    return {source["title"] for source in found}


def test_br_34_an_index_that_is_deleted_and_made_anew_is_found_without_a_restart(
    tmp_path: Path, fake: FakeVllm
) -> None:
    home = ingested(tmp_path, {"anna.txt": ANNA})
    documents = tmp_path / "documents"
    with running_service(home, fake.base_url) as url, httpx2.Client(base_url=url, timeout=60) as client:
        assert titles(client, ANNA) == {"anna.txt"}
        shutil.rmtree(home)
        lost = refused(client.post("/retrieve", json={"question": ANNA}), 503, "catalog_unavailable")
        assert "rag-ingest run" in lost["message"]
        assert client.get("/ready").status_code == 503
        (documents / "otto.txt").write_text(OTTO)
        (documents / "anna.txt").unlink()
        again = run_ingest(home, "run", str(documents))
        assert again.returncode == 0, again.stderr
        assert titles(client, OTTO) == {"otto.txt"}
        assert titles(client, ANNA) == {"otto.txt"}
        assert client.get("/ready").status_code == 200

        (documents / "anna.txt").write_text(ANNA)
        for command in (["run", str(documents)], ["rebuild"]):  # what is written later comes through, too
            done = run_ingest(home, *command)
            assert done.returncode == 0, done.stderr
            assert titles(client, ANNA) == {"anna.txt", "otto.txt"}

        shutil.rmtree(home / "chroma")
        mended = run_ingest(home, "verify", "--repair")
        assert mended.returncode == 0, mended.stdout + mended.stderr
        assert '"vectors_missing"' in mended.stdout
        assert titles(client, ANNA) == {"anna.txt", "otto.txt"}
