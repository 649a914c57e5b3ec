"""Ingest against a plain LangChain script in the same run; what the pipeline leaves of bare `encode`; the re-run; memory.

In: `../shared/eval/chunking/corpora` and the government reports; made-up files. Out: tables, and the ratios that hold.
Must not: compare across runs or machines, or count what both sides pay once (imports, loading the model).
"""

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import pytest

from ingest.build import opened
from ingest.results import FileResult
from ingest.settings import IngestSettings
from rag_service.index.catalog import Catalog
from rag_service.index.embeddings import EmbeddingModel, cpu_computes_bfloat16
from rag_service.index.settings import EmbeddingsSettings
from rag_service.local.chroma import chroma_server
from tests.support.ingest_cli import ROOT
from tests.support.service import clean_environment

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3_600)]

SHARED = ROOT.parent / "shared"
LEAST_GAIN = 2.0 if cpu_computes_bfloat16() else 1.2
LEAST_OF_ENCODE = 0.85
LEAST_FILES_PER_S = 1_500
SMALL_FILES = 20_000
MOST_MORE_MB = 300
WORDS = ["river", "stone", "heron", "ledger", "winter", "copper", "lantern", "orchard", "signal", "harvest", "ferry"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    files = [*(SHARED / "eval/chunking/corpora").glob("*.md"), *(SHARED / "documents").glob("government-report*.pdf")]
    if not files:
        pytest.skip(f"the shared evaluation data is not at {SHARED}")
    for file in files:
        shutil.copy(file, folder)
    return folder


def stock(corpus: Path, home: Path) -> dict[str, float]:
    """The LangChain script, on a Chroma of its own."""
    model = EmbeddingModel(EmbeddingsSettings()).folder
    with chroma_server(home) as url:
        command = [
            sys.executable,
            "-m",
            "tests.benchmarks.stock_ingest",
            str(corpus),
            str(urlsplit(url).port),
            str(model),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def ours(corpus: Path, home: Path) -> tuple[dict[str, float], list[str]]:
    """The pipeline as `rag-ingest run` builds it, its model warm; and what it embedded."""
    settings = IngestSettings(home=home)
    with opened(settings, 0, print) as pipeline:
        pipeline.model.warm_up()
        pipeline.open()
        started = time.perf_counter()
        results = [item for item in pipeline.run([corpus]) if isinstance(item, FileResult)]
        seconds = time.perf_counter() - started
        assert {result.status for result in results} == {"indexed"}
        catalog: Catalog = pipeline.catalog
        chunks = [
            chunk
            for document in catalog.documents(settings.collection)
            for chunk in catalog.chunks_of(settings.collection, document.version)
        ]
    characters = sum(len(chunk.text) for chunk in chunks)
    measured = {"chunks": len(chunks), "characters": characters, "seconds": seconds}
    return measured, [chunk.embedded_text for chunk in chunks]


def bare_encode(texts: list[str]) -> float:
    """Seconds of sentence-transformers' own `encode` for the same texts, in the number format that ingest uses."""
    import torch
    from sentence_transformers import SentenceTransformer

    dtype = torch.bfloat16 if cpu_computes_bfloat16() else torch.float32
    folder = EmbeddingModel(EmbeddingsSettings()).folder
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True, model_kwargs={"dtype": dtype})
    model.encode(texts[:32], show_progress_bar=False)
    started = time.perf_counter()
    model.encode(texts, convert_to_tensor=True, normalize_embeddings=True, show_progress_bar=False)
    return time.perf_counter() - started


def test_chunks_a_second(corpus: Path, tmp_path: Path) -> None:
    mine, texts = ours(corpus, tmp_path / "ours")
    plain = stock(corpus, tmp_path / "stock")
    bare = {**mine, "seconds": bare_encode(texts)}
    print("\nIngest of the evaluation corpora and two government reports")
    rows = {"rag-ingest": mine, "LangChain script": plain, "bare encode": bare}
    for name, row in rows.items():
        rates = f"{row['chunks'] / row['seconds']:6.1f} chunks/s {row['characters'] / row['seconds'] / 1e3:6.1f} kB/s"
        print(f"  {name:18} {row['chunks']:6.0f} chunks {row['seconds']:7.1f} s {rates}")
    gain = mine["chunks"] / mine["seconds"] / (plain["chunks"] / plain["seconds"])
    kept = bare["seconds"] / mine["seconds"]
    print(f"  {gain:.2f} times the chunks a second of the script; {kept:.0%} of bare encode")
    assert gain >= LEAST_GAIN
    assert kept >= LEAST_OF_ENCODE


@contextmanager
def fast_embeddings() -> Iterator[dict[str, str]]:
    """Settings for an embeddings endpoint that costs next to nothing, so that all else shows."""
    command = [sys.executable, "-m", "tests.support.fake_embeddings", "--port", "0", "--dimension", "16"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[-1])
        try:
            yield {"RAG_EMBEDDINGS__BASE_URL": f"http://127.0.0.1:{port}/v1"}
        finally:
            process.terminate()


def run(home: Path, folder: Path, settings: dict[str, str]) -> tuple[float, float, dict[str, int]]:
    """`rag-ingest run` in a process of its own: seconds, peak megabytes of it and its parsers (not Chroma), the summary."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "ingest", "run", str(folder), "--json"]
    environment = clean_environment(home, settings)
    last = ""
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with PeakMemory(process.pid) as peak:
            for line in process.stdout:
                last = line
    assert process.returncode == 0
    summary: dict[str, int] = json.loads(last)["summary"]
    return time.perf_counter() - started, peak.megabytes, summary


class PeakMemory:
    """The most memory that a process and its descendants have held at the same time, sampled ten times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.megabytes = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.megabytes = max(self.megabytes, sum(map(resident_mb, family(self._pid))))


def family(pid: int) -> list[int]:
    """The process and its descendants, but for the local Chroma and its keeper, which outlive it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if b"chroma" not in command and b"rag_service.local" not in command:
                children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo.extend(children.get(found[-1], ()))
    return found


def resident_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, IndexError):
        return 0.0


def sentences(dice: random.Random, characters: int) -> str:
    made, length = [], 0
    while length < characters:
        made.append(" ".join(dice.choices(WORDS, k=12)).capitalize() + f" {dice.randrange(10**6)}.\n")
        length += len(made[-1])
    return "".join(made)


def test_an_unchanged_folder_passes_quickly(tmp_path: Path) -> None:
    dice = random.Random(1)
    folder = tmp_path / "small"
    for number in range(SMALL_FILES):
        path = folder / f"{number // 500:03}" / f"{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\n{sentences(dice, 300)}", encoding="utf-8")
    with fast_embeddings() as settings:
        first, _, summary = run(tmp_path / "home", folder, settings)
        assert summary["indexed"] == SMALL_FILES
        again, _, summary = run(tmp_path / "home", folder, settings)
        assert summary["unchanged"] == SMALL_FILES
    print(
        f"\n{SMALL_FILES} small files: first run {first:.1f} s, unchanged {again:.1f} s, start of the program included:"
    )
    print(f"  {SMALL_FILES / again:,.0f} files/s")
    assert SMALL_FILES / again >= LEAST_FILES_PER_S


def test_memory_is_flat(tmp_path: Path) -> None:
    dice = random.Random(2)
    peaks = {}
    with fast_embeddings() as settings:
        for megabytes in (3, 300):
            folder = tmp_path / f"corpus-{megabytes}"
            folder.mkdir()
            for number in range(megabytes):
                (folder / f"{number:03}.txt").write_text(sentences(dice, 1_000_000), encoding="utf-8")
            seconds, peaks[megabytes], summary = run(tmp_path / f"home-{megabytes}", folder, settings)
            print(
                f"\n{megabytes} MB of text: {summary['chunks']} chunks, {seconds:.0f} s, peak {peaks[megabytes]:.0f} MB"
            )
            shutil.rmtree(folder)
    assert peaks[300] - peaks[3] <= MOST_MORE_MB
