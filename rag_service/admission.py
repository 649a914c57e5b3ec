"""Admission: how many answers are in work, how many may wait, whose turn is next, and what the rest is told.

Callers take turns, each with its own requests in the order they came. When all waiting places are taken, the newest request of
the caller that holds the most gives way to one that holds fewer: a lone caller may use them all, and yet shuts nobody out.

In: requests that join. Out: a `Ticket` that tells its place in the queue and becomes a `Permit`, or a refusal that says when to
come back. Must not: know HTTP, or what is done with a permit (pure, standard library). Work without one does not type-check.
"""

import asyncio
import heapq
import math
import time
from bisect import insort
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Self

from rag_service.errors import Overloaded

SMOOTHING = 0.05  # weight of the newest answer in the observed service time, and of the newest caller in who comes back
ASSUMED_SERVICE_S = 5.0  # before the first answer has ended
PAUSE_S = 2e-5  # per waiting request, before they are all looked at anew: 0.2 s for 10,000, which costs 10 to 30 ms
STEP = 10  # far from the front only changes of a tenth are told, or 10,000 who wait would be told of every turn
# Between the times that two refused callers are told lies a little more than a place needs to become free (SLACK, and more in a
# small room, which evens less out); before the first lies more (FIRST: 95 in 100 are free by then if chance rules).
SLACK, FIRST = 1.2, 3.0
KEPT = 0.75  # of the waiting room, at most, for callers that were told to come back
MANY = 4  # promises to one caller per waiting place; past that it does not wait its time, and puts off itself alone
LEAST_SHARE = 0.1  # of those who were told to come back, taken to do so even if none did
GRACE_S = 5.0  # how long after its time a caller is waited for
LONGEST_S = 600.0  # nobody is told to come back later than that


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to work on one answer. Only `Ticket` makes one; pass it on to whatever does the work."""

    queued_s: float  # how long it was waited for


class Admission:
    """`max_running` permits at once, `max_queued` wait, none longer than `queue_timeout_s`. One per process and event loop."""

    def __init__(
        self,
        max_running: int,
        max_queued: int,
        queue_timeout_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_running = max_running
        self._max_queued = max_queued
        self._clock = clock
        self._service_s = ASSUMED_SERVICE_S
        self._observed = 1  # what is assumed counts as one
        self._running: dict[Ticket, float] = {}  # and when each began; the oldest is first
        self._waiting: OrderedDict[str, OrderedDict[Ticket, None]] = OrderedDict()  # by caller; the next turn is first
        self._promises = Promises()
        self._telling = False
        self.queue_timeout_s = queue_timeout_s
        self.queued = 0

    @property
    def running(self) -> int:
        return len(self._running)

    def join(self, caller: str = "") -> "Ticket":
        """A place, running or in the queue; use it as an async context manager. Raises Overloaded, at once."""
        now = self._clock()
        came_back = self._promises.came(caller, now)
        place = 0
        if self.running >= self._max_running:
            place = self._next_place(caller)
            self._find_room(caller, place, now, came_back=came_back)
        ticket = Ticket(self, caller, now, place)
        self._waiting.setdefault(caller, OrderedDict())[ticket] = None
        self.queued += 1
        self._advance()
        return ticket

    def leave(self, ticket: "Ticket", *, ended: bool) -> None:
        """Take back what the ticket holds. For the ticket alone. `ended`: its answer is complete."""
        started = self._running.pop(ticket, None)
        if started is not None:
            self._observe(self._clock() - started, ended)
        else:
            self._remove(ticket)
        self._advance()

    def time_out(self, ticket: "Ticket") -> None:
        """It has waited as long as it may. For the ticket alone."""
        self._refuse(ticket, f"No place was free within {self.queue_timeout_s:g} s (RAG_ADMISSION__QUEUE_TIMEOUT_S).")
        self._advance()

    def _find_room(self, caller: str, place: int, now: float, *, came_back: bool) -> None:
        """See to it that one more may wait, with the next turn but `place` - 1. Raises Overloaded."""
        wait = self._wait_s(place, now)
        if wait > self.queue_timeout_s:
            limit = f"requests wait at most {self.queue_timeout_s:g} s (RAG_ADMISSION__QUEUE_TIMEOUT_S)"
            raise self._refusal(caller, f"A place would be free in about {math.ceil(wait)} s, and {limit}.")
        in_time = self.queue_timeout_s * self._max_running / self._service_s
        room = int(min(self._max_queued, max(1.0, in_time)))  # more could wait, but would wait in vain
        kept = 0 if came_back else min(self._promises.count, int(room * KEPT))
        if self.queued + kept < room:
            return
        newest = self._newest_of_the_biggest(caller)
        if newest is None:
            taken = f"All {self._max_running} places and {room} waiting places are taken or promised to others."
            raise self._refusal(caller, taken)
        self._refuse(newest, "All waiting places are taken, and this one, of the caller with most, went to another.")

    def _next_place(self, caller: str) -> int:
        """The place in the queue of one more request of this caller."""
        own = self._waiting.get(caller)
        if own is None:
            return len(self._waiting) + 1
        place, turns = 1, len(own) + 1  # of each caller before this one in the round, and one less of each after it
        for other, line in self._waiting.items():
            turns -= other == caller
            place += min(len(line), turns)
        return place

    def _wait_s(self, place: int, now: float) -> float:
        """How long until that place's turn, if every answer takes as long as the observed ones."""
        rounds, nth = divmod(place - 1, self._max_running)
        started = next(islice(self._running.values(), nth, None))
        return rounds * self._service_s + max(0.0, started + self._service_s - now)

    def _newest_of_the_biggest(self, caller: str) -> "Ticket | None":
        """What makes room for this caller: nothing, if then it would hold more than the one who gave way."""
        if self.queued == len(self._waiting):
            return None
        biggest = max(self._waiting.values(), key=len)
        if len(biggest) < len(self._waiting.get(caller, ())) + 2:
            return None
        return next(reversed(biggest))

    def _refuse(self, ticket: "Ticket", reason: str) -> None:
        self._remove(ticket)
        ticket.refuse(self._refusal(ticket.caller, reason))

    def _refusal(self, caller: str, reason: str) -> Overloaded:
        turn = self._service_s / self._max_running
        wait = self._promises.make(caller, self._clock(), turn, max(1, self._max_queued))
        return Overloaded(f"{reason} Try again in {wait:.0f} s.", details={"retry_after_s": wait})

    def _observe(self, seconds: float, ended: bool) -> None:
        """An answer that was broken off says only that it would have taken longer: it counts if it already took long."""
        if ended or seconds > self._service_s:
            self._observed += 1
            self._service_s += max(SMOOTHING, 1 / self._observed) * (max(seconds, 0.001) - self._service_s)

    def _remove(self, ticket: "Ticket") -> None:
        line = self._waiting.get(ticket.caller)
        if line is not None and ticket in line:
            del line[ticket]
            self.queued -= 1
            if not line:
                del self._waiting[ticket.caller]

    def _advance(self) -> None:
        while self._waiting and self.running < self._max_running:
            caller, line = next(iter(self._waiting.items()))
            ticket = next(iter(line))
            self._remove(ticket)
            if line:
                self._waiting.move_to_end(caller)
            now = self._clock()
            self._running[ticket] = now
            ticket.admit(now)
        if self._waiting and not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_later(self.queued * PAUSE_S, self._tell)

    def _tell(self) -> None:
        self._telling = False
        for place, ticket in enumerate(self._turns(), start=1):
            ticket.move_to(place)

    def _turns(self) -> Iterator["Ticket"]:
        """All who wait, in the order in which their turns will come."""
        lines = [iter(line) for line in self._waiting.values()]
        while lines:
            heads = [(line, next(line, None)) for line in lines]
            yield from (ticket for _, ticket in heads if ticket is not None)
            lines = [line for line, ticket in heads if ticket is not None]


class Promises:
    """Who was told to come back when. The times are spread, so that all who keep to them find a place."""

    def __init__(self) -> None:
        self._due: dict[str, list[float]] = {}  # by caller, the earliest first
        self._lapses: list[tuple[float, str]] = []  # a heap; those who came are still in it
        self._last = 0.0
        self._share = 1.0  # of those who were told a time, how many came
        self.count = 0

    def make(self, caller: str, now: float, turn_s: float, room: int) -> float:
        """Whole seconds until a place is kept for this caller; one of `room` becomes free every `turn_s`. A caller with too
        many promises does not keep to them: it puts itself off, and nobody else."""
        dues = self._due.get(caller, [])
        few = len(dues) < MANY * room
        apart_s = (SLACK + 1 / room) * turn_s * max(self._share, LEAST_SHARE)
        due = max(now + FIRST * turn_s, (self._last if few else dues[-1]) + apart_s)
        if due - now < LONGEST_S:
            insort(self._due.setdefault(caller, dues), due)
            heapq.heappush(self._lapses, (due + GRACE_S, caller))
            self.count += 1
            if few:
                self._last = max(self._last, due)
        return float(min(max(1, math.ceil(due - now)), LONGEST_S))

    def came(self, caller: str, now: float) -> bool:
        """Whether this is a caller that was told to come about now; forgets those who did not come."""
        while self._lapses and self._lapses[0][0] < now:
            lapse, missing = heapq.heappop(self._lapses)
            if missing in self._due and self._due[missing][0] + GRACE_S <= lapse:
                self._settle(missing, 0.0)
        if caller not in self._due or self._due[caller][0] > now:
            return False
        self._settle(caller, 1.0)
        return True

    def _settle(self, caller: str, came: float) -> None:
        self._share += SMOOTHING * (came - self._share)
        self.count -= 1
        self._due[caller].pop(0)
        if not self._due[caller]:
            del self._due[caller]


class Ticket:
    """One request's place. Leaving the context gives it up, admitted or not."""

    def __init__(self, admission: Admission, caller: str, joined: float, place: int) -> None:
        self._admission = admission
        self._joined = joined
        self._moved = asyncio.Event()
        self._place = place
        self._told = 0
        self._refusal: Overloaded | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.caller = caller
        self.permit: Permit | None = None
        self.broken_off = False  # set it where an answer ends before its end, and no error says so

    async def __aenter__(self) -> Self:
        if self.permit is None and self._admission.queue_timeout_s < math.inf:
            later = asyncio.get_running_loop().call_later
            self._timer = later(self._admission.queue_timeout_s, self._admission.time_out, self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_timer()
        self._admission.leave(self, ended=kind is None and not self.broken_off)

    async def positions(self) -> AsyncGenerator[int, None]:
        """The place in the queue (1 is next) when it changes; ends when `permit` is there. Raises Overloaded: too late."""
        while True:
            self._moved.clear()
            if self.permit is not None:
                return
            if self._refusal is not None:
                raise self._refusal
            if self._place != self._told:
                self._told = self._place
                yield self._told
            await self._moved.wait()

    def admit(self, now: float) -> None:
        """Its turn has come. For the admission alone."""
        self.permit = Permit(now - self._joined)
        self._stop_timer()
        self._moved.set()

    def refuse(self, refusal: Overloaded) -> None:
        """Its turn does not come. For the admission alone."""
        self._refusal = refusal
        self._stop_timer()
        self._moved.set()

    def move_to(self, place: int) -> None:
        """Its place in the queue is now this. For the admission alone."""
        self._place = place
        if abs(place - self._told) >= max(1, self._told // STEP):
            self._moved.set()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
