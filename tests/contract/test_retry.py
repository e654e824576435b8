"""Does a retry go on at the point that failed, and only there?"""

from __future__ import annotations

import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Completed, Run
from quiesce.errors import IllegalTransition, RunFailed

from .kinds import FAILURES, Kind, Stage, cause_of
from .subject import Subject, only_child, paused

pytestmark = pytest.mark.anyio


async def fails(run: Run) -> BaseException:
    with pytest.raises(FAILURES) as caught:
        await run.settled()
    return caught.value


async def test_what_finished_is_not_run_again(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: finished visits are not run again; generation+1."""
    flow = kind.mends([ValueError("boom")])
    async with subject.open(flow) as rt:
        subject.keeps_what_finished(rt)
        run = await rt.start(flow, 1)
        await fails(run)
        assert kind.evaluated == ["first", "second"]
        ack = await run.retry(actor="ann")
        assert (ack.transitioned, ack.generation) == (True, 2)
        assert await run.settled() == Completed(2)
        assert kind.evaluated == ["first", "second", "second"]
        status = await run.status()
        assert (status.error, status.execution, status.generation) == (None, 1, 2)


async def test_each_try_has_its_own_error(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: the same error each time, until a retry brings another."""
    one, two = ValueError("one"), ValueError("two")
    flow = kind.mends([one, two])
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        assert cause_of(await fails(run)) is one
        await run.retry()
        assert cause_of(await fails(run)) is two
        assert (await fails(run)) is (await fails(run))
        await run.retry()
        assert await run.result() == 2


async def test_a_refused_retry_keeps_the_error(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: a refusal changes nothing; the error stays the same object."""
    inner = kind.fails(ValueError("boom"))
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        outer = await fails(run)
        (child_id,) = (await run.status()).children
        child = await rt.get(child_id)
        first = await fails(child)
        before = await subject.dump(rt, run.id)
        with pytest.raises(Exception, match=run.id):
            await child.retry()
        assert await subject.dump(rt, run.id) == before
        assert (await fails(child)) is first
        assert (await fails(run)) is outer


async def test_siblings_are_as_they_were(subject: Subject, kind: Kind) -> None:
    """spec graph, pause rule 6: retry brings back the failed branch; others and open holds as they were."""
    stage = Stage()
    inner = kind.asks()
    flow = kind.fails_beside(stage, inner, ValueError("boom"))
    async with subject.open(flow, inner) as rt:
        subject.keeps_what_finished(rt)
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await wait_all_tasks_blocked()
        (hold,) = (await run.status()).holds
        child_id = (await only_child(rt, run)).id
        stage.open()
        await fails(run)
        child = await rt.status(child_id)
        assert (child.state, [lock.kind for lock in child.locks if lock.kind == "parent"]) == (
            "paused",
            ["parent"],
        )
        await run.retry()
        outcome = await paused(run)
        assert [item.id for item in outcome.holds] == [hold.id]
        assert [item.id for item in await rt.holds()] == [hold.id]
        assert sorted(kind.evaluated) == ["ask", "spread", "work", "work"]
        await rt.answer(hold.id, "yes")
        assert await run.result() == [["answered", "yes"], "worked"]
        assert sorted(kind.evaluated) == ["ask", "ask", "spread", "work", "work"]


async def test_what_was_in_flight_is_queued_again(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: visits in flight are cancelled and queued again by a retry."""
    stage, other = Stage(), Stage()
    inner = kind.works(other)
    flow = kind.fails_beside(stage, inner, ValueError("boom"))
    async with subject.open(flow, inner) as rt:
        subject.keeps_what_finished(rt)
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await other.wait_came()
        stage.open()
        await fails(run)
        child = await only_child(rt, run)
        assert (await child.status()).state == "paused"
        other.open()
        await paused(child)
        await run.retry()
        assert await run.result() == [2, "worked"]
        assert other.came == 1


async def test_a_failure_in_a_child_is_retried_there(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: a failed run continues from the point that failed, at any depth."""
    inner = kind.mends([ValueError("boom")])
    flow = kind.encloses(kind_middle := kind.encloses(inner))
    async with subject.open(flow, kind_middle, inner) as rt:
        subject.keeps_what_finished(rt)
        run = await rt.start(flow, 1)
        error = await fails(run)
        assert "boom" in str(error)
        assert kind.evaluated == ["first", "second"]
        ack = await run.retry()
        assert (ack.transitioned, ack.generation) == (True, 2)
        assert await run.result() == 2
        assert kind.evaluated == ["first", "second", "second"]
        assert {status.generation for status in await rt.list()} == {2}


async def test_a_retry_goes_on_in_another_runtime(subject: Subject, kind: Kind) -> None:
    """spec graph (durable graphs): retry in a new process: finished visits are not evaluated again."""
    inner = kind.mends([ValueError("boom")])
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        await fails(run)
    async with subject.open(flow, inner) as rt:
        again = await rt.get(run.id)
        with pytest.raises(RunFailed, match="boom"):
            await again.settled()
        await again.retry()
        assert await again.result() == 2
        assert kind.evaluated == ["first", "second", "second"]
        assert len((await again.status()).children) == 1


async def test_a_retry_of_a_run_that_did_not_fail_is_refused(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: retry of a paused run under the lock `fault` only; the message says what to do."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        async with subject.refused(rt, IllegalTransition, run) as caught:
            await run.retry()
        assert "holds" in str(caught.value)
        async with subject.refused(rt, IllegalTransition, run):
            await run.retry(accept_changes=True)


async def test_an_error_that_nobody_awaited_and_a_retry_mended_is_not_reported(
    subject: Subject, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    """spec engine, 5 (Runtime): errors that nobody awaited are reported at the end; this one is over."""
    flow = kind.mends([ValueError("boom")])
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await subject.seen(rt, run.id, "failed")
        await wait_all_tasks_blocked()
        await run.retry()
        assert await run.result() == 2
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
