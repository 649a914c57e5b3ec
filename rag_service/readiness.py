"""Whether the service can answer now: Chroma, the catalog, the fingerprint, the language model's endpoint.

In: the parts. Out: one `Check` each. Must not: raise for what is missing (that is the answer), or wait longer than its limit.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from rag_service.errors import NotFound, RagError
from rag_service.index.async_catalog import AsyncCatalog
from rag_service.index.async_vector_store import AsyncVectorStore
from rag_service.index.embeddings import Embedder
from rag_service.telemetry import log
from rag_service.upstream import Upstream

CHECK_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """`problem` says what is missing and what to do; None when all is well."""

    name: str
    problem: str | None


class Readiness:
    def __init__(
        self, collection: str, store: AsyncVectorStore, catalog: AsyncCatalog, model: Embedder, upstream: Upstream
    ) -> None:
        self._collection = collection
        self._store = store
        self._catalog = catalog
        self._model = model
        self._upstream = upstream

    async def checks(self) -> list[Check]:
        """All four, at the same time; each is given up after `CHECK_LIMIT_S` seconds."""
        return list(
            await asyncio.gather(
                check("chroma", self._store.check()),
                check("catalog", self._catalog.read(lambda catalog: catalog.collections())),
                check("fingerprint", self._fingerprint()),
                check("llm", self._upstream.check()),
            )
        )

    async def _fingerprint(self) -> None:
        stored = await self._catalog.read(lambda catalog: catalog.fingerprint(self._collection))
        if stored is None:
            raise NotFound(f"There is no collection {self._collection!r} yet. Run `rag-ingest run FOLDER`.")
        self._model.fingerprint.require(stored, self._collection)


async def check(name: str, probe: Awaitable[object]) -> Check:
    try:
        await asyncio.wait_for(probe, CHECK_LIMIT_S)
    except RagError as error:
        return Check(name, error.message)
    except TimeoutError:
        return Check(name, f"No answer within {CHECK_LIMIT_S:.0f} s.")
    except Exception:  # noqa: BLE001  /ready must answer, whatever is broken
        log.exception("check_failed", check=name)
        return Check(name, "The check itself failed; the log has the details.")
    return Check(name, None)
