"""Does what belongs together share a commit: the end of a drain, an answer and what it lets begin?

Source: spec engine, 8 (pause to quiescent: one batched release); counted, never timed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from quiesce import Concurrency, Graph, JoinInput, Paused, Run, Runtime, Transition, agent, spawn, step
from quiesce.clock import SystemClock
from quiesce.errors import QuiesceError, StoreError
from quiesce_adapters.sqlite.checks import violations_of_file
from quiesce_adapters.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio

PIECES = 20


class Work:
    """What the pieces wait for."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = anyio.Event()
        self.all_begun = anyio.Event()

    async def do(self) -> None:
        self.begun += 1
        if self.begun == PIECES:
            self.all_begun.set()
        await self.may_end.wait()


def branches(work: Work) -> Graph:
    """A graph whose branches do the work side by side."""
    graph = Graph("side by side", concurrency=Concurrency.PARALLEL)

    @graph.node(start=True)
    def spread(size: int) -> int:
        return size

    @graph.node
    async def visit(number: int) -> int:
        await work.do()
        return number

    @graph.node
    def gather(numbers: JoinInput[int]) -> int:
        return sum(numbers)

    graph.transition(spread)(
        lambda size: Transition.fan_out([(visit, number) for number in range(size)], join=gather)
    )
    graph.transition(visit)(lambda number: Transition.join(gather, number))
    graph.finish(gather)
    return graph


async def commits(db: Path, work: Work, flow: Any, *inside: Any) -> int:
    """How many transactions the store commits from the ack of a pause until all that ran has yielded."""
    seen: list[str] = []
    store = SqliteStore(db, SystemClock(), on_statement=seen.append)
    async with Runtime(store, flows=[flow, *inside]) as rt:
        run = await rt.start(flow, PIECES)
        with anyio.fail_after(20):
            await work.all_begun.wait()
            await run.pause()
            seen.clear()
            work.may_end.set()
            for each in [run, *[await rt.get(child) for child in (await run.status()).children]]:
                await each.settled()
        assert (await run.status()).draining == 0
        count = seen.count("commit")
        await run.resume()
        with anyio.fail_after(20):
            assert await run.result() == sum(range(PIECES))
    return count


async def test_visits_that_end_together_while_a_pause_drains_share_a_commit(tmp_path: Path) -> None:
    """Spec graph, "Pause": results are applied one at a time; spec engine, 8: their commits are not."""
    work = Work()
    assert await commits(tmp_path / "flows.db", work, branches(work)) < PIECES / 2


async def test_bodies_that_yield_together_share_a_commit(tmp_path: Path) -> None:
    """Spec agent, "Steps and the journal"; spec engine, 8: group commit."""
    work = Work()

    @step
    async def do(number: int) -> int:
        await work.do()
        return number

    @agent
    async def one(number: int) -> int:
        return await do(number)

    @agent
    def crowd(size: int) -> int:
        return sum(child.result() for child in [spawn(one, number) for number in range(size)])

    assert await commits(tmp_path / "flows.db", work, crowd, one) < PIECES / 2


async def statements(db: Path, size: int) -> int:
    """How many statements a store gets for the pause of an agent with so many at work inside it."""
    come, may_end, seen = anyio.Semaphore(0), anyio.Event(), list[str]()

    @agent
    async def waits() -> None:
        come.release()
        await may_end.wait()

    @agent
    def spawns() -> None:
        for child in [spawn(waits) for _ in range(size)]:
            child.result()

    store = SqliteStore(db, SystemClock(), on_statement=seen.append)
    async with Runtime(store, flows=[spawns, waits]) as rt:
        run = await rt.start(spawns)
        with anyio.fail_after(20):
            for _ in range(size):
                await come.acquire()
        await wait_all_tasks_blocked()
        seen.clear()
        await run.pause()
        count = len(seen)
        assert seen.count("commit") == 1
        assert (await rt.status(f"{run.id}.{size}")).state == "paused"
        await run.cancel()
    return count


async def test_the_fence_of_a_tree_has_as_many_statements_however_many_are_in_it(tmp_path: Path) -> None:
    """Spec engine, 8: one transaction, statement count independent of the pieces."""
    assert await statements(tmp_path / "few.db", 2) == await statements(tmp_path / "many.db", 15)


class Asking:
    """A graph that asks, acts on the answer, and asks again; and what it did."""

    def __init__(self) -> None:
        self.acted: list[str] = []
        self.saw: list[str] = []
        """The state of the run, as stored, when it acted."""
        self.db = Path()
        self.graph = Graph("asks and acts")
        gate = self.graph.gate("gate", asks="go on?", takes=int, start=True, expects=str)

        @self.graph.node
        def act(answered: tuple[int, str]) -> int:
            with closing(sqlite3.connect(self.db)) as connection:
                self.saw += [state for (state,) in connection.execute("SELECT state FROM runs")]
            self.acted.append(answered[1])
            return answered[0] + 1

        self.graph.edge(gate, act)
        self.graph.edge(act, gate)

    @asynccontextmanager
    async def asked(self, db: Path, on_statement: Callable[[str], None]) -> AsyncIterator[Run]:
        """A run that asks."""
        self.db = db
        store = SqliteStore(db, SystemClock(), on_statement=on_statement)
        async with Runtime(store, flows=[self.graph]) as rt:
            run = await rt.start(self.graph, 0)
            assert isinstance(await run.settled(), Paused)
            yield run
        assert violations_of_file(db) == []


async def test_from_an_answer_to_the_next_question_of_a_gate_there_are_two_commits(tmp_path: Path) -> None:
    """Spec engine, 8: two write transactions, counted: an answer takes what it lets begin."""
    graph = Graph("asks for ever")
    gate = graph.gate("gate", asks="go on?", takes=int, start=True, expects=str)
    graph.transition(gate)(lambda answered: gate.next(answered[0]))
    seen: list[str] = []
    store = SqliteStore(tmp_path / "flows.db", SystemClock(), on_statement=seen.append)
    async with Runtime(store, flows=[graph]) as rt:
        outcome = await rt.run(graph, 0)
        for _ in range(3):
            assert isinstance(outcome, Paused)
            seen.clear()
            outcome = await outcome.resume("on")
            assert seen.count("commit") == 2


@pytest.mark.parametrize("verb", ["pause", "cancel"])
async def test_a_fence_in_the_commit_of_an_answer_lets_nothing_begin(tmp_path: Path, verb: str) -> None:
    """Spec engine, 3: after its commit nothing new of the run starts, whichever of the two comes first."""
    for moments in range(8):
        asking = Asking()
        async with asking.asked(tmp_path / f"{moments}.db", lambda label: None) as run:
            hold = (await run.runtime.holds(run.id))[0]
            async with anyio.create_task_group() as group:
                group.start_soon(later, 0, partial(run.answer, "on", hold=hold.id))
                group.start_soon(later, moments, getattr(run, verb))
            await wait_all_tasks_blocked()
            assert (await run.status()).draining == 0
            if verb == "pause" and not asking.acted:
                await run.resume()
                with anyio.fail_after(20):
                    assert isinstance(await run.settled(), Paused)
                assert asking.acted == ["on"]
        assert set(asking.saw) <= {"running"}


async def later(moments: int, verb: Callable[[], Awaitable[Any]]) -> None:
    """So many turns of the event loop later; it may be refused."""
    for _ in range(moments):
        await checkpoint()
    with suppress(QuiesceError):
        await verb()


async def test_an_answer_that_is_not_committed_lets_nothing_begin(tmp_path: Path) -> None:
    """Spec engine, 6: nothing is acknowledged before the commit; given again, it is acted on once."""
    asking, breaks = Asking(), False

    def hook(label: str) -> None:
        if breaks and label == "commit":
            raise sqlite3.OperationalError("disk I/O error")

    async with asking.asked(tmp_path / "flows.db", hook) as run:
        breaks = True
        with pytest.raises(StoreError):
            await run.answer("on")
        breaks = False
        await wait_all_tasks_blocked()
        assert asking.acted == []
        assert [hold.state for hold in await run.runtime.holds(run.id)] == ["open"]
        await run.answer("on")
        with anyio.fail_after(20):
            assert isinstance(await run.settled(), Paused)
        assert asking.acted == ["on"]
