"""Does a retry of a failed team go on at the turn that failed it, once, and with what came back since?

Source: spec engine, 4 (retry); spec team, "Model" (scheduling); N5, N7.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Runtime, Team, Turn, step
from quiesce.clock import ManualClock
from quiesce_adapters.sqlite.checks import violations_of_file

from .crew import log_of

pytestmark = pytest.mark.anyio


async def member(turn: Turn) -> None:
    """Nobody has anything for it to do."""


async def test_one_retry_is_one_attempt_of_the_coordinator(path: Path | None) -> None:
    """spec team, scheduling: what failed begins again when its turn is promoted, and not before, too."""
    tries: list[int] = []

    async def coordinator(turn: Turn) -> None:
        tries.append(len(tries) + 1)
        if len(tries) < 3:
            raise ValueError(f"try {len(tries)}")
        turn.finish(len(tries))

    team = Team("t", coordinator=coordinator, members={"m": member})
    async with Runtime(path, flows=[team], clock=ManualClock()) as rt:
        run = await rt.start(team)
        with pytest.raises(ValueError, match="try 1"):
            await run.settled()
        await run.retry()
        with pytest.raises(ValueError, match="try 2"):
            await run.settled()
        await run.retry()
        assert await run.result() == 3
        log = await log_of(rt)
        again = [event.kind for event in log if event.kind in ("retried", "turn-running")]
        assert again == ["turn-running", *["retried", "turn-running", "retried"] * 2]
    if path is not None:
        assert violations_of_file(path) == []


@pytest.mark.parametrize("ends", ["returns", "raises"])
async def test_what_came_back_after_the_failure_is_applied_by_the_retry(path: Path | None, ends: str) -> None:
    """spec engine, 4: completed work is not run again; what came too late for the failed run is kept."""
    gate, began = anyio.Event(), anyio.Event()
    worked: list[str] = []
    broken = [ValueError("coordinator")]

    @step
    async def work() -> str:
        worked.append("work")
        began.set()
        await gate.wait()
        return "done"

    async def slow(turn: Turn) -> Any:
        done = await work()
        if ends == "raises":
            raise ValueError("slow broke")
        return done

    async def fast(turn: Turn) -> None:
        await began.wait()

    async def coordinator(turn: Turn) -> None:
        tasks = turn.tasks()
        if not tasks:
            turn.create_task("slow", owner="slow")
            turn.create_task("fast", owner="fast")
        elif broken:
            raise broken.pop()
        elif all(task.state in ("completed", "failed") for task in tasks):
            turn.finish([task.state for task in tasks])

    team = Team("t", coordinator=coordinator, members={"slow": slow, "fast": fast})
    async with Runtime(path, flows=[team], clock=ManualClock()) as rt:
        run = await rt.start(team)
        with pytest.raises(ValueError, match="coordinator"):
            await run.settled()
        gate.set()
        await wait_all_tasks_blocked()
        assert [task.state for task in await run.tasks()] == ["in_progress", "completed"]
        await run.retry()
        with anyio.fail_after(20):
            assert await run.result() == ["completed" if ends == "returns" else "failed", "completed"]
        assert worked == ["work"]
    if path is not None:
        assert violations_of_file(path) == []
