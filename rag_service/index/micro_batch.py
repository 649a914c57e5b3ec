"""Micro-batches: whatever arrives while a batch runs forms the next one; a lone item waits for nobody.

In: items one by one, from many tasks. Out: each task's own result. Must not: block the event loop (the work runs in one
worker thread, which so owns the model), or work for callers that have left.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from rag_service.errors import ShuttingDown

Item = TypeVar("Item")
Result = TypeVar("Result")


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
