"""Time that jumps to the next timer, and a request as its client sees it: what takes minutes here takes none outside.

In: coroutines. Out: what they return, the same every time. Must not: wait.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, TypeVar, TypeVarTuple, Unpack

from rag_service.admission import Admission
from rag_service.errors import Overloaded

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Jumping(selectors.DefaultSelector):
    """Never waits; says instead that the time has passed."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class VirtualTime(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        self.timers: list[asyncio.TimerHandle] = []
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = super().call_at(when, callback, *args, context=context)
        self.timers.append(timer)
        return timer

    def pending(self) -> list[asyncio.TimerHandle]:
        return [timer for timer in self.timers if not timer.cancelled() and timer.when() > self.time()]


def virtually(scenario: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(scenario)


def virtual_clock() -> Callable[[], float]:
    return asyncio.get_running_loop().time


@dataclass(eq=False)
class Request:
    """One request as its client sees it."""

    caller: str
    joined: float = 0.0
    state: str = "new"
    told: list[int] = field(default_factory=list)
    finish: asyncio.Event = field(default_factory=asyncio.Event)
    refusal: Overloaded | None = None
    task: "asyncio.Task[None] | None" = None

    def start(self, admission: Admission) -> "Request":
        loop = asyncio.get_running_loop()
        self.joined, self.task = loop.time(), loop.create_task(self._ask(admission))
        return self

    async def _ask(self, admission: Admission) -> None:
        try:
            async with admission.join(self.caller) as ticket:
                self.state = "waiting"
                async for place in ticket.positions():
                    self.told.append(place)
                assert ticket.permit is not None
                self.state = "running"
                await self.finish.wait()
            self.state = "done"
        except Overloaded as refusal:
            self.state, self.refusal = "refused", refusal
        except asyncio.CancelledError:
            self.state = "left"


async def settled() -> None:
    """All that follows from what was done has happened, and who waits was told."""
    await asyncio.sleep(0.01)
