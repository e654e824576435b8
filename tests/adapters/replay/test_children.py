"""A flow as a node: its visit is a run of its own, and its branch waits for that.

Source: spec engine, 4 (nesting); spec graph, "Pause", 8.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from quiesce import Completed, Concurrency, Graph, Paused, Run, RunState, Runtime, Transition
from quiesce.errors import Fenced, NodeError, RunCancelled

from .conftest import Open
from .sketch import Boom, Sketch

pytestmark = pytest.mark.anyio
PARALLEL = Concurrency.PARALLEL


class Nest:
    """outer: S -> [inner, beside] -> join; inner: a -> gate -> last."""

    def __init__(self) -> None:
        self.inner, self.outer = Sketch(), Sketch()
        self.inner.graph.name = "inner"
        self.broken = False
        a, last = self.inner.add("a", start=True), self.inner.node("last", self._last)
        gate = self.inner.graph.gate("gate", asks="Inner?", expects=bool)
        self.inner.graph.edge(a, gate)
        self.inner.graph.transition(gate)(lambda answered: last.next(answered[0]))
        self.inner.graph.finish(last)
        start, join = self.outer.start(), self.outer.collect()
        child, beside = self.outer.graph.node(self.inner.graph, name="child"), self.outer.node("beside")
        for branch in (child, beside):
            self.outer.graph.join(branch, into=join)
        self.outer.fan_out(start, child, beside, join=join, concurrency=PARALLEL)

    def _last(self, x: int) -> int:
        if self.broken:
            raise Boom("inner")
        return x

    @property
    def flows(self) -> tuple[Graph, Graph]:
        return self.outer.graph, self.inner.graph


async def paused(rt: Runtime, nest: Nest) -> Run:
    run = await rt.start(nest.outer.graph, 1)
    assert isinstance(await run.settled(), Paused)
    return run


async def child_of(rt: Runtime, run: Run) -> Run:
    (child,) = (await run.status()).children
    return await rt.get(child)


async def test_the_value_of_a_child_run_is_the_output_of_its_node(opened: Open) -> None:
    """A nested body is a run with `parent_id`."""
    inner, outer = Sketch(), Sketch()
    inner.graph.finish(inner.add("a", start=True))
    child = outer.graph.node(inner.graph, name="child", start=True)
    last = outer.add("last", 10)
    outer.graph.edge(child, last)
    outer.graph.finish(last)
    async with opened(outer.graph, inner.graph) as rt:
        run = await rt.start(outer.graph, 1)
        assert await run.settled() == Completed(12)
        nested = await child_of(rt, run)
        status = await nested.status()
        assert (status.parent_id, status.state) == (run.id, RunState.COMPLETED)
    assert (inner.log, outer.log) == (["a(1)"], ["last(2)"])


async def test_a_hold_in_a_child_suspends_its_branch_and_an_answer_wakes_just_that(opened: Open) -> None:
    """Siblings go on; the outer run becomes paused when nothing else in it can run."""
    nest = Nest()
    async with opened(*nest.flows) as rt:
        run = await paused(rt, nest)
        assert nest.outer.log == ["S(1)", "beside(1)"]
        status = await run.status()
        assert [lock.kind for lock in status.locks] == ["holds"]
        assert status.reason == "Inner?"
        (hold,) = status.holds
        assert hold.path == "child#2/gate"
        child = await child_of(rt, run)
        assert hold.run_id == child.id
        await run.answer(True)
        assert await run.settled() == Completed([2, 1])
    assert nest.inner.log == ["a(1)", "last(2)"]
    assert nest.outer.log == ["S(1)", "beside(1)", "join([2, 1])"]


async def test_a_hold_in_a_child_outlives_the_process(on_disk: Open) -> None:
    """The same, with another process for each step."""
    nest = Nest()
    async with on_disk(*nest.flows) as rt:
        run = await paused(rt, nest)
    async with on_disk(*nest.flows) as rt:
        run = await rt.get(run.id)
        await run.answer(True)
        assert await run.settled() == Completed([2, 1])
    assert nest.inner.log == ["a(1)", "last(2)"]
    assert nest.outer.log == ["S(1)", "beside(1)", "join([2, 1])"]


async def test_pausing_the_outer_run_fences_the_child_and_resuming_it_lets_it_go(opened: Open) -> None:
    """Spec engine, 4 (nesting): the lock `parent`, in the same transaction."""
    inner, outer = Sketch(), Sketch()
    begun, go = anyio.Event(), anyio.Event()

    async def slow(x: int) -> int:
        begun.set()
        await go.wait()
        return x

    a, b = inner.node("a", slow, start=True), inner.node("b")
    inner.graph.edge(a, b)
    inner.graph.finish(b)
    child = outer.graph.node(inner.graph, name="child", start=True)
    outer.graph.finish(child)
    async with opened(outer.graph, inner.graph) as rt:
        run = await rt.start(outer.graph, 1)
        await begun.wait()
        await run.pause()
        nested = await child_of(rt, run)
        assert [lock.kind for lock in (await nested.status()).locks] == ["parent"]
        with pytest.raises(Fenced):
            await nested.resume()
        go.set()
        assert isinstance(await nested.settled(), Paused)
        assert inner.log == ["a(1)"]
        await run.resume()
        assert await run.settled() == Completed(1)
    assert inner.log == ["a(1)", "b(1)"]


async def test_an_operator_who_pauses_just_the_child_leaves_the_outer_paused_by_it(opened: Open) -> None:
    """Spec engine, 4: the outer runs while it has other work, then is paused with the lock `child`."""
    inner, outer = Sketch(), Sketch()
    begun, go = anyio.Event(), anyio.Event()

    async def slow(x: int) -> int:
        begun.set()
        await go.wait()
        return x

    a, b = inner.node("a", slow, start=True), inner.node("b")
    inner.graph.edge(a, b)
    inner.graph.finish(b)
    child = outer.graph.node(inner.graph, name="child", start=True)
    outer.graph.finish(child)
    async with opened(outer.graph, inner.graph) as rt:
        run = await rt.start(outer.graph, 1)
        await begun.wait()
        nested = await child_of(rt, run)
        await nested.pause(reason="look")
        go.set()
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert [lock.kind for lock in (await run.status()).locks] == ["child"]
        await nested.resume()
        assert await run.settled() == Completed(1)


@pytest.mark.parametrize("restart", [False, True], ids=["here", "after a restart"])
async def test_a_child_that_fails_fails_the_outer_and_a_retry_brings_both_back(
    on_disk: Open, restart: bool
) -> None:
    """Spec engine, 4 (retry): a failed run continues from the point that failed, in the child too."""
    nest = Nest()
    nest.broken = True
    async with on_disk(*nest.flows) as rt:
        run = await paused(rt, nest)
        await run.answer(True)
        with pytest.raises(NodeError, match="node 'child' failed: node 'last' failed: Boom: inner"):
            await run.settled()
        nested = await child_of(rt, run)
        assert (await nested.status()).state is RunState.FAILED
        if not restart:
            await retried(nest, run)
    if restart:
        async with on_disk(*nest.flows) as rt:
            await retried(nest, await rt.get(run.id))
    assert nest.inner.log == ["a(1)", "last(2)", "last(2)", "last(2)"]
    assert nest.outer.log == ["S(1)", "beside(1)", "join([2, 1])"]


async def retried(nest: Nest, run: Run) -> None:
    """It fails once more, then it goes."""
    await run.retry()
    with pytest.raises(Exception, match="inner"):
        await run.settled()
    nest.broken = False
    await run.retry()
    assert await run.settled() == Completed([2, 1])


async def test_a_child_that_fails_in_memory_is_brought_back_by_a_retry_of_the_outer() -> None:
    """The same, where no row is kept."""
    nest = Nest()
    nest.broken = True
    async with Runtime(flows=nest.flows) as rt:
        run = await paused(rt, nest)
        await run.answer(True)
        with pytest.raises(NodeError, match="inner"):
            await run.settled()
        await retried(nest, run)
    assert nest.inner.log == ["a(1)", "last(2)", "last(2)", "last(2)"]


async def test_cancelling_the_outer_cancels_the_child(opened: Open) -> None:
    """Spec engine, 4 (cancel): descendants too, holds withdrawn."""
    nest = Nest()
    async with opened(*nest.flows) as rt:
        run = await paused(rt, nest)
        nested = await child_of(rt, run)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await nested.settled()
        assert await rt.holds() == []


async def test_cancelling_the_child_fails_the_branch_that_waits_for_it(opened: Open) -> None:
    """The outer run cannot have the child's value any more."""
    nest = Nest()
    async with opened(*nest.flows) as rt:
        run = await paused(rt, nest)
        await (await child_of(rt, run)).cancel()
        with pytest.raises(NodeError, match="was cancelled") as failed:
            await run.settled()
        assert isinstance(failed.value.__cause__, RunCancelled)


async def test_a_reset_starts_a_child_anew(opened: Open) -> None:
    """Spec engine, 4 (reset): descendants of the old execution are cancelled."""
    nest = Nest()
    async with opened(*nest.flows) as rt:
        run = await paused(rt, nest)
        old = await child_of(rt, run)
        await run.reset()
        assert (await old.status()).state is RunState.CANCELLED
        await run.resume()
        assert isinstance(await run.settled(), Paused)
        assert len((await run.status()).children) == 2
        await run.answer(True)
        assert await run.settled() == Completed([2, 1])
    assert nest.inner.log == ["a(1)", "a(1)", "last(2)"]


async def test_the_loser_of_a_race_takes_its_child_with_it(opened: Open) -> None:
    """Spec graph, "Scheduling": the others are cancelled and awaited."""
    nest = Nest()
    racing = Sketch()
    start = racing.start()
    child = racing.graph.node(nest.inner.graph, name="child")
    quick = racing.gate("quick", Transition.finish)
    racing.graph.finish(child)
    racing.fan_out(start, child, "quick", join=None, concurrency=PARALLEL)
    async with opened(racing.graph, nest.inner.graph) as rt:
        run = await rt.start(racing.graph, 1)
        assert isinstance(await run.settled(), Paused)
        await until_paused(await child_of(rt, run))
        quick.open = True
        await run.resume(None, hold=next(h.id for h in (await run.status()).holds if h.expects is None))
        assert await run.settled() == Completed(1)
        (nested,) = (await run.status()).children
        assert (await rt.status(nested)).state is RunState.CANCELLED
        assert await rt.holds() == []


async def until_paused(run: Run) -> Any:
    """A run whose enclosing run paused is fenced, but may drain."""
    return await run.settled()
