"""Who waits for a run, and what does a waiter get?"""

from __future__ import annotations

import pytest
from anyio import CancelScope, create_task_group, wait_all_tasks_blocked

from quiesce import Completed, Paused
from quiesce.errors import IllegalTransition, RunCancelled, RunFailed

from .kinds import FAILURES, Kind, Stage, cause_of
from .subject import Subject, paused

pytestmark = pytest.mark.anyio


async def test_a_run_that_completes_gives_its_value(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: `rt.run` starts, and waits until the run settles."""
    flow = kind.adds()
    async with subject.open(flow) as rt:
        assert await rt.run(flow, 1) == Completed(2)


async def test_every_waiter_gets_the_value_and_late_ones_too(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: `settled` gives the outcome once the run is ended."""
    stage, outcomes = Stage(), []
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)

        async def wait() -> None:
            outcomes.append(await run.settled())

        async with create_task_group() as group:
            for _ in range(3):
                group.start_soon(wait)
            await stage.wait_came()
            stage.open()
        assert outcomes == [Completed(2)] * 3
        assert await run.settled() == Completed(2)
        assert await run.result() == 2


async def test_cancelling_a_waiter_only_stops_the_waiting(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: runs belong to the runtime; deliberate in spec graph (the crate loses the run)."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        for wait in (run.settled, run.result):
            with CancelScope() as scope:
                async with create_task_group() as group:
                    group.start_soon(wait)
                    await stage.wait_came()
                    await wait_all_tasks_blocked()
                    scope.cancel()
        assert (await run.status()).state == "running"
        assert stage.cancelled == 0
        stage.open()
        assert await run.settled() == Completed(2)
        assert stage.came == 1


async def test_a_body_s_error_is_raised_to_each_waiter_and_is_the_same_object(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 5: `settled` raises the body's own error, the same each time."""
    boom = ValueError("boom")
    flow = kind.fails(boom)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        with pytest.raises(FAILURES) as first:
            await run.settled()
        with pytest.raises(FAILURES) as second:
            await run.result()
        assert first.value is second.value
        assert cause_of(first.value) is boom
        assert (await run.status()).error in (str(first.value), f"ValueError: {first.value}")


async def test_an_error_is_raised_as_text_where_another_process_ran_it(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: `RunFailed` with the error's text where another process ran the body."""
    flow = kind.fails(ValueError("boom"))
    async with subject.open(flow) as rt:
        subject.needs(rt, "cross_process")
        run = await rt.start(flow, 1)
        with pytest.raises(FAILURES):
            await run.settled()
        async with subject.open(drive=False) as other:
            with pytest.raises(RunFailed, match="boom") as caught:
                await (await other.get(run.id)).settled()
            assert caught.value.run_id == run.id


async def test_a_cancelled_run_is_raised_to_its_waiters(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: `settled` raises RunCancelled."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        async with create_task_group() as group:

            async def wait() -> None:
                with pytest.raises(RunCancelled):
                    await run.settled()

            group.start_soon(wait)
            await wait_all_tasks_blocked()
            await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()


async def test_settled_gives_what_is_held_and_where(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: `Paused(run, episode, reason, holds)`."""
    flow = kind.asks(reason="which?", payload={"of": [1, 2]})
    async with subject.open(flow) as rt:
        outcome = await rt.run(flow, 1)
        assert isinstance(outcome, Paused)
        status = await outcome.run.status()
        assert (outcome.reason, outcome.episode) == ("which?", status.episode_id)
        assert outcome.holds == status.holds
        (hold,) = outcome.holds
        assert (hold.reason, hold.payload, hold.state, hold.run_id) == (
            "which?",
            {"of": [1, 2]},
            "open",
            kind.tree(outcome.run.id)[-1],
        )


async def test_result_waits_through_pauses(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: `result` waits through pauses for the value."""
    flow = kind.asks_in_turn(2)
    values = []
    async with subject.open(flow) as rt:
        run = await rt.start(flow, [])

        async def wait() -> None:
            values.append(await run.result())

        async with create_task_group() as group:
            group.start_soon(wait)
            for answer in ("a", "b"):
                (hold,) = (await paused(run)).holds
                await rt.answer(hold.id, answer)
                await wait_all_tasks_blocked()
        assert values == [["a", "b"]]


async def test_a_run_that_was_never_started_is_not_waited_for(subject: Subject, kind: Kind) -> None:
    """A wait that nothing could end is refused. spec engine, 3: created has no way on but a verb."""
    flow = kind.adds()
    async with subject.open(flow) as rt:
        run = await rt.create(flow)
        async with subject.refused(rt, IllegalTransition, run):
            await run.settled()


async def test_a_waiter_of_another_runtime_is_woken(subject: Subject, kind: Kind) -> None:
    """spec engine, 6: processes on one store wake one another."""
    stage, outcomes = Stage(), []
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        subject.needs(rt, "cross_process")
        run = await rt.start(flow, 1)
        await stage.wait_came()
        async with subject.open(flow) as other, create_task_group() as group:

            async def wait() -> None:
                outcomes.append(await (await other.get(run.id)).settled())

            group.start_soon(wait)
            await wait_all_tasks_blocked()
            stage.open()
        assert outcomes == [Completed(2)]


async def test_a_result_is_waited_for_through_pauses_that_others_end(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: result waits through pauses, also where another process drives and answers."""
    flow = kind.asks()
    values = []
    async with subject.open(flow) as rt:
        subject.needs(rt, "cross_process")
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        async with subject.open(flow, drive=False) as other, create_task_group() as group:

            async def wait() -> None:
                values.append(await (await other.get(run.id)).result())

            group.start_soon(wait)
            await wait_all_tasks_blocked()
            await rt.answer(hold.id, "yes")
        assert values == [["answered", "yes"]]
