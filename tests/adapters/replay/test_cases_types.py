"""What cannot be right is refused as early as it can be known. Source: cases graph, J.

The crate's compile-time tests are registration errors where annotations say enough, and errors of the run,
with both names, where they do not. `tests/typing/graph.py` has what a type checker sees.
"""

from __future__ import annotations

from typing import Any

import pytest

import quiesce
from quiesce import Completed, Graph, JoinInput, Runtime, Transition
from quiesce.errors import GraphError, NodeError

from .conftest import Open
from .sketch import Sketch

pytestmark = pytest.mark.anyio


def typed() -> tuple[Graph, Any, Any, Any]:
    """start: int -> int, text: str -> str, join: JoinInput[int] -> int; without transitions."""
    graph = Graph("typed")

    @graph.node(start=True)
    def start(x: int) -> int:
        return x

    @graph.node
    def text(x: str) -> str:
        return x

    @graph.node
    def join(brought: JoinInput[int]) -> int:
        return sum(brought)

    return graph, start, text, join


def test_a_fan_out_says_where_it_joins() -> None:
    """Case 106: the argument is required; None is a race."""
    with pytest.raises(TypeError, match="join"):
        Transition.fan_out([("a", 1)])  # type: ignore[call-arg]
    with pytest.raises(GraphError, match="a race needs at least one branch"):
        Transition.fan_out([], join=None)


async def test_a_finish_is_made_by_its_constructor_only(opened: Open) -> None:
    """Case 107. Deviation: `Transition.finish` is public, since a handler may decide to finish; its value
    is checked where the run ends or the branch joins. Its case is no name of the package."""
    assert not hasattr(quiesce, "Finish")
    graph, start, text, join = typed()
    graph.transition(start)(lambda x: Transition.fan_out([(text, "x")], join=join))
    graph.finish(text)
    graph.finish(join)
    async with opened(graph) as rt:
        with pytest.raises(NodeError, match="node 'text' handed a value of type str to node 'join'"):
            await rt.run(graph, 1)


async def test_a_target_takes_what_it_declares(opened: Open) -> None:
    """Case 108: of a next exactly, of a fan-out likewise."""
    for wrong in (
        lambda text, join, x: text.next(x),
        lambda text, join, x: Transition.fan_out([(text, x)], join=join),
        lambda text, join, x: Transition.fan_out([(text, "x"), (text, x)], join=join),
    ):
        graph, start, text, join = typed()
        graph.transition(start)(lambda x, wrong=wrong, text=text, join=join: wrong(text, join, x))
        graph.finish(text)
        graph.finish(join)
        async with opened(graph) as rt:
            told = "node 'start' handed a value of type int to node 'text', which takes str"
            with pytest.raises(NodeError, match=told):
                await rt.run(graph, 1)


def test_an_edge_between_types_that_cannot_fit_is_refused_when_it_is_registered() -> None:
    """Case 108, at registration, with both names."""
    graph, start, text, _ = typed()
    with pytest.raises(GraphError, match="'start' gives int, 'text' takes str"):
        graph.edge(start, text)


def test_a_join_takes_the_payloads_that_it_declares() -> None:
    """Case 109."""
    graph, _, text, join = typed()
    with pytest.raises(GraphError, match=r"'text' brings str, 'join' takes JoinInput\[int\]"):
        graph.join(text, into=join)


def test_a_map_takes_what_its_branch_gives() -> None:
    """Case 110."""
    graph, _, text, join = typed()

    def double(x: int) -> int:
        return x * 2

    with pytest.raises(GraphError, match="the map of node 'text' takes int, but node 'text' gives str"):
        graph.join(text, into=join, map=double)


def test_a_join_leads_to_a_node_that_takes_a_join_input() -> None:
    """Case 111."""
    graph, start, text, _ = typed()
    with pytest.raises(GraphError, match="a join node takes a JoinInput"):
        graph.join(start, into=text, map=str)


async def test_a_handler_may_lead_to_nodes_of_different_types(opened: Open) -> None:
    """Case 112 has no counterpart: one handler returns whatever transition it decides on."""
    graph, *_ = typed()
    other = graph.clone()
    for one in (graph, other):
        one.transition("start")(
            lambda x: Transition.next("text", "big") if x > 1 else Transition.next("start", x + 5)
        )
        one.finish("text")
        one.finish("join")
    async with opened(graph, other) as rt:
        assert await rt.run(graph, 2) == Completed("big")
        assert await rt.run(other, 1) == Completed("big")


async def test_what_fits_is_accepted_in_every_shape(opened: Open) -> None:
    """Case 113."""
    graph, start, text, join = typed()

    @graph.node
    def length(x: str) -> int:
        return len(x)

    def decide(x: int) -> Transition:
        return Transition.fan_out([(text, "four"), length.next("seven"), ("length", "")], join=join)

    graph.transition(start, to=[text, length, join])(decide)
    graph.join(text, into=join, map=len)
    graph.join(length, into=join)
    graph.finish(join)
    async with opened(graph) as rt:
        assert await rt.run(graph, 1) == Completed(9)


async def test_a_handler_that_leads_elsewhere_than_it_declares_fails_the_run() -> None:
    """Spec graph, "Building and checking": what is declared is checked when the value arrives."""
    sketch = Sketch()
    start, a, b = sketch.start(), sketch.add("a"), sketch.add("b")
    for node in (a, b):
        sketch.graph.finish(node)
    sketch.graph.transition(start, to=[a])(lambda x: b.next(x))
    async with Runtime() as rt:
        with pytest.raises(NodeError, match=r"leads to 'b', but its transition declares to=\['a'\]"):
            await rt.run(sketch.graph, 1)
