"""What is paused: three flows, of as many pieces as are asked for, which begin something again and again.

- graph: so many branches side by side; each visits one node over and over.
- agent: so many agents inside one; each takes one step after the other.
- team: so many turns; of those up to fifty run, one of each member, and take one step after the other; the
  others stand in the queues of their members.

A visit or step lasts as long as chance says, within bounds, so that a pause finds each of them somewhere
else. All of them are awaits in one process, which notes when the last one began, and when each is to end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

from quiesce import (
    Concurrency,
    Graph,
    Idle,
    JoinInput,
    Run,
    Runtime,
    Team,
    Transition,
    Turn,
    agent,
    spawn,
    step,
)

from .bare import Rows

__all__ = ["MEMBERS", "Work", "all_at_work", "busy", "drained", "rows_of", "work"]

MEMBERS = 50
"""As many as a team may have."""


class Work:
    """What the bodies of this process do, and when they began to."""

    def __init__(self) -> None:
        self.bounds = (0.0, 0.0)
        """Seconds that one visit or step lasts, at least and at most."""
        self.begun = 0
        self.last = 0.0
        self._under_way: dict[asyncio.Future[None], float] = {}
        self._awaited = (0, asyncio.Event())

    async def do(self) -> None:
        """One visit or step."""
        self.last = perf_counter()
        self.begun += 1
        if self.begun == self._awaited[0]:
            self._awaited[1].set()
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        lasts = random.uniform(*self.bounds)
        timer = loop.call_later(lasts, self._end, over)
        self._under_way[over] = self.last + lasts
        try:
            await over
        finally:
            timer.cancel()
            del self._under_way[over]

    def ends(self) -> list[float]:
        """When those under way are to end, as `perf_counter` has it."""
        return list(self._under_way.values())

    @staticmethod
    def _end(over: asyncio.Future[None]) -> None:
        if not over.done():
            over.set_result(None)

    def hurry(self) -> None:
        """End all visits and steps that are under way."""
        for over in self._under_way:
            self._end(over)

    async def wait_for(self, more: int, since: int) -> None:
        """Until so many more have begun than had at that count."""
        if self.begun < since + more:
            self._awaited = (since + more, asyncio.Event())
            await self._awaited[1].wait()


work = Work()


@step
async def do_some() -> None:
    await work.do()


graph = Graph("busy", concurrency=Concurrency.PARALLEL)


@graph.node(start=True)
def spread(size: int) -> int:
    return size


@graph.node
async def visit(number: int) -> int:
    await work.do()
    return number


@graph.node
def all_over(numbers: JoinInput[int]) -> None:
    """Never: they go on until the run is cancelled."""


@graph.transition(spread)
def to_all(size: int) -> Transition:
    return Transition.fan_out([(visit, number) for number in range(size)], join=all_over)


@graph.transition(visit)
def again(number: int) -> Transition:
    return visit.next(number)


graph.finish(all_over)


@agent
async def one_of_many() -> None:
    while True:
        await do_some()


@agent
def crowd(size: int) -> None:
    for child in [spawn(one_of_many) for _ in range(size)]:
        child.result()


async def leave_it_to_others(turn: Turn) -> None:
    """The tasks come from outside."""


async def member(turn: Turn) -> None:
    while True:
        await do_some()


team = Team(
    "busy",
    coordinator=leave_it_to_others,
    members={f"m{number}": member for number in range(MEMBERS)},
)


def rows_of(backend: str, size: int) -> Rows:
    """What a fence of so many pieces writes."""
    if backend == "graph":
        return Rows(running=size)
    if backend == "agent":
        return Rows(running=1, children=size)
    bodies = min(size, MEMBERS)
    return Rows(running=bodies, queued=size - bodies, children=bodies)


@asynccontextmanager
async def busy(runtime: Runtime, backend: str, size: int, bounds: tuple[float, float]) -> AsyncIterator[Run]:
    """A run in which so many pieces are at work, each visit or step of so many seconds."""
    work.bounds = bounds
    before = work.begun
    if backend == "team":
        run = await runtime.start(team)
        assert isinstance(await run.settled(), Idle)
        for first in range(0, size, MEMBERS):  # side by side: they share commits
            async with asyncio.TaskGroup() as tasks:
                for number in range(first, min(size, first + MEMBERS)):
                    tasks.create_task(run.create_task(f"task {number}", owner=f"m{number % MEMBERS}"))
    else:
        run = await runtime.start(graph if backend == "graph" else crowd, size)
    try:
        await all_at_work(run, backend, size, before)
        yield run
    finally:
        await run.cancel()
        work.hurry()


async def all_at_work(run: Run, backend: str, size: int, since: int) -> None:
    """Until as many have begun since that count as can be at work. Raises what the run failed with."""
    begun = asyncio.ensure_future(work.wait_for(at_work(backend, size), since))
    over = asyncio.ensure_future(run.result())
    try:
        await asyncio.wait((begun, over), return_when=asyncio.FIRST_COMPLETED)
        if over.done():
            raise RuntimeError(f"the run that should be at work is over: {over.result()!r}")
    finally:
        for waiting in (begun, over):
            waiting.cancel()


async def drained(run: Run) -> None:
    """Until nothing runs any more of a paused run and of those inside it."""
    await run.settled()
    for child in (await run.status()).children:
        await (await run.runtime.get(child)).settled()


def at_work(backend: str, size: int) -> int:
    """How many pieces of these run at the same time."""
    return min(size, MEMBERS) if backend == "team" else size
