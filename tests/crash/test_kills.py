"""At least 200 kills at random moments, over adds, edits, moves, copies and deletes, Chroma killed in some.

In: `RAG_CRASH_KILLS` (200) and `RAG_CRASH_SEED` (today's ordinal). Out: a line of figures. After each kill no question finds
two versions or a dead one; a reader of untouched documents never meets an error; after a last clean run the index equals
that of a fresh one of the same files: ids, texts, vectors.
"""

import contextlib
import datetime as dt
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from rag_service.index.catalog import Catalog
from rag_service.index.settings import ChromaSettings
from rag_service.index.vector_store import VectorStore
from rag_service.local.chroma import chroma_server
from rag_service.local.state import ServerState
from tests.crash.folder import Folder
from tests.crash.reader import Reader, passages
from tests.support.ingest_cli import ROOT
from tests.support.service import clean_environment, running_service

pytestmark = [pytest.mark.crash, pytest.mark.timeout(5_400)]

KILLS = int(os.environ.get("RAG_CRASH_KILLS", "200"))
SEED = int(os.environ.get("RAG_CRASH_SEED", str(dt.date.today().toordinal())))  # noqa: DTZ011  any number will do
COLLECTION = "documents"
CLEAN_EVERY = 10  # kills between two runs that may end
LONGEST_RUN_S = 6.0
CHROMA_SHARE = 0.15


class Runs:
    """Starts runs of the real command line, and kills them or lets them end."""

    def __init__(self, home: Path, log: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.runs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=clean_environment(home, {"CRASH_RUNS_LOG": str(log)}),
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def start(self, *arguments: str) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def ended(self) -> int:
        """The exit code; negative for a signal."""
        return int(self._line())

    def has_ended(self, within_s: float) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], within_s)[0])

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextlib.contextmanager
def runs_on(home: Path, log: Path) -> Iterator[Runs]:
    runs = Runs(home, log)
    try:
        yield runs
    finally:
        runs.close()


def kill_chroma(home: Path) -> bool:
    state = ServerState.read(home / "run" / "chroma.json")
    if state is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(state.server, signal.SIGKILL)
        return True
    return False


def digest_of(home: Path) -> dict[str, Any]:
    """The index but for times and document ids (a moved file keeps the id of its first place)."""
    catalog = Catalog(home / "catalog.sqlite3")
    with chroma_server(home) as url:
        store = VectorStore(ChromaSettings(), lambda: url)
        try:
            store.open_collection(COLLECTION)
            documents = catalog.documents(COLLECTION)
            versions = sorted({document.version for document in documents})
            return {
                "documents": [(Path(d.uri).name, d.version, d.title, d.content_hash, d.metadata) for d in documents],
                "texts": {version: catalog.text(COLLECTION, version) for version in versions},
                "chunks": {version: catalog.chunks_of(COLLECTION, version) for version in versions},
                "vectors": {
                    chunk: vector
                    for page in store.pages(COLLECTION)
                    for chunk, vector in zip(page.ids, page.vectors, strict=True)
                },
                "loose": catalog.loose_versions(COLLECTION),
                "problems": catalog.problems(COLLECTION),
            }
        finally:
            store.close()
            catalog.close()


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    found = [name for name in one if name != "vectors" and one[name] != other[name]]
    if one["vectors"].keys() != other["vectors"].keys():
        found.append("vector ids")
    else:
        least = min(float(np.dot(vector, other["vectors"][chunk])) for chunk, vector in one["vectors"].items())
        if least < 0.9995:  # bfloat16 rounds a little differently in a batch of another shape
            found.append(f"vectors (cosine {least:.5f})")
    live = {chunk.id for chunks in one["chunks"].values() for chunk in chunks}
    if {*one["vectors"]} != live:
        found.append("vectors that are not live, or the other way round")
    return found


def test_killed_at_any_moment_the_index_stays_whole(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    home, log = tmp_path / "home", tmp_path / "runs.log"
    folder = Folder(tmp_path / "docs", SEED)
    tally: Counter[str] = Counter()
    mismatches: list[str] = []
    print(f"\n{KILLS} kills, seed {SEED}")
    with runs_on(home, log) as runs:
        started = time.monotonic()
        runs.start("run", str(folder.root), "--json")
        assert runs.ended() == 0, log.read_text()
        full_run_s = time.monotonic() - started
        folder.settled()
        with (
            running_service(home, "http://127.0.0.1:9") as url,
            Reader(url, folder, folder.untouched) as reader,
            httpx2.Client(base_url=url, timeout=60, trust_env=False) as client,
        ):
            while tally["kills"] < KILLS:
                changes = folder.change()
                tally["changes"] += changes.count(",") + 1
                child = runs.start("run", str(folder.root), "--json")
                if not runs.has_ended(dice.uniform(0, min(full_run_s, LONGEST_RUN_S))):
                    if dice.random() < CHROMA_SHARE:
                        tally["chroma"] += kill_chroma(home)
                        runs.has_ended(dice.uniform(0, 1))
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child, signal.SIGKILL)
                code = runs.ended()
                tally["kills" if code == -signal.SIGKILL else f"ended {code}"] += 1
                mismatches += judged(client, folder, changes)
                if tally["kills"] % CLEAN_EVERY == 0 and code == -signal.SIGKILL:
                    runs.start("run", str(folder.root), "--json")
                    tally[f"clean {runs.ended()}"] += 1
                    folder.settled()
                    mismatches += judged(client, folder, "a clean run")
                    print(
                        f"  {tally['kills']} kills, {tally['changes']} changes, {len(mismatches)} mismatches",
                        flush=True,
                    )
            runs.start("run", str(folder.root), "--json")
            assert runs.ended() == 0, log.read_text()[-3_000:]
            folder.settled()
            mismatches += judged(client, folder, "the last run")
        fresh = tmp_path / "fresh"
    with runs_on(fresh, log) as runs:
        runs.start("run", str(folder.root), "--json")
        assert runs.ended() == 0
    mismatches += differences(digest_of(home), digest_of(fresh))
    counts = ", ".join(f"{name}: {count}" for name, count in sorted(tally.items()))
    print(f"{counts}; questions meanwhile: {reader.asked}, wrong: {len(reader.wrong)}; mismatches: {len(mismatches)}")
    assert reader.wrong == []
    assert mismatches == []


def judged(client: httpx2.Client, folder: Folder, after: str) -> list[str]:
    """What is wrong with the answers about every document that changes, or is gone."""
    problems = []
    for heron in [*folder.changing, *folder.gone]:
        problem = folder.judge(heron, passages(client, folder.ask(heron)))
        if problem:
            problems.append(f"after {after}: {problem}")
    return problems
