"""Micro-batches: a lone item waits for nobody, and nobody works for those who left."""

import asyncio
import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest

from rag_service.errors import ShuttingDown
from rag_service.index.micro_batch import MicroBatcher
from rag_service.index.query_embeddings import QueryEmbeddings
from tests.support.ingest_parts import HashEmbedder


class Work:
    """Doubles numbers; each batch waits until the test lets it go on."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def __call__(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        self.threads.add(threading.get_ident())
        self.begun.release()
        self.go_on.acquire()
        if 13 in items:
            raise ValueError("unlucky")
        return [2 * item for item in items if item != 99]


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
async def batcher(work: Work) -> AsyncIterator[MicroBatcher[int, int]]:
    made = MicroBatcher(work, max_batch=3, name="test")
    yield made
    for _ in range(10):
        work.go_on.release()
    await made.close()


async def begin(batcher: MicroBatcher[int, int], work: Work, item: int) -> "asyncio.Task[int]":
    """Submit an item and return when its batch is in work."""
    task = asyncio.create_task(batcher.submit(item))
    await asyncio.to_thread(work.begun.acquire)
    return task


async def queue(batcher: MicroBatcher[int, int], *items: int) -> "list[asyncio.Task[int]]":
    """Submit items while a batch runs."""
    tasks = [asyncio.create_task(batcher.submit(item)) for item in items]
    await asyncio.sleep(0)  # one turn of the loop: each task has put its item in line
    return tasks


async def test_a_lone_item_runs_at_once(batcher: MicroBatcher[int, int], work: Work) -> None:
    work.go_on.release()
    assert await batcher.submit(4) == 8
    assert work.batches == [[4]]


async def test_what_arrives_while_a_batch_runs_forms_the_next_ones(batcher: MicroBatcher[int, int], work: Work) -> None:
    first = await begin(batcher, work, 1)
    others = await queue(batcher, 2, 3, 4, 5)
    for _ in range(3):
        work.go_on.release()
    assert await asyncio.gather(first, *others) == [2, 4, 6, 8, 10]
    assert work.batches == [[1], [2, 3, 4], [5]]
    assert len(work.threads) == 1
    assert threading.get_ident() not in work.threads


async def test_who_left_is_dropped_before_the_batch_is_formed(batcher: MicroBatcher[int, int], work: Work) -> None:
    first = await begin(batcher, work, 1)
    left, stayed = await queue(batcher, 2, 3)
    left.cancel()
    first.cancel()
    work.go_on.release()
    work.go_on.release()
    assert await stayed == 6
    assert work.batches == [[1], [3]]
    assert left.cancelled()


async def test_when_all_have_left_the_next_one_is_still_served(batcher: MicroBatcher[int, int], work: Work) -> None:
    first = await begin(batcher, work, 1)
    (left,) = await queue(batcher, 2)
    left.cancel()
    work.go_on.release()
    work.go_on.release()
    assert await first == 2
    assert await batcher.submit(5) == 10
    assert work.batches == [[1], [5]]


@pytest.mark.parametrize(("bad", "error"), [(13, "unlucky"), (99, "shorter")])
async def test_a_failing_batch_fails_its_callers_only(
    batcher: MicroBatcher[int, int], work: Work, bad: int, error: str
) -> None:
    first = await begin(batcher, work, 1)
    one, other = await queue(batcher, bad, 7)
    for _ in range(3):
        work.go_on.release()
    assert await first == 2
    for task in (one, other):
        with pytest.raises(ValueError, match=error):
            await task
    assert await batcher.submit(8) == 16


async def test_closing_ends_those_who_wait_and_refuses_new_ones(work: Work) -> None:
    batcher = MicroBatcher(work, max_batch=3, name="test")
    first = await begin(batcher, work, 1)
    (waiting,) = await queue(batcher, 2)
    work.go_on.release()
    await batcher.close()
    for task in (first, waiting):
        with pytest.raises(asyncio.CancelledError):
            await task
    with pytest.raises(ShuttingDown):
        await batcher.submit(3)


async def test_concurrent_questions_get_their_own_vectors_from_one_pass() -> None:
    model = HashEmbedder()
    embeddings = QueryEmbeddings(model)  # type: ignore[arg-type]  # the double has the same interface
    questions = [f"question {number}" for number in range(20)]
    vectors = await embeddings.aembed_documents(questions)
    calls = model.calls
    assert calls <= 2
    assert np.array_equal(np.array(vectors, dtype=np.float32), model.embed(questions))
    assert (await embeddings.aembed(questions[3])).shape == (1, 8)
    assert await embeddings.aembed_query(questions[3]) == vectors[3]
    await embeddings.close()
