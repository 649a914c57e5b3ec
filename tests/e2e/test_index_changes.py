"""What `rag-ingest` does in its own process is seen by the running service at the next question."""

from pathlib import Path

import httpx2

from tests.e2e.routes import GROUNDED, refused
from tests.support.fake_vllm import FakeVllm
from tests.support.service import run_ingest

ANNA = "The badger called Anna weighs 12 kilograms."
ANNA_HEAVIER = "The badger called Anna weighs 14 kilograms."
OTTO = "The otter called Otto eats 3 trout a day."
ABOUT_ANNA = "How many kilograms does the badger called Anna weigh?"
ABOUT_OTTO = "How many trout does the otter called Otto eat?"


def passages(client: httpx2.Client, question: str) -> str:
    """All the text that the model would be given, the same on every route."""
    asked = {"question": question, "collection": "zoo"}
    sources = client.post("/retrieve", json=asked).raise_for_status().json()["sources"]
    for route in GROUNDED:
        form = {**route.request(question)}
        form["json"] = {**asked, "stream": route.streamed}
        response = client.post(form["url"], json=form["json"], headers=form["headers"])
        assert response.status_code == 200
        for source in sources:
            assert source["chunk_id"] in response.text
    return "\n".join(source["text"] for source in sources)


def test_br_01_the_running_service_sees_what_is_added_edited_and_deleted(
    client: httpx2.Client, fake: FakeVllm, home: Path, tmp_path: Path
) -> None:
    def ingest() -> None:
        done = run_ingest(home, "run", str(tmp_path), "--yes", COLLECTION="zoo")
        assert done.returncode == 0, done.stdout + done.stderr

    refused(client.post("/retrieve", json={"question": ABOUT_ANNA, "collection": "zoo"}), 404, "not_found")
    (tmp_path / "anna.txt").write_text(ANNA)
    ingest()
    assert ANNA in passages(client, ABOUT_ANNA)
    assert passages(client, ABOUT_OTTO).count("trout") == 0

    (tmp_path / "otto.txt").write_text(OTTO)
    (tmp_path / "anna.txt").write_text(ANNA_HEAVIER)
    ingest()
    assert OTTO in passages(client, ABOUT_OTTO)
    edited = passages(client, ABOUT_ANNA)
    assert ANNA_HEAVIER in edited
    assert ANNA not in edited

    stale = client.post("/retrieve", json={"question": ABOUT_ANNA, "collection": "zoo"}).json()["sources"][0]
    (tmp_path / "anna.txt").unlink()
    ingest()
    assert "Anna" not in passages(client, ABOUT_ANNA)
    assert OTTO in passages(client, ABOUT_OTTO)
    refused(client.get(stale["url"]), 404, "not_found")
    fake.requests.clear()
