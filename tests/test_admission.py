"""Admission: never more than its places, first come first served, and no place lost whatever is cancelled when."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rag_service.admission import Admission, Ticket
from rag_service.errors import Overloaded


class AdmissionMachine(RuleBasedStateMachine):
    """Requests join and leave in any order; a list says what must be true."""

    @initialize(running=st.integers(1, 4), queued=st.integers(0, 5))
    def start(self, running: int, queued: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.running, self.queued = running, queued
        self.admission = Admission(running, queued)
        self.present: list[Ticket] = []  # in order of arrival

    @rule()
    def join(self) -> None:
        if len(self.present) < self.running + self.queued:
            self.present.append(self.admission.join())
            return
        with pytest.raises(Overloaded) as refusal:
            self.admission.join()
        assert refusal.value.retry_after_s is not None
        assert refusal.value.retry_after_s >= 1

    @precondition(lambda self: self.present)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        ticket = self.present.pop(data.draw(st.integers(0, len(self.present) - 1)))
        self.loop.run_until_complete(ticket.__aexit__(None, None, None))

    @invariant()
    def places_go_to_the_first(self) -> None:
        if not hasattr(self, "present"):
            return
        permitted = [ticket.permit is not None for ticket in self.present]
        assert permitted == [n < self.running for n in range(len(self.present))]
        assert self.admission.running == min(len(self.present), self.running)
        assert self.admission.queued == max(0, len(self.present) - self.running)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()


TestAdmission = AdmissionMachine.TestCase


@given(st.lists(st.tuples(st.sampled_from(["start", "cancel", "finish", "turn"]), st.integers(0, 9)), max_size=60))
def test_no_place_is_lost_whatever_is_cancelled_when(actions: list[tuple[str, int]]) -> None:
    async def scenario() -> None:
        admission = Admission(2, 3)
        tasks: list[tuple[asyncio.Task[None], asyncio.Event]] = []
        working = 0

        async def work(finish: asyncio.Event) -> None:
            nonlocal working
            async with admission.join() as ticket:
                async for _ in ticket.positions():
                    pass
                assert ticket.permit is not None
                working += 1
                assert working <= 2
                try:
                    await finish.wait()
                finally:
                    working -= 1

        for action, n in actions:
            if action == "start":
                finish = asyncio.Event()
                tasks.append((asyncio.create_task(work(finish)), finish))
            elif action == "turn":
                await asyncio.sleep(0)
            elif tasks:
                task, finish = tasks[n % len(tasks)]
                task.cancel() if action == "cancel" else finish.set()
        for _, finish in tasks:
            finish.set()
        done = await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)
        assert all(result is None or isinstance(result, Overloaded | asyncio.CancelledError) for result in done)
        assert (admission.running, admission.queued) == (0, 0)

    asyncio.run(scenario())


async def test_those_who_wait_are_told_each_place() -> None:
    admission = Admission(1, 3)
    async with AsyncExitStack() as stack:
        tickets = [await stack.enter_async_context(admission.join()) for _ in range(2)]
        last = await stack.enter_async_context(admission.join())
        told = last.positions()
        assert await anext(told) == 2
        waiting = asyncio.ensure_future(anext(told))
        await asyncio.sleep(0)
        await admission_left(tickets[1])
        assert await waiting == 1
        await admission_left(tickets[0])
        with pytest.raises(StopAsyncIteration):
            await anext(told)
        stack.pop_all()
    await admission_left(last)
    assert (admission.running, admission.queued) == (0, 0)


async def admission_left(ticket: Ticket) -> None:
    await ticket.__aexit__(None, None, None)


async def test_retry_after_follows_what_answers_take() -> None:
    now = [0.0]
    admission = Admission(2, 0, clock=lambda: now[0])
    for _ in range(100):
        async with admission.join():
            now[0] += 30.0
    assert admission.retry_after_s() == pytest.approx(15.0, rel=0.01)
    async with admission.join(), admission.join():
        with pytest.raises(Overloaded, match="Try again in 15 s"):
            admission.join()


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
