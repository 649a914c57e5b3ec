"""What is around the parts: a local model server that has died is followed to its new place; what is built is not collected."""

import asyncio
import gc
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from rag_service import app
from rag_service.__main__ import settled
from rag_service.errors import LocalServerFailed
from rag_service.local.server import ServerSpec, SharedServer
from rag_service.settings import LlmSettings, Settings
from rag_service.upstream import Upstream, client_session
from tests.support.fake_vllm import FakeVllm


class Moving(SharedServer):
    """A shared server that is lost once, and then is somewhere else."""

    def __init__(self, run_dir: Path, new_place: str) -> None:
        super().__init__(ServerSpec("moving", ("true",), "/", 1.0, "A server"), run_dir)
        self._new_place = new_place
        self.asked = 0

    def ensure(self) -> str:
        self.asked += 1
        if self.asked == 1:
            raise LocalServerFailed("It has died and does not start.")
        return self._new_place


async def test_a_local_model_server_is_followed_to_its_new_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "FOLLOW_S", 0.0)
    settings = LlmSettings()
    async with (
        FakeVllm(models=["old"]) as old,
        FakeVllm(models=["new"]) as new,
        client_session(settings) as session,
    ):
        upstream = Upstream(session, old.base_url, settings, 0.0)
        assert (await upstream.served_model()).id == "old"
        async with app.followed(Moving(tmp_path, new.base_url.removesuffix("/v1")), upstream):
            async with asyncio.timeout(10):
                while (await upstream.served_model()).id != "new":  # noqa: ASYNC110  nothing tells of a move
                    await asyncio.sleep(0)
        assert "follow-local-server" not in [task.get_name() for task in asyncio.all_tasks()]


def test_the_demo_model_gets_less_room_unless_somebody_says_how_much() -> None:
    assert app.llm_settings(Settings()).max_tokens == app.DEMO_ANSWER_TOKENS
    assert app.llm_settings(Settings(llm={"max_tokens": 500})).max_tokens == 500
    own = Settings(llm={"base_url": "http://127.0.0.1:1/v1"})
    assert app.llm_settings(own) == own.llm


@pytest.mark.parametrize(("told", "frozen"), [("complete", True), ("failed", False)])
async def test_what_was_built_is_out_of_the_collectors_sight_once_the_service_has_started(
    told: str, frozen: bool
) -> None:
    async def start(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": f"lifespan.startup.{told}"})

    async def nothing() -> Message:
        raise AssertionError("nobody asks")

    sent: list[str] = []

    async def send(message: Message) -> None:
        sent.append(message["type"])
        assert (gc.get_freeze_count() > before) == frozen  # before the server hears of it, and takes requests

    before, thresholds = gc.get_freeze_count(), gc.get_threshold()
    try:
        await settled(start)({"type": "lifespan"}, nothing, send)
        assert sent == [f"lifespan.startup.{told}"]
        assert (gc.get_threshold() != thresholds) == frozen
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
