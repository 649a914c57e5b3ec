"""Writers of one turn of the loop: all work before the first writes, and who is cancelled stops nobody else."""

import asyncio

from rag_service.api.write_turn import WriteTurn


async def test_all_have_worked_before_the_first_one_writes() -> None:
    turn = WriteTurn()
    seen: list[str] = []

    async def stream() -> None:
        for n in range(3):
            seen.append(f"work {n}")
            await turn.end()
            seen.append(f"write {n}")

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(stream())
    expected = [one for n in range(3) for one in (f"work {n}", f"write {n}")]
    assert sorted(seen) == sorted(expected * 4)
    assert seen.index("write 0") == 4, "somebody wrote while others had not worked yet"


async def test_a_cancelled_writer_stops_no_other() -> None:
    turn = WriteTurn()

    async def stream() -> bool:
        await turn.end()
        return True

    tasks = [asyncio.create_task(stream()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert found[::2] == [True, True]
    assert isinstance(found[1], asyncio.CancelledError)


async def test_a_lone_writer_waits_for_one_turn() -> None:
    turn, turns = WriteTurn(), 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    turns = 0
    await turn.end()
    counting.cancel()
    assert turns <= 2
