"""People who come whether or not the service keeps up: each is somebody else, asks once, and does what a refusal says.

In: a service's address and how many come a second. Out: an `Attempt` for every request. Must not: slow down because the
service does, share an address between two people, or take half an answer for a whole one.
"""

import asyncio
import json
import random
import re
import time
from dataclasses import dataclass

import aiohttp

from tests.benchmarks.scripted_answer import QUESTION
from tests.support.readers import answer_text, native_sse

BODY = json.dumps({"question": QUESTION}).encode()
HEADERS = {"content-type": "application/json", "accept": "text/event-stream"}
TEXT_MARK = b"event: delta"
TOLD_IN_WORDS = re.compile(r"Try again in (\d+) s")


@dataclass(frozen=True)
class Refusal:
    """When to come back, 0 where that was not said. `in_stream`: after a place in the queue had been told, as an event that
    says it in words only; else with 429 and a Retry-After."""

    retry_after_s: int
    in_stream: bool


@dataclass(frozen=True)
class Attempt:
    """One request. Times are seconds since the first person could come; `first_token_s` counts from `asked_at`."""

    asked_at: float
    ended_at: float
    came_back: bool  # because it had been told to
    first_token_s: float | None = None
    whole: bool = False
    refusal: Refusal | None = None

    @property
    def decided(self) -> bool:
        """Whether it was answered or refused, and not still waiting when all were sent home."""
        return self.first_token_s is not None or self.refusal is not None


class Crowd:
    """Comes at random moments (Poisson), the same for the same seed. After `seconds` all are sent home, answered or not."""

    def __init__(self, url: str, *, per_s: float, seconds: float, expected: str, seed: int) -> None:
        self._url = f"{url}/rag-query"
        self._per_s = per_s
        self._seconds = seconds
        self._expected = expected  # the answer, whole
        self._chance = random.Random(seed)
        self._attempts: list[Attempt] = []

    async def come(self) -> list[Attempt]:
        """All that was asked, in the order in which it ended. Raises what is neither an answer nor a refusal."""
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as self._session:
            self._begun = time.perf_counter()
            async with asyncio.TaskGroup() as people:
                came = []
                for n, at in enumerate(self._arrivals()):
                    await self._until(at)
                    came.append(people.create_task(self._person(address(n))))
                await self._until(self._seconds)
                for person in came:
                    person.cancel()
        return self._attempts

    def _arrivals(self) -> list[float]:
        at, found = 0.0, []
        while (at := at + self._chance.expovariate(self._per_s)) < self._seconds:
            found.append(at)
        return found

    async def _until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self._now()))

    async def _person(self, name: str) -> None:
        refusal = await self._ask(name, came_back=False)
        while refusal is not None and refusal.retry_after_s:
            await asyncio.sleep(refusal.retry_after_s)
            refusal = await self._ask(name, came_back=True)

    async def _ask(self, name: str, *, came_back: bool) -> Refusal | None:
        asked_at, reading = self._now(), Reading()
        try:
            headers = {**HEADERS, "x-forwarded-for": name}
            async with self._session.post(self._url, data=BODY, headers=headers) as response:
                if response.status == 429:
                    reading.refusal = Refusal(int(response.headers.get("retry-after", 0)), in_stream=False)
                    return reading.refusal
                assert response.status == 200, await response.text()
                async for piece in response.content.iter_any():
                    reading.body += piece
                    if reading.first_token_s is None and TEXT_MARK in reading.body:
                        reading.first_token_s = self._now() - asked_at
                reading.end(self._expected)
                return reading.refusal
        finally:
            of = (reading.first_token_s, reading.whole, reading.refusal)
            self._attempts.append(Attempt(asked_at, self._now(), came_back, *of))

    def _now(self) -> float:
        return time.perf_counter() - self._begun


@dataclass
class Reading:
    """What has come of one request so far."""

    body: bytes = b""
    first_token_s: float | None = None
    whole: bool = False
    refusal: Refusal | None = None

    def end(self, expected: str) -> None:
        """The body is over. Raises unless it is the expected answer or a refusal."""
        events = native_sse([self.body])
        last = events[-1]
        if last["type"] == "error" and last["code"] == "overloaded":
            told = TOLD_IN_WORDS.search(last["message"])
            self.refusal = Refusal(int(told[1]) if told else 0, in_stream=True)
            return
        assert last["type"] == "done", last
        assert answer_text(events) == expected
        self.whole = True


def address(n: int) -> str:
    """Of the n-th person, as a proxy tells it."""
    return f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"
