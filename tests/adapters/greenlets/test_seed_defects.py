"""Are the defects of the system that agents are modelled on absent here, and does nothing grow?

Source: cases agent, "Defects seen in the seed's system", where no other file shows them; S29.
"""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import Completed, Paused, RunState, Runtime, agent, ask_human, errors, pause, receive

pytestmark = pytest.mark.anyio

LEAVINGS: list[type[BaseException]] = [StopIteration, StopAsyncIteration, GeneratorExit]
"""How Python's own loops and generators are left; a `break` outside a loop does not even compile."""


@pytest.mark.parametrize("leaving", LEAVINGS)
@pytest.mark.parametrize("pauses", [False, True])
async def test_what_leaves_a_loop_is_told_as_the_body_s_own_error(
    leaving: type[BaseException], pauses: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Source: cases agent B13, B6: nothing internal is raised to the caller, and the same error each time."""

    @agent
    def body() -> None:
        if pauses:
            pause("first")
        raise leaving("left")

    async with Runtime() as rt:
        run = await rt.start(body, run_id="r")
        if pauses:
            assert isinstance(await run.settled(), Paused)
            await run.resume()
        caught = []
        for _ in range(2):
            with pytest.raises((errors.RunFailed, StopAsyncIteration)) as raised:
                await run.settled()
            caught.append(raised.value)
        assert caught[0] is caught[1]
        told = [str(caught[0]), type(caught[0]).__name__, (await run.status()).error]
        assert f"{leaving.__name__}: left" in str(told[2])
        assert "coroutine raised" not in str(told)
        assert (await run.status()).state is RunState.FAILED
    assert caplog.text == ""


def test_a_break_outside_a_loop_does_not_compile() -> None:
    """Source: cases agent B13."""
    with pytest.raises(SyntaxError):
        compile("def body():\n    break\n", "body", "exec")


async def test_paused_bodies_have_no_threads() -> None:
    """Source: cases agent B14: one OS thread for each paused agent there; here none, for a thousand."""

    @agent
    def body(number: int) -> Any:
        return [number, ask_human(f"number {number}?")]

    async with Runtime() as rt:
        runs = [await rt.start(body, 0)]
        await runs[0].settled()
        with_one = threading.active_count()
        runs += [await rt.start(body, number) for number in range(1, 1000)]
        for run in runs:
            assert isinstance(await run.settled(), Paused)
        assert threading.active_count() <= with_one  # idle ones of others may end meanwhile
        await runs[500].answer("yes")
        assert await runs[500].result() == [500, "yes"]


@pytest.mark.parametrize("durable", [False, True])
async def test_a_body_hands_values_out_when_it_pauses_and_when_it_ends(durable: bool, db: Path) -> None:
    """Source: cases agent B16: what a resume returns has what the body says, and no other way is needed."""

    @agent
    def body() -> dict[str, int]:
        total = 0
        while (number := pause("next?", payload={"total": total})) is not None:
            total += number
        return {"total": total}

    async with Runtime(db if durable else None, flows=[body]) as rt:
        outcome = await rt.run(body)
        said = []
        for number in (1, 2, 3):
            assert isinstance(outcome, Paused)
            said.append(outcome.holds[0].payload)
            outcome = await outcome.resume(number)
        assert isinstance(outcome, Paused)
        assert [*said, outcome.holds[0].payload] == [{"total": total} for total in (0, 1, 3, 6)]
        assert await outcome.resume() == Completed({"total": 6})


async def test_a_body_that_nobody_writes_to_waits_and_can_be_told_to_end() -> None:
    """Source: cases agent B12: nobody hangs: start returns, it is seen to run, and a cancel ends it."""

    @agent
    def body() -> Any:
        return receive()

    async with Runtime() as rt:
        run = await rt.start(body)
        with anyio.fail_after(20):
            with anyio.move_on_after(0.01) as waiting:
                await run.settled()
            assert waiting.cancelled_caught
            assert (await run.status()).state is RunState.RUNNING
            await run.cancel()
            with pytest.raises(errors.RunCancelled):
                await run.settled()


# --- nothing grows ------------------------------------------------------------------------------------------

OURS = {
    "Ask", "Continuation", "EpisodeRecord", "GreenletDriver", "LiveBody", "ReceiptRecord", "Signal",
    "greenlet",
}  # fmt: skip


@agent
def endless() -> int:
    turns = 0
    while pause("next") != "stop":
        turns += 1
    return turns


async def turns(run: Any, times: int) -> Counter[str]:
    """Pause and resume so often; what is alive of ours then."""
    for _ in range(times):
        await run.resume("go")
        await run.settled()
    gc.collect()
    return Counter(name for each in gc.get_objects() if (name := type(each).__name__) in OURS)


async def test_pauses_of_one_body_leave_no_object_and_no_frame() -> None:
    """Source: cases agent S29, a sample: the stack is as deep after 1,000 pauses as after 100."""
    async with Runtime() as rt:
        run = await rt.start(endless)
        await run.settled()
        first = await turns(run, 100)
        depth = len(run.frames())
        assert await turns(run, 1000) == first
        assert len(run.frames()) == depth == 1
        await run.resume("stop")
        assert await run.settled() == Completed(1100)


@pytest.mark.slow
async def test_100_000_pauses_of_one_body_take_no_memory() -> None:
    """Source: cases agent S29. The newest holds and events are kept, so it is measured after those."""
    async with Runtime() as rt:
        run = await rt.start(endless)
        await run.settled()
        tracemalloc.start()
        try:
            first = await turns(run, 20_000)
            before, _ = tracemalloc.get_traced_memory()
            assert await turns(run, 80_000) == first
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        await run.resume("stop")
        assert await run.settled() == Completed(100_000)
    assert after - before < 1_000_000, f"{(after - before) / 80_000} bytes for each pause"
