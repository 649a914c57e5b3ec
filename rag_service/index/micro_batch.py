"""Micro-batches: whatever arrives while a batch runs forms the next one; a lone item waits for nobody.

In: items one by one, from many tasks. Out: each task's own result. Must not: block the event loop, or work for callers that
have left. `MicroBatcher` is for work that computes: one worker thread does it, which so owns the model. `CallBatcher` is for
work that waits for another server.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from rag_service.errors import ShuttingDown

Item = TypeVar("Item")
Result = TypeVar("Result")
Key = TypeVar("Key", bound=Hashable)


class MicroBatcher(Generic[Item, Result]):
    """Runs `work(items) -> results` (same length and order). Start it in a running loop; `close` when done."""

    def __init__(self, work: Callable[[list[Item]], list[Result]], *, max_batch: int, name: str) -> None:
        self._work = work
        self._max_batch = max_batch
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._task = asyncio.create_task(self._serve(), name=name)

    async def submit(self, item: Item) -> Result:
        """The result for `item`. Cancel the caller and the item is dropped, if its batch has not begun.

        Raises what `work` raised, and ShuttingDown after `close`.
        """
        if self._task.done():
            raise ShuttingDown("The service is shutting down.")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._arrived.set()
        return await future

    async def close(self) -> None:
        """Stop; whoever still waits is cancelled."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for _, future in self._waiting:
            future.cancel()
        await asyncio.to_thread(self._thread.shutdown)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            batch = self._next_batch()
            if not batch:
                continue
            try:
                results = await loop.run_in_executor(self._thread, self._work, [item for item, _ in batch])
                pairs = list(zip(batch, results, strict=True))
            except asyncio.CancelledError:
                for _, future in batch:
                    future.cancel()
                raise
            except BaseException as error:  # noqa: BLE001  each caller gets it (a panic of native code too); the batcher serves on
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), result in pairs:
                    if not future.done():
                        future.set_result(result)

    def _next_batch(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        present = [entry for entry in self._waiting if not entry[1].done()]
        batch, self._waiting = present[: self._max_batch], present[self._max_batch :]
        if not self._waiting:
            self._arrived.clear()
        return batch


class CallBatcher(Generic[Key, Item, Result]):
    """Runs `work(key, items) -> results` (same length and order) for items of one key at a time; keys do not wait for each
    other. What is submitted in one turn of the loop begins together. `close` when done."""

    def __init__(self, work: Callable[[Key, list[Item]], Awaitable[list[Result]]], *, max_batch: int) -> None:
        self._work = work
        self._max_batch = max_batch
        self._waiting: dict[Key, list[tuple[Item, asyncio.Future[Result]]]] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    async def submit(self, key: Key, item: Item) -> Result:
        """The result for `item`. Raises what `work` raised. Cancel the caller and the item is dropped, if its batch has not
        begun."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append((item, future))
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._serve(key), name="call-batch")
        return await future

    async def close(self) -> None:
        """Stop; whoever still waits is cancelled."""
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, future in itertools.chain(*self._waiting.values()):
            future.cancel()

    async def _serve(self, key: Key) -> None:
        batch: list[tuple[Item, asyncio.Future[Result]]] = []
        try:
            while batch := self._next_batch(key):
                try:
                    results = await self._work(key, [item for item, _ in batch])
                    pairs = list(zip(batch, results, strict=True))
                except Exception as error:  # noqa: BLE001  each caller gets it
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(error)
                else:
                    for (_, future), result in pairs:
                        if not future.done():
                            future.set_result(result)
        finally:
            for _, future in batch:
                future.cancel()  # there are some only when this task is cancelled
            del self._tasks[key]

    def _next_batch(self, key: Key) -> list[tuple[Item, asyncio.Future[Result]]]:
        present = [entry for entry in self._waiting.pop(key, ()) if not entry[1].done()]
        if len(present) > self._max_batch:
            self._waiting[key] = present[self._max_batch :]
        return present[: self._max_batch]
