"""How does the teardown after a fence go: in parallel, bounded, and never undone?"""

from __future__ import annotations

import pytest
from anyio import create_task_group, wait_all_tasks_blocked

from quiesce import Completed, Paused

from .kinds import Kind, Stage
from .subject import Subject, only_child, paused

pytestmark = pytest.mark.anyio


async def test_a_drained_run_is_quiescent_since_it_yielded(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: phase and timestamps follow from receipts."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        ack = await run.pause()
        fenced = subject.clock.now()
        subject.clock.advance(3)
        stage.open()
        await paused(run)
        status = await run.status()
        assert (status.phase, status.draining, status.overdue) == ("quiescent", 0, 0)
        assert (status.fenced_at, status.quiescent_at) == (fenced, subject.clock.now())
        (receipt,) = await rt.receipts(ack.episode_id or "")
        assert (receipt.drain, receipt.at, receipt.released_at) == ("released", fenced, status.quiescent_at)
        happened = await subject.kinds_of_events(rt, run.id)
        assert [what for what in happened if what in ("paused", "quiescent")] == ["paused", "quiescent"]


async def test_past_the_bound_a_piece_is_overdue(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: past drain_timeout (default 10 s) the receipt is overdue; the fence stands."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        ack = await run.pause()
        await wait_all_tasks_blocked()
        subject.clock.advance(9.9)
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.phase, status.draining, status.overdue) == ("draining", 1, 0)
        subject.clock.advance(0.1)
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.phase, status.draining, status.overdue) == ("paused", "draining", 0, 1)
        assert (status.generation, status.quiescent_at) == (ack.generation, None)
        (receipt,) = await rt.receipts(ack.episode_id or "")
        assert (receipt.drain, receipt.overdue_at) == ("overdue", subject.clock.now())
        stage.open()


async def test_a_piece_that_yields_late_is_recorded_so(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: a piece that yields later is recorded so."""
    stage, then = Stage(), Stage()
    flow = kind.works(stage, after=then)
    async with subject.open(flow, drain_timeout=1.0) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        ack = await run.pause()
        await wait_all_tasks_blocked()
        subject.clock.advance(1)
        await wait_all_tasks_blocked()
        overdue_at = subject.clock.now()
        subject.clock.advance(5)
        stage.open()
        await wait_all_tasks_blocked()
        (receipt,) = await rt.receipts(ack.episode_id or "")
        assert (receipt.drain, receipt.overdue_at) == ("released", overdue_at)
        assert receipt.released_at == subject.clock.now()
        status = await run.status()
        assert (status.state, status.phase, status.quiescent_at) == (
            "paused",
            "quiescent",
            subject.clock.now(),
        )
        assert then.came == 0
        await run.resume()
        then.open()
        assert await run.result() == 2


async def test_settled_returns_when_only_overdue_pieces_remain(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: settled: ended, idle, quiescent, or only overdue pieces remain."""
    stage, outcomes = Stage(), []
    flow = kind.works(stage)
    async with subject.open(flow, drain_timeout=2.0) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.pause()

        async def wait() -> None:
            outcomes.append(await run.settled())

        async with create_task_group() as group:
            group.start_soon(wait)
            await wait_all_tasks_blocked()
            assert outcomes == []
            subject.clock.advance(2)
        assert isinstance(outcomes[0], Paused)
        assert (await run.status()).overdue == 1
        stage.open()


async def test_a_verb_s_own_drain_timeout_goes_first(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: bounded by `drain_timeout`, of the runtime unless the verb has its own."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow, drain_timeout=100.0) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await rt.pause(run.id, drain_timeout=0.5)
        await wait_all_tasks_blocked()
        subject.clock.advance(0.5)
        await wait_all_tasks_blocked()
        assert (await run.status()).overdue == 1
        stage.open()


async def test_a_second_pause_says_what_is_overdue(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: PauseAck counts captured, draining and overdue pieces."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow, drain_timeout=1.0) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.pause()
        await wait_all_tasks_blocked()
        subject.clock.advance(1)
        await wait_all_tasks_blocked()
        ack = await run.pause()
        assert (ack.captured, ack.draining, ack.overdue) == (1, 0, 1)
        stage.open()


async def test_a_resume_of_an_overdue_run_starts_nothing_twice(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: no second execution is opened."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow, drain_timeout=1.0) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        pause = await run.pause()
        await wait_all_tasks_blocked()
        subject.clock.advance(1)
        await wait_all_tasks_blocked()
        await paused(run)
        ack = await run.resume()
        assert (ack.transitioned, ack.continued) == (True, 1)
        stage.open()
        assert await run.settled() == Completed(2)
        assert stage.came == 1
        (receipt,) = await rt.receipts(pause.episode_id or "")
        assert (receipt.drain, receipt.outcome) == ("released", "continued")
        assert receipt.overdue_at is not None


async def test_a_piece_that_yields_after_the_resume_is_recorded_so(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: a piece that yields later is recorded so, also in an episode that is closed."""
    stage, then = Stage(), Stage()
    flow = kind.works(stage, after=then)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        pause = await run.pause()
        assert (await run.resume()).transitioned
        await wait_all_tasks_blocked()
        (receipt,) = await rt.receipts(pause.episode_id or "")
        assert (receipt.drain, receipt.outcome) == ("pending", "continued")
        subject.clock.advance(3)
        stage.open()
        await then.wait_came()
        (receipt,) = await rt.receipts(pause.episode_id or "")
        assert (receipt.drain, receipt.released_at) == ("released", subject.clock.now())
        then.open()
        assert await run.result() == 2


async def test_a_piece_that_its_process_hands_back_after_the_resume_has_yielded(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 4: a piece that yields later is recorded so; leaving a runtime hands back."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        await stage.wait_came()
        pause = await run.pause()
        await run.resume()
    async with subject.open(drive=False) as later:
        (receipt,) = await later.receipts(pause.episode_id or "")
        assert receipt.drain == "released"


async def test_a_run_that_is_cancelled_after_a_resume_leaves_nothing_pending(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 3: terminal is terminal: nothing of it drains for ever."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        pause = await run.pause()
        await run.resume()
        await run.cancel()
        await wait_all_tasks_blocked()
        (receipt,) = await rt.receipts(pause.episode_id or "")
        assert receipt.drain == "released"


async def test_pieces_drain_in_parallel(subject: Subject, kind: Kind) -> None:
    """spec engine, 2 (drain): bounded and parallel: each piece has its receipt, the last makes it quiet."""
    stage, other = Stage(), Stage()
    inner = kind.works(other)
    flow = kind.asks_beside(stage, inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await other.wait_came()
        await run.pause()
        child = await only_child(rt, run)
        stage.open()
        await wait_all_tasks_blocked()
        assert (await run.status()).phase == "quiescent"
        assert (await child.status()).phase == "draining"
        other.open()
        await paused(child)
        assert (await child.status()).phase == "quiescent"


async def test_the_bound_holds_when_the_pauser_has_left(subject: Subject, kind: Kind) -> None:
    """spec engine, 4 (status): true from the fence's commit on, whoever paused; spec 6: waiters are woken."""
    stage, outcomes = Stage(), []
    flow = kind.works(stage)
    async with subject.open(flow, drain_timeout=2.0) as rt:
        subject.needs(rt, "cross_process")
        run = await rt.start(flow, 1)
        await stage.wait_came()

        async def wait() -> None:
            outcomes.append(await run.settled())

        async with create_task_group() as group:
            group.start_soon(wait)
            async with subject.open(drive=False, drain_timeout=2.0) as other:
                await other.pause(run.id)
            await subject.seen(rt, run.id, "paused")
            await wait_all_tasks_blocked()
            subject.clock.advance(2)
        assert isinstance(outcomes[0], Paused)
        (receipt,) = await rt.receipts(outcomes[0].episode)
        assert receipt.drain == "overdue"
        stage.open()


async def test_what_a_dead_process_should_have_drained_is_absent(subject: Subject, kind: Kind) -> None:
    """spec engine, 2 (receipt): absent: queued, held, or its process is gone; leaving hands back."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        await stage.wait_came()
        ack = await run.pause()
    assert stage.cancelled == 1
    async with subject.open(drive=False) as later:
        status = await later.status(run.id)
        assert (status.state, status.generation, status.phase) == ("paused", ack.generation, "quiescent")
        assert (status.draining, status.overdue) == (0, 0)
