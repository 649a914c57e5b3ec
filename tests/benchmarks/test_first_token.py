"""Time to the first token of many questions at once, beside a stock LangChain RAG service in the same run.

In: the same documents, the real embedding model, a real Chroma for each, one scripted model that answers at once. Out: a
table, and the ratios. Must not: compare across runs or machines.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from rag_service.index.embeddings import EmbeddingModel
from rag_service.index.settings import EmbeddingsSettings
from rag_service.local.chroma import chroma_server
from tests.support.fake_vllm import FakeVllm
from tests.support.ingest_cli import ROOT
from tests.support.service import clean_environment, free_port, run_ingest, service_process, wait_until

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

AT_ONCE = 64
ROUNDS = 5
LONE = 20
LEAST_GAIN = 5.0
ANSWER = "The notice period is two weeks during the probation period [1]."
Milliseconds = list[float]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text only, which both programs read in the same way."""
    folder = tmp_path_factory.mktemp("corpus")
    for file in (ROOT / "data" / "corpus").rglob("*.md"):
        shutil.copy(file, folder / f"{file.parent.name}-{file.name}")
    return folder


@contextmanager
def stock_service(corpus: Path, home: Path, llm_url: str) -> Iterator[str]:
    model = str(EmbeddingModel(EmbeddingsSettings()).folder)
    with chroma_server(home) as chroma:
        port, chroma_port = free_port(), str(urlsplit(chroma).port)
        filling = [sys.executable, "-m", "tests.benchmarks.stock_ingest", str(corpus), chroma_port, model]
        subprocess.run(filling, cwd=ROOT, check=True, capture_output=True)
        command = [sys.executable, "-m", "uvicorn", "tests.benchmarks.stock_rag_app:app", "--port", str(port)]
        names = {"STOCK_LLM_URL": llm_url, "STOCK_CHROMA_PORT": chroma_port, "STOCK_MODEL": model}
        environment = {**clean_environment(Path(), {}), **names}
        with subprocess.Popen(
            [*command, "--loop", "uvloop", "--log-level", "warning"], env=environment, cwd=ROOT
        ) as process:
            try:
                wait_until(lambda: asyncio.run(listens(f"http://127.0.0.1:{port}/docs")), "the stock service listens")
                yield f"http://127.0.0.1:{port}/ask"
            finally:
                process.terminate()


async def listens(url: str) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(url):
            return True
    except aiohttp.ClientError:
        return False


async def first_token_ms(session: aiohttp.ClientSession, url: str, number: int, mark: bytes) -> float:
    """Until the first text of the answer; it is read to its end."""
    started = time.perf_counter()
    first = 0.0
    body = {"question": f"What is the notice period during probation? My number is {number}."}
    seen = b""
    async with session.post(url, json=body) as response:
        assert response.status == 200
        async for data in response.content.iter_any():
            seen += data
            if not first and mark in seen:
                first = (time.perf_counter() - started) * 1000
    assert first
    assert len(seen) > len(ANSWER)
    return first


async def measured(url: str, mark: bytes) -> tuple[Milliseconds, Milliseconds]:
    """Of lone questions, and of many at once; the first of each kind warms up and does not count."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        lone = [await first_token_ms(session, url, number, mark) for number in range(LONE + 3)][3:]
        crowd: Milliseconds = []
        for round_ in range(ROUNDS + 1):
            numbers = range(AT_ONCE * round_, AT_ONCE * (round_ + 1))
            found = await asyncio.gather(*(first_token_ms(session, url, number, mark) for number in numbers))
            crowd += found if round_ else []
    return lone, crowd


def p99(values: Milliseconds) -> float:
    return statistics.quantiles(values, n=100)[98]


def test_many_questions_at_once_wait_less_and_a_lone_one_no_longer(corpus: Path, tmp_path: Path) -> None:
    assert run_ingest(tmp_path / "home", "run", str(corpus)).returncode == 0
    with FakeVllm.in_thread() as fake:
        fake.answer(ANSWER, size=4)
        with service_process(tmp_path / "home", fake.base_url) as service:
            ours = asyncio.run(measured(f"{service.url}/rag-query", b"event: delta"))
        with stock_service(corpus, tmp_path / "stock", fake.base_url) as url:
            stock = asyncio.run(measured(url, b"data: The"))
    print(f"\nMilliseconds to the first token; {AT_ONCE} questions at once, {ROUNDS} rounds ({os.cpu_count()} cores)")
    for name, (lone, crowd) in {"stock LangChain RAG": stock, "rag-service": ours}.items():
        crowd_told = f"{AT_ONCE} at once: median {statistics.median(crowd):6.0f}, p99 {p99(crowd):6.0f}"
        print(f"  {name:20} alone: median {statistics.median(lone):6.1f}   {crowd_told}")
    gains = {
        "median": statistics.median(stock[1]) / statistics.median(ours[1]),
        "p99": p99(stock[1]) / p99(ours[1]),
        "alone": statistics.median(stock[0]) / statistics.median(ours[0]),
    }
    print("  " + ", ".join(f"{name} {gain:.1f} times better" for name, gain in gains.items()))
    assert gains["alone"] >= 1
    assert min(gains["median"], gains["p99"]) >= LEAST_GAIN
