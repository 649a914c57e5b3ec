"""Files for the tests of loaders: written on the spot, or the shared real documents where a checkout has them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.documents import LoadedDocument, load

SHARED_DOCUMENTS = Path(__file__).resolve().parents[3] / "shared" / "documents"

LoadBytes = Callable[[str, bytes], LoadedDocument]
LoadShared = Callable[[str], LoadedDocument]


@pytest.fixture
def shared_documents() -> Path:
    """The folder of real documents; they are read from there and never copied."""
    if not SHARED_DOCUMENTS.is_dir():
        pytest.skip(f"the shared test documents are not at {SHARED_DOCUMENTS}")
    return SHARED_DOCUMENTS


@pytest.fixture
def load_shared(shared_documents: Path) -> LoadShared:
    return lambda name: load(shared_documents / name)


@pytest.fixture
def load_bytes(tmp_path: Path) -> LoadBytes:
    """Write bytes under a name and load them."""

    def load_them(name: str, data: bytes) -> LoadedDocument:
        path = tmp_path / name
        path.write_bytes(data)
        return load(path)

    return load_them
