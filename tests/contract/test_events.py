"""What does the log tell, in which order, and while it happens?"""

from __future__ import annotations

from contextlib import aclosing

import pytest
from anyio import create_task_group, wait_all_tasks_blocked

from quiesce import Event
from quiesce.errors import QuiesceError

from .kinds import Kind, Stage
from .subject import QUIET, Subject, paused

pytestmark = pytest.mark.anyio


async def test_events_come_in_the_order_of_what_happened(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: seq rises over the whole store; each event has execution and generation."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        outcome = await paused(run)
        await run.pause()
        await run.resume()
        await rt.answer(outcome.holds[0].id, "yes")
        await run.settled()
        happened = [
            ("started", 1),
            ("asked", 1),
            ("paused", 2),
            ("pause-requested", 2),
            ("resume-requested", 2),
            ("answered", 2),
            ("resumed", 3),
            ("completed", 3),
        ]
        questions, requests = ("asked", "answered"), ("pause-requested", "resume-requested")
        expected = {run.id: happened}
        if kind.name == "team":  # which has the requests, and its body the questions
            expected = {
                run.id: [event for event in happened if event[0] not in questions],
                kind.tree(run.id)[-1]: [event for event in happened if event[0] not in requests],
            }
        for run_id, wanted in expected.items():
            events = await subject.events(rt, run_id)
            known = [(event.kind, event.generation) for event in events if event.kind in dict(happened)]
            assert known == wanted
            assert {event.execution for event in events} == {1}
            assert {event.run_id for event in events} == {run_id}
            ours = {event.kind for event in events} - QUIET - dict(happened).keys()
            assert ours == (
                {"turn-queued", "turn-running", "turn-waiting", "turn-ended", "finish", "child-ended"}
                if run_id != kind.tree(run.id)[-1]
                else set()
            )
        everything = [event.seq for event in await subject.events(rt)]
        assert everything == sorted(set(everything))


async def test_an_event_says_when_and_what(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: seq, at, run_id, execution, generation, kind, actor, request_id, data."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        subject.clock.advance(3)
        await rt.answer(hold.id, {"n": 1}, actor="ann", request_id="r")
        answered = next(event for event in await subject.events(rt, hold.run_id) if event.kind == "answered")
        assert answered == Event(
            seq=answered.seq,
            at=subject.clock.now(),
            run_id=hold.run_id,
            execution=1,
            generation=2,
            kind="answered",
            actor="ann",
            request_id="r",
            data={"hold": hold.id, "path": hold.path.rpartition("/")[2], "value": {"n": 1}},
        )


async def test_events_are_followed_live(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: rt.events: an async iterator, live, of one run or of all."""
    stage = Stage()
    flow = kind.works(stage)
    seen: list[str] = []
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        other = await rt.start(flow, 2)

        async def follow() -> None:
            async with aclosing(rt.events(run.id)) as events:  # type: ignore[type-var]
                async for event in events:
                    assert event.run_id == run.id
                    seen.append(event.kind)
                    if event.kind == "completed":
                        return

        async with create_task_group() as group:
            group.start_soon(follow)
            await stage.wait_came(2)
            await wait_all_tasks_blocked()
            assert "started" in seen
            assert "paused" not in seen
            await run.pause()
            await wait_all_tasks_blocked()
            assert seen[-1] == "paused"
            await run.resume()
            stage.open()
        assert seen[-1] == "completed"
        await other.result()


async def test_events_go_on_after_what_was_seen(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: `after` is the last sequence number that the reader has."""
    flow = kind.adds()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await run.settled()
        events = await subject.events(rt, run.id)
        for index, event in enumerate(events):
            assert await subject.events(rt, run.id, event.seq) == events[index + 1 :]


async def test_events_of_another_runtime_are_heard(subject: Subject, kind: Kind) -> None:
    """spec engine, 6: the log is the store's; whoever commits, everybody who follows is rung."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        subject.needs(rt, "cross_process")
        run = await rt.start(flow, 1)
        await stage.wait_came()
        async with subject.open(drive=False) as other, create_task_group() as group:

            async def follow() -> None:
                event = await subject.seen(other, run.id, "completed")
                assert (event.run_id, event.generation) == (run.id, 1)

            group.start_soon(follow)
            await wait_all_tasks_blocked()
            stage.open()


async def test_an_event_that_was_refused_is_not_in_the_log(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: a refusal changes nothing, the log included, for every run of the store."""
    flow = kind.asks(expects=bool)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        before = await subject.events(rt)
        for refused in (run.resume(), rt.answer(hold.id, "x"), run.retry(), run.resume(hold="h")):
            with pytest.raises(QuiesceError):
                await refused
        assert await subject.events(rt) == before
