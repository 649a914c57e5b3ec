"""Ingest runs that kill themselves: a process that forks one child for each order and tells how it ended.

    python crashing_run.py      one JSON order a line: {home, url, collection, folder, die_at}

The child counts the boundaries of the commit protocol's steps (before and after each call that writes) and sends itself
SIGKILL at number `die_at`. It prints `killed NAME` for that boundary, or `ended COUNT` when there were fewer.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ingest.pipeline
from rag_service.index.catalog_writer import CatalogWriter
from rag_service.index.vector_store import VectorStore
from tests.support.ingest_parts import HashEmbedder, pipeline_on, results

CATALOG_STEPS = ("open_collection", "begin", "commit", "share", "delete", "settled", "note_problem", "finish_run")
STORE_STEPS = ("open_collection", "upsert", "delete_version")

Boundary = Callable[[str], None]


def watched(cls: type[Any], steps: Sequence[str], boundary: Boundary) -> type[Any]:
    """A subclass that calls `boundary` before and after each of `steps`."""

    def wrapped(step: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any) -> Any:
            boundary(f"before {step}")
            result = getattr(super(made, self), step)(*arguments)
            boundary(f"after {step}")
            return result

        return call

    made = type(f"Watched{cls.__name__}", (cls,), {step: wrapped(step) for step in steps})
    return made


def watched_parts(boundary: Boundary) -> dict[str, Any]:
    """For `pipeline_on`: a catalog and a store that report every boundary."""
    return {
        "catalog": watched(CatalogWriter, CATALOG_STEPS, boundary),
        "store": watched(VectorStore, STORE_STEPS, boundary),
    }


def run(order: dict[str, Any], out: int) -> int:
    """The child: returns the number of boundaries when it was not killed."""
    passed = 0

    def boundary(name: str) -> None:
        nonlocal passed
        if passed == order["die_at"]:
            os.write(out, f"killed {name}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)
        passed += 1

    ingest.pipeline.EMBED_AT_ONCE = 4
    parts = watched_parts(boundary)
    with pipeline_on(Path(order["home"]), order["url"], order["collection"], HashEmbedder(), **parts) as pipeline:
        results(pipeline, Path(order["folder"]))
    return passed


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            passed = run(json.loads(line), sys.stdout.fileno())
            os.write(sys.stdout.fileno(), f"ended {passed}\n".encode())
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
