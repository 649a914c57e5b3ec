"""When to write: what many streams have to send in one turn of the event loop goes out together, after the work of all of them.

In: writers that have their bytes ready. Out: the moment to write. Must not: hold anything longer than one turn of the loop.

A write wakes the reader, often a process on the same machine, and sends this one through the kernel. Between the work of two
streams that costs the work its caches, and the readers a wake-up for each write: a quarter of the CPU of 64 streams.
"""

import asyncio


class WriteTurn:
    """For all streams of one event loop."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def end(self) -> "asyncio.Future[None]":
        """Done when everybody whose turn it was has worked. A future for each, so that cancelling one writer stops no other."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._write)
        waiting = loop.create_future()
        self._waiting.append(waiting)
        return waiting

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        for writer in waiting:
            if not writer.done():
                writer.set_result(None)
