"""The whole app in this process, its lifespan run: real Chroma, real MiniLM, every middleware; the model is scripted.

In: `home` and `fake_server` of tests/conftest.py. Out: `app`, one for a module, in the module's event loop. Must not: be asked
from another loop.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from fastapi import FastAPI

from rag_service.app import create_app
from rag_service.settings import Settings
from tests.support.fake_vllm import FakeVllm


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(home: Path, fake_server: FakeVllm) -> AsyncIterator[FastAPI]:
    settings = Settings.model_validate({"home": home, "llm": {"base_url": fake_server.base_url}})
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        yield app
