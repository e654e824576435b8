"""What else happens in a store while it is measured: a process that looks, and processes that write."""

from __future__ import annotations

import asyncio
import sys
from time import perf_counter
from typing import Literal

from quiesce import Runtime, agent, step
from quiesce.states import RunState

__all__ = ["look", "write"]

STEPS = 200


@step
async def nothing() -> None:
    pass


@agent
async def writer() -> None:
    for _ in range(STEPS):
        await nothing()


def look(path: str, run_id: str) -> None:
    """For each generation that it reads: look again and again until the run is paused with it; say when."""
    asyncio.run(_look(path, run_id))


def write(path: str, durability: Literal["full", "normal"]) -> None:
    """Write as fast as it can: a commit for each step."""
    asyncio.run(_write(path, durability))


async def _look(path: str, run_id: str) -> None:
    async with Runtime(path, drive=False) as runtime:
        run = await runtime.get(run_id)
        for line in sys.stdin:
            print("looking", flush=True)
            while True:
                status = await run.status()
                if status.generation >= int(line) and status.state is RunState.PAUSED:
                    break
            print(perf_counter(), flush=True)


async def _write(path: str, durability: Literal["full", "normal"]) -> None:
    async with Runtime(path, durability=durability) as runtime:
        while True:
            await runtime.run(writer)
            print("writing", flush=True)
