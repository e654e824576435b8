"""Can one process hold very many bodies: paused, and at work?

Source: spec agent, "Concurrency" (thousands run on one loop) and "Numbers to design for".
"""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from quiesce import Paused, Run, Runtime, agent, ask_human, step

pytestmark = pytest.mark.anyio


@agent
def asks(number: int) -> int:
    answer: int = ask_human(f"what is {number}?", expects=int)
    return number + answer


@step
async def waits(number: int) -> int:
    await anyio.lowlevel.checkpoint()
    return number


@step
def blocks(number: int) -> int:
    return number


@agent
async def works(number: int) -> int:
    return await waits(number) + blocks(number) + await waits(number)


async def hold_many(count: int) -> None:
    async with Runtime() as rt:
        runs = [await rt.start(asks, number) for number in range(count)]
        for run in runs:
            assert isinstance(await run.settled(), Paused)
        assert len(rt.backend.host.drivers) == count
        sample = runs[:: count // 10]
        for run in sample:
            number = runs.index(run)
            assert run.frames()[-1].locals["number"] == number
            await run.answer(1)
            assert await run.result() == number + 1
        for run in runs:
            if run not in sample:
                await run.cancel()
        while rt.backend.host.drivers:
            await anyio.lowlevel.checkpoint()


async def test_two_thousand_bodies_are_paused_in_one_process() -> None:
    """spec agent, numbers: paused bodies cost memory alone, and each is still itself."""
    await hold_many(2_000)


@pytest.mark.slow
async def test_100_000_bodies_are_paused_in_one_process() -> None:
    """spec agent, numbers: 100,000 paused agents in one process."""
    await hold_many(100_000)


async def test_thousands_work_at_once_with_steps_that_await_and_steps_that_block() -> None:
    """spec agent, concurrency: bodies that await, and blocking steps in threads, let the others run."""
    count = 2_000
    async with Runtime() as rt:
        runs: list[Run] = [await rt.start(works, number) for number in range(count)]
        assert [await run.result() for run in runs] == [3 * number for number in range(count)]
