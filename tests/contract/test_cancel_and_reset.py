"""What do cancel and reset leave behind, in every state?"""

from __future__ import annotations

import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Completed, Event
from quiesce.errors import IllegalTransition, RunCancelled

from .kinds import FAILURES, Kind, Stage
from .subject import Subject, paused

pytestmark = pytest.mark.anyio


async def test_a_cancelled_run_stops_what_it_runs(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: generation+1, bodies that live are unwound; `cancelling` while they do."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        ack = await run.cancel(reason="enough", actor="ann")
        assert (ack.transitioned, ack.generation) == (True, 2)
        assert (await run.status()).state == "cancelled"
        await stage.wait_cancelled()
        with pytest.raises(RunCancelled):
            await run.settled()
        status = await run.status()
        assert (status.state, status.phase, status.worker) == ("cancelled", None, None)
        assert kind.evaluated == ["work"]


async def test_a_cancelled_run_that_is_paused_closes_its_episode(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: works in every state that is not ended: holds withdrawn, locks gone."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        outcome = await paused(run)
        await run.pause()
        ack = await run.cancel()
        assert (ack.transitioned, ack.generation) == (True, 3)
        with pytest.raises(RunCancelled):
            await run.settled()
        status = await run.status()
        assert (status.state, status.locks, status.episode_id, status.holds) == ("cancelled", (), None, ())
        (receipt,) = await rt.receipts(outcome.episode)
        assert receipt.outcome == "ended"
        assert kind.evaluated == ["ask"]


async def test_a_run_that_nobody_drives_can_be_cancelled(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: every state that is not ended, queued included."""
    flow = kind.adds()
    async with subject.open(flow, drive=False) as rt:
        run = await rt.start(flow, 1)
        await run.cancel()
        status = await run.status()
        assert (status.state, status.phase, status.generation) == ("cancelled", None, 2)


async def test_an_ended_run_stays_as_it_is(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: terminal is terminal: a late completion never changes it."""
    stage = Stage()
    flow = kind.works_on(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.cancel()
        stage.open()  # it swallows the cancellation, and completes all the same
        with pytest.raises(RunCancelled):
            await run.settled()
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.result, status.generation) == ("cancelled", None, 2)
        async with subject.refused(rt, IllegalTransition, run):
            await run.cancel()


async def test_a_reset_run_waits_with_its_last_input(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: created, execution+1, the last input queued; a resume then runs it from its start."""
    flow = kind.adds()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 41)
        assert await run.settled() == Completed(42)
        ack = await run.reset()
        assert (ack.transitioned, ack.generation) == (True, 2)
        status = await run.status()
        assert (status.state, status.execution, status.generation) == ("created", 2, 2)
        assert (status.result, status.error, status.worker) == (None, None, None)
        assert kind.evaluated == ["add"]
        resumed = await run.resume()
        assert (resumed.transitioned, resumed.generation, resumed.episode_id) == (True, 2, None)
        assert await run.settled() == Completed(42)
        assert kind.evaluated == ["add", "add"]


async def test_a_reset_of_a_reset_run_is_once(subject: Subject, kind: Kind) -> None:
    """spec graph: reset twice is reset once; it is recorded."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        await run.reset()
        before = await run.status()
        again = await run.reset(request_id="again")
        assert (again.transitioned, again.generation) == (False, before.generation)
        assert await run.status() == before
        assert "again" in [event.request_id for event in (await subject.events(rt, run.id))[-2:]]


async def test_a_reset_stops_what_runs_and_nothing_of_it_is_kept(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: running, reset: created; the old execution may not write any more."""
    stage = Stage()
    flow = kind.works_on(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.reset()
        stage.open()
        await stage.wait_cancelled()
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.execution, status.result) == ("created", 2, None)
        await run.resume()
        assert await run.result() == 2
        assert stage.came == 2


async def test_a_reset_run_can_be_resumed_while_the_old_one_unwinds(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: reset and resume are commits; neither waits for a body."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.reset()
        await run.resume()
        await stage.wait_came(2)
        stage.open()
        assert await run.result() == 2
        assert stage.left == 1


async def test_a_reset_of_a_held_run_withdraws_its_holds(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: holds withdrawn, the episode is over, the next run of it asks anew."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        outcome = await paused(run)
        await run.reset()
        assert [hold.state for hold in await rt.holds(run.id, None)] == ["withdrawn"]
        assert [receipt.outcome for receipt in await rt.receipts(outcome.episode)] == ["ended"]
        status = await run.status()
        assert (status.locks, status.episode_id, status.holds) == ((), None, ())
        assert (await run.resume()).transitioned
        again = await paused(run)
        assert again.holds[0].id != outcome.holds[0].id


async def test_a_failed_run_can_be_cancelled_and_reset(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: failed: cancel, reset, retry lead out."""
    flow = kind.mends([ValueError("boom"), ValueError("boom")])
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        with pytest.raises(FAILURES):
            await run.settled()
        ack = await run.cancel()
        assert (ack.transitioned, ack.generation) == (True, 2)
        with pytest.raises(RunCancelled):
            await run.settled()
        await run.reset()
        status = await run.status()
        assert (status.state, status.error, status.execution) == ("created", None, 2)
        await run.resume()
        with pytest.raises(FAILURES):
            await run.settled()
        await run.reset()
        await run.resume()
        assert await run.result() == 2


async def test_a_reset_of_a_run_without_an_input_changes_nothing(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: created, no input, reset: created."""
    flow = kind.adds()
    async with subject.open(flow) as rt:
        run = await rt.create(flow)
        ack = await run.reset()
        assert (ack.transitioned, ack.generation) == (False, 1)
        status = await run.status()
        assert (status.state, status.execution) == ("created", 1)


async def test_executions_are_told_apart_in_the_log(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: each event has execution and generation."""
    flow = kind.adds()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await run.settled()
        await run.reset()
        await run.resume()
        await run.settled()

        def told(events: list[Event]) -> list[tuple[str, int, int]]:
            kept = ("started", "completed", "reset")
            return [(event.kind, event.execution, event.generation) for event in events if event.kind in kept]

        assert told(await subject.events(rt, run.id)) == [
            ("started", 1, 1),
            ("completed", 1, 1),
            ("reset", 2, 2),
            ("started", 2, 2),
            ("completed", 2, 2),
        ]
