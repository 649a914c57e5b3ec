"""The catalog for the service: SQLite reads in a few threads, so that none of them ever blocks the event loop.

In: functions that read a `Catalog`. Out: their results. Must not: write.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from rag_service.index.catalog import Catalog

Result = TypeVar("Result")


class AsyncCatalog:
    """Each thread has its own connection. A catalog that is deleted and made anew is opened anew."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        self._path = path
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="catalog")
        self._local = threading.local()
        self._opened: list[Catalog] = []

    async def read(self, action: Callable[[Catalog], Result]) -> Result:
        """Run `action` in a thread. Raises CatalogUnavailable when there is no catalog (yet), and what `action` raises."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: action(self._connection()))

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        for catalog in self._opened:
            catalog.close()

    def _connection(self) -> Catalog:
        identity = self._identity()
        if getattr(self._local, "catalog", None) is None or self._local.identity != identity:
            old: Catalog | None = getattr(self._local, "catalog", None)
            if old is not None:
                self._local.catalog = None
                self._opened.remove(old)
                old.close()
            self._local.catalog = Catalog(self._path)
            self._local.identity = identity
            self._opened.append(self._local.catalog)
        catalog: Catalog = self._local.catalog
        return catalog

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino
