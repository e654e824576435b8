"""Runs along one line: outcomes, reset, what a second start is told. Source: cases graph, A."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from quiesce import Completed, Graph, Paused, RunState, Transition
from quiesce.errors import IllegalTransition, NodeError, NotResumable, RunActive

from .conftest import Open
from .sketch import Boom, Gate, Sketch

pytestmark = pytest.mark.anyio


def always_pausing() -> Sketch:
    """One gate that nobody opens."""
    sketch = Sketch()
    sketch.gate("gate", Transition.finish, start=True)
    return sketch


async def test_a_reset_run_goes_through_its_nodes_again_with_its_last_input(opened: Open) -> None:
    """Case 1."""
    sketch = Sketch()
    first, second, third = sketch.add("a", start=True), sketch.add("b"), sketch.add("c")
    sketch.graph.edge(first, second)
    sketch.graph.edge(second, third)
    sketch.graph.finish(third)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        assert await run.settled() == Completed(4)
        await run.reset()
        assert (await run.status()).state is RunState.CREATED
        await run.resume()
        assert await run.settled() == Completed(4)
    assert sketch.log == ["a(1)", "b(2)", "c(3)"] * 2


async def test_an_edge_hands_the_output_on(opened: Open) -> None:
    """Case 2."""
    sketch = Sketch()
    start, finish = sketch.add("start", start=True), sketch.node("finish", lambda x: x * 2)
    sketch.graph.edge(start, finish)
    sketch.graph.finish(finish)
    async with opened(sketch.graph) as rt:
        assert await rt.run(sketch.graph, 2) == Completed(6)


class Counting:
    """Counts how often it was copied."""

    copies = 0

    def __copy__(self) -> Counting:
        type(self).copies += 1
        return Counting()

    def __deepcopy__(self, memo: dict[int, Any]) -> Counting:
        return self.__copy__()

    def evaluate(self, x: int) -> int:
        return x


async def test_a_run_uses_the_registered_objects_and_copies_none(opened: Open) -> None:
    """Case 3."""
    graph = Graph("counting")
    graph.finish(graph.node(Counting(), start=True))
    Counting.copies = 0
    async with opened(graph) as rt:
        assert await rt.run(graph, 1) == Completed(1)
    assert Counting.copies == 0
    graph.clone()
    assert Counting.copies == 1


async def test_a_transition_that_pauses_pauses_the_run(opened: Open) -> None:
    """Case 4."""
    sketch = always_pausing()
    async with opened(sketch.graph) as rt:
        outcome = await rt.run(sketch.graph, 1)
        assert isinstance(outcome, Paused)
        assert outcome.reason == "gate is closed"
        status = await outcome.run.status()
        assert (status.state, status.phase) == (RunState.PAUSED, "quiescent")
        assert [lock.kind for lock in status.locks] == ["holds"]


async def test_a_resume_evaluates_the_node_again_with_its_input_and_drops_the_first_output(
    opened: Open,
) -> None:
    """Case 5."""
    sketch = Sketch()
    first, second = sketch.add("a", start=True), sketch.add("b")
    answers = [Transition.pause("not yet")]

    @sketch.graph.transition(first)
    def decide(x: int) -> Transition:
        return answers.pop() if answers else second.next(x)

    sketch.graph.finish(second)
    async with opened(sketch.graph) as rt:
        outcome = await rt.run(sketch.graph, 1)
        assert isinstance(outcome, Paused)
        assert await outcome.resume() == Completed(3)
    assert sketch.log == ["a(1)", "a(1)", "b(2)"]


async def test_a_second_start_of_a_paused_run_is_refused(opened: Open) -> None:
    """Case 6."""
    sketch = always_pausing()
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1, run_id="one")
        await run.settled()
        with pytest.raises(RunActive, match="another input is another run"):
            await rt.start(sketch.graph, 2, run_id="one")
        assert sketch.log == ["gate(1)"]
        assert (await run.status()).state is RunState.PAUSED


async def test_a_completed_run_has_nothing_to_resume(opened: Open) -> None:
    """Case 7."""
    sketch = Sketch()
    sketch.graph.finish(sketch.add("a", start=True))
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        assert await run.settled() == Completed(2)
        with pytest.raises(NotResumable):
            await run.resume()
        assert await run.settled() == Completed(2)


async def test_a_completed_run_can_be_reset_but_not_started_while_its_input_is_queued(opened: Open) -> None:
    """Case 8."""
    sketch = Sketch()
    sketch.graph.finish(sketch.node("double", lambda x: x * 2, start=True))
    clone = sketch.graph.clone()
    async with opened(sketch.graph, clone) as rt:
        run = await rt.start(sketch.graph, 21, run_id="one")
        assert await run.settled() == Completed(42)
        with pytest.raises(NotResumable):
            await run.resume()
        await run.reset()
        with pytest.raises(RunActive):
            await rt.start(sketch.graph, 5, run_id="one")
        await run.resume()
        assert await run.settled() == Completed(42)
        assert await rt.run(clone, 5) == Completed(10)


async def test_a_run_without_an_input_has_nothing_to_reset_to(opened: Open) -> None:
    """Case 10."""
    sketch = always_pausing()
    async with opened(sketch.graph) as rt:
        run = await rt.create(sketch.graph)
        await run.reset()
        with pytest.raises(NotResumable, match="start it"):
            await run.resume()
        assert run.current_nodes(Gate).none
    assert sketch.log == []


async def test_a_refused_input_does_not_become_the_last_input(opened: Open) -> None:
    """Case 11."""
    sketch = always_pausing()
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1, run_id="one")
        await run.settled()
        with pytest.raises(RunActive):
            await rt.start(sketch.graph, 2, run_id="one")
        await run.reset()
        await run.reset()
        assert (await run.status()).execution == 2
        assert isinstance(run.current_nodes(Gate).one(), Gate)
        await run.resume()
        assert isinstance(await run.settled(), Paused)
    assert sketch.log == ["gate(1)", "gate(1)"]


async def test_a_reset_resets_neither_node_objects_nor_what_handlers_captured(opened: Open) -> None:
    """Case 12."""
    sketch = Sketch()
    node = sketch.node("once", start=True)
    pauses = [Transition.pause("the first time ever")]

    @sketch.graph.transition(node)
    def decide(x: int) -> Transition:
        return pauses.pop() if pauses else Transition.finish(x)

    clone = sketch.graph.clone()
    async with opened(sketch.graph, clone) as rt:
        run = await rt.start(sketch.graph, 1)
        assert isinstance(await run.settled(), Paused)
        await run.reset()
        await run.resume()
        assert await run.settled() == Completed(1)
        assert await rt.run(clone, 2) == Completed(2)


async def test_a_run_that_failed_on_resume_starts_over_after_a_reset(opened: Open) -> None:
    """Case 14."""
    sketch = Sketch()
    errors: list[Exception | None] = [None, Boom("second"), None]
    closed = [True, False]

    def evaluate(x: int) -> int:
        if (error := errors.pop(0)) is not None:
            raise error
        return x

    node = sketch.node("a", evaluate, start=True)

    @sketch.graph.transition(node)
    def decide(x: int) -> Transition:
        return Transition.pause() if closed.pop(0) else Transition.finish(x)

    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 9)
        assert isinstance(await run.settled(), Paused)
        await run.resume()
        with pytest.raises(NodeError, match="second"):
            await run.settled()
        with pytest.raises(NotResumable):
            await run.resume()
        await run.reset()
        await run.resume()
        assert await run.settled() == Completed(9)
    assert sketch.log == ["a(9)"] * 3


async def test_a_self_loop_has_no_recursion_limit(opened: Open) -> None:
    """Case 15."""
    sketch = Sketch()
    node = sketch.add("a", start=True)
    sketch.graph.transition(node)(lambda x: node.next(x) if x < 2000 else Transition.finish(x))
    async with opened(sketch.graph, durability="normal") as rt:
        assert await rt.run(sketch.graph, 0) == Completed(2000)
    assert len(sketch.log) == 2000


async def test_a_self_loop_of_100_000_visits_ends(anyio_backend: str) -> None:
    """Spec graph, "Building and checking": it neither recurses nor grows memory."""
    from quiesce import Runtime

    graph = Graph("loop")

    @graph.node(start=True)
    def count(x: int) -> int:
        return x + 1

    graph.transition(count)(lambda x: count.next(x) if x < 100_000 else Transition.finish(x))
    async with Runtime() as rt:
        assert await rt.run(graph, 0) == Completed(100_000)


async def test_a_chain_may_change_the_type_at_each_node(opened: Open) -> None:
    """Case 16."""
    graph = Graph("types")

    @graph.node(start=True)
    def told(x: int) -> str:
        return str(x)

    @graph.node
    def counted(text: str) -> int:
        return len(text)

    @graph.node
    def long(count: int) -> bool:
        return count > 2

    graph.edge(told, counted)
    graph.edge(counted, long)
    graph.finish(long)
    async with opened(graph) as rt:
        assert await rt.run(graph, 1234) == Completed(True)


async def test_a_transition_may_be_async(opened: Open) -> None:
    """Case 17."""
    sketch = Sketch()
    first, second = sketch.add("a", start=True), sketch.add("b")

    @sketch.graph.transition(first)
    async def decide(x: int) -> Transition:
        return second.next(x)

    sketch.graph.finish(second)
    async with opened(sketch.graph) as rt:
        assert await rt.run(sketch.graph, 1) == Completed(3)


@dataclass
class AwaitCi:
    """Waits for a result that somebody puts into its slot."""

    slot: list[str] = field(default_factory=list)

    def evaluate(self, commit: str) -> str | None:
        return f"{commit}: {self.slot[0]}" if self.slot else None


async def test_what_is_delivered_to_the_node_object_is_seen_by_the_resume(opened: Open) -> None:
    """Cases 18 and 42."""
    graph = Graph("ci")

    @graph.node(start=True)
    def push(commit: str) -> str:
        return commit

    ci = graph.node(AwaitCi())
    graph.edge(push, ci)

    @graph.transition(ci)
    def decide(result: str | None) -> Transition:
        return Transition.pause("CI runs") if result is None else Transition.finish(result)

    async with opened(graph) as rt:
        run = await rt.start(graph, "4f2a91c", run_id="ci")
        assert isinstance(await run.settled(), Paused)
        with pytest.raises(RunActive):
            await rt.start(graph, "77b0e3d", run_id="ci")
        await run.resume()
        assert isinstance(await run.settled(), Paused)
        node = run.current_nodes(AwaitCi).one()
        assert node is ci.body
        node.slot.append("all checks passed")
        await run.resume()
        assert await run.settled() == Completed("4f2a91c: all checks passed")


@dataclass
class Approval:
    """A gate that shows the draft that it waits for."""

    approved: bool = False
    pending: str | None = None

    def evaluate(self, draft: str) -> str:
        self.pending = None if self.approved else draft
        return draft


@pytest.mark.parametrize("approved", [False, True], ids=["asks", "approved before"])
async def test_an_approval_gate_shows_its_pending_draft_until_it_is_approved(
    opened: Open, approved: bool
) -> None:
    """Case 19."""
    graph = Graph("approval")
    gate = graph.node(Approval(approved), start=True)

    @graph.transition(gate)
    def decide(draft: str) -> Transition:
        return Transition.finish(draft) if gate.body.approved else Transition.pause("approve the draft")

    async with opened(graph) as rt:
        run = await rt.start(graph, "draft")
        outcome = await run.settled()
        if not approved:
            assert isinstance(outcome, Paused)
            node = run.current_nodes(Approval).one()
            assert node.pending == "draft"
            node.approved = True
            outcome = await outcome.resume()
        assert outcome == Completed("draft")
        assert gate.body.pending is None


async def test_a_run_that_ended_is_not_started_again_but_reset_or_another_run(opened: Open) -> None:
    """Spec graph, table: completed, start -> IllegalTransition."""
    sketch = Sketch()
    sketch.graph.finish(sketch.add("a", start=True))
    async with opened(sketch.graph) as rt:
        await rt.run(sketch.graph, 1, run_id="one")
        with pytest.raises(IllegalTransition, match="legal here: reset") as refused:
            await rt.start(sketch.graph, 2, run_id="one")
        assert not isinstance(refused.value, RunActive)
        assert await rt.run(sketch.graph, 2) == Completed(3)
