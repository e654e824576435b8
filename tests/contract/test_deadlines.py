"""What does a deadline do, when, and only while its question is open?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from anyio import wait_all_tasks_blocked

from quiesce.errors import AlreadyAnswered, Expired

from .kinds import FAILURES, Kind, Stage, cause_of
from .subject import Subject, paused

pytestmark = pytest.mark.anyio

MINUTE = 60.0


async def test_a_deadline_that_holds_marks_the_question_late(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: "hold" is the default: stays open, marked late, and can be answered."""
    flow = kind.asks(deadline=MINUTE)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        assert hold.deadline == subject.clock.now() + timedelta(seconds=MINUTE)
        assert not hold.late
        subject.clock.advance(MINUTE + 1)
        await wait_all_tasks_blocked()
        status = await run.status()
        (late,) = status.holds
        assert (late.id, late.late, late.state, status.state) == (hold.id, True, "open", "paused")
        await rt.answer(hold.id, "better late")
        assert await run.result() == ["answered", "better late"]


async def test_a_deadline_is_an_instant_or_a_time_from_now(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: `deadline` is an absolute time, whatever it was given as."""
    at = subject.clock.now() + timedelta(seconds=MINUTE)
    for given in (at, timedelta(seconds=MINUTE), MINUTE):
        flow = kind.asks(deadline=given)
        async with subject.open(flow) as rt:
            run = await rt.start(flow, 1)
            (hold,) = (await paused(run)).holds
            assert hold.deadline == at


async def test_a_deadline_that_fails_raises_expired(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: "fail": Expired fails the branch; hold `expired`, by the actor `deadline`."""
    flow = kind.asks(deadline=MINUTE, on_deadline="fail")
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        subject.clock.advance(MINUTE)
        with pytest.raises(FAILURES) as caught:
            await _ended(run)
        assert isinstance(cause_of(caught.value), Expired)
        (hold,) = await rt.holds(run.id, None)
        assert (hold.state, hold.answered_by) == ("expired", "deadline")
        assert hold.answered_at == subject.clock.now()
        assert (await run.status()).state == "failed"


async def _ended(run: Any) -> Any:
    await wait_all_tasks_blocked()
    return await run.result()


@pytest.mark.parametrize("value", ["later", None, False, 0, {}], ids=repr)
async def test_a_deadline_can_answer(subject: Subject, kind: Kind, value: Any) -> None:
    """spec engine, 4: ("answer", value): acts as an answer by the actor `deadline`."""
    flow = kind.asks(deadline=MINUTE, on_deadline=("answer", value))
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        generation = (await run.status()).generation
        subject.clock.advance(MINUTE)
        assert await _ended(run) == ["answered", value]
        (hold,) = await rt.holds(run.id, None)
        assert (hold.state, hold.answer, hold.answered_by) == ("answered", value, "deadline")
        assert (await run.status()).generation == generation + 1


async def test_nothing_happens_before_the_deadline(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: an absolute time; only while its hold is open."""
    flow = kind.asks(deadline=MINUTE, on_deadline="fail")
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        subject.clock.advance(MINUTE - 1)
        await wait_all_tasks_blocked()
        assert (await run.status()).state == "paused"
        await rt.answer(hold.id, "in time")
        assert await run.result() == ["answered", "in time"]
        before = await subject.dump(rt, run.id)
        subject.clock.advance(MINUTE)
        await wait_all_tasks_blocked()
        assert await subject.dump(rt, run.id) == before


@pytest.mark.parametrize("verb", ["answer", "reject", "resume"])
@pytest.mark.parametrize("on_deadline", ["fail", ("answer", "by itself")], ids=["fail", "answer"])
async def test_an_answer_after_the_deadline_is_refused(
    subject: Subject, kind: Kind, verb: str, on_deadline: Any
) -> None:
    """spec engine, 4: a deadline acts, whether or not anybody's timer has gone off yet."""
    flow = kind.asks(deadline=MINUTE, on_deadline=on_deadline)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        subject.clock.advance(MINUTE)
        late = run.resume("too late", hold=hold.id) if verb == "resume" else getattr(rt, verb)(hold.id, "x")
        with pytest.raises((Expired, AlreadyAnswered)):
            await late
        (settled,) = await rt.holds(run.id, None)
        assert settled.state == ("expired" if on_deadline == "fail" else "answered")
        assert settled.answered_by == "deadline"
        assert settled.answer == (None if on_deadline == "fail" else "by itself")


async def test_a_deadline_runs_on_under_an_operator_s_lock_and_acts_when_it_is_lifted(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 4: it runs on while an operator lock is on, and acts when the lock is lifted."""
    flow = kind.asks(deadline=MINUTE, on_deadline=("answer", "by itself"))
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        await run.pause()
        subject.clock.advance(MINUTE)
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.generation) == ("paused", 2)
        assert kind.evaluated == ["ask"]
        ack = await run.resume()
        assert (ack.transitioned, ack.generation) == (True, 3)
        assert await run.result() == ["answered", "by itself"]


async def test_a_deadline_of_a_failed_run_does_not_act(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: while a run has failed the deadlines of its holds do not act; a retry brings them."""
    stage = Stage()
    inner = kind.asks(deadline=MINUTE, on_deadline=("answer", "by itself"))
    flow = kind.fails_beside(stage, inner, ValueError("boom"))
    async with subject.open(flow, inner) as rt:
        subject.keeps_what_finished(rt)
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await wait_all_tasks_blocked()
        stage.open()
        with pytest.raises(FAILURES):
            await run.settled()
        before = await subject.dump(rt, run.id)
        subject.clock.advance(MINUTE)
        await wait_all_tasks_blocked()
        assert (await subject.dump(rt, run.id)).events == before.events
        assert (await subject.dump(rt, run.id)).children[0].events == before.children[0].events
        await run.retry()
        assert await run.result() == [["answered", "by itself"], "worked"]


async def test_a_deadline_that_passed_while_nobody_was_there_acts_at_once(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 4: an absolute time; a worker that opens the store later finds it due."""
    flow = kind.asks(deadline=MINUTE, on_deadline=("answer", "by itself"))
    async with subject.open(flow) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        await paused(run)
    subject.clock.advance(10 * MINUTE)
    async with subject.open(flow) as rt:
        assert await (await rt.get(run.id)).result() == ["answered", "by itself"]


async def test_a_deadline_acts_for_a_worker_that_came_after_the_question(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 4: the clock runs whoever watches it."""
    flow = kind.asks(deadline=MINUTE, on_deadline="fail")
    async with subject.open(flow) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        await paused(run)
    async with subject.open(flow) as rt:
        await wait_all_tasks_blocked()
        assert (await rt.status(run.id)).state == "paused"
        subject.clock.advance(MINUTE)
        with pytest.raises(FAILURES):
            await _ended(await rt.get(run.id))


async def test_the_nearest_of_several_deadlines_acts_first(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: each hold has its own; one that is opened later may be due earlier."""
    slow = kind.asks(deadline=10 * MINUTE, on_deadline=("answer", "slow"))
    quick = kind.asks(deadline=MINUTE, on_deadline=("answer", "quick"))
    async with subject.open(slow, quick) as rt:
        one = await rt.start(slow, 1)
        await paused(one)
        await wait_all_tasks_blocked()
        two = await rt.start(quick, 1)
        await paused(two)
        await wait_all_tasks_blocked()
        subject.clock.advance(MINUTE)
        assert await _ended(two) == ["answered", "quick"]
        assert (await one.status()).state == "paused"
        subject.clock.advance(9 * MINUTE)
        assert await _ended(one) == ["answered", "slow"]


async def test_time_to_decide_does_not_count_against_a_time_out(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: approval time never counts against a step's or run's time-out."""
    flow = kind.asks(timeout=1.0)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        subject.clock.advance(1000 * MINUTE)
        await wait_all_tasks_blocked()
        assert (await run.status()).state == "paused"
        await rt.answer(hold.id, "at last")
        assert await run.result() == ["answered", "at last"]
