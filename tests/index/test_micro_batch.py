"""Micro-batches: a lone item waits for nobody, and nobody works for those who left."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest

from rag_service.errors import ShuttingDown
from rag_service.index.embeddings import Vectors
from rag_service.index.micro_batch import CallBatcher, MicroBatcher
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
    embeddings = QueryEmbeddings(model)
    questions = [f"question {number}" for number in range(20)]
    vectors = await embeddings.aembed_documents(questions)
    calls = model.calls
    assert calls <= 2
    assert np.array_equal(np.array(vectors, dtype=np.float32), model.embed(questions))
    assert (await embeddings.aembed(questions[3])).shape == (1, 8)
    assert await embeddings.aembed_query(questions[3]) == vectors[3]
    await embeddings.close()


class Prefixed(HashEmbedder):
    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.embed([f"query: {text}" for text in texts])


async def test_br_88_questions_and_documents_of_one_batch_are_embedded_each_in_its_way() -> None:
    model = Prefixed()
    embeddings = QueryEmbeddings(model)
    question, documents, other = await asyncio.gather(
        embeddings.aembed_query("leave"),
        embeddings.aembed_documents(["leave", "pump"]),
        embeddings.aembed_query("pump"),
    )
    expected = model.embed(["query: leave", "leave", "pump", "query: pump"]).tolist()
    assert [question, *documents, other] == expected
    assert embeddings.embed_query("leave") == question
    assert embeddings.embed_documents(["leave"]) == documents[:1]
    await embeddings.close()


class Calls:
    """Doubles numbers for a key, once the test lets it."""

    def __init__(self) -> None:
        self.made: list[tuple[str, list[int]]] = []
        self.go_on = asyncio.Event()

    async def __call__(self, key: str, items: list[int]) -> list[int]:
        self.made.append((key, items))
        await self.go_on.wait()
        if 13 in items:
            raise ValueError("unlucky")
        return [2 * item for item in items if item != 99]


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
async def shared(calls: Calls) -> AsyncIterator[CallBatcher[str, int, int]]:
    made = CallBatcher(calls, max_batch=3)
    yield made
    await made.close()


async def submitted(shared: CallBatcher[str, int, int], *items: tuple[str, int]) -> "list[asyncio.Task[int]]":
    """Each in a task of its own, all begun in one turn of the loop; the calls that this makes have begun, too."""
    tasks = [asyncio.create_task(shared.submit(key, item)) for key, item in items]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_what_is_asked_in_one_turn_is_one_call_and_the_rest_is_the_next(
    shared: CallBatcher[str, int, int], calls: Calls
) -> None:
    tasks = await submitted(shared, *(("a", number) for number in range(4)), ("b", 7))
    later = await submitted(shared, ("a", 5))
    assert calls.made == [("a", [0, 1, 2]), ("b", [7])]
    calls.go_on.set()
    assert await asyncio.gather(*tasks, *later) == [0, 2, 4, 6, 14, 10]
    assert calls.made[2:] == [("a", [3, 5])]


async def test_nobody_asks_for_those_who_left_and_one_who_leaves_costs_the_others_nothing(
    shared: CallBatcher[str, int, int], calls: Calls
) -> None:
    first, gone, last = await submitted(shared, ("a", 1), ("a", 2), ("a", 3))
    waiting, left = await submitted(shared, ("a", 4), ("a", 5))
    gone.cancel()
    left.cancel()
    calls.go_on.set()
    assert await asyncio.gather(first, last, waiting) == [2, 6, 8]
    assert calls.made == [("a", [1, 2, 3]), ("a", [4])]


async def test_each_caller_of_a_failed_call_is_told_and_the_next_call_is_made(
    shared: CallBatcher[str, int, int], calls: Calls
) -> None:
    calls.go_on.set()
    for unlucky, error in ((13, "unlucky"), (99, "shorter")):
        tasks = await submitted(shared, ("a", 1), ("a", unlucky))
        for task in tasks:
            with pytest.raises(ValueError, match=error):
                await task
    assert await shared.submit("a", 3) == 6


async def test_closing_ends_the_wait_of_everybody(calls: Calls) -> None:
    shared = CallBatcher(calls, max_batch=3)
    tasks = await submitted(shared, *(("a", number) for number in range(5)))
    not_begun = asyncio.create_task(shared.submit("b", 1))
    await asyncio.sleep(0)
    await shared.close()
    assert all(
        isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*tasks, return_exceptions=True)
    )
    with pytest.raises(asyncio.CancelledError):
        await not_begun
