"""Gates and their answers: what an answer evaluates again, and what it carries.

Source: spec graph, "Model" (gates) and "Pause", 5 to 8; spec engine, 4 (answer, hold identity).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import pytest

from quiesce import Completed, Concurrency, Graph, Hold, NodeContext, Paused, Run, Runtime, Transition
from quiesce.clock import ManualClock
from quiesce.errors import (
    AlreadyAnswered,
    AmbiguousAnswer,
    AnswerRejected,
    AnswerRequired,
    Expired,
    NodeError,
    Rejected,
    StaleGeneration,
    UnknownHold,
    Withdrawn,
)

from .conftest import Open
from .sketch import Sketch

pytestmark = pytest.mark.anyio
PARALLEL = Concurrency.PARALLEL


def asking(*names: str, expects: Any = bool, **how: Any) -> tuple[Graph, list[str]]:
    """S fans out to one gate per name; the join lists the answers."""
    graph, log = Graph("asking"), list[str]()

    @graph.node(start=True)
    def start(x: int) -> int:
        return x

    @graph.node
    def join(brought):  # type: ignore[no-untyped-def]
        return list(brought)

    def add(name: str) -> None:
        def asks(x: int) -> str:
            log.append(name)
            return f"{name}?"

        gate = graph.gate(name, asks=asks, expects=expects, payload=lambda x: {"x": x}, **how)

        @graph.transition(gate)
        def decide(answered: tuple[int, Any]) -> Transition:
            log.append(f"{name}={answered[1]!r}")
            return Transition.join(join, answered[1])

    for name in names:
        add(name)
    graph.transition(start)(
        lambda x: Transition.fan_out([(name, x) for name in names], join=join, concurrency=PARALLEL)
    )
    graph.finish(join)
    return graph, log


async def holds_of(run: Run) -> dict[str, Hold]:
    return {(hold.reason or "").rstrip("?"): hold for hold in (await run.status()).holds}


async def paused(rt: Runtime, graph: Graph, value: Any = 1) -> Run:
    run = await rt.start(graph, value)
    assert isinstance(await run.settled(), Paused)
    return run


async def test_a_gate_asks_and_hands_input_and_answer_to_its_transition(opened: Open) -> None:
    """`graph.gate`: pauses with a hold, then hands (input, answer) on."""
    graph = Graph("gate")
    gate = graph.gate("gate", asks="May it?", expects=bool, payload={"what": "deploy"}, start=True)
    graph.transition(gate)(Transition.finish)
    async with opened(graph) as rt:
        outcome = await rt.run(graph, 7)
        assert isinstance(outcome, Paused)
        (hold,) = outcome.holds
        assert (hold.reason, hold.payload, hold.path) == ("May it?", {"what": "deploy"}, "gate")
        assert hold.expects == {"type": "boolean"}
        with pytest.raises(AnswerRequired):
            await outcome.resume()
        with pytest.raises(AnswerRejected):
            await outcome.resume("perhaps")
        ended = await outcome.resume(True)
        assert ended == Completed((7, True))


@pytest.mark.parametrize("value", [None, False, 0, "", {}, []])
async def test_every_json_value_is_an_answer(opened: Open, value: Any) -> None:
    """Spec engine, 4."""
    graph = Graph("gate")
    gate = graph.gate("gate", asks="What?", start=True)
    graph.transition(gate)(lambda answered: Transition.finish([answered[1]]))
    async with opened(graph) as rt:
        run = await paused(rt, graph)
        await run.answer(value)
        assert await run.settled() == Completed([value])


async def test_an_answer_evaluates_only_its_branch_and_carries_the_other_holds(opened: Open) -> None:
    """Spec graph, "Pause", 7: the others keep their ids."""
    graph, log = asking("a", "b", "c")
    async with opened(graph) as rt:
        run = await paused(rt, graph)
        before = await holds_of(run)
        first = await run.status()
        assert sorted(before) == ["a", "b", "c"]
        assert log == ["a", "b", "c"]
        with pytest.raises(AmbiguousAnswer):
            await run.answer(True)
        ack = await run.answer(True, hold=before["b"].id)
        assert ack.resumed
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert log == ["a", "b", "c", "b=True"]
        after = await holds_of(run)
        assert {name: hold.id for name, hold in after.items()} == {
            name: before[name].id for name in ("a", "c")
        }
        status = await run.status()
        assert status.generation == first.generation + 2
        assert outcome.reason == status.reason == "a?"
        with pytest.raises(AlreadyAnswered):
            await run.answer(False, hold=before["b"].id)
        await run.answer(False, hold=before["c"].id)
        assert isinstance(await run.settled(), Paused)
        await run.answer(True, hold=before["a"].id)
        assert await run.settled() == Completed([True, True, False])
    assert log[4:] == ["c=False", "a=True"]


async def test_carried_holds_are_carried_over_a_restart(on_disk: Open) -> None:
    """Spec graph, "Durable graphs"."""
    graph, log = asking("a", "b")
    async with on_disk(graph) as rt:
        run = await paused(rt, graph)
        before, episode = await holds_of(run), (await run.status()).episode_id
    async with on_disk(graph) as rt:
        run = await rt.get(run.id)
        await run.answer(True, hold=before["b"].id)
        assert isinstance(await run.settled(), Paused)
        assert [hold.id for hold in (await run.status()).holds] == [before["a"].id]
        assert episode is not None
        outcomes = {receipt.name: receipt.outcome for receipt in await rt.receipts(episode)}
        assert outcomes == {"a": "carried", "b": "continued"}
    async with on_disk(graph) as rt:
        run = await rt.get(run.id)
        await run.answer(False)
        assert await run.settled() == Completed([False, True])
    assert log == ["a", "b", "b=True", "a=False"]


async def test_a_resume_without_an_answer_evaluates_the_untyped_ones_and_carries_the_typed(
    opened: Open,
) -> None:
    """Spec graph, "Pause", 7."""
    other = Sketch()
    start, join = other.start(), other.collect()
    open_gate = other.gate("untyped", lambda x: Transition.join(join, x))
    typed = other.graph.gate("typed", asks="Typed?", expects=int)
    other.graph.transition(typed)(lambda answered: Transition.join(join, answered[1]))
    other.fan_out(start, typed, "untyped", join=join, concurrency=PARALLEL)
    async with opened(other.graph) as rt:
        run = await paused(rt, other.graph)
        (first, second) = (await run.status()).holds
        ack = await run.resume()
        assert (ack.continued, ack.carried) == (1, 1)
        assert isinstance(await run.settled(), Paused)
        assert other.log == ["S(1)", "untyped(1)", "untyped(1)"]
        # The untyped one asks the same again, so it is the same hold.
        assert {hold.id for hold in (await run.status()).holds} == {first.id, second.id}
        open_gate.open = True
        await run.answer(5, hold=first.id if first.expects else second.id)
        assert isinstance(await run.settled(), Paused)
        await run.resume()
        assert await run.settled() == Completed([5, 1])


async def test_a_rejection_fails_the_branch_of_a_gate_unless_its_graph_takes_it(opened: Open) -> None:
    """Spec engine, 4 (answer): a ready-made gate fails its branch with Rejected."""
    for takes in (False, True):
        graph = Graph("gate")
        gate = graph.gate("gate", asks="May it?", expects=bool, start=True)
        graph.transition(gate)(lambda answered: Transition.finish(answered[1]))
        if takes:
            graph.rejected(gate)(lambda x, message: Transition.finish(f"{x}: {message}"))
        async with opened(graph) as rt:
            run = await paused(rt, graph)
            ack = await rt.reject((await run.status()).holds[0].id, "too risky")
            assert ack.state == "rejected"
            if takes:
                assert await run.settled() == Completed("1: too risky")
            else:
                with pytest.raises(NodeError, match="too risky") as failed:
                    await run.settled()
                assert isinstance(failed.value.__cause__, Rejected)


async def test_a_plain_node_sees_the_answer_or_the_rejection_in_its_context(opened: Open) -> None:
    """Spec graph, "Model": ctx.answered, ctx.answer, ctx.rejected."""
    graph, seen = Graph("plain"), list[Any]()

    @graph.node(start=True)
    def ask(x: int, ctx: NodeContext) -> Any:
        seen.append((ctx.answered, ctx.answer if ctx.answered else None, ctx.rejected))
        return seen[-1]

    @graph.transition(ask)
    def decide(output: Any, ctx: NodeContext) -> Transition:
        if not ctx.answered:
            return Transition.pause("May it?", expects=int, key=f"round-{len(seen)}")
        return Transition.finish(ctx.answer)

    async with opened(graph) as rt:
        run = await paused(rt, graph)
        await rt.reject((await run.status()).holds[0].id, "no")
        assert isinstance(await run.settled(), Paused)
        await run.answer(42)
        assert await run.settled() == Completed(42)
    assert seen == [(False, None, None), (False, None, "no"), (True, 42, None)]


async def test_a_different_question_withdraws_the_first(opened: Open) -> None:
    """Spec engine, 4 (hold identity)."""
    sketch = Sketch()
    node, payloads = sketch.node("ask", start=True), ["one", "one", "two"]
    sketch.graph.transition(node)(
        lambda x: Transition.pause("which?", payload=payloads.pop(0)) if payloads else Transition.finish(x)
    )
    async with opened(sketch.graph) as rt:
        run = await paused(rt, sketch.graph)
        ids = []
        for _ in range(3):
            ids.append((await run.status()).holds[0].id)
            await run.resume()
            await run.settled()
        assert ids[0] == ids[1] != ids[2]
        # A store in memory forgets a question that was withdrawn when its place asks another one.
        with pytest.raises((Withdrawn, UnknownHold)):
            await rt.answer(ids[0], 1)


async def test_an_outcome_is_bound_to_the_episode_that_it_showed(opened: Open) -> None:
    """Spec engine, 4 (resume): if the run has moved on, StaleGeneration."""
    graph, _ = asking("a", "b")
    async with opened(graph) as rt:
        run = await paused(rt, graph)
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        await run.answer(True, hold=outcome.holds[0].id)
        assert isinstance(await run.settled(), Paused)
        with pytest.raises(StaleGeneration):
            await outcome.resume(True, hold=outcome.holds[1].id)
        await run.answer(True)
        assert await run.settled() == Completed([True, True])


async def test_an_answer_while_other_branches_run_queues_its_branch_beside_them(opened: Open) -> None:
    """Spec engine, 4 (answer): while the run is running the waiting piece is queued, generation unchanged."""
    graph, log = Graph("beside"), list[str]()
    begun, go = anyio.Event(), anyio.Event()

    async def slow(x: Any) -> Any:
        begun.set()
        await go.wait()
        return x

    @graph.node(start=True)
    def start(x: int) -> int:
        return x

    join = graph.node(lambda brought: list(brought), name="join")
    a, b = graph.gate("a", asks="a?", expects=bool), graph.gate("b", asks="b?", expects=bool)
    then = graph.node(slow)
    graph.transition(a)(lambda answered: then.next(answered[1]))
    graph.transition(b)(lambda answered: log.append("b") or Transition.join(join, answered[1]))
    graph.join(then, into=join)
    graph.transition(start)(lambda x: Transition.fan_out([(a, x), (b, x)], join=join, concurrency=PARALLEL))
    graph.finish(join)
    async with opened(graph) as rt:
        run = await paused(rt, graph)
        holds = await holds_of(run)
        await run.answer(True, hold=holds["a"].id)
        await begun.wait()
        generation = (await run.status()).generation
        ack = await run.answer(False, hold=holds["b"].id)
        assert (ack.generation, (await run.status()).generation) == (generation, generation)
        go.set()
        assert await run.settled() == Completed([True, False])
    assert log == ["b"]


@pytest.mark.parametrize("how", ["fail", "answer", "hold"])
async def test_a_deadline_does_what_its_gate_says(opened: Open, how: str) -> None:
    """Spec engine, 4 (hold identity): fail, answer, or stay open and late."""
    graph, clock = Graph("deadline"), ManualClock()
    on_deadline: Any = ("answer", False) if how == "answer" else how
    gate = graph.gate(
        "gate", asks="May it?", expects=bool, deadline=timedelta(hours=1), on_deadline=on_deadline, start=True
    )
    graph.transition(gate)(lambda answered: Transition.finish(answered[1]))
    async with opened(graph, clock=clock) as rt:
        run = await paused(rt, graph)
        clock.advance(3601)
        if how == "hold":
            (hold,) = (await run.status()).holds
            assert hold.late
            await run.answer(True)
            assert await run.settled() == Completed(True)
        elif how == "answer":
            assert await run.result() is False
        else:
            with pytest.raises(NodeError) as failed:
                await run.result()
            assert isinstance(failed.value.__cause__, Expired)
