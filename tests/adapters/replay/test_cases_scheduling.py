"""In which order do branches begin, and what runs beside what? Source: cases graph, E."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from quiesce import Completed, Concurrency, Graph, NodeContext, Transition

from .conftest import Open
from .sketch import Node, Sketch, same

pytestmark = pytest.mark.anyio
SEQUENTIAL, PARALLEL = Concurrency.SEQUENTIAL, Concurrency.PARALLEL


class Overlap:
    """Counts how many of its visits are in flight at a time."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __call__(self, x: int) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        self.now -= 1
        return x

    def node(self, sketch: Sketch, name: str, into: Node) -> Node:
        ref = sketch.node(name, self.__call__)
        sketch.graph.join(ref, into=into)
        return ref


async def test_sequential_branches_take_turns_one_visit_at_a_time(opened: Open) -> None:
    """Case 61."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.collect()
    a1, a2, b1, b2 = (sketch.node(name, same) for name in ("a1", "a2", "b1", "b2"))
    sketch.fan_out(start, a1, b1, join=join)
    for first, second in ((a1, a2), (b1, b2)):
        sketch.graph.edge(first, second)
        sketch.graph.join(second, into=join)
    async with opened(sketch.graph) as rt:
        await rt.run(sketch.graph, 1)
    assert sketch.log == ["S(1)", "a1(1)", "b1(1)", "a2(1)", "b2(1)", "join([1, 1])"]


@pytest.mark.parametrize("said", ["by the fan-out", "by the graph"])
async def test_parallel_branches_can_wait_for_each_other(opened: Open, said: str) -> None:
    """Cases 62 and 63."""
    sketch = Sketch(SEQUENTIAL if said == "by the fan-out" else PARALLEL)
    here = [anyio.Event(), anyio.Event()]

    def meets(mine: int) -> Any:
        async def meet(x: int) -> int:
            here[mine].set()
            await here[1 - mine].wait()
            return x + 1

        return meet

    start, join = sketch.add("S", start=True), sketch.sum()
    a, b = sketch.node("a", meets(0)), sketch.node("b", meets(1))
    how = {"concurrency": PARALLEL} if said == "by the fan-out" else {}
    sketch.fan_out(start, a, b, join=join, **how)
    for branch in (a, b):
        sketch.graph.join(branch, into=join)
    async with opened(sketch.graph) as rt:
        with anyio.fail_after(10):
            assert await rt.run(sketch.graph, 0) == Completed(4)


@pytest.mark.parametrize(
    ("default", "said", "most"),
    [
        (SEQUENTIAL, None, 1),
        (PARALLEL, None, 2),
        (SEQUENTIAL, PARALLEL, 2),
        (PARALLEL, SEQUENTIAL, 1),
    ],
)
async def test_a_fan_out_says_how_its_branches_run_or_the_graph_does(
    opened: Open, default: Concurrency, said: Concurrency | None, most: int
) -> None:
    """Case 64. Deviation: it is said once, as an argument, so there is no order of two settings."""
    sketch, overlap = Sketch(default), Overlap()
    start, join = sketch.start(), sketch.sum()
    branches = [overlap.node(sketch, name, join) for name in "ab"]
    sketch.fan_out(start, *branches, join=join, concurrency=said)
    async with opened(sketch.graph) as rt:
        await rt.run(sketch.graph, 1)
    assert overlap.most == most


@pytest.mark.parametrize(("default", "first", "most"), [(SEQUENTIAL, PARALLEL, 1), (PARALLEL, SEQUENTIAL, 2)])
async def test_the_branch_after_a_join_has_the_default_of_the_graph_again(
    opened: Open, default: Concurrency, first: Concurrency, most: int
) -> None:
    """Case 66."""
    sketch, overlap = Sketch(default), Overlap()
    start, last = sketch.start(), sketch.sum("last")
    middle = sketch.node("middle", lambda brought: sum(brought))
    a, b = sketch.node("a", same), sketch.node("b", same)
    for branch in (a, b):
        sketch.graph.join(branch, into=middle)
    sketch.fan_out(start, a, b, join=middle, concurrency=first)
    sketch.fan_out(middle, *(overlap.node(sketch, name, last) for name in "cd"), join=last)
    async with opened(sketch.graph) as rt:
        await rt.run(sketch.graph, 1)
    assert overlap.most == most


async def test_a_next_may_change_the_concurrency_of_its_branch_which_its_fan_outs_inherit(
    opened: Open,
) -> None:
    """Case 67."""
    sketch, overlap = Sketch(), Overlap()
    start, m, join = sketch.start(), sketch.node("m", same), sketch.sum()
    sketch.graph.transition(start)(lambda x: m.next(x, concurrency=PARALLEL))
    sketch.fan_out(m, *(overlap.node(sketch, name, join) for name in "ab"), join=join)
    async with opened(sketch.graph) as rt:
        await rt.run(sketch.graph, 1)
    assert overlap.most == 2


async def test_a_sequential_visit_does_not_stall_parallel_ones_in_flight(opened: Open) -> None:
    """Case 68 is optional: in the crate x would end before a; here they overlap (spec graph, deviation)."""
    sketch = Sketch()
    begun, ended = anyio.Event(), anyio.Event()

    async def waits(x: int) -> int:
        await begun.wait()
        ended.set()
        return x

    async def stays(x: int) -> int:
        begun.set()
        await ended.wait()
        return x

    start, join = sketch.start(), sketch.sum()
    a, b, x = sketch.node("a", waits), sketch.node("b", same), sketch.node("x", stays)
    sketch.fan_out(start, a, b, join=join, concurrency=PARALLEL)
    sketch.graph.transition(b)(lambda value: x.next(value, concurrency=SEQUENTIAL))
    for branch in (a, x):
        sketch.graph.join(branch, into=join)
    async with opened(sketch.graph) as rt:
        with anyio.fail_after(10):
            assert await rt.run(sketch.graph, 1) == Completed(2)


async def test_branches_are_numbered_in_the_order_of_creation(opened: Open) -> None:
    """Case 69: root 1, a fan-out of two 2 and 3, the join 4, and a next keeps the number."""
    graph, ids = Graph("ids"), list[tuple[str, int]]()

    def add(name: str, **options: Any) -> Node:
        def note(x: Any, ctx: NodeContext) -> Any:
            ids.append((name, ctx.branch))
            return x

        return graph.node(note, name=name, **options)

    start, a, b, join, last = add("S", start=True), add("a"), add("b"), add("join"), add("last")
    graph.transition(start)(lambda x: Transition.fan_out([(a, x), (b, x)], join=join))
    graph.join(a, into=join)
    graph.join(b, into=join)
    graph.transition(join)(lambda brought: last.next(list(brought)))
    graph.finish(last)
    numbered = [("S", 1), ("a", 2), ("b", 3), ("join", 4), ("last", 4)]
    async with opened(graph) as rt:
        run = await rt.start(graph, 1)
        assert await run.settled() == Completed([1, 1])
        assert ids == numbered
        await run.reset()
        await run.resume()
        await run.settled()
    assert ids == numbered * 2


async def test_nested_fan_outs_take_the_next_numbers(opened: Open) -> None:
    """Spec graph, "Scheduling": a fan-out of k takes the next k, the join the next."""
    graph, ids = Graph("ids"), list[tuple[str, int]]()

    def add(name: str, **options: Any) -> Node:
        def note(x: Any, ctx: NodeContext) -> Any:
            ids.append((name, ctx.branch))
            return x

        return graph.node(note, name=name, **options)

    start, a, b, c, d = add("S", start=True), add("a"), add("b"), add("c"), add("d")
    inner, outer = add("inner"), add("outer")
    graph.transition(start)(lambda x: Transition.fan_out([(a, x), (b, x)], join=outer))
    graph.transition(a)(lambda x: Transition.fan_out([(c, x), (d, x)], join=inner))
    for source, into in ((b, outer), (c, inner), (d, inner)):
        graph.join(source, into=into)
    graph.join(inner, into=outer, map=len)
    graph.finish(outer, map=len)
    async with opened(graph) as rt:
        assert await rt.run(graph, 1) == Completed(2)
    assert ids == [("S", 1), ("a", 2), ("b", 3), ("c", 4), ("d", 5), ("inner", 6), ("outer", 7)]


async def test_visits_begin_in_the_order_of_the_queue_whether_they_wait_or_not(opened: Open) -> None:
    """Spec graph, "Scheduling": one FIFO queue; what is queued starts before the next result is applied."""
    sketch = Sketch(PARALLEL)

    async def waits(x: int) -> int:
        await anyio.lowlevel.checkpoint()
        return x

    start, join = sketch.start(), sketch.collect()
    a, b, c, d = (sketch.node("a", waits), sketch.node("b"), sketch.node("c", waits), sketch.node("d"))
    e = sketch.node("e")
    sketch.fan_out(start, a, b, c, d, join=join)
    sketch.graph.edge(b, e)
    for branch in (a, c, d, e):
        sketch.graph.join(branch, into=join)
    async with opened(sketch.graph) as rt:
        await rt.run(sketch.graph, 1)
    assert sketch.log == [f"{name}(1)" for name in "Sabcde"] + ["join([1, 1, 1, 1])"]


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_max_parallelism_bounds_the_visits_of_one_fan_out(opened: Open, most: int) -> None:
    """Spec graph, "Scheduling"; all six are visited, and no more than so many at a time."""
    sketch, overlap = Sketch(PARALLEL), Overlap()
    start, join = sketch.start(), sketch.sum()
    branches = [overlap.node(sketch, name, join) for name in "abcdef"]
    sketch.fan_out(start, *branches, join=join, max_parallelism=most)
    async with opened(sketch.graph) as rt:
        assert await rt.run(sketch.graph, 1) == Completed(6)
    assert overlap.most == most
    assert sketch.log == ["S(1)", *(f"{name}(1)" for name in "abcdef"), "sum([1, 1, 1, 1, 1, 1])"]


async def test_results_are_applied_in_the_order_in_which_visits_end(opened: Open) -> None:
    """Spec graph, "Scheduling": completion order, and what each queues begins at once."""
    sketch = Sketch(PARALLEL)
    first = anyio.Event()

    async def late(x: int) -> int:
        await first.wait()
        return x

    start, join = sketch.start(), sketch.collect()
    a, b, a2, b2 = sketch.node("a", late), sketch.node("b"), sketch.node("a2"), sketch.node("b2")
    sketch.fan_out(start, a, b, join=join)
    sketch.graph.edge(a, a2)

    @sketch.graph.transition(b)
    def decide(x: int) -> Transition:
        first.set()
        return b2.next(x)

    for branch in (a2, b2):
        sketch.graph.join(branch, into=join)
    async with opened(sketch.graph) as rt:
        await rt.run(sketch.graph, 1)
    assert sketch.log == ["S(1)", "a(1)", "b(1)", "b2(1)", "a2(1)", "join([1, 1])"]
