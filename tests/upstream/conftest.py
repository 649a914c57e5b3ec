"""A fake vLLM on a real socket, and clients of it."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from rag_service.settings import LlmSettings
from rag_service.upstream import Upstream, client_session
from tests.support.fake_vllm import (
    FakeVllm,
)
from tests.support.upstream_reader import Connect


@pytest.fixture
async def fake() -> AsyncIterator[FakeVllm]:
    async with FakeVllm() as server:
        yield server


@pytest.fixture
async def connect(fake: FakeVllm) -> AsyncIterator[Connect]:
    """Upstreams of the fake; keyword arguments are LLM settings."""
    async with contextlib.AsyncExitStack() as stack:
        sessions: list[aiohttp.ClientSession] = []

        def make(*, flush_interval_s: float = 0.0, base_url: str | None = None, **values: Any) -> Upstream:
            settings = LlmSettings.model_validate(values)
            session = client_session(settings)
            stack.push_async_callback(session.close)
            sessions.append(session)
            return Upstream(session, base_url or fake.base_url, settings, flush_interval_s)

        yield make
