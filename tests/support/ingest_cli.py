"""What `rag-ingest` prints and leaves behind, as tests read it; and a second process to be in its way.

In: its output, a home. Out: parsed lines, the URIs in the index. Must not: assert what a run should have done.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rag_service.index.catalog import Catalog
from tests.support.service import clean_environment

ROOT = Path(__file__).resolve().parents[2]


COLLECTION = "documents"


LOCK_HOLDER = """
import sys
from pathlib import Path
from rag_service.index.writer_lock import writer_lock
with writer_lock(Path(sys.argv[1]), 0, print):
    print("held", flush=True)
    sys.stdin.read()
"""


def parse(output: str) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The result lines and the summary of a run."""
    *lines, last = [json.loads(line) for line in output.splitlines()]
    assert [*last] == ["summary"]
    return lines, last["summary"]


def by_name(output: str) -> dict[str, str]:
    return {line["uri"].rsplit("/", 1)[-1]: line["status"] for line in parse(output)[0]}


def uris(home: Path) -> list[str]:
    catalog = Catalog(home / "catalog.sqlite3")
    found = [document.uri for document in catalog.documents(COLLECTION)]
    catalog.close()
    return found


@contextmanager
def lock_held(home: Path) -> "Iterator[subprocess.Popen[str]]":
    """Another process that holds the writer's lock; it ends with its input."""
    command = [sys.executable, "-c", LOCK_HOLDER, str(home)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def start(home: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "ingest", *arguments],
        env=clean_environment(home, {}),
        cwd=home.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
