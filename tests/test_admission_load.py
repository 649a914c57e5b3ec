"""Admission under more load than it can serve, in virtual time: who comes back when told to finds a place, and work goes on."""

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from rag_service.admission import Admission
from rag_service.errors import Overloaded
from tests.support.virtual_time import virtual_clock, virtually

SERVICE_S = 5.0
SERVICE_TIMES: dict[str, Callable[[random.Random], float]] = {
    "steady": lambda _: SERVICE_S,
    "two kinds": lambda chance: SERVICE_S * chance.choice((0.2, 1.8)),
    "log-normal": lambda chance: chance.lognormvariate(math.log(SERVICE_S) - 0.32, 0.8),
    "exponential": lambda chance: chance.expovariate(1 / SERVICE_S),
}


@dataclass
class Crowd:
    """People who ask, read, and ask again; refused, they come back when they were told to. `load` times what can be served."""

    load: float
    running: int
    queued: int
    service: str
    seed: int
    queue_timeout_s: float = 30.0
    seconds: float = 900.0
    answered: int = 0
    refused: int = 0
    came_back: int = 0
    found_a_place: int = 0

    async def come(self) -> None:
        self._chance = random.Random(self.seed)
        self._now = virtual_clock()
        self._admission = Admission(self.running, self.queued, self.queue_timeout_s, clock=self._now)
        reading_s = 4 * SERVICE_S
        people = int(self.load * self.running / SERVICE_S * (reading_s + SERVICE_S))
        await asyncio.gather(*(self._person(str(n), reading_s) for n in range(people)))
        assert (self._admission.running, self._admission.queued) == (0, 0)

    async def _person(self, name: str, reading_s: float) -> None:
        while self._now() < self.seconds:
            await asyncio.sleep(self._chance.expovariate(1 / reading_s))
            wait = await self._ask(name)
            while wait is not None and self._now() + wait < self.seconds:
                await asyncio.sleep(wait)
                self.came_back += 1
                wait = await self._ask(name)
                self.found_a_place += wait is None
            if wait is not None:
                return

    async def _ask(self, name: str) -> float | None:
        """Seconds after which to come back; None for who was answered."""
        try:
            async with self._admission.join(name) as ticket:
                async for _ in ticket.positions():
                    pass
                await asyncio.sleep(SERVICE_TIMES[self.service](self._chance))
                self.answered += self._now() < self.seconds
                return None
        except Overloaded as refusal:
            self.refused += 1
            return refusal.retry_after_s


@pytest.mark.parametrize("service", SERVICE_TIMES)
@pytest.mark.parametrize(("running", "queued"), [(2, 4), (8, 16)])
def test_nine_in_ten_who_come_back_when_told_find_a_place(service: str, running: int, queued: int) -> None:
    answered: dict[float, int] = {}
    for load in (1, 1.5, 2, 4, 8):
        crowds = [Crowd(load, running, queued, service, seed) for seed in range(2)]
        for crowd in crowds:
            virtually(crowd.come())
        came_back = sum(crowd.came_back for crowd in crowds)
        answered[load] = sum(crowd.answered for crowd in crowds)
        assert came_back >= 100 or load == 1
        assert sum(crowd.found_a_place for crowd in crowds) >= 0.9 * came_back or load == 1, crowds
    assert answered[4] >= 0.9 * answered[1]
    assert answered[4] >= 0.9 * 2 * 900 * running / SERVICE_S, "what the places can serve"


def test_they_do_too_where_the_time_and_not_the_places_limits_the_queue() -> None:
    crowd = Crowd(4, 8, 200, "steady", seed=0, queue_timeout_s=10.0)
    virtually(crowd.come())
    assert crowd.found_a_place >= 0.9 * crowd.came_back, crowd
    assert crowd.answered >= 0.9 * 900 * 8 / SERVICE_S


def test_a_rush_that_is_refused_in_one_moment_comes_back_spread_out() -> None:
    async def scenario() -> tuple[int, float]:
        admission, loop, chance = (
            Admission(8, 16, 30.0, clock=virtual_clock()),
            asyncio.get_running_loop(),
            random.Random(4),
        )
        refusals = 0

        async def person(name: str) -> None:
            nonlocal refusals
            while True:
                try:
                    async with admission.join(name) as ticket:
                        async for _ in ticket.positions():
                            pass
                        await asyncio.sleep(chance.expovariate(1 / SERVICE_S))
                    return
                except Overloaded as refusal:
                    refusals += 1
                    await asyncio.sleep(refusal.retry_after_s or 0)

        await asyncio.gather(*(person(str(n % 10)) for n in range(8 * 24)))
        return refusals, loop.time()

    refusals, seconds = virtually(scenario())
    first = 8 * 24 - 24
    assert refusals - first <= 0.1 * first
    assert seconds < 1.25 * 8 * 24 * SERVICE_S / 8
