"""What is refused before a run exists, and what fails it later. Source: cases graph, B.

A graph is frozen by its first run here, so nothing that is registered later can cost a pause (spec graph,
"Building and checking"): cases 23, 25, 31 and 32 show that instead of what the crate did.
"""

from __future__ import annotations

import pytest

from quiesce import Completed, Concurrency, Graph, Paused, Transition
from quiesce.errors import GraphError, MissingNode, MissingTransition, NodeError, NoSteps

from .conftest import Open
from .sketch import Gate, Sketch

pytestmark = pytest.mark.anyio


async def test_a_graph_without_nodes_has_nothing_to_run(opened: Open) -> None:
    """Case 20. There is no run to resume either: creating one is refused in the same way."""
    graph = Graph("empty")
    async with opened() as rt:
        with pytest.raises(NoSteps):
            await rt.run(graph, 1)
        with pytest.raises(NoSteps):
            await rt.create(graph)
        assert await rt.list() == []


async def test_a_graph_without_a_start_has_nothing_to_run(opened: Open) -> None:
    """Case 21."""
    sketch = Sketch()
    sketch.graph.finish(sketch.add("a"))
    async with opened() as rt:
        with pytest.raises(NoSteps, match=r"start=True"):
            await rt.run(sketch.graph, 1)


async def test_a_node_without_a_transition_is_named_even_if_nothing_leads_to_it(opened: Open) -> None:
    """Case 22: the first such node in the order of registration."""
    sketch = Sketch()
    sketch.graph.finish(sketch.add("a", start=True))
    sketch.add("b")
    sketch.add("c")
    async with opened() as rt:
        with pytest.raises(MissingTransition, match="node 'b' of graph 'sketch' has no transition"):
            await rt.run(sketch.graph, 1)
        assert await rt.list() == []
        sketch.graph.finish("b")
        sketch.graph.finish("c")
        assert not sketch.graph.frozen
    async with opened(sketch.graph) as rt:
        assert await rt.run(sketch.graph, 1) == Completed(2)


async def test_what_is_registered_after_the_first_run_is_refused_and_costs_no_pause(opened: Open) -> None:
    """Case 23. Deviation: the registration is refused, not the resume after it."""
    sketch = Sketch()
    gate = sketch.gate("gate", Transition.finish, start=True)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        assert isinstance(await run.settled(), Paused)
        with pytest.raises(GraphError, match="late"):
            sketch.add("late")
        assert run.current_nodes(Gate).one() is gate
        gate.open = True
        await run.resume()
        assert await run.settled() == Completed(1)


async def test_a_node_has_one_transition_for_ever(opened: Open) -> None:
    """Case 25, also while a run of it is paused."""
    sketch = Sketch()
    first, join = sketch.add("a", start=True), sketch.collect()
    sketch.graph.finish(first)
    with pytest.raises(GraphError, match="'a' already has a registered transition"):
        sketch.graph.join(first, into=join)
    with pytest.raises(GraphError, match="'a' already has a registered transition"):
        sketch.graph.transition(first)(Transition.finish)
    paused = Sketch()
    paused.gate("gate", Transition.finish, start=True)
    async with opened(paused.graph) as rt:
        outcome = await rt.run(paused.graph, 1)
        with pytest.raises(GraphError):
            paused.graph.finish("gate")
        assert isinstance(outcome, Paused)
        assert len(outcome.holds) == 1


def test_a_node_of_another_graph_gets_no_transition_here() -> None:
    """Case 26. A node knows its graph here, so also where the crate cannot tell."""
    mine, other = Sketch(), Sketch()
    theirs = other.add("a", start=True)
    mine.add("a", start=True)
    with pytest.raises(GraphError, match="names node 'a' of graph 'sketch'"):
        mine.graph.transition(theirs)
    with pytest.raises(MissingNode, match="'nowhere'"):
        mine.graph.finish("nowhere")


async def test_a_transition_into_another_graph_fails_the_run(opened: Open) -> None:
    """Case 27. Deviation: a reset or a retry goes on from there, a resume does not."""
    mine, other = Sketch(), Sketch()
    theirs = other.add("b", start=True)
    start = mine.start()
    mine.graph.finish(mine.add("b"))
    mine.graph.transition(start)(lambda x: theirs.next(x))
    async with opened(mine.graph) as rt:
        run = await rt.start(mine.graph, 1)
        with pytest.raises(NodeError, match="leads to node 'b' of graph 'sketch'") as failed:
            await run.settled()
        assert isinstance(failed.value.__cause__, MissingNode)
        with pytest.raises(GraphError):
            await rt.run(other.graph, 1)


async def test_a_value_that_does_not_fit_the_node_that_it_is_for_fails_the_run(opened: Open) -> None:
    """Case 28."""
    graph = Graph("types")

    @graph.node(start=True)
    def first(x):  # type: ignore[no-untyped-def]
        return f"text {x}"

    @graph.node
    def second(x: int) -> int:
        return x

    graph.edge(first, second)
    graph.finish(second)
    async with opened(graph) as rt:
        told = "node 'first' handed a value of type str to node 'second', which takes int"
        with pytest.raises(NodeError, match=told) as failed:
            await rt.run(graph, 1)
        assert isinstance(failed.value.__cause__, GraphError)


async def test_a_handler_shared_with_another_graph_finishes_with_what_it_says(opened: Open) -> None:
    """Case 29. Deviation: `Transition.finish` belongs to no graph, so there is no foreign one to refuse;
    a result that nothing declares a type for is kept by its own."""
    sketch = Sketch()

    @sketch.graph.transition(sketch.start())
    def told(x: int) -> Transition:
        return Transition.finish(f"text {x}")

    async with opened(sketch.graph) as rt:
        assert await rt.run(sketch.graph, 1) == Completed("text 1")


async def test_another_start_is_refused_while_a_run_is_paused(opened: Open) -> None:
    """Case 31. Deviation: the graph is frozen, and another start is another graph."""
    sketch = Sketch()
    gate = sketch.gate("gate", Transition.finish, start=True)
    other = sketch.add("b")
    sketch.graph.finish(other)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        assert isinstance(await run.settled(), Paused)
        with pytest.raises(GraphError, match="another start"):
            sketch.graph.start(other)
        assert run.current_nodes(Gate).one() is gate
    changed = sketch.graph.clone()
    changed.start("b")
    async with opened(changed) as rt:
        assert await rt.run(changed, 1) == Completed(2)


async def test_the_default_concurrency_is_said_once_when_the_graph_is_made(opened: Open) -> None:
    """Case 32. Deviation: there is no way to change it, so a paused run cannot lose its place by that."""
    sketch = Sketch(Concurrency.PARALLEL)
    gate = sketch.gate("gate", Transition.finish, start=True)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        assert isinstance(await run.settled(), Paused)
        assert not hasattr(sketch.graph, "with_default_concurrency_model")
        gate.open = True
        await run.resume()
        assert await run.settled() == Completed(1)
    assert sketch.graph.concurrency is Concurrency.PARALLEL
