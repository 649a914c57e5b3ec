"""Rebuilds and compactions that kill themselves, as `tests/ingest/pipeline/crashing_run.py` does for runs.

python crashing_rebuild.py      orders of tests/support/crashing.py: {home, url, collection, model, copy, die_at}
"""

from pathlib import Path
from typing import Any

from ingest.maintenance.compact import compact
from ingest.maintenance.rebuild import rebuild
from rag_service.index.catalog_checks import CatalogChecks
from rag_service.index.vector_store import VectorStore
from tests.ingest.maintenance.parts import index_on
from tests.support.crashing import Boundary, Order, serve, watched
from tests.support.ingest_parts import HashEmbedder

CATALOG_STEPS = ("begin_staging", "stage", "unstage", "discard_staging", "switch", "scrub", "compact")
STORE_STEPS = ("open_collection", "upsert", "put", "delete_ids", "drop")


def run(order: Order, boundary: Boundary) -> None:
    store = watched(VectorStore, STORE_STEPS, boundary)

    class Beside(store):  # type: ignore[misc, valid-type]
        """The second client is watched too."""

        def beside(self, collection: str, place: Any) -> Any:
            other = Beside(self._settings, self._address)
            other.open_collection(collection, place)
            return other

    catalog = watched(CatalogChecks, CATALOG_STEPS, boundary)
    model = HashEmbedder(order["model"])
    with index_on(
        Path(order["home"]), order["url"], order["collection"], model, catalog=catalog, store=Beside
    ) as index:
        list(compact(index) if order["copy"] else rebuild(index))


if __name__ == "__main__":
    serve(run)
