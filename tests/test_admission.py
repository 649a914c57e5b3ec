"""Admission: never more than its places, callers in turn, and no place lost whatever is cancelled when.

Time is virtual: a loop that jumps to its next timer. What takes minutes there takes none here, and is the same every time.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rag_service.admission import Admission, Ticket
from tests.support.virtual_time import Request, VirtualTime, settled, virtual_clock, virtually

T = TypeVar("T")


class AdmissionMachine(RuleBasedStateMachine):
    """Callers ask, finish, leave and wait too long in any order; a plain list of lines says whose turn it is."""

    TIMEOUT_S = 30.0

    @initialize(running=st.integers(1, 3), queued=st.integers(0, 6))
    def start(self, running: int, queued: int) -> None:
        self.runner = asyncio.Runner(loop_factory=VirtualTime)
        self.most_running, self.most_queued = running, queued
        self.running: list[Request] = []
        self.lines: list[list[Request]] = []  # one for each caller that waits; the first has the next turn
        self.admission = self.run(self.made())

    async def made(self) -> Admission:
        return Admission(self.most_running, self.most_queued, self.TIMEOUT_S, clock=virtual_clock())

    def run(self, scenario: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(scenario)

    def waiting(self) -> list[Request]:
        """In the order of their turns."""
        return [line[n] for n in range(max(map(len, self.lines), default=0)) for line in self.lines if len(line) > n]

    def remove(self, request: Request) -> None:
        self.running = [other for other in self.running if other is not request]
        self.lines = [[other for other in line if other is not request] for line in self.lines]
        self.lines = [line for line in self.lines if line]
        while self.lines and len(self.running) < self.most_running:
            line = self.lines.pop(0)
            self.running.append(line[0])
            self.lines += [line[1:]] if line[1:] else []

    @rule(caller=st.sampled_from("abc"))
    def join(self, caller: str) -> None:
        had = Counter(request.caller for request in self.waiting())
        was_full = len(self.running) == self.most_running

        async def joined() -> Request:
            request = Request(caller).start(self.admission)
            await settled()
            return request

        request = self.run(joined())
        if request.state == "refused":
            assert was_full
            assert request.refusal is not None
            assert request.refusal.retry_after_s is not None
            assert request.refusal.retry_after_s >= 1
            return
        for gone in [other for other in self.waiting() if other.state == "refused" and not self.is_late(other)]:
            assert had[gone.caller] == max(had.values())
            assert had[gone.caller] >= had[caller] + 2, "it gave way to one that has no less"
            assert gone is [other for other in self.waiting() if other.caller == gone.caller][-1]
            self.remove(gone)
        line = next((line for line in self.lines if line[0].caller == caller), None)
        if not was_full:
            self.running.append(request)
        elif line is None:
            self.lines.append([request])
        else:
            line.append(request)
        if was_full:
            assert request.told[0] == self.waiting().index(request) + 1

    @precondition(lambda self: self.running or self.lines)
    @rule(data=st.data(), how=st.sampled_from(["finish", "cancel"]))
    def end(self, data: st.DataObject, how: str) -> None:
        present = self.waiting() if how == "cancel" else []
        request = data.draw(st.sampled_from(self.running + present))

        async def ended() -> None:
            assert request.task is not None
            request.finish.set() if how == "finish" else request.task.cancel()
            await settled()

        self.run(ended())
        assert request.state == {"finish": "done", "cancel": "left"}[how]
        self.remove(request)

    @rule(seconds=st.sampled_from([1.0, 11.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def is_late(self, request: Request) -> bool:
        return self.run(self.now()) >= request.joined + self.TIMEOUT_S

    async def now(self) -> float:
        return asyncio.get_running_loop().time()

    @invariant()
    def it_is_as_the_lines_say(self) -> None:
        if not hasattr(self, "runner"):
            return
        for request in self.waiting():
            assert (request.state == "refused") == self.is_late(request)
            if request.state == "refused":
                self.remove(request)
        self.run(settled())
        assert len(self.running) <= self.most_running
        assert len(self.waiting()) <= self.most_queued
        assert (self.admission.running, self.admission.queued) == (len(self.running), len(self.waiting()))
        assert {request.state for request in self.running} <= {"running"}
        assert {request.state for request in self.waiting()} <= {"waiting"}
        assert [request.told[-1] for request in self.waiting()] == list(range(1, len(self.waiting()) + 1))

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.close()


TestAdmission = AdmissionMachine.TestCase
TestAdmission.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(
    st.lists(st.tuples(st.sampled_from(["start", "cancel", "finish", "turn", "time"]), st.integers(0, 9)), max_size=60)
)
@settings(deadline=None)
def test_no_place_is_lost_whatever_is_cancelled_when(actions: list[tuple[str, int]]) -> None:
    async def scenario() -> None:
        admission = Admission(2, 3, 20.0, clock=virtual_clock())
        requests: list[Request] = []
        for action, n in actions:
            if action == "start":
                requests.append(Request(str(n % 3)).start(admission))
            elif action == "turn":
                await asyncio.sleep(0)
            elif action == "time":
                await asyncio.sleep(n)
            elif requests:
                request = requests[n % len(requests)]
                assert request.task is not None
                request.task.cancel() if action == "cancel" else request.finish.set()
            assert sum(request.state == "running" for request in requests) <= 2
            assert admission.running <= 2
            assert admission.queued <= 3
        for request in requests:
            request.finish.set()
        await asyncio.gather(*(request.task for request in requests if request.task), return_exceptions=True)
        assert (admission.running, admission.queued) == (0, 0)
        assert {request.state for request in requests} <= {"done", "refused", "left", "new"}
        await settled()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTime)
        assert loop.pending() == [], "a ticket left its timer behind"

    virtually(scenario())


def test_one_request_waits_for_one_turn_of_a_caller_with_a_hundred() -> None:
    async def scenario() -> list[str]:
        admission = Admission(1, 200, clock=virtual_clock())
        turns: list[str] = []
        many = [Request("many").start(admission) for _ in range(101)]
        await settled()
        others = [Request(caller).start(admission) for caller in ("one", "two")]
        await settled()
        assert [other.told for other in others] == [[2], [3]]
        assert [many[1].told[-1], many[2].told[-1], many[3].told[-1]] == [1, 4, 5]
        for _ in range(103):
            (running,) = [request for request in many + others if request.state == "running"]
            turns.append(running.caller)
            running.finish.set()
            await settled()
        return turns

    assert virtually(scenario()) == ["many", "many", "one", "two", *["many"] * 99]


def test_the_first_place_that_is_told_counts_the_turns_of_others() -> None:
    async def scenario() -> list[int]:
        admission = Admission(1, 20, clock=virtual_clock())
        requests = [Request(caller).start(admission) for caller in "xabbbcca"]
        await settled()
        return [request.told[0] for request in requests[1:]]

    assert virtually(scenario()) == [1, 2, 3, 4, 3, 5, 4]  # in the end: a b c, a b c, b


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=19))
@settings(deadline=None)
def test_no_caller_gets_more_turns_than_another_that_waits(callers: list[str]) -> None:
    async def scenario() -> None:
        admission = Admission(1, 30, clock=virtual_clock())
        first = Request("first").start(admission)
        await settled()
        requests = [Request(caller).start(admission) for caller in callers]
        await settled()
        foretold = sorted(requests, key=lambda request: request.told[-1])
        served: list[Request] = []
        first.finish.set()
        while len(served) < len(requests):
            await settled()
            served += [request for request in requests if request.state == "running"]
            served[-1].finish.set()
        assert served == foretold
        for request in requests:
            before = Counter(other.caller for other in served[: served.index(request)])
            assert max(before.values(), default=0) <= before[request.caller] + 1

    virtually(scenario())


def test_far_from_the_front_not_every_turn_is_told() -> None:
    async def scenario() -> list[int]:
        admission = Admission(1, 1000, clock=virtual_clock())
        requests = [Request("").start(admission) for _ in range(1001)]
        for request in requests[:-1]:
            await settled()
            await asyncio.sleep(1)
            request.finish.set()
        await settled()
        return requests[-1].told

    told = virtually(scenario())
    assert told[:3] == [1000, 900, 810]
    assert told[-10:] == list(range(10, 0, -1))
    assert len(told) < 60


def test_a_caller_alone_may_use_every_waiting_place_and_gives_way_to_others() -> None:
    async def scenario() -> None:
        admission = Admission(1, 4, clock=virtual_clock())
        many = [Request("many").start(admission) for _ in range(6)]
        await settled()
        assert [request.state for request in many] == ["running", *["waiting"] * 4, "refused"]
        few = [Request("few").start(admission) for _ in range(3)]
        await settled()
        assert [request.state for request in many] == ["running", "waiting", "waiting", *["refused"] * 3]
        assert [request.state for request in few] == ["waiting", "waiting", "refused"], (
            "no more than the one who gave way"
        )
        refusal = many[4].refusal
        assert refusal is not None
        assert refusal.message.startswith("All waiting places are taken, and this one")
        assert refusal.retry_after_s is not None

    virtually(scenario())


def test_those_who_wait_are_told_each_place() -> None:
    async def scenario() -> None:
        admission = Admission(1, 3)
        async with AsyncExitStack() as stack:
            tickets = [await stack.enter_async_context(admission.join()) for _ in range(2)]
            last = await stack.enter_async_context(admission.join())
            told = last.positions()
            assert await anext(told) == 2
            waiting = asyncio.ensure_future(anext(told))
            await asyncio.sleep(0)
            await given_up(tickets[1])
            assert await waiting == 1
            await given_up(tickets[0])
            with pytest.raises(StopAsyncIteration):
                await anext(told)
        assert (admission.running, admission.queued) == (0, 0), "giving a place up twice is once"

    virtually(scenario())


async def given_up(ticket: Ticket) -> None:
    await ticket.__aexit__(None, None, None)


async def test_a_permit_says_how_long_it_was_waited_for() -> None:
    now = [0.0]
    admission = Admission(1, 1, clock=lambda: now[0])
    async with admission.join() as first:
        assert first.permit is not None
        assert first.permit.queued_s == 0.0
        second = admission.join()
        now[0] = 2.5
    assert second.permit is not None
    assert second.permit.queued_s == 2.5
