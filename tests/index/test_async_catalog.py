"""The catalog for the service: not there yet, there, replaced, closed."""

import shutil
from pathlib import Path

import pytest

from rag_service.errors import CatalogUnavailable
from rag_service.index.async_catalog import AsyncCatalog
from rag_service.index.catalog import Catalog
from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.fingerprint import Fingerprint


def make(path: Path, collection: str) -> None:
    writer = CatalogWriter(path)
    writer.open_collection(collection, Fingerprint("m", "w", 2))
    writer.close()


async def test_a_catalog_that_is_made_later_is_found(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite3"
    catalog = AsyncCatalog(path)
    with pytest.raises(CatalogUnavailable, match="rag-ingest run FOLDER"):
        await catalog.read(Catalog.collections)
    assert not path.exists()
    make(path, "first")
    assert await catalog.read(Catalog.collections) == ["first"]
    await catalog.close()


async def test_what_is_written_meanwhile_is_seen_at_once(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite3"
    make(path, "first")
    catalog = AsyncCatalog(path)
    assert await catalog.read(Catalog.collections) == ["first"]
    make(path, "second")
    assert await catalog.read(Catalog.collections) == ["first", "second"]
    await catalog.close()


async def test_a_deleted_catalog_is_missed_and_a_new_one_in_its_place_is_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    path = home / "catalog.sqlite3"
    make(path, "old")
    catalog = AsyncCatalog(path, threads=1)
    assert await catalog.read(Catalog.collections) == ["old"]
    shutil.rmtree(home)
    with pytest.raises(CatalogUnavailable):
        await catalog.read(Catalog.collections)
    home.mkdir()
    make(path, "new")
    assert await catalog.read(Catalog.collections) == ["new"]
    await catalog.close()


async def test_errors_of_the_reader_come_through(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite3"
    path.write_bytes(b"this is no database, and longer than the header of one would be" * 10)
    catalog = AsyncCatalog(path)
    with pytest.raises(CatalogUnavailable, match="not a database"):
        await catalog.read(Catalog.collections)
    await catalog.close()
