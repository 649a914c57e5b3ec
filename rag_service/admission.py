"""Admission: how many answers are in work, how many may wait, and what the rest is told.

In: requests that join. Out: a `Ticket` that tells its place in the queue and becomes a `Permit`.
Must not: know HTTP, or what is done with a permit (pure, standard library). Work without a permit does not type-check.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rag_service.errors import Overloaded

SMOOTHING = 0.1  # weight of the newest answer in the observed service time
ASSUMED_SERVICE_S = 5.0  # before the first answer has ended


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to work on one answer. Only `Ticket` makes one; pass it on to whatever does the work."""

    queued_s: float  # how long it was waited for


class Admission:
    """`max_running` permits at once, first come first served; up to `max_queued` wait. One per process and event loop."""

    def __init__(self, max_running: int, max_queued: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_running = max_running
        self._max_queued = max_queued
        self._clock = clock
        self._service_s = ASSUMED_SERVICE_S
        self._queue: deque[Ticket] = deque()
        self.running = 0

    @property
    def queued(self) -> int:
        return len(self._queue)

    def join(self) -> "Ticket":
        """A place, running or in the queue; use it as an async context manager. Raises Overloaded, at once."""
        if self.running >= self._max_running and self.queued >= self._max_queued:
            wait = self.retry_after_s()
            raise Overloaded(
                f"All {self._max_running} places and {self._max_queued} waiting places are taken. Try again in {wait:.0f} s.",
                details={"retry_after_s": wait},
            )
        ticket = Ticket(self, self._clock())
        self._queue.append(ticket)
        self._advance()
        return ticket

    def retry_after_s(self) -> float:
        """When a place should be free for one more, from the service times seen so far. At least one second."""
        return max(1.0, self._service_s * (self.queued + 1) / self._max_running)

    def _advance(self) -> None:
        while self._queue and self.running < self._max_running:
            self.running += 1
            self._queue.popleft().admit(self._clock())
        for position, ticket in enumerate(self._queue, start=1):
            ticket.move_to(position)

    def leave(self, ticket: "Ticket") -> None:
        """Take back what the ticket holds. For the ticket alone, once."""
        if ticket.permit is not None and ticket.started is not None:
            self.running -= 1
            self._service_s += SMOOTHING * (self._clock() - ticket.started - self._service_s)
        elif ticket in self._queue:
            self._queue.remove(ticket)
        self._advance()


class Ticket:
    """One request's place. Leaving the context gives it up, admitted or not."""

    def __init__(self, admission: Admission, joined: float) -> None:
        self._admission = admission
        self._joined = joined
        self._moved = asyncio.Event()
        self._position = 0
        self.permit: Permit | None = None
        self.started: float | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admission.leave(self)

    async def positions(self) -> AsyncGenerator[int, None]:
        """The place in the queue (1 is next) whenever it changes; ends when `permit` is there."""
        told = 0
        while self.permit is None:
            if self._position != told:
                told = self._position
                yield told
            else:
                self._moved.clear()
                await self._moved.wait()

    def admit(self, now: float) -> None:
        """Its turn has come. For the admission alone."""
        self.permit, self.started = Permit(now - self._joined), now
        self._moved.set()

    def move_to(self, position: int) -> None:
        """Its place in the queue is now this. For the admission alone."""
        if position != self._position:
            self._position = position
            self._moved.set()
