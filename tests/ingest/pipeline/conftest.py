"""Pipelines on a real catalog and a real Chroma, one server for all tests here."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ingest.pipeline import Pipeline
from rag_service.local.chroma import chroma_server
from tests.support.ingest_parts import (
    HashEmbedder,
    pipeline_on,
)

Open = Callable[..., Pipeline]


@pytest.fixture(scope="session")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma_server(tmp_path_factory.mktemp("chroma")) as url:
        yield url


@pytest.fixture
def open_pipeline(chroma: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens pipelines on the test's own home and collection, each with a model of its own to count calls on."""
    with ExitStack() as stack:

        def opened(model: HashEmbedder | None = None, collection: str = "", max_tokens: int = 8) -> Pipeline:
            name = collection or "".join(c if c.isalnum() else "-" for c in request.node.name)[:90].strip("-")
            return stack.enter_context(
                pipeline_on(tmp_path / "home", chroma, name, model or HashEmbedder(), max_tokens=max_tokens)
            )

        yield opened


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder
