"""Does the end of a drain cost as many commits as it needs, not as many as there are pieces?

Source: spec engine, 8 (pause to quiescent: one batched release); counted, never timed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import Concurrency, Graph, JoinInput, Runtime, Transition, agent, spawn, step
from quiesce.clock import SystemClock
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
