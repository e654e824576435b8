"""How do the benchmark scripts of other runtimes call quiesce?

Those scripts measure limits and peers, and take an engine as a module of hooks, each optional: with
`QUIESCE_HOOKS=hooks_quiesce` and this folder on `PYTHONPATH` they add lines for quiesce and its ratios.
Every hook goes through the public API (`Runtime` and its outcomes), the ones that are plain functions with
an event loop around each call, which is what a caller without a loop pays.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from quiesce import (
    Completed,
    Graph,
    Idle,
    Paused,
    Run,
    Runtime,
    Team,
    Transition,
    Turn,
    agent,
    current_run,
    pause,
    spawn,
)

__all__ = [
    "IMPORT_LINE",
    "agent_park_many",
    "agent_roundtrip",
    "agent_roundtrip_sqlite",
    "agent_start_pause_finish",
    "fence_factory",
    "graph_bytes_per_pause",
    "graph_fan",
    "graph_line",
    "graph_pause",
    "graph_pause_sqlite",
    "restart",
    "team_pause_to_quiet",
]

T = TypeVar("T")
Operation = Callable[[], Awaitable[None]]

IMPORT_LINE = (
    "import quiesce, quiesce_adapters.sqlite.store, quiesce_adapters.greenlets.backend; "
    "from quiesce import Runtime, Paused, agent, pause"
)
"""What a process imports that runs an agent on SQLite, with what a `Runtime` loads when it is entered."""

MEMBERS = 50
"""As many as a team may have; more bodies than that are agents inside an agent."""


# --- the flows ---------------------------------------------------------------------------------------


@agent
def asks_for_ever() -> None:
    while True:
        pause("go on?")


@agent
def asks_once() -> str:
    return f"done:{pause('go on?')}"


gate_for_ever = Graph("gate-for-ever")
gate = gate_for_ever.gate("gate", asks="go on?", takes=str, start=True)


@gate_for_ever.transition(gate)
def again(answered: tuple[str, Any]) -> Transition:
    return gate.next(answered[0])


class Bell:
    """Where bodies rest until it rings; they come back to it when they are let go on."""

    def __init__(self) -> None:
        self._resting = 0
        self._rung = asyncio.Event()
        self._came = asyncio.Event()

    async def rest(self) -> None:
        """Called by a body."""
        self._resting += 1
        self._came.set()
        await self._rung.wait()

    def ring(self) -> None:
        """Wake every body that rests."""
        self._resting = 0
        self._rung.set()
        self._rung = asyncio.Event()

    async def wait_for(self, bodies: int) -> None:
        """Until so many rest."""
        while self._resting < bodies:
            self._came.clear()
            await self._came.wait()


bells: dict[str, Bell] = {}
"""By the id of the outermost run."""


def bell_of_this_run() -> Bell:
    return bells[current_run().id.split(".")[0]]


async def leave_it_to_others(turn: Turn) -> None:
    """The tasks come from outside."""


async def member(turn: Turn) -> None:
    while True:
        await bell_of_this_run().rest()


crew = Team(
    "crew", coordinator=leave_it_to_others, members={f"m{number}": member for number in range(MEMBERS)}
)


@agent
async def rester() -> None:
    while True:
        await bell_of_this_run().rest()


@agent
def crowd(size: int) -> None:
    for child in [spawn(rester) for _ in range(size)]:
        child.result()


# --- runtimes, and the loops that they live on -------------------------------------------------------


_kept: set[asyncio.Task[None]] = set()


async def opened(store: str | Path | None = None) -> Runtime:
    """A runtime that stays open as long as the process: the scripts end without leaving anything."""
    entered: asyncio.Future[Runtime] = asyncio.get_running_loop().create_future()

    async def keep() -> None:
        try:
            async with Runtime(store) as runtime:
                entered.set_result(runtime)
                await asyncio.Event().wait()
        except Exception as error:
            if entered.done():
                raise
            entered.set_exception(error)

    _kept.add(asyncio.create_task(keep()))
    return await entered


def loop() -> asyncio.AbstractEventLoop:
    """The loop that the script runs what it compares us with on; one of our own where it has none."""
    policy = asyncio.get_event_loop_policy()
    try:
        return policy.get_event_loop()
    except RuntimeError:
        policy.set_event_loop(policy.new_event_loop())
        return policy.get_event_loop()


def now(work: Awaitable[T]) -> T:
    return loop().run_until_complete(work)


async def asked(runtime: Runtime, flow: Any, input: Any = None) -> Paused:
    """A run of this flow that stands at its first question."""
    outcome = await runtime.run(flow, input)
    assert isinstance(outcome, Paused), outcome
    return outcome


class Again:
    """From a question of a run to its next one, as often as somebody calls it."""

    def __init__(self, outcome: Paused) -> None:
        self._outcome = outcome

    async def __call__(self) -> None:
        outcome = await self._outcome.resume(1)
        assert isinstance(outcome, Paused), outcome
        self._outcome = outcome


# --- agents ------------------------------------------------------------------------------------------


_agents: list[Again] = []


def agent_roundtrip(n: int) -> None:
    """So many answers to one live agent in memory, each until it has asked again."""

    async def round_trips() -> None:
        if not _agents:
            _agents.append(Again(await asked(await opened(), asks_for_ever)))
        for _ in range(n):
            await _agents[0]()

    now(round_trips())


_runtimes: list[Runtime] = []


def agent_start_pause_finish(n: int) -> None:
    """So many agents in memory, one after the other, from the start over a question to the end."""

    async def lives() -> None:
        if not _runtimes:
            _runtimes.append(await opened())
        for _ in range(n):
            outcome = await (await asked(_runtimes[0], asks_once)).resume(1)
            assert isinstance(outcome, Completed), outcome

    now(lives())


def agent_park_many(n: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """(start all, finish all) of so many agents that are paused at the same time."""
    runtime = now(opened())
    parked: list[Paused] = []

    async def start() -> None:
        for _ in range(n):
            parked.append(await asked(runtime, asks_once))

    async def finish() -> None:
        for outcome in parked:
            await outcome.resume(1)

    return lambda: now(start()), lambda: now(finish())


def agent_roundtrip_sqlite(path: str) -> Callable[[], None]:
    """One answer to a live agent in SQLite, until it has asked again."""
    step = Again(now(asked(now(opened(path)), asks_for_ever)))
    return lambda: now(step())


# --- graphs ------------------------------------------------------------------------------------------


def _runs(graph: Graph, input: Any, value: Any) -> Operation:
    runtime = now(opened())

    async def run() -> None:
        outcome = await runtime.run(graph, input)
        assert isinstance(outcome, Completed), outcome
        assert outcome.value == value, outcome

    return run


def _increment(state: int) -> int:
    return state + 1


def graph_line(k: int) -> Operation:
    """A run over a line of so many nodes, in memory."""
    graph = Graph("line")
    nodes = [graph.node(_increment, name=f"n{number}", start=number == 0) for number in range(k)]
    for before, after in itertools.pairwise(nodes):
        graph.edge(before, after)
    graph.finish(nodes[-1])
    return _runs(graph, 0, k)


def graph_fan(w: int) -> Operation:
    """A run over a fan-out of so many branches and their join, in memory."""
    graph = Graph("fan")
    split = graph.node(_increment, name="split", start=True)
    workers = [graph.node(_increment, name=f"w{number}") for number in range(w)]
    join = graph.node(_total, name="join")

    @graph.transition(split)
    def to_all(state: int) -> Transition:
        return Transition.fan_out([(worker, state) for worker in workers], join=join)

    for worker in workers:
        graph.join(worker, into=join)
    graph.finish(join)
    return _runs(graph, 0, 2 * w)


def graph_pause() -> Operation:
    """An answer to a gate in memory, until the run stands at the gate again."""
    return Again(now(asked(now(opened()), gate_for_ever, "")))


def graph_pause_sqlite(path: str) -> Operation:
    """The same in SQLite."""
    return Again(now(asked(now(opened(path)), gate_for_ever, "")))


def graph_bytes_per_pause(path: str, state_bytes: int, n: int) -> float:
    """Bytes by which the database grows for each of so many pauses at a gate, whose input stays the same."""
    step = Again(now(asked(now(opened(path)), gate_for_ever, "b" * state_bytes)))
    before = _settled_size(path)
    for _ in range(n):
        now(step())
    return (_settled_size(path) - before) / n


def _settled_size(path: str) -> int:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return os.path.getsize(path)


# --- teams -------------------------------------------------------------------------------------------


async def _started(runtime: Runtime, size: int, *, of: str) -> tuple[Run, Bell]:
    """A team with so many tasks, or a crowd of so many, whose bodies all rest."""
    run_id = f"resting-{len(bells)}"
    bell = bells[run_id] = Bell()
    if of == "crowd":
        run = await runtime.start(crowd, size, run_id=run_id)
        await bell.wait_for(size)
        return run, bell
    run = await runtime.start(crew, run_id=run_id)
    assert isinstance(await run.settled(), Idle)
    for number in range(size):
        await run.create_task(f"task {number}", owner=f"m{number % MEMBERS}")
    await bell.wait_for(min(size, MEMBERS))
    return run, bell


def fence_factory(path: str, n: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """(pause, resume) of a team with so many formal turns, of which one a member runs.

    The pause returns when it is committed. The resume waits for the drain first, and until all bodies that
    were captured rest again.
    """
    bodies = min(n, MEMBERS)
    run, bell = now(_started(now(opened(path)), n, of="crew"))

    async def resume() -> None:
        bell.ring()
        await run.settled()
        await run.resume()
        await bell.wait_for(bodies)

    async def fence() -> None:
        ack = await run.pause()
        assert ack.captured == n, ack

    return lambda: now(fence()), lambda: now(resume())


def team_pause_to_quiet(path: str, n: int, reps: int) -> list[float]:
    """Microseconds from the pause of so many live bodies, all of which yield at once, until it is quiescent.

    Up to fifty are the members of a team; more are agents inside an agent.
    """

    async def cycles() -> list[float]:
        runtime = await opened(path)
        run, bell = await _started(runtime, n, of="crew" if n <= MEMBERS else "crowd")
        found = []
        for _ in range(reps):
            started = time.perf_counter_ns()
            await run.pause()
            bell.ring()
            outcome = await run.settled()
            found.append((time.perf_counter_ns() - started) / 1e3)
            assert isinstance(outcome, Paused), outcome
            await run.resume()
            await bell.wait_for(n)
        return found

    return now(cycles())


# --- restart -----------------------------------------------------------------------------------------


def restart(
    mode: str, path: str, done: Callable[[int, int, int, str], None], clock: Callable[[], int]
) -> NoReturn:
    """`prep`: reach the question, and die. `resume`: answer it in a new process, and tell the times."""
    imported = clock()

    async def run() -> None:
        async with Runtime(path) as runtime:
            if mode == "prep":
                await runtime.run(asks_once, run_id="r")
                os._exit(0)
            paused = await runtime.get("r")
            entered = clock()
            await paused.answer("yes")
            value = await paused.result()
            done(imported, entered, clock(), value)

    asyncio.run(run())
    raise SystemExit(f"{mode!r} did not end the process")


def _total(numbers: Any) -> int:
    return sum(numbers)
