"""One Chroma server for all tests of maintenance, and an index on it for each."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ingest.maintenance.index import Index
from ingest.pipeline import Pipeline
from rag_service.local.chroma import chroma_server
from tests.ingest.maintenance.parts import index_on
from tests.support.ingest_parts import HashEmbedder, facts, pipeline_on, results

OpenIndex = Callable[..., Index]
OpenPipeline = Callable[..., Pipeline]


@pytest.fixture(scope="session")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma_server(tmp_path_factory.mktemp("chroma")) as url:
        yield url


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """10 + 3 chunks, and a copy of the latter."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text(facts(10, "10 EUR"))
    (folder / "b.md").write_text(facts(3, "7 EUR"))
    (folder / "copy.md").write_text(facts(3, "7 EUR"))
    return folder


@pytest.fixture
def collection(request: pytest.FixtureRequest) -> str:
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[:90].strip("-")


@pytest.fixture
def open_pipeline(chroma: str, tmp_path: Path, collection: str) -> Iterator[OpenPipeline]:
    with ExitStack() as stack:

        def opened(model: HashEmbedder | None = None, max_tokens: int = 8) -> Pipeline:
            opening = pipeline_on(tmp_path / "home", chroma, collection, model or HashEmbedder(), max_tokens=max_tokens)
            return stack.enter_context(opening)

        yield opened


@pytest.fixture
def open_index(
    chroma: str, tmp_path: Path, collection: str, docs: Path, open_pipeline: OpenPipeline
) -> Iterator[OpenIndex]:
    """Opens the index of the documents, for maintenance."""
    results(open_pipeline(), docs)
    with ExitStack() as stack:

        def opened(model: HashEmbedder | None = None, max_tokens: int = 8) -> Index:
            return stack.enter_context(
                index_on(tmp_path / "home", chroma, collection, model or HashEmbedder(), max_tokens=max_tokens)
            )

        yield opened
