"""The same work as an agent, a graph and a team: something before, one question, one effect; and its lives.

What comes before the question waits at a door, so that a pause finds it under way; the safe point after it is
where all three stand then.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from quiesce import Completed, Graph, Paused, Runtime, Team, Turn, agent, checkpoint, pause, step

from .lines import report, rounds

# --- the work -----------------------------------------------------------------------------------------


class Door:
    """Open, unless a life closes it."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._came = asyncio.Event()

    async def pass_through(self) -> None:
        self._came.set()
        await self._open.wait()

    def close(self) -> None:
        self._open.clear()
        self._came.clear()

    async def somebody(self) -> None:
        """Wait until somebody stands before it."""
        await self._came.wait()

    def open(self) -> None:
        self._open.set()


door = Door()
effects = [0]


async def before() -> int:
    await door.pass_through()
    return 1


async def effect(answer: bool) -> bool:
    effects[0] += 1
    return answer


before_step = step(before)
effect_step = step(effect)


@agent
async def work_agent() -> bool:
    await before_step()
    checkpoint()
    return await effect_step(pause("go on?", expects=bool))


work_graph = Graph("work")


@work_graph.node(start=True)
async def first(nothing: None) -> int:
    return await before()


ask = work_graph.gate("ask", asks="go on?", expects=bool, takes=int)


@work_graph.node
async def last(answered: tuple[int, bool]) -> bool:
    return await effect(answered[1])


work_graph.edge(first, ask)
work_graph.edge(ask, last)
work_graph.finish(last)


async def coordinator(turn: Turn) -> None:
    await before_step()
    turn.checkpoint()
    turn.finish(await effect_step(turn.pause("go on?", expects=bool)))


async def member(turn: Turn) -> None:
    """Nobody has anything for it to do."""


work_team = Team("work", coordinator=coordinator, members={"member": member})

WORK: dict[str, Any] = {"agent": work_agent, "graph": work_graph, "team": work_team}

VERBS = ("pause", "resume", "status", "answer")

# --- lives --------------------------------------------------------------------------------------------


def live(kind: str, path: str = "") -> None:
    """For each number that is read, so many lives of a run; reports the seconds of each verb by its name.

    `pause`: from the call to the ack, while what comes before the question is under way. `resume`: from the
    call until the run is paused by its question. `status`: a read of that. `answer`: from the call to the
    value.
    """

    async def one(runtime: Runtime, seconds: dict[str, list[float]]) -> None:
        door.close()
        run = await runtime.start(WORK[kind])
        await door.somebody()
        started = perf_counter()
        await run.pause()
        seconds["pause"].append(perf_counter() - started)
        door.open()
        outcome = await run.settled()
        assert isinstance(outcome, Paused), outcome
        assert not outcome.holds, outcome
        started = perf_counter()
        await run.resume()
        outcome = await run.settled()
        seconds["resume"].append(perf_counter() - started)
        assert isinstance(outcome, Paused), outcome
        assert outcome.holds, outcome
        started = perf_counter()
        await run.status()
        seconds["status"].append(perf_counter() - started)
        started = perf_counter()
        outcome = await outcome.resume(True)
        seconds["answer"].append(perf_counter() - started)
        assert isinstance(outcome, Completed), outcome

    async def run() -> None:
        async with Runtime(path or None) as runtime:
            for count in rounds():
                seconds: dict[str, list[float]] = {name: [] for name in VERBS}
                before = effects[0]
                for _ in range(count):
                    await one(runtime, seconds)
                assert effects[0] == before + count
                report(seconds)

    asyncio.run(run())


async def ask_often(runtime: Runtime, kind: str, count: int) -> None:
    """So many runs that are paused by their question."""
    for _ in range(count):
        outcome = await runtime.run(WORK[kind])
        assert isinstance(outcome, Paused), outcome


def hold(kind: str, count: str, path: str = "") -> None:
    """Reports by how many bytes the process grows for each of so many paused runs that it drives."""

    async def run() -> None:
        async with Runtime(path or None) as runtime:
            await ask_often(runtime, kind, 10)  # what is imported and set up once
            before = resident()
            await ask_often(runtime, kind, int(count))
            report((resident() - before) / int(count))
            os._exit(0)  # nothing is to be tidied up of so many

    asyncio.run(run())


def store(kind: str, path: str) -> None:
    """For each number that is read, so many more paused runs in the database; reports its bytes, closed."""

    async def run(count: int) -> None:
        async with Runtime(path, durability="normal") as runtime:
            await ask_often(runtime, kind, count)

    for count in rounds():
        for begun in range(0, max(1, count), 1000):
            asyncio.run(run(min(1000, count - begun)))
        report(Path(path).stat().st_size)


def return_to(kind: str, path: str) -> None:
    """What a new process takes to come back to a store of paused runs, by the name of what it does.

    `open`: from making a `Runtime` until it is entered. `page`: the newest ten paused runs. `answer`: from
    the answer to the question of one of them to its value. `memory`: what the process grew by until then.
    Another run takes the place of the one that ends.
    """

    async def run() -> dict[str, float]:
        before = resident()
        started = perf_counter()
        async with Runtime(path) as runtime:
            opened = perf_counter()
            page = await runtime.list(state="paused", kind=kind, limit=10)
            listed = perf_counter()
            paused = await runtime.get(page[-1].id)
            answering = perf_counter()
            await paused.answer(True)
            assert await paused.result() is True
            answered = perf_counter()
            grown = resident() - before
            await ask_often(runtime, kind, 1)
        return {
            "open": opened - started,
            "page": listed - opened,
            "answer": answered - answering,
            "memory": grown,
        }

    report(asyncio.run(run()))


def resident() -> int:
    """Bytes of memory that this process has; where nobody says, the most that it ever had."""
    try:
        for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
