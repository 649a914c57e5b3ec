"""CPU of the service process for each token it relays, beside a stock LangChain service in the same run.

In: one scripted model, 32 readers at a time. Out: a table, and the ratio. Must not: compare across runs or machines.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.support.fake_vllm import FakeVllm
from tests.support.service import clean_environment, free_port, run_ingest, service_process, wait_until

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

READERS = 32
SENTENCE = "The notice period is two weeks during the probation period [1]. "
ANSWER = SENTENCE * 16
TOKEN_CHARS = 4
PACE_S = 0.02  # 50 tokens a second for each reader
CPU_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
LEAST_RATIO = 2.0

CORPUS = Path(__file__).parents[2] / "data" / "corpus" / "hr"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * CPU_TICK_S


@contextmanager
def stock_service(llm_url: str) -> Iterator[tuple[str, int]]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "tests.benchmarks.stock_app:app",
        "--port",
        str(port),
        "--loop",
        "uvloop",
    ]
    environment = {**clean_environment(Path(), {}), "STOCK_LLM_URL": llm_url}
    with subprocess.Popen([*command, "--log-level", "warning"], env=environment) as process:
        try:
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            process.terminate()


async def read_all(url: str, body: dict[str, object]) -> None:
    """All readers at once, each to the end of its answer."""
    async with aiohttp.ClientSession() as session:

        async def read() -> None:
            async with session.post(url, json=body) as response:
                assert response.status == 200
                content = await response.read()
                assert len(content) > len(ANSWER)

        await asyncio.gather(*(read() for _ in range(READERS)))


def cpu_per_token(url: str, pid: int, body: dict[str, object]) -> float:
    """Microseconds; the first round warms up and does not count."""
    asyncio.run(read_all(url, body))
    before = cpu_seconds(pid)
    asyncio.run(read_all(url, body))
    return (cpu_seconds(pid) - before) / (READERS * len(ANSWER) / TOKEN_CHARS) * 1e6


def listens(url: str) -> bool:
    try:
        asyncio.run(_touch(url))
    except aiohttp.ClientError:
        return False
    return True


async def _touch(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(url):
        pass


def test_relaying_a_token_with_citations_costs_less_than_stock_langchain_without(tmp_path: Path) -> None:
    assert run_ingest(tmp_path / "home", "run", str(CORPUS)).returncode == 0
    with FakeVllm.in_thread(pace=PACE_S) as fake:
        fake.answer(ANSWER, size=TOKEN_CHARS)
        with service_process(tmp_path / "home", fake.base_url) as service:
            question = {"question": "What is the notice period during probation?"}
            ours = cpu_per_token(f"{service.url}/rag-query", service.process.pid, question)
        with stock_service(fake.base_url) as (url, pid):
            wait_until(lambda: listens(f"{url}/docs"), "the stock service listens")
            stock = cpu_per_token(f"{url}/ask", pid, question)
    print(f"\n{READERS} streams at {1 / PACE_S:.0f} tokens/s each; CPU of the service process for each token")
    print(f"  stock LCEL, ChatOpenAI, StreamingResponse   {stock:6.0f} µs")
    print(f"  rag-service, retrieval and citations on     {ours:6.0f} µs   {stock / ours:.1f} times less")
    assert stock / ours >= LEAST_RATIO
