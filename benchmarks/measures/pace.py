"""How fast does work go on while nothing pauses it, beside the least that it could take?

- A visit: a graph in memory that comes to one node again and again, per visit; beside the budget for it.
- A fan-out: ten branches and their join in memory, from `Runtime.run` to the value; beside a bare gather.
- Start, pause, finish: an agent in memory, over one question; beside a greenlet and a task that do so.
- A round trip: from `Paused.resume` to the next question of the same body, in memory; beside a switch into a
  greenlet and back with one hop of the loop, and beside two threads that wake one another by two Events.
- Durable steps: a hundred agents side by side, per step; beside one commit for each.
- Paused: what is sent to the store in a second in which a run of each kind is paused.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

import greenlet

from quiesce import Concurrency, Graph, JoinInput, Paused, Runtime, Transition, agent, pause, step
from quiesce.clock import SystemClock
from quiesce_adapters.sqlite.store import SqliteStore

from .bare import Commits
from .busy import busy, drained, work
from .series import Effort, Limit, Series

__all__ = ["measure"]

ROUNDS = 400
VISITS = 200
AGENTS, STEPS = 100, 10
HOP, THREADS = "greenlet and one hop", "two-Event threads"


counting = Graph("counting")


@counting.node(start=True)
def count(left: int) -> int:
    return left - 1


@counting.transition(count)
def again(left: int) -> Transition:
    return count.next(left) if left else Transition.finish(left)


spreading = Graph("spreading", concurrency=Concurrency.PARALLEL)


@spreading.node(start=True)
def spread(size: int) -> int:
    return size


@spreading.node
async def branch(number: int) -> int:
    await asyncio.sleep(0)
    return number


@spreading.node
def gather(numbers: JoinInput[int]) -> int:
    return sum(numbers)


spreading.transition(spread)(
    lambda size: Transition.fan_out([(branch, number) for number in range(size)], join=gather)
)
spreading.transition(branch)(lambda number: Transition.join(gather, number))
spreading.finish(gather)


@agent
def asks_for_ever() -> None:
    while True:
        pause("go on?")


@agent
def asks_once() -> None:
    pause("go on?")


@step
async def nothing() -> None:
    pass


@agent
async def steps(count: int) -> None:
    for _ in range(count):
        await nothing()


def measure(effort: Effort) -> Iterator[Series]:
    """What there is of each backend, and what a paused run costs."""
    if "graph" in effort.backends:
        yield from asyncio.run(_graphs(effort))
    if "agent" in effort.backends:
        yield from asyncio.run(_agents(effort))
        yield from _durable_steps(effort)
    for backend in effort.backends:
        yield from _paused(effort, backend)


async def _in_turns(rounds: int, *work: Callable[[], Awaitable[object]]) -> list[list[float]]:
    taken: list[list[float]] = [[] for _ in work]
    for _ in range(rounds):
        for seconds, do in zip(taken, work, strict=True):
            started = perf_counter()
            await do()
            seconds.append(perf_counter() - started)
    return taken


async def _graphs(effort: Effort) -> list[Series]:
    async def bare() -> None:
        async def one(number: int) -> int:
            await asyncio.sleep(0)
            return number

        assert sum(await asyncio.gather(*(one(number) for number in range(10)))) == 45

    async with Runtime() as runtime:
        rounds = effort.times(ROUNDS, at_least=3)
        visits, fans, gathers = await _in_turns(
            rounds,
            lambda: runtime.run(counting, VISITS),
            lambda: runtime.run(spreading, 10),
            bare,
        )
    case, fan = "graph, memory: a visit", "graph, memory: a fan-out of 10 with its join"
    budget = "budget of 10 us"
    return [
        Series("pace", case, "quiesce", "s", tuple(s / VISITS for s in visits), limit=Limit(budget, 1.0)),
        Series("pace", case, budget, "s", (10e-6,)),
        Series("pace", fan, "quiesce", "s", tuple(fans), limit=Limit("gather", 8.0)),
        Series("pace", fan, "gather", "s", tuple(gathers)),
    ]


class Hops:
    """A greenlet that gives its parent the turn, with a task that waits for the loop in between."""

    def __init__(self) -> None:
        self._body = greenlet.greenlet(self._for_ever)
        self._body.switch()

    @staticmethod
    def _for_ever() -> None:
        parent = greenlet.getcurrent().parent
        assert parent is not None
        while True:
            parent.switch()

    async def hop(self) -> None:
        await asyncio.sleep(0)
        self._body.switch()


async def start_pause_finish() -> None:
    """A new greenlet in a new task: to its pause, and to its end."""

    async def drive() -> None:
        body = greenlet.greenlet(lambda: greenlet.getcurrent().parent.switch())
        body.switch()
        await asyncio.sleep(0)
        body.switch()

    await asyncio.create_task(drive())


class Pair:
    """Two threads that wake one another."""

    def __init__(self) -> None:
        self._go, self._went, self._over = threading.Event(), threading.Event(), False
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        while not self._over:
            self._go.wait()
            self._go.clear()
            self._went.set()

    async def wake(self) -> None:
        self._go.set()
        self._went.wait()
        self._went.clear()

    def close(self) -> None:
        self._over = True
        self._go.set()
        self._thread.join()


async def _agents(effort: Effort) -> list[Series]:
    hops = Hops()
    with closing(Pair()) as pair:
        async with Runtime() as runtime:
            outcome = await runtime.run(asks_for_ever)

            async def ask_again() -> None:
                nonlocal outcome
                assert isinstance(outcome, Paused)
                outcome = await outcome.resume(True)

            async def once() -> None:
                asked = await runtime.run(asks_once)
                assert isinstance(asked, Paused)
                await asked.resume(True)

            rounds = effort.times(10 * ROUNDS, at_least=20)
            trips, hop, threads, lives, bare = await _in_turns(
                rounds, ask_again, hops.hop, pair.wake, once, start_pause_finish
            )
            assert isinstance(outcome, Paused)
            await outcome.run.cancel()
    trip, life = "agent, memory: from an answer to the next question", "agent, memory: start, pause, finish"
    return [
        Series("pace", trip, "quiesce", "s", tuple(trips), limit=Limit(HOP, 2.5)),
        Series("pace", trip, HOP, "s", tuple(hop)),
        Series("pace", trip, THREADS, "s", tuple(threads)),
        Series("pace", life, "quiesce", "s", tuple(lives), limit=Limit("greenlet and task", 1.5)),
        Series("pace", life, "greenlet and task", "s", tuple(bare)),
    ]


def _durable_steps(effort: Effort) -> Iterator[Series]:
    ours, theirs = [], []
    with tempfile.TemporaryDirectory(dir=effort.folder) as name:

        async def all_of_them() -> None:
            async with Runtime(Path(name, "flows.db")) as runtime:
                for _ in range(effort.times(20, at_least=1)):
                    started = perf_counter()
                    async with asyncio.TaskGroup() as tasks:
                        for _ in range(AGENTS):
                            tasks.create_task(runtime.run(steps, STEPS))
                    ours.append((perf_counter() - started) / AGENTS / STEPS)
                    theirs.extend(bare.commit() for _ in range(20))

        with closing(Commits(Path(name, "bare.db"), "full")) as bare:
            asyncio.run(all_of_them())
    case = f"agent, SQLite full: a step of {AGENTS} side by side"
    yield Series("pace", case, "quiesce", "s", tuple(ours), limit=Limit("one commit", 5.0, faster=True))
    yield Series("pace", case, "one commit", "s", tuple(theirs))


def _paused(effort: Effort, backend: str) -> Iterator[Series]:
    labels: list[str] = []

    async def count_statements(path: Path) -> float:
        store = SqliteStore(path, SystemClock(), on_statement=labels.append)
        async with Runtime(store) as runtime, busy(runtime, backend, 10, (60.0, 60.0)) as run:
            await run.pause()
            work.hurry()
            await drained(run)
            await asyncio.sleep(0.1)
            labels.clear()
            await asyncio.sleep(1.0)
            return float(len(labels))

    with tempfile.TemporaryDirectory(dir=effort.folder) as name:
        counted = asyncio.run(count_statements(Path(name, "flows.db")))
    case = f"{backend}, SQLite: statements in a second while paused"
    yield Series("pace", case, "quiesce", "1", (counted,), limit=Limit("one", 0.0))
    yield Series("pace", case, "one", "1", (1.0,))
