"""At which node objects does a run stand? Source: cases graph, C, and the table of spec graph."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from quiesce import Completed, Concurrency, Paused, RunState, Transition
from quiesce.errors import NodeError, QuiesceError

from .conftest import Open
from .sketch import Gate, Sketch, same

pytestmark = pytest.mark.anyio
PARALLEL = Concurrency.PARALLEL


class Inc:
    def __init__(self) -> None:
        self.pauses = False

    def evaluate(self, x: int) -> int:
        return x + 1


class Join:
    def evaluate(self, brought: Any) -> int:
        return sum(brought)


async def test_a_run_that_does_not_wait_stands_at_no_node(opened: Open) -> None:
    """Case 33."""
    sketch = Sketch()
    node = sketch.graph.node(Inc(), start=True)

    @sketch.graph.transition(node)
    def decide(x: int) -> Transition:
        return Transition.error("too big") if x > 10 else Transition.finish(x)

    async with opened(sketch.graph) as rt:
        created = await rt.create(sketch.graph)
        assert created.current_nodes(Inc).none
        completed = await rt.start(sketch.graph, 1)
        assert await completed.settled() == Completed(2)
        assert completed.current_nodes(Inc).none
        failed = await rt.start(sketch.graph, 10)
        with pytest.raises(NodeError):
            await failed.settled()
        assert failed.current_nodes(Inc).none
        await failed.cancel()
        assert failed.current_nodes(Inc).none


async def test_a_running_run_shows_no_node(opened: Open) -> None:
    """Spec graph, table: running -> none."""
    sketch = Sketch()
    begun, go = anyio.Event(), anyio.Event()

    async def waits(x: int) -> int:
        begun.set()
        await go.wait()
        return x

    start, join = sketch.start(), sketch.sum()
    first, then = sketch.node("a", waits), sketch.graph.node(Inc())
    for branch in (first, then):
        sketch.graph.join(branch, into=join)
    sketch.fan_out(start, first, then, join=join)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await begun.wait()
        assert (await run.status()).state is RunState.RUNNING
        assert run.current_nodes(Inc).none
        go.set()
        assert await run.settled() == Completed(3)


async def test_a_paused_run_shows_the_node_that_paused(opened: Open) -> None:
    """Cases 34 and 42: the registered object itself."""
    sketch = Sketch()
    gate = sketch.gate("gate", Transition.finish, start=True)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await run.settled()
        nodes = run.current_nodes(Gate)
        assert nodes.one() is gate
        assert nodes.all() == [gate]
        assert not nodes.none
        assert run.current_nodes(Inc).none
        nodes.one().open = True
        await run.resume()
        assert await run.settled() == Completed(1)


async def test_a_reset_run_shows_its_start(opened: Open) -> None:
    """Case 35."""
    sketch = Sketch()
    start = sketch.graph.node(Inc(), start=True)
    sketch.graph.finish(start)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await run.settled()
        await run.reset()
        assert run.current_nodes(Inc).one() is start.body


async def test_several_paused_branches_show_their_nodes_by_branch_id(opened: Open) -> None:
    """Case 36."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.collect()
    gates = [sketch.gate(name, lambda x: Transition.join(join, x)) for name in "AB"]
    sketch.fan_out(start, "A", "B", join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await run.settled()
        assert run.current_nodes(Gate).all() == gates
        with pytest.raises(QuiesceError, match="there are 2"):
            run.current_nodes(Gate).one()


async def test_nodes_are_asked_for_by_their_exact_type(opened: Open) -> None:
    """Case 37."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.collect()
    gate = sketch.gate("A", lambda x: Transition.join(join, x))
    inc = sketch.graph.node(Inc())
    sketch.graph.transition(inc)(lambda x: Transition.pause())
    sketch.fan_out(start, "A", inc, join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await run.settled()
        assert run.current_nodes(Gate).one() is gate
        assert run.current_nodes(Inc).one() is inc.body
        assert run.current_nodes(object).none


async def test_a_queued_node_is_not_shown_beside_a_paused_one(opened: Open) -> None:
    """Case 38."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.collect()
    gate = sketch.gate("A", lambda x: Transition.join(join, x))
    inc = sketch.graph.node(Inc())
    sketch.graph.join(inc, into=join)
    sketch.fan_out(start, "A", inc, join=join)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        assert isinstance(await run.settled(), Paused)
        assert run.current_nodes(Gate).one() is gate
        assert run.current_nodes(Inc).none


async def test_queued_nodes_are_shown_where_none_is_paused(opened: Open) -> None:
    """Spec graph: only if none is paused, the queued ones (an operator paused the run)."""
    sketch = Sketch()
    begun, go = anyio.Event(), anyio.Event()

    async def waits(x: int) -> int:
        begun.set()
        await go.wait()
        return x

    start = sketch.node("a", waits, start=True)
    then = sketch.graph.node(Inc())
    sketch.graph.edge(start, then)
    sketch.graph.finish(then)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await begun.wait()
        await run.pause()
        go.set()
        assert isinstance(await run.settled(), Paused)
        assert run.current_nodes(Inc).one() is then.body


async def test_branches_at_one_node_show_its_object_as_often(opened: Open) -> None:
    """Case 39."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.collect()
    gate = sketch.gate("A", lambda x: Transition.join(join, x))
    sketch.fan_out(start, "A", "A", "A", join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await run.settled()
        assert run.current_nodes(Gate).all() == [gate] * 3
        assert all(node is gate for node in run.current_nodes(Gate))


async def test_a_join_node_that_pauses_is_shown(opened: Open) -> None:
    """Case 41."""
    sketch = Sketch()
    start = sketch.start()
    join = sketch.graph.node(Join())
    sketch.graph.transition(join)(lambda total: Transition.pause("look at the total"))
    a, b = sketch.node("a", same), sketch.node("b", same)
    for branch in (a, b):
        sketch.graph.join(branch, into=join)
    sketch.fan_out(start, a, b, join=join)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await run.settled()
        assert run.current_nodes(Join).one() is join.body
