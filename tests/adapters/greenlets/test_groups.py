"""What becomes of the calls of a `gather` whose body ends, fails, is retried, or is executed again?

Source: spec agent, "Concurrency" (gather), "Steps and the journal", "Actions that need approval".
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from quiesce import Run, RunState, Runtime, agent, errors, gather, step

pytestmark = pytest.mark.anyio


class Endless:
    """A body whose two steps never come to an end by themselves."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.both = anyio.Event()

        @step
        async def endless(name: str) -> None:
            self.begun.append(name)
            if len(self.begun) == 2:
                self.both.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.ended.append(name)

        @agent
        def body() -> None:
            gather(endless("a"), endless("b"))

        self.body = body

    async def start(self, rt: Runtime) -> Run:
        run = await rt.start(self.body, run_id="r")
        with anyio.fail_after(20):
            await self.both.wait()
        return run


@pytest.mark.parametrize("durable", [False, True])
async def test_the_steps_of_a_gather_end_with_their_run(tmp_path: Path, durable: bool) -> None:
    """spec engine, 4 (cancel): what runs is ended; it waits for no record that nobody can write any more."""
    endless = Endless()
    async with Runtime(tmp_path / "flows.db" if durable else None, flows=[endless.body]) as rt:
        run = await endless.start(rt)
        await run.cancel()
        with pytest.raises(errors.RunCancelled), anyio.fail_after(20):
            await run.settled()
        with anyio.fail_after(20):
            while (await run.status()).phase is not None:
                await anyio.lowlevel.checkpoint()
        assert sorted(endless.ended) == ["a", "b"]


async def test_a_runtime_is_left_while_the_steps_of_a_gather_run(db: Path) -> None:
    """spec engine, 5: leaving the runtime hands the run back, as it is."""
    endless = Endless()
    with anyio.fail_after(20):
        async with Runtime(db, flows=[endless.body]) as rt:
            await endless.start(rt)
    assert sorted(endless.ended) == ["a", "b"]
    async with Runtime(db) as rt:
        assert (await rt.status("r")).state is RunState.RUNNING
