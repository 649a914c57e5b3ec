"""Admission says no: who would be too late, or is; and when it is worth coming back."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from rag_service.admission import Admission
from rag_service.errors import Overloaded
from tests.support.virtual_time import Request, VirtualTime, settled, virtual_clock, virtually


def test_who_could_not_start_in_time_is_refused_at_once() -> None:
    async def scenario() -> None:
        admission = Admission(1, 100, 30.0, clock=virtual_clock())  # an answer is assumed to take 5 s
        requests = [Request(str(n)).start(admission) for n in range(8)]
        await settled()
        assert [request.state for request in requests] == ["running", *["waiting"] * 6, "refused"]
        refusal = requests[-1].refusal
        assert refusal is not None
        assert refusal.message.startswith("A place would be free in about 35 s, and requests wait at most 30 s")
        assert refusal.retry_after_s == 15  # three times what a place needs to become free

    virtually(scenario())


def test_what_the_answers_in_work_have_taken_already_shortens_the_wait() -> None:
    async def scenario() -> None:
        admission = Admission(1, 1, 3.0, clock=virtual_clock())
        running = Request("a").start(admission)
        await settled()
        early = Request("b").start(admission)
        await asyncio.sleep(4)
        second = Request("c").start(admission)
        await settled()
        assert [running.state, early.state, second.state] == ["running", "refused", "waiting"]

    virtually(scenario())


def test_who_waits_longer_than_allowed_is_refused_then() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        admission = Admission(1, 2, 30.0, clock=virtual_clock())
        endless = Request("a").start(admission)
        await settled()
        late = Request("b").start(admission)
        await asyncio.sleep(10)
        later = Request("c").start(admission)
        assert late.task is not None
        await late.task
        assert loop.time() == pytest.approx(late.joined + 30)
        assert late.refusal is not None
        assert late.refusal.message.startswith("No place was free within 30 s (RAG_ADMISSION__QUEUE_TIMEOUT_S).")
        assert late.refusal.retry_after_s is not None
        await settled()
        assert (later.told, admission.queued) == ([2, 1], 1)
        endless.finish.set()
        await asyncio.sleep(100)
        assert later.state == "running", "a turn that came ends the waiting time"
        later.finish.set()
        await settled()
        assert (admission.running, admission.queued) == (0, 0)

    virtually(scenario())


@pytest.mark.parametrize("ending", ["leaves", "is admitted", "gives way", "is late"])
def test_no_ticket_leaves_its_timer_behind(ending: str) -> None:
    async def scenario() -> list[asyncio.TimerHandle]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTime)
        admission = Admission(1, 2, 30.0, clock=virtual_clock())
        running = Request("a").start(admission)
        await asyncio.sleep(1)
        requests = [Request("a").start(admission) for _ in range(2)]
        await asyncio.sleep(1)
        assert len(loop.pending()) == 2
        first, second = requests
        assert first.task is not None
        assert second.task is not None
        if ending == "leaves":
            first.task.cancel()
            second.task.cancel()
        elif ending == "is admitted":
            running.finish.set()
            first.finish.set()
            second.finish.set()
        elif ending == "gives way":
            Request("b").start(admission)
            first.task.cancel()
        else:
            await asyncio.sleep(30)
        await settled()
        assert first.state != "waiting"
        assert second.state != "waiting"
        return loop.pending()

    assert len(virtually(scenario())) == (ending == "gives way"), "but the one that it gave way to still waits"


def test_an_admitted_one_keeps_no_timer_while_it_runs() -> None:
    async def scenario() -> list[asyncio.TimerHandle]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTime)
        admission = Admission(1, 2, 30.0, clock=virtual_clock())
        first, second = [Request("a").start(admission) for _ in range(2)]
        await settled()
        first.finish.set()
        await settled()
        assert second.state == "running"
        return loop.pending()

    assert virtually(scenario()) == []


class Narrow:
    """An admission with one place and no queue, whose Retry-After shows how long an answer is thought to take."""

    def __init__(self) -> None:
        self.now = 0.0
        self.admission = Admission(1, 0, clock=lambda: self.now)

    async def answer(self, seconds: float) -> None:
        async with self.admission.join():
            self.now += seconds

    async def fail(self, seconds: float, error: BaseException) -> None:
        ticket = self.admission.join()
        await ticket.__aenter__()
        self.now += seconds
        await ticket.__aexit__(type(error), error, None)

    async def break_off(self, seconds: float) -> None:
        async with self.admission.join() as ticket:
            ticket.broken_off = True
            self.now += seconds

    async def retry_after(self) -> float:
        """As the first one who is refused after a long time is told it."""
        self.now += 10_000
        async with self.admission.join() as ticket:
            ticket.broken_off = True
            with pytest.raises(Overloaded, match="All 1 places and 0 waiting places are taken") as refusal:
                self.admission.join()
        assert refusal.value.retry_after_s is not None
        return refusal.value.retry_after_s


async def test_retry_after_follows_what_answers_take() -> None:
    narrow = Narrow()
    assert await narrow.retry_after() == 15  # three times the 5 s that are assumed
    await narrow.answer(15)
    assert await narrow.retry_after() == 30  # what was assumed counts as one answer: 10 s
    for _ in range(100):
        await narrow.answer(30)
    assert await narrow.retry_after() == 90
    for _ in range(100):
        await narrow.answer(0)
    assert await narrow.retry_after() == 1


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), GeneratorExit(), ValueError("A fault.")], ids=lambda error: type(error).__name__
)
async def test_an_answer_that_was_broken_off_makes_no_answer_look_short(error: BaseException) -> None:
    narrow = Narrow()
    for _ in range(100):
        await narrow.answer(10)
    for _ in range(50):
        await narrow.fail(0.1, error)
        await narrow.break_off(0.1)
    assert await narrow.retry_after() == 30
    for _ in range(200):
        await narrow.fail(30, error)
    assert await narrow.retry_after() == 90, "it would have taken even longer"


async def test_each_one_refused_is_told_a_later_time() -> None:
    now = [0.0]
    admission = Admission(2, 0, clock=lambda: now[0])

    def told(caller: str) -> float:
        with pytest.raises(Overloaded) as refusal:
            admission.join(caller)
        return refusal.value.retry_after_s or 0

    async with admission.join():
        async with admission.join():
            assert [told(str(n)) for n in range(5)] == [8, 13, 19, 24, 30]
            now[0] = 26.0
            assert told("5") == 9, "about five seconds after the last one told"
        now[0] = 30.0
    async with admission.join(), admission.join():
        now[0] = 1000.0
        assert told("6") < 60, "those who did not come are forgotten"


async def test_where_nobody_comes_back_no_late_times_are_told() -> None:
    now = [0.0]
    admission = Admission(1, 4, clock=lambda: now[0])
    told = []
    async with AsyncExitStack() as stack:
        for n in range(5):
            await stack.enter_async_context(admission.join(f"waiting {n}"))
        for n in range(200):
            now[0] += 5.0  # as long as an answer is assumed to take
            with pytest.raises(Overloaded) as refusal:
                admission.join(f"refused {n}")
            told.append(refusal.value.retry_after_s or 0)
    assert max(told) > 30
    assert told[-1] == 15


async def test_who_asks_again_at_once_puts_off_nobody_else() -> None:
    admission = Admission(1, 1, clock=lambda: 0.0)
    async with admission.join("polite"), admission.join("other"):
        for _ in range(1000):
            with pytest.raises(Overloaded) as refusal:
                admission.join("hasty")
        assert refusal.value.retry_after_s == 600
        with pytest.raises(Overloaded) as refusal:
            admission.join("patient")
        assert refusal.value.retry_after_s == 59  # after four of the hasty one's


def test_a_place_is_kept_for_who_comes_when_it_was_told_to() -> None:
    async def scenario() -> None:
        admission = Admission(1, 2, clock=virtual_clock())
        first, *_ = [Request(str(n)).start(admission) for n in range(3)]
        await settled()
        told = Request("told").start(admission)
        await settled()
        assert told.refusal is not None
        assert told.refusal.retry_after_s is not None
        first.finish.set()
        await settled()
        stranger = Request("stranger").start(admission)
        await settled()
        assert stranger.state == "refused"
        await asyncio.sleep(told.refusal.retry_after_s)
        back = Request("told").start(admission)
        await settled()
        assert back.state == "waiting"

    virtually(scenario())
