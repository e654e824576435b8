"""Pauses with several branches: what is evaluated, what is held, in which order it goes on.

Source: cases graph, F, and spec graph, "Pause with several branches".
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import anyio
import pytest

from quiesce import Completed, Concurrency, Paused, Run, Runtime, Transition
from quiesce.errors import NodeError, NotResumable, RunActive

from .conftest import Open
from .sketch import Boom, Gate, Node, Sketch

pytestmark = pytest.mark.anyio
SEQUENTIAL, PARALLEL = Concurrency.SEQUENTIAL, Concurrency.PARALLEL


async def start(rt: Runtime, sketch: Sketch, value: Any = 1) -> Run:
    """A run that has paused."""
    run = await rt.start(sketch.graph, value)
    assert isinstance(await run.settled(), Paused)
    return run


async def fenced(run: Run) -> None:
    """Waits for the fence of the run, whatever still drains."""
    async with aclosing(run.events()) as events:
        async for event in events:
            if event.kind == "paused":
                return


async def resume(sketch: Sketch, run: Run) -> list[str]:
    """What a resume evaluates until the run pauses again."""
    before = len(sketch.log)
    await run.resume()
    assert isinstance(await run.settled(), Paused)
    return sketch.log[before:]


def gates(sketch: Sketch, *names: str, join: Node) -> list[Gate]:
    return [sketch.gate(name, lambda x: Transition.join(join, x)) for name in names]


async def test_sequential_gates_show_one_per_resume_in_rotation(opened: Open) -> None:
    """Case 70: what was not begun when the first one paused is not evaluated, and not shown."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()
    a, b = gates(sketch, "A", "B", join=join)
    sketch.fan_out(root, "A", "B", join=join)
    async with opened(sketch.graph) as rt:
        run = await start(rt, sketch)
        assert sketch.log == ["S(1)", "A(1)"]
        assert run.current_nodes(Gate).one() is a
        assert await resume(sketch, run) == ["B(1)"]
        assert run.current_nodes(Gate).one() is b
        assert await resume(sketch, run) == ["A(1)"]
        assert run.current_nodes(Gate).one() is a
        a.open = b.open = True
        await run.resume()
        assert await run.settled() == Completed([1, 1])


@pytest.mark.parametrize("how", [SEQUENTIAL, PARALLEL])
async def test_one_gate_node_on_three_branches_shows_one_or_all(opened: Open, how: Concurrency) -> None:
    """Cases 71 and 72: sequential ones in rotation, parallel ones all."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()
    (gate,) = gates(sketch, "A", join=join)
    sketch.graph.transition(root)(
        lambda x: Transition.fan_out([("A", 10), ("A", 11), ("A", 12)], join=join, concurrency=how)
    )
    async with opened(sketch.graph) as rt:
        run = await start(rt, sketch)
        if how is SEQUENTIAL:
            assert sketch.log == ["S(1)", "A(10)"]
            assert [await resume(sketch, run) for _ in range(3)] == [["A(11)"], ["A(12)"], ["A(10)"]]
            assert run.current_nodes(Gate).one() is gate
        else:
            every = ["A(10)", "A(11)", "A(12)"]
            assert sketch.log == ["S(1)", *every]
            assert [await resume(sketch, run) for _ in range(2)] == [every, every]
            assert run.current_nodes(Gate).all() == [gate] * 3
        gate.open = True
        await run.resume()
        assert await run.settled() == Completed([10, 11, 12])


def case_74() -> tuple[Sketch, Gate]:
    """Parallel [A gate, b -> c]."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()
    done = sketch.node("pass")
    a = sketch.gate("A", done.next)
    b, c = sketch.node("b"), sketch.node("c")
    sketch.fan_out(root, "A", b, join=join, concurrency=PARALLEL)
    sketch.graph.edge(b, c)
    for branch in (c, done):
        sketch.graph.join(branch, into=join)
    return sketch, a


async def test_a_resume_takes_queued_work_first_and_then_the_paused_branches(opened: Open) -> None:
    """Case 74."""
    sketch, a = case_74()
    async with opened(sketch.graph) as rt:
        run = await start(rt, sketch)
        assert sketch.log == ["S(1)", "A(1)", "b(1)"]
        a.open = True
        await run.resume()
        assert await run.settled() == Completed([1, 1])
    assert sketch.log[3:] == ["c(1)", "A(1)", "pass(1)", "join([1, 1])"]


async def test_another_process_takes_queued_work_first_too(on_disk: Open) -> None:
    """Case 74 after a restart: the order of the queue is kept in rows."""
    sketch, a = case_74()
    async with on_disk(sketch.graph) as rt:
        run = await start(rt, sketch)
    a.open = True
    async with on_disk(sketch.graph) as rt:
        run = await rt.get(run.id)
        await run.resume()
        assert await run.settled() == Completed([1, 1])
    assert sketch.log[3:] == ["c(1)", "A(1)", "pass(1)", "join([1, 1])"]


async def test_paused_branches_go_on_by_their_ids_not_by_when_they_paused(opened: Open) -> None:
    """Spec graph, "Pause", 5."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()
    paused = anyio.Event()

    async def late(x: int) -> int:
        await paused.wait()
        return x

    slow = sketch.node("slow", late)
    answers = [True]

    @sketch.graph.transition(slow)
    async def decide(x: int) -> Transition:
        return Transition.pause("slow") if answers else Transition.join(join, x)

    quick = sketch.node("quick")

    @sketch.graph.transition(quick)
    def decide_quick(x: int) -> Transition:
        paused.set()
        return Transition.pause("quick") if answers else Transition.join(join, x)

    sketch.fan_out(root, slow, quick, join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await start(rt, sketch)
        assert sorted(hold.reason or "" for hold in await rt.holds(run.id)) == ["quick", "slow"]
        assert await resume(sketch, run) == ["slow(1)", "quick(1)"]
        answers.clear()
        await run.resume()
        assert await run.settled() == Completed([1, 1])


async def test_a_pause_does_not_keep_visits_from_beginning_that_were_taken_with_it(opened: Open) -> None:
    """Case 76."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()
    a, c = gates(sketch, "A", "C", join=join)
    b = sketch.node("b")
    sketch.graph.join(b, into=join)
    sketch.fan_out(root, "A", b, "C", join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await start(rt, sketch)
        assert sketch.log == ["S(1)", "A(1)", "b(1)", "C(1)"]
        assert run.current_nodes(Gate).all() == [a, c]
        a.open = c.open = True
        await run.resume()
        assert await run.settled() == Completed([1, 1, 1])
    assert sketch.log[4:] == ["A(1)", "C(1)", "join([1, 1, 1])"]


async def test_a_transition_that_ends_after_the_pause_queues_what_follows_and_starts_nothing(
    opened: Open,
) -> None:
    """Case 77."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()
    (gate,) = gates(sketch, "G", join=join)
    b, c = sketch.node("b"), sketch.node("c")
    go = anyio.Event()

    @sketch.graph.transition(b)
    async def decide(x: int) -> Transition:
        await go.wait()
        sketch.log.append("decided")
        return c.next(x)

    sketch.graph.join(c, into=join)
    sketch.fan_out(root, "G", b, join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await fenced(run)
        status = await run.status()
        assert (status.phase, status.draining) == ("draining", 1)
        go.set()
        assert isinstance(await run.settled(), Paused)
        assert (await run.status()).phase == "quiescent"
        assert sketch.log == ["S(1)", "G(1)", "b(1)", "decided"]
        gate.open = True
        await run.resume()
        assert await run.settled() == Completed([1, 1])
    assert sketch.log[4:] == ["c(1)", "G(1)", "join([1, 1])"]


async def test_a_branch_that_finishes_while_another_is_paused_does_not_complete_the_run(
    opened: Open,
) -> None:
    """Case 79. The seed's wording (the finish completes the run) holds for a race; here there is a join."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()
    (gate,) = gates(sketch, "A", join=join)

    async def slow(x: int) -> int:
        await anyio.lowlevel.checkpoint()
        return x + 40

    b = sketch.node("b", slow)
    sketch.graph.finish(b)
    sketch.fan_out(root, "A", b, join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await start(rt, sketch, 2)
        gate.open = True
        await run.resume()
        assert await run.settled() == Completed([2, 42])
    assert sketch.log == ["S(2)", "A(2)", "b(2)", "A(2)", "join([2, 42])"]


async def test_an_error_after_a_pause_loses_the_pause(opened: Open) -> None:
    """Case 80. Deviation: a new run, a reset or a retry goes on; a start of the failed run is refused."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()
    gates(sketch, "A", join=join)
    go = anyio.Event()

    async def slow(x: int) -> int:
        await go.wait()
        raise Boom("late")

    b = sketch.node("b", slow)
    sketch.graph.join(b, into=join)
    sketch.fan_out(root, "A", b, join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1, run_id="one")
        await fenced(run)
        assert len(await rt.holds()) == 1
        go.set()
        with pytest.raises(NodeError, match="'b' failed: Boom: late"):
            await run.settled()
        assert run.current_nodes(Gate).none
        assert await rt.holds() == []
        assert (await run.status()).locks == ()
        with pytest.raises(NotResumable):
            await run.resume()
        await run.reset()
        with pytest.raises(RunActive):
            await rt.start(sketch.graph, 9, run_id="one")
        await run.resume()
        with pytest.raises(NodeError, match="late"):
            await run.settled()
        with pytest.raises(NodeError, match="late"):
            await rt.run(sketch.graph, 5)
    assert [entry for entry in sketch.log if entry.startswith("b")] == ["b(1)", "b(1)", "b(5)"]


async def test_an_error_ends_the_run_before_a_slower_gate_pauses(opened: Open) -> None:
    """Case 81."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()

    async def slow(x: int) -> int:
        await anyio.sleep_forever()
        return x

    g = sketch.node("G", slow)
    sketch.graph.transition(g)(lambda x: Transition.pause("never"))

    async def bad(x: int) -> int:
        await anyio.lowlevel.checkpoint()
        raise Boom("at once")

    b = sketch.node("b", bad)
    sketch.graph.join(b, into=join)
    sketch.fan_out(root, g, b, join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        with pytest.raises(NodeError, match="at once"):
            await run.settled()
        assert await rt.holds(run.id, None) == []
        with pytest.raises(NotResumable):
            await run.resume()


async def test_a_wrong_join_after_a_pause_fails_the_run_too(opened: Open) -> None:
    """Case 82."""
    sketch = Sketch()
    root, join, other = sketch.start(), sketch.collect(), sketch.collect("other")
    gates(sketch, "G", join=join)
    go = anyio.Event()

    async def slow(x: int) -> int:
        await go.wait()
        return x

    b = sketch.node("b", slow)
    sketch.graph.join(b, into=other)
    sketch.fan_out(root, "G", b, join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await fenced(run)
        go.set()
        with pytest.raises(NodeError, match="joins 'other', but the fan-out of its branch joins 'join'"):
            await run.settled()
        with pytest.raises(NotResumable):
            await run.resume()


async def test_an_error_in_queued_work_fails_the_resume(opened: Open) -> None:
    """Case 84."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()
    gates(sketch, "G", join=join)
    b, bad = sketch.node("b"), sketch.fails("bad")
    sketch.graph.edge(b, bad)
    sketch.fan_out(root, "G", b, join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await start(rt, sketch)
        assert sketch.log == ["S(1)", "G(1)", "b(1)"]
        await run.resume()
        with pytest.raises(NodeError, match="'bad' failed"):
            await run.settled()


async def test_a_join_node_that_pauses_is_evaluated_again_with_the_same_payloads(opened: Open) -> None:
    """Case 85: the branches are not replayed."""
    sketch = Sketch()
    root, a, b = sketch.start(), sketch.add("a"), sketch.add("b")
    join = sketch.node("join", lambda brought: sum(brought))
    closed = [True]

    @sketch.graph.transition(join)
    def decide(total: int) -> Transition:
        return Transition.pause() if closed else Transition.finish(total)

    for branch in (a, b):
        sketch.graph.join(branch, into=join)
    sketch.fan_out(root, a, b, join=join)
    async with opened(sketch.graph) as rt:
        run = await start(rt, sketch)
        closed.clear()
        await run.resume()
        assert await run.settled() == Completed(4)
    assert sketch.log == ["S(1)", "a(1)", "b(1)", "join([2, 2])", "join([2, 2])"]


async def test_a_join_that_paused_has_its_payloads_after_a_restart(on_disk: Open) -> None:
    """Spec graph, "Scheduling": arrived payloads survive any number of pauses and are never replayed."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()
    (gate,) = gates(sketch, "A", join=join)
    b = sketch.add("b")
    sketch.graph.join(b, into=join, map=lambda x: ("b", x))
    sketch.fan_out(root, b, "A", join=join)
    async with on_disk(sketch.graph) as rt:
        run = await start(rt, sketch)
    for _ in range(2):
        async with on_disk(sketch.graph) as rt:
            assert await resume(sketch, await rt.get(run.id)) == ["A(1)"]
    gate.open = True
    async with on_disk(sketch.graph) as rt:
        run = await rt.get(run.id)
        await run.resume()
        assert await run.settled() == Completed([("b", 2), 1])
    assert sketch.log.count("b(1)") == 1


async def test_a_sequential_gate_does_not_hold_parallel_branches_back_before_it_pauses(
    opened: Open,
) -> None:
    """Case 87 is optional: in the crate B2 would begin before a2, since a sequential step stalls parallel
    ones there. Here b and a2 begin together, and so do B2 and c2."""
    sketch = Sketch()
    root, join = sketch.start(), sketch.collect()
    a, b, c = sketch.node("a"), sketch.node("b"), sketch.node("c")
    a2, c2 = sketch.node("a2"), sketch.node("c2")
    gate = sketch.gate("B2", lambda x: Transition.join(join, x))
    for source, target in ((a, a2), (c, c2)):
        sketch.graph.transition(source)(
            lambda x, target=target: Transition.next(target, x, concurrency=PARALLEL)
        )
    sketch.graph.transition(b)(lambda x: Transition.next("B2", x))
    for branch in (a2, c2):
        sketch.graph.join(branch, into=join)
    sketch.fan_out(root, a, b, c, join=join)
    async with opened(sketch.graph) as rt:
        run = await start(rt, sketch)
        assert run.current_nodes(Gate).one() is gate
        assert sketch.log == [f"{name}(1)" for name in ("S", "a", "b", "a2", "c", "B2", "c2")]
        gate.open = True
        await run.resume()
        assert await run.settled() == Completed([1, 1, 1])
