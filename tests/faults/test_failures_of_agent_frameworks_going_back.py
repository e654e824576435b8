"""Is a pause taken for a failure here, is what is over still asked, does going back reuse an old answer?

Each test is named for its entry in the cases; see `test_failures_of_agent_frameworks.py`.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from quiesce import Completed, Graph, Run, Runtime, Transition

from .framework_flows import around, payment
from .sessions import Sessions, events_of, paused

pytestmark = pytest.mark.anyio


async def test_agent_framework_case_46_a_pause_is_its_own_status_and_no_failure(
    sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    """Source: cases failures-agent-frameworks 46."""
    inner = payment([])
    flow = around(inner)
    async with sessions:
        rt = await sessions.next(flow, inner)
        await rt.start(flow, 1, run_id="r")
        outcome = await paused(rt, "r")
        rt = await sessions.next(flow, inner)
        for run_id in ("r", outcome.holds[0].run_id):
            status = await rt.status(run_id)
            assert (status.state, status.error, status.result) == ("paused", None, None)
            kinds = [event.kind for event in await events_of(rt, run_id)]
            assert "paused" in kinds
            assert not {"failed", "fault", "cancelled", "completed"} & set(kinds)
            visits = [event.data["did"] for event in await events_of(rt, run_id) if event.kind == "visit"]
            assert "error" not in visits
        assert list(await rt.list(state="failed")) == []
        assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


async def test_agent_framework_case_58_an_answered_question_is_not_listed_and_does_not_fire(
    sessions: Sessions,
) -> None:
    """Source: cases failures-agent-frameworks 58."""
    inner = Graph("two in a row")
    first = inner.gate(
        "first",
        asks="1?",
        expects=bool,
        deadline=timedelta(hours=1),
        on_deadline=("answer", False),
        start=True,
    )
    second = inner.gate("second", asks="2?", expects=str)
    inner.transition(first)(lambda pair: second.next(pair[1]))
    inner.transition(second)(lambda pair: Transition.finish(list(pair)))
    flow = around(inner)
    async with sessions:
        rt = await sessions.next(flow, inner)
        await rt.start(flow, 1, run_id="r")
        (asked,) = (await paused(rt, "r")).holds
        await rt.answer(asked.id, True, actor="ann")
        await paused(rt, "r")

        rt = await sessions.next(flow, inner)
        sessions.clock.advance(7200)
        outcome = await paused(rt, "r")
        (open_one,) = outcome.holds
        assert open_one.reason == "2?"
        listed = [await rt.holds(), await rt.holds("r"), (await rt.status("r")).holds]
        assert [[hold.id for hold in holds] for holds in listed] == [[open_one.id]] * 3
        answered = [e for e in await events_of(rt, open_one.run_id) if e.kind in ("answered", "expired")]
        assert [(event.actor, event.data["hold"]) for event in answered] == [("ann", asked.id)]

        await rt.answer(open_one.id, "done")
        assert await Run(rt, "r").settled() == Completed([True, "done"])
        assert list(await rt.holds()) == []


async def test_agent_framework_case_59_a_fork_asks_again_and_leaves_the_old_branch(db: Path) -> None:
    """Source: cases failures-agent-frameworks 59."""
    done: list[str] = []
    flow = payment(done)
    async with Runtime(db, flows=[flow]) as rt:
        run = await rt.start(flow, 1, run_id="old")
        (hold,) = (await paused(rt, "old")).holds
        await rt.answer(hold.id, True)
        assert await run.settled() == Completed(1)
    async with Runtime(db, flows=[flow]) as rt:
        old = await rt.status("old"), list(await rt.holds("old", None)), await events_of(rt, "old")
        forked = await rt.fork("old", at=2)
        (again,) = (await paused(rt, forked.id)).holds
        assert (again.id != hold.id, again.state, again.answer) == (True, "open", None)
        assert done == ["draft", "charge"]
        await rt.answer(again.id, False)
        assert await forked.settled() == Completed("kept")
        assert done == ["draft", "charge"]
        assert old == (await rt.status("old"), list(await rt.holds("old", None)), await events_of(rt, "old"))


async def test_agent_framework_case_59_a_reset_asks_again(sessions: Sessions) -> None:
    """Source: cases failures-agent-frameworks 59."""
    done: list[str] = []
    flow = payment(done)
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        (hold,) = (await paused(rt, "r")).holds
        await rt.answer(hold.id, True)
        assert await Run(rt, "r").settled() == Completed(1)
        rt = await sessions.next(flow)
        await rt.reset("r")
        await rt.resume("r")
        (again,) = (await paused(rt, "r")).holds
        assert again.id != hold.id
        assert done == ["draft", "charge", "draft"]


async def test_agent_framework_case_62_a_resume_goes_on_from_the_episode_that_it_resumed(
    sessions: Sessions,
) -> None:
    """Source: cases failures-agent-frameworks 62."""
    inner = payment([])
    flow = around(inner)
    async with sessions:
        rt = await sessions.next(flow, inner)
        await rt.start(flow, 1, run_id="r")
        before = await paused(rt, "r")
        (child,) = (await rt.status("r")).children
        seen = len(await events_of(rt, "r"))

        rt = await sessions.next(flow, inner)
        await rt.pause("r")
        assert (await rt.resume("r", True)).episode_id == before.episode
        assert await Run(rt, "r").settled() == Completed(1)

        rt = await sessions.next(flow, inner)
        status = await rt.status(child)
        assert (status.parent_id, (await rt.status("r")).children) == ("r", (child,))
        assert [run.id for run in await rt.list(parent="r")] == [child]
        events = await events_of(rt, "r")
        assert [event.seq for event in events] == sorted({event.seq for event in events})
        assert [event.generation for event in events] == sorted(event.generation for event in events)
        resumed = next(event for event in events[seen:] if event.kind == "resumed")
        assert resumed.generation == events[seen - 1].generation + 1


async def test_agent_framework_case_62_a_fork_names_the_point_it_comes_from(db: Path) -> None:
    """Source: cases failures-agent-frameworks 62."""
    flow = payment([])
    async with Runtime(db, flows=[flow]) as rt:
        run = await rt.start(flow, 1)
        await paused(rt, run.id)
        first = await run.fork(at=2)
        await paused(rt, first.id)
        second = await first.fork(at=2)
        await paused(rt, second.id)
        for forked, origin in ((first, run), (second, first)):
            begun = (await events_of(rt, forked.id))[0]
            assert (begun.kind, begun.data["from"], begun.data["at"]) == ("forked", origin.id, 2)
