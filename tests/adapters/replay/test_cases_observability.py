"""What can be seen of a run from outside: its events, spans and log. Source: cases graph, I.

The crate's task.run > task.step > task.step.done are here: the span `quiesce.run`, inside it a span
`quiesce.visit` with node and branch, and an event `visit` with the same fields once it is applied
(tests/engine/test_tracing.py has the spans). The crate's ERROR event is the event `failed`.
"""

from __future__ import annotations

import logging
from contextlib import aclosing

import pytest

from quiesce import Event, Paused, Run, Runtime, Transition
from quiesce.errors import NodeError, NotResumable

from .conftest import Open
from .sketch import Sketch
from .test_cases_pause import case_74

pytestmark = pytest.mark.anyio


class Follower:
    """Reads the events of a run as they come; a memory store keeps visits only for those who follow."""

    def __init__(self, rt: Runtime) -> None:
        self._events = rt.events()
        self.seen: list[Event] = []

    async def until(self, kind: str) -> list[Event]:
        """What has come up to and with the next event of this kind."""
        new = []
        while not new or new[-1].kind != kind:
            new.append(await anext(self._events))
        self.seen += new
        return new

    async def __aenter__(self) -> Follower:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with aclosing(self._events):  # type: ignore[type-var]
            pass


def visited(events: list[Event]) -> list[tuple[str, int]]:
    return [(event.data["node"], event.data["branch"]) for event in events if event.kind == "visit"]


async def test_each_visit_is_an_event_with_its_node_and_branch_in_the_order_of_execution(
    opened: Open,
) -> None:
    """Case 103."""
    sketch = Sketch()
    start, a, b, join = sketch.start(), sketch.add("a"), sketch.add("b"), sketch.sum()
    sketch.fan_out(start, a, b, join=join)
    for branch in (a, b):
        sketch.graph.join(branch, into=join)
    async with opened(sketch.graph) as rt, Follower(rt) as follower:
        run = await rt.create(sketch.graph, "one")
        await follower.until("created")
        await rt.start(sketch.graph, 1, run_id=run.id)
        events = await follower.until("completed")
    assert visited(events) == [("S", 1), ("a", 2), ("b", 3), ("sum", 4)]
    done = [event.data["did"] for event in events if event.kind == "visit"]
    assert done == ["fan_out", "join", "join", "finish"]
    assert [event.data["visit"] for event in events if event.kind == "visit"] == [1, 2, 3, 4]
    assert {event.run_id for event in events} == {run.id}


async def test_a_failing_visit_is_an_event_too_and_the_text_of_the_error_ends_the_run(
    opened: Open,
) -> None:
    """Case 103."""
    sketch = Sketch()
    sketch.graph.edge(sketch.start(), sketch.fails("bad"))
    async with opened(sketch.graph) as rt, Follower(rt) as follower:
        await rt.create(sketch.graph, "one")
        await follower.until("created")
        run = await rt.start(sketch.graph, 1, run_id="one")
        events = await follower.until("failed")
        with pytest.raises(NodeError) as failed:
            await run.settled()
    assert visited(events) == [("S", 1), ("bad", 1)]
    assert [event.data["did"] for event in events if event.kind == "visit"] == ["next", "error"]
    assert events[-1].data["error"] == str(failed.value) == "node 'bad' failed: Boom: boom"


async def test_what_a_refused_transition_became_is_what_the_log_says(opened: Open) -> None:
    """Case 103: a join in the wrong place is logged as the error that it is."""
    sketch = Sketch()
    sketch.graph.join(sketch.start(), into=sketch.sum())
    async with opened(sketch.graph) as rt, Follower(rt) as follower:
        await rt.create(sketch.graph, "one")
        await follower.until("created")
        run = await rt.start(sketch.graph, 1, run_id="one")
        events = await follower.until("failed")
        with pytest.raises(NodeError):
            await run.settled()
    (visit,) = [event for event in events if event.kind == "visit"]
    assert visit.data["did"] == "error"
    assert "belongs to no fan-out" in visit.data["error"]


async def test_a_resume_of_nothing_is_refused_with_what_is_legal_and_leaves_no_trace(opened: Open) -> None:
    """Case 104. Deviation: whoever asked gets the error; the log of the run is not written to."""
    sketch = Sketch()
    sketch.graph.finish(sketch.add("a", start=True))
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await run.settled()
        before = (await run.status()).model_dump()
        with pytest.raises(NotResumable, match=r"cannot resume run .*: it is completed; legal here: reset"):
            await run.resume()
        assert (await run.status()).model_dump() == before
        async with aclosing(run.events()) as events:
            async for event in events:
                assert event.kind != "resume-requested"
                if event.kind == "completed":
                    break


async def visits_of(run: Run, follower: Follower, until: str) -> list[tuple[str, int]]:
    return visited(await follower.until(until))


async def test_a_resume_is_traced_with_queued_work_first(opened: Open) -> None:
    """Case 105: case 74 traced."""
    sketch, gate = case_74()
    async with opened(sketch.graph) as rt, Follower(rt) as follower:
        await rt.create(sketch.graph, "one")
        await follower.until("created")
        run = await rt.start(sketch.graph, 1, run_id="one")
        assert isinstance(await run.settled(), Paused)
        gate.open = True
        first = await follower.until("quiescent")
        assert visited(first) == [("S", 1), ("A", 2), ("b", 3)]
        await run.resume()
        then = await follower.until("completed")
        assert visited(then) == [("c", 3), ("A", 2), ("pass", 2), ("join", 4)]


async def test_a_failure_that_nobody_waits_for_is_logged_when_the_runtime_closes(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Spec engine, 5: logging under the logger `quiesce`; errors that nobody awaited are reported."""
    sketch = Sketch()
    sketch.graph.edge(sketch.start(), sketch.fails("bad"))
    with caplog.at_level(logging.ERROR, logger="quiesce"):
        async with opened(sketch.graph) as rt, Follower(rt) as follower:
            run = await rt.start(sketch.graph, 1)
            await follower.until("failed")
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("quiesce", f"run {run.id} failed and nobody waited for it: node 'bad' failed: Boom: boom")
    ]


async def test_the_reason_of_a_pause_is_in_the_status_the_event_and_the_outcome(opened: Open) -> None:
    """Cases graph, 103 to 105, for what the crate has no word for: why it waits."""
    sketch = Sketch()
    sketch.gate("gate", Transition.finish, start=True)
    async with opened(sketch.graph) as rt, Follower(rt) as follower:
        outcome = await rt.run(sketch.graph, 1)
        events = await follower.until("paused")
        assert isinstance(outcome, Paused)
        status = await outcome.run.status()
    assert outcome.reason == status.reason == events[-1].data["reason"] == "gate is closed"
