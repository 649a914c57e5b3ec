"""Ingest runs that kill themselves at the steps of the commit protocol: before and after each call that writes.

    python crashing_run.py      orders of tests/support/crashing.py: {home, url, collection, folder, die_at}

Vectors are written by a thread of their own, so the order of the boundaries varies.
"""

from pathlib import Path
from typing import Any

from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.vector_store import VectorStore
from tests.support.crashing import Boundary, Order, serve, watched
from tests.support.ingest_parts import HashEmbedder, pipeline_on, results

CATALOG_STEPS = ("open_collection", "begin", "commit", "share", "delete", "settled", "note_problem", "finish_run")
STORE_STEPS = ("open_collection", "upsert", "delete_version")


def watched_parts(boundary: Boundary) -> dict[str, Any]:
    """For `pipeline_on`: a catalog and a store that report every boundary."""
    return {
        "catalog": watched(CatalogWriter, CATALOG_STEPS, boundary),
        "store": watched(VectorStore, STORE_STEPS, boundary),
    }


def run(order: Order, boundary: Boundary) -> None:
    parts = watched_parts(boundary)
    with pipeline_on(Path(order["home"]), order["url"], order["collection"], HashEmbedder(), **parts) as pipeline:
        results(pipeline, Path(order["folder"]))


if __name__ == "__main__":
    serve(run)
