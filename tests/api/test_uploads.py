"""Uploads by hand: nothing of them blocks the event loop, and a client that leaves halfway leaves nothing behind."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from blockbuster import blockbuster_ctx
from fastapi import FastAPI

from rag_service.app import create_app
from rag_service.settings import Settings
from tests.api.by_hand import HandClient
from tests.support.fake_vllm import FakeVllm

FORM = "multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="file"; filename="otter.md"\r\n\r\n'
OTTER = b"The otter called Otto eats 3 trout a day. " * 10


@pytest_asyncio.fixture
async def app(tmp_path: Path, fake_server: FakeVllm) -> AsyncIterator[FastAPI]:
    """The whole app over a home without an index."""
    settings = Settings.model_validate({"home": tmp_path / "home", "llm": {"base_url": fake_server.base_url}})
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        yield app


async def told(app: FastAPI, method: str, path: str, status: int) -> Any:
    client = await HandClient(app, path, method=method).start()
    await client.finished()
    assert client.status == status, client.body
    return json.loads(client.body) if client.body else None


async def test_br_08_an_upload_its_job_and_the_lists_do_not_block_the_event_loop(app: FastAPI) -> None:
    with blockbuster_ctx(["rag_service"]):
        body = PART + OTTER * 5000 + b"\r\n--x--\r\n"  # more than is kept in memory
        client = await HandClient(app, "/documents", body[:900_000] + body[-9:], content_type=FORM).start()
        await client.finished()
        assert client.status == 202, client.body
        job = {"status": "queued"}
        while job["status"] not in ("done", "failed"):
            job = await told(app, "GET", json.loads(client.body)["status_url"], 200)
        [document] = job["documents"]  # type: ignore[misc]  any JSON
        assert document["status"] == "indexed", job
        assert (await told(app, "GET", "/documents", 200))["total"] == 1
        assert (await told(app, "GET", "/problems", 200))["total"] == 0
        assert len((await told(app, "GET", "/jobs", 200))["jobs"]) == 1
        await told(app, "DELETE", f"/documents/{document['document_id']}", 204)
        assert (await told(app, "GET", "/documents", 200))["total"] == 0


async def test_a_client_that_leaves_halfway_leaves_no_job(app: FastAPI, tmp_path: Path) -> None:
    client = await HandClient(app, "/documents", PART + OTTER, content_type=FORM, more_body=True).start()
    client.leave()
    await client.finished()
    assert (await told(app, "GET", "/jobs", 200)) == {"jobs": []}
    assert not (tmp_path / "home" / "uploads").exists()
