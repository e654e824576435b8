"""What does a retry find of a question whose answer was no, or never came?"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from quiesce import Completed, Graph, Paused, Runtime, Transition
from quiesce.clock import ManualClock
from quiesce.errors import Expired, NodeError, Rejected

pytestmark = pytest.mark.anyio


def asking(counted: list[int]) -> Graph:
    graph = Graph("asking")

    @graph.node(start=True)
    def before(x: int) -> int:
        counted.append(x)
        return x

    gate = graph.gate("gate", asks="May it?", expects=bool, deadline=timedelta(hours=1), on_deadline="fail")
    graph.edge(before, gate)

    @graph.transition(gate)
    def decide(answered: tuple[int, bool]) -> Transition:
        return Transition.finish(answered[1])

    return graph


@pytest.mark.parametrize("store", [None, "flows.db"])
@pytest.mark.parametrize(("end", "error"), [("expired", Expired), ("rejected", Rejected)])
async def test_a_retry_asks_again_what_expired_or_was_rejected(
    store: str | None, end: str, error: type[Exception], tmp_path: Path
) -> None:
    """Spec engine, 4: a failed run continues from the point that failed; a settled hold takes no answer."""
    counted: list[int] = []
    graph, clock = asking(counted), ManualClock()
    target = None if store is None else tmp_path / store
    async with Runtime(target, flows=[graph], clock=clock) as rt:
        outcome = await rt.run(graph, 1)
        assert isinstance(outcome, Paused)
        run, (first,) = outcome.run, outcome.holds
        if end == "expired":
            clock.advance(3600)
        else:
            await rt.reject(first.id, "not now")
        with pytest.raises(NodeError) as failed:
            await run.result()
        assert type(failed.value.__cause__) is error

        await run.retry()
        again = await run.settled()
        assert isinstance(again, Paused)
        (second,) = again.holds
        assert second.id != first.id
        assert second.deadline == clock.now() + timedelta(hours=1)
        assert [(hold.id, hold.state) for hold in await rt.holds(run.id, state=None)] == [
            (first.id, end),
            (second.id, "open"),
        ]
        assert await again.resume(True) == Completed(True)
        assert counted == [1]


async def test_a_failure_while_a_rejection_is_dealt_with_keeps_the_rejection(tmp_path: Path) -> None:
    """Spec engine, 4: a hold is settled once; a retry sees the no again if it was not dealt with."""
    graph, failures = Graph("deals with a no"), [OSError("disk full")]
    gate = graph.gate("gate", asks="May it?", expects=bool, start=True)

    @graph.transition(gate)
    def decide(answered: tuple[int, bool]) -> Transition:
        return Transition.finish(answered[1])

    @graph.rejected(gate)
    def note(x: int, message: str) -> Transition:
        if failures:
            raise failures.pop()
        return Transition.finish(message)

    async with Runtime(tmp_path / "flows.db", flows=[graph]) as rt:
        outcome = await rt.run(graph, 1)
        assert isinstance(outcome, Paused)
        await rt.reject(outcome.holds[0].id, "not now")
        with pytest.raises(NodeError, match="disk full"):
            await outcome.run.settled()
        await outcome.run.retry()
        assert await outcome.run.settled() == Completed("not now")
