"""What else happens in a store while it is measured: a process that looks, and processes that write.

python -m measures.onlookers look PATH RUN      for each generation that it reads from stdin: looks again
                                                and again until the run is paused with it, and says when
python -m measures.onlookers write PATH DURABILITY      writes as fast as it can: a commit for each step
"""

from __future__ import annotations

import asyncio
import sys
from time import perf_counter
from typing import Literal

from quiesce import Runtime, agent, step
from quiesce.states import RunState

STEPS = 200


@step
async def nothing() -> None:
    pass


@agent
async def writer() -> None:
    for _ in range(STEPS):
        await nothing()


async def look(path: str, run_id: str) -> None:
    async with Runtime(path, drive=False) as runtime:
        run = await runtime.get(run_id)
        for line in sys.stdin:
            print("looking", flush=True)
            while True:
                status = await run.status()
                if status.generation >= int(line) and status.state is RunState.PAUSED:
                    break
            print(perf_counter(), flush=True)


async def write(path: str, durability: Literal["full", "normal"]) -> None:
    async with Runtime(path, durability=durability) as runtime:
        while True:
            await runtime.run(writer)
            print("writing", flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["look", path, run_id]:
            asyncio.run(look(path, run_id))
        case ["write", path, ("full" | "normal") as durability]:
            asyncio.run(write(path, durability))
        case _:
            sys.exit(__doc__)
