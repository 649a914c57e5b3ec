"""An empty catalog."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_service.index.catalog_writer import CatalogWriter
from tests.support.catalog_rows import COLLECTION, OURS


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[CatalogWriter]:
    writer = CatalogWriter(tmp_path / "catalog.sqlite3")
    writer.open_collection(COLLECTION, OURS)
    yield writer
    writer.close()
