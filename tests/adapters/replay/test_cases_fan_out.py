"""Fan-outs and joins that nobody pauses. Source: cases graph, D."""

from __future__ import annotations

import anyio
import pytest

from quiesce import Completed, Concurrency, Graph, JoinInput, Transition
from quiesce.errors import GraphError, NodeError

from .conftest import Open
from .sketch import Sketch, same

pytestmark = pytest.mark.anyio
SEQUENTIAL, PARALLEL = Concurrency.SEQUENTIAL, Concurrency.PARALLEL


async def outcome_of(sketch: Sketch, value: object, opened: Open) -> object:
    async with opened(sketch.graph) as rt:
        outcome = await rt.run(sketch.graph, value)
        assert isinstance(outcome, Completed)
        return outcome.value


async def cause_of(sketch: Sketch, opened: Open) -> str:
    """The text of the GraphError that fails the run."""
    async with opened(sketch.graph) as rt:
        with pytest.raises(NodeError) as failed:
            await rt.run(sketch.graph, 1)
    assert isinstance(failed.value.__cause__, GraphError)
    return str(failed.value.__cause__)


async def test_a_fan_out_joins_what_its_branches_bring(opened: Open) -> None:
    """Case 43."""
    sketch = Sketch()
    start, a, b, join = sketch.add("S", start=True), sketch.add("a"), sketch.add("b"), sketch.sum()
    sketch.fan_out(start, a, b, join=join)
    for branch in (a, b):
        sketch.graph.join(branch, into=join)
    assert await outcome_of(sketch, 1, opened) == 6


async def test_branches_may_compute_different_things(opened: Open) -> None:
    """Case 44."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.sum()
    double, plus = sketch.node("double", lambda x: x * 2), sketch.add("plus")
    sketch.fan_out(start, double, plus, join=join)
    for branch in (double, plus):
        sketch.graph.join(branch, into=join)
    assert await outcome_of(sketch, 3, opened) == 10


async def test_payloads_of_different_types_are_told_apart_at_the_join(opened: Open) -> None:
    """Case 45."""
    graph = Graph("mixed")

    @graph.node(start=True)
    def inc(x: int) -> int:
        return x + 1

    @graph.node
    def number(x: int) -> int:
        return x + 1

    @graph.node
    def text(x: int) -> str:
        return f"branch-{x}"

    @graph.node
    def join(brought: JoinInput[int | str]) -> int:
        assert list(brought.of(str)) == ["branch-2"]
        assert list(brought) == [3, "branch-2"]
        return sum(brought.of(int)) + sum(map(len, brought.of(str))) + len(brought)

    graph.transition(inc)(lambda x: Transition.fan_out([(number, x), (text, x)], join=join))
    graph.join(number, into=join)
    graph.join(text, into=join)
    graph.finish(join)
    async with opened(graph) as rt:
        assert await rt.run(graph, 1) == Completed(13)


async def test_payloads_come_in_the_order_of_creation_not_of_arrival(opened: Open) -> None:
    """Case 46."""
    sketch = Sketch()
    arrived = anyio.Event()

    async def late(x: int) -> int:
        await arrived.wait()
        return x + 1

    async def early(x: int) -> int:
        arrived.set()
        return x + 10

    start, join = sketch.start(), sketch.collect()
    a, b = sketch.node("a", late), sketch.node("b", early)
    sketch.fan_out(start, a, b, join=join, concurrency=PARALLEL)
    for branch in (a, b):
        sketch.graph.join(branch, into=join)
    assert await outcome_of(sketch, 1, opened) == [2, 11]


async def test_a_branch_may_go_through_other_nodes_before_it_joins(opened: Open) -> None:
    """Case 48."""
    sketch = Sketch()
    start, a, b, join = sketch.add("S", start=True), sketch.add("a"), sketch.add("b"), sketch.sum()
    ten = sketch.add("ten", 10)
    sketch.fan_out(start, a, b, join=join)
    sketch.graph.edge(a, ten)
    sketch.graph.join(ten, into=join)
    sketch.graph.join(b, into=join)
    assert await outcome_of(sketch, 1, opened) == 16


async def test_a_branch_that_finishes_inside_a_fan_out_has_arrived_at_its_join(opened: Open) -> None:
    """Case 49."""
    sketch = Sketch()
    finished = anyio.Event()

    async def slow(x: int) -> int:
        await finished.wait()
        return x + 10

    def quick(x: int) -> int:
        finished.set()
        return x + 1

    start, join = sketch.start(), sketch.sum()
    a, b = sketch.node("a", quick), sketch.node("b", slow)
    sketch.fan_out(start, a, b, join=join, concurrency=PARALLEL)
    sketch.graph.finish(a)
    sketch.graph.join(b, into=join)
    assert await outcome_of(sketch, 1, opened) == 13


async def test_the_only_branch_of_a_fan_out_may_finish(opened: Open) -> None:
    """Case 50."""
    sketch = Sketch()
    start, a = sketch.start(), sketch.add("a")
    join = sketch.node("join", lambda brought: 100 * sum(brought))
    sketch.graph.finish(a)
    sketch.graph.finish(join)
    sketch.fan_out(start, a, join=join)
    assert await outcome_of(sketch, 1, opened) == 200


async def test_a_payload_that_does_not_fit_the_join_fails_the_run(opened: Open) -> None:
    """Case 51. Deviation: as soon as the branch arrives, not when the last one has."""
    sketch = Sketch()
    start, a, b = sketch.start(), sketch.node("a", str), sketch.add("b")

    @sketch.graph.node
    def join(brought: JoinInput[int]) -> int:
        return sum(brought)

    sketch.fan_out(start, a, b, join=join)
    sketch.graph.finish(a)
    sketch.graph.join(b, into=join)
    sketch.graph.finish(join)
    told = await cause_of(sketch, opened)
    assert "node 'a' handed a value of type str to node 'join', which takes JoinInput[int]" in told
    assert sketch.log == ["S(1)", "a(1)"]


async def test_a_branch_joins_only_where_its_fan_out_joins(opened: Open) -> None:
    """Case 52."""
    sketch = Sketch()
    start, a, join, other = sketch.start(), sketch.add("a"), sketch.sum(), sketch.sum("other")
    sketch.fan_out(start, a, join=join)
    sketch.graph.join(a, into=other)
    told = await cause_of(sketch, opened)
    assert told == "node 'a' joins 'other', but the fan-out of its branch joins 'join'".replace(
        "'join'", "'sum'"
    )


async def test_a_join_outside_any_fan_out_fails_the_run(opened: Open) -> None:
    """Case 53."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.sum()
    sketch.graph.join(start, into=join)
    assert "belongs to no fan-out that joins" in await cause_of(sketch, opened)


async def test_a_branch_may_fan_out_again_and_joins_inside_first(opened: Open) -> None:
    """Case 54. Deviation: nested fan-outs work (spec graph, "Scheduling")."""
    sketch = Sketch()
    start, a, b = sketch.start(), sketch.node("a", same), sketch.add("b", 100)
    c, d = sketch.add("c", 1), sketch.add("d", 2)
    inner, outer = sketch.node("inner", lambda brought: sum(brought)), sketch.collect("outer")
    sketch.fan_out(start, a, b, join=outer)
    sketch.fan_out(a, c, d, join=inner)
    for branch, into in ((b, outer), (c, inner), (d, inner), (inner, outer)):
        sketch.graph.join(branch, into=into)
    assert await outcome_of(sketch, 1, opened) == [5, 101]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_map_makes_the_payload(opened: Open, how: str) -> None:
    """Case 57."""
    sketch = Sketch()
    start, a, join = sketch.add("S", start=True), sketch.add("a"), sketch.sum()

    async def later(x: int) -> int:
        await anyio.lowlevel.checkpoint()
        return x * 2

    sketch.fan_out(start, a, join=join)
    sketch.graph.join(a, into=join, map=later if how == "async" else lambda x: x * 2)
    assert await outcome_of(sketch, 1, opened) == 6


async def test_a_map_runs_once_at_arrival_before_the_join_begins(opened: Open) -> None:
    """Case 58."""
    sketch = Sketch()
    start, a, b, join = sketch.start(), sketch.add("a"), sketch.add("b"), sketch.sum()

    def told(x: int) -> int:
        sketch.log.append(f"map({x})")
        return x * 2

    sketch.fan_out(start, a, b, join=join)
    for branch in (a, b):
        sketch.graph.join(branch, into=join, map=told)
    assert await outcome_of(sketch, 1, opened) == 8
    assert sketch.log == ["S(1)", "a(1)", "map(2)", "b(1)", "map(2)", "sum([4, 4])"]


async def test_an_int_is_taken_where_a_float_is_joined_and_nothing_lossy_is(opened: Open) -> None:
    """Case 59: the conversion that Python allows, and no other."""
    graph = Graph("wider")

    @graph.node(start=True)
    def start(x: int) -> int:
        return x

    @graph.node
    def whole(x: int) -> int:
        return x

    @graph.node
    def half(x: int) -> float:
        return x + 0.5

    @graph.node
    def join(brought: JoinInput[float]) -> list[str]:
        return [f"{type(x).__name__} {x}" for x in brought]

    graph.transition(start)(lambda x: Transition.fan_out([(whole, x), (half, x)], join=join))
    graph.join(whole, into=join)
    graph.join(half, into=join)
    graph.finish(join)
    async with opened(graph) as rt:
        assert await rt.run(graph, 1) == Completed(["float 1.0", "float 1.5"])

    @graph.clone().node
    def ints(brought: JoinInput[int]) -> int:
        return sum(brought)

    narrow = graph.clone()
    taking = narrow.node(ints.body)
    other = narrow.node(half.body, name="other")
    with pytest.raises(GraphError, match="brings float, 'ints' takes JoinInput"):
        narrow.join(other, into=taking)


async def test_a_join_input_can_be_counted_indexed_and_iterated_as_often_as_needed(opened: Open) -> None:
    """Case 60."""
    sketch = Sketch()

    def look(brought: JoinInput[int]) -> list[object]:
        return [len(brought), bool(brought), brought[0], brought[-1], list(brought), list(brought)]

    start, a, b = sketch.start(), sketch.add("a", 1), sketch.add("b", 2)
    join = sketch.node("join", look)
    sketch.graph.finish(join)
    sketch.fan_out(start, a, b, join=join)
    for branch in (a, b):
        sketch.graph.join(branch, into=join)
    assert await outcome_of(sketch, 1, opened) == [2, True, 2, 3, [2, 3], [2, 3]]


async def test_an_empty_fan_out_goes_straight_to_its_join(opened: Open) -> None:
    """Spec graph, "Building and checking": with an empty JoinInput."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.collect()
    sketch.fan_out(start, join=join)
    assert await outcome_of(sketch, 1, opened) == []
    assert sketch.log == ["S(1)", "join([])"]


async def test_a_join_may_fan_out_again_or_go_back_to_the_start(opened: Open) -> None:
    """Spec graph, "Scheduling"."""
    sketch = Sketch()
    start, a, b = sketch.start(), sketch.add("a"), sketch.add("b")
    join = sketch.node("join", lambda brought: sum(brought))
    last = sketch.collect("last")
    sketch.fan_out(start, a, b, join=join)
    c = sketch.add("c")
    for branch in (a, b):
        sketch.graph.join(branch, into=join)
    sketch.graph.join(c, into=last)

    @sketch.graph.transition(join)
    def decide(total: int) -> Transition:
        return start.next(total) if total < 10 else Transition.fan_out([(c, total)] * 2, join=last)

    assert await outcome_of(sketch, 1, opened) == [11, 11]
    assert [entry for entry in sketch.log if entry.startswith("S")] == ["S(1)", "S(4)"]


async def test_the_first_to_finish_wins_a_race_and_the_others_are_cancelled_and_awaited(
    opened: Open,
) -> None:
    """Spec graph, "Scheduling": fan_out(join=None)."""
    sketch = Sketch()
    begun, unwound = anyio.Event(), anyio.Event()

    async def slow(x: int) -> int:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            unwound.set()
        raise AssertionError("nobody wakes it")

    async def quick(x: int) -> int:
        await begun.wait()
        return x + 1

    start, a, b = sketch.start(), sketch.node("a", slow), sketch.node("b", quick)
    sketch.fan_out(start, a, b, join=None, concurrency=PARALLEL)
    for branch in (a, b):
        sketch.graph.finish(branch)
    async with opened(sketch.graph) as rt:
        assert await rt.run(sketch.graph, 1) == Completed(2)
        assert unwound.is_set()


async def test_a_finish_ends_a_race_while_another_branch_is_paused_and_withdraws_its_question(
    opened: Open,
) -> None:
    """Spec graph, "Scheduling": a running branch reaches finish, the paused branch is discarded."""
    sketch = Sketch()
    paused, go = anyio.Event(), anyio.Event()

    async def slow(x: int) -> int:
        paused.set()
        await go.wait()
        return x + 1

    start = sketch.start()
    sketch.gate("gate", Transition.finish)
    b = sketch.node("b", slow)
    sketch.graph.finish(b)
    sketch.fan_out(start, b, "gate", join=None, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await paused.wait()
        go.set()
        assert await run.settled() == Completed(2)
        assert await rt.holds(run.id) == []
        assert [hold.state for hold in await rt.holds(run.id, None)] == ["withdrawn"]


async def test_a_race_inside_a_join_brings_the_winner_and_cancels_what_lost(opened: Open) -> None:
    """Spec graph, "Scheduling": racing fan-outs nest."""
    sketch = Sketch()
    begun, unwound = anyio.Event(), anyio.Event()

    async def slow(x: int) -> int:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            unwound.set()
        raise AssertionError("nobody wakes it")

    async def quick(x: int) -> int:
        await begun.wait()
        return x + 1

    start, join, racing = sketch.start(), sketch.collect(), sketch.node("racing", same)
    a, b, other = sketch.node("a", slow), sketch.node("b", quick), sketch.add("other", 10)
    sketch.fan_out(start, racing, other, join=join, concurrency=PARALLEL)
    sketch.fan_out(racing, a, b, join=None)
    for branch in (a, b):
        sketch.graph.finish(branch)
    sketch.graph.join(other, into=join)
    assert await outcome_of(sketch, 1, opened) == [2, 11]
    assert unwound.is_set()


async def test_one_value_handed_to_nodes_of_different_types_comes_to_each_as_its_own(opened: Open) -> None:
    """Spec engine, 6: values are restored by the declared type, or by their own where none is."""
    graph = Graph("shared")
    seen: list[object] = []

    @graph.node(start=True)
    def start(x: int) -> tuple[int, int]:
        return (x, x)

    @graph.node
    def declared(pair: tuple[int, int]) -> str:
        return repr(pair)

    @graph.node
    def plain(pair):  # type: ignore[no-untyped-def]
        return repr(pair)

    @graph.node
    def join(brought: JoinInput[str]) -> list[str]:
        return list(brought)

    graph.transition(start)(
        lambda pair: Transition.fan_out([(plain, pair), (declared, pair), (plain, pair)], join=join)
    )
    graph.join(declared, into=join)
    graph.join(plain, into=join)
    graph.finish(join)
    async with opened(graph) as rt:
        run = await rt.start(graph, 1)
        seen.append(await run.settled())
    assert seen == [Completed(["(1, 1)"] * 3)]
