"""What does a pause commit, before anything yields?"""

from __future__ import annotations

import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Completed, PauseAck

from .kinds import FAILURES, Kind, Stage
from .subject import Subject, paused

pytestmark = pytest.mark.anyio


async def test_the_fence_is_committed_before_anything_yields(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: in one transaction paused, the operator's lock, generation+1, episode, receipts."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        ack = await run.pause(actor="ann", reason="lunch", request_id="r")
        status = await run.status()
        assert ack == PauseAck(
            request_id="r",
            run_id=run.id,
            transitioned=True,
            generation=2,
            episode_id=status.episode_id,
            locked=True,
            captured=1,
            draining=1,
            overdue=0,
        )
        assert (status.state, status.generation, status.phase) == ("paused", 2, "draining")
        assert (status.draining, status.overdue) == (1, 0)
        assert [(lock.kind, lock.reason, lock.actor) for lock in status.locks] == [
            ("operator", "lunch", "ann")
        ]
        assert (status.reason, status.actor) == ("lunch", "ann")
        assert status.requested_at == status.fenced_at == subject.clock.now()
        assert status.quiescent_at is None
        assert stage.left == 0


async def test_each_piece_gets_a_receipt_of_what_it_was(subject: Subject, kind: Kind) -> None:
    """spec engine, 2 (receipt) and 4: one for each piece queued, running or held."""
    if kind.name != "graph":
        pytest.skip("a body is one piece; what runs beside it is a run of its own")
    stage = Stage()
    inner = kind.asks()
    flow = kind.asks_beside(stage, inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await wait_all_tasks_blocked()
        ack = await run.pause()
        receipts = await rt.receipts(ack.episode_id or "")
        assert {(receipt.was, receipt.drain) for receipt in receipts} == {
            ("running", "pending"),
            ("waiting", "absent"),
        }
        assert (ack.captured, ack.draining) == (2, 1)
        assert {receipt.outcome for receipt in receipts} == {None}
        assert {receipt.episode_id for receipt in receipts} == {ack.episode_id}
        running = next(receipt for receipt in receipts if receipt.was == "running")
        assert running.lease is not None
        stage.open()


async def test_a_run_that_nobody_drives_is_paused_at_once(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: start commits running whether claimed or not, so a queued run can be paused."""
    flow = kind.adds()
    async with subject.open(flow, drive=False) as rt:
        run = await rt.start(flow, 1)
        status = await run.status()
        assert (status.state, status.worker) == ("running", None)
        ack = await run.pause()
        assert (ack.transitioned, ack.captured, ack.draining) == (True, 1, 0)
        (receipt,) = await rt.receipts(ack.episode_id or "")
        assert (receipt.was, receipt.drain) == ("queued", "absent")
        status = await run.status()
        assert (status.state, status.phase, status.generation) == ("paused", "quiescent", 2)
        assert status.quiescent_at == status.fenced_at


async def test_nothing_new_starts_after_the_fence(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: what began before the fence records its result; the next one does not start."""
    stage, then = Stage(), Stage()
    flow = kind.works(stage, after=then)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.pause()
        stage.open()
        await paused(run)
        await wait_all_tasks_blocked()
        assert (stage.left, then.came) == (1, 0)
        await run.resume()
        await then.wait_came()
        assert (stage.came, then.came) == (1, 1)
        then.open()
        assert await run.result() == 2


async def test_a_resume_after_a_pause_gives_what_an_undisturbed_run_gives(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 2 (receipt): each piece is continued, and counted in the ack."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        pause = await run.pause()
        stage.open()
        await paused(run)
        ack = await run.resume(request_id="r")
        assert (ack.transitioned, ack.generation, ack.episode_id) == (True, 3, pause.episode_id)
        assert (ack.continued, ack.carried, ack.skipped) == (1, 0, 0)
        (receipt,) = await rt.receipts(pause.episode_id or "")
        assert (receipt.drain, receipt.outcome) == ("released", "continued")
        assert await run.settled() == Completed(2)
        assert stage.came == 1


async def test_a_resume_before_the_drain_is_over_starts_nothing_twice(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: a piece that still drains keeps its lease; its result is applied."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.pause()
        ack = await run.resume()
        assert (ack.transitioned, ack.generation) == (True, 3)
        await wait_all_tasks_blocked()
        stage.open()
        assert await run.result() == 2
        assert stage.came == 1


async def test_a_pause_of_a_held_run_adds_the_operator_s_lock(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: same episode, generation unchanged, transitioned False, locked True."""
    flow = kind.asks(reason="which?")
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        before = await paused(run)
        generation = (await run.status()).generation
        subject.clock.advance(1)
        ack = await run.pause(actor="ann", reason="lunch")
        assert (ack.transitioned, ack.locked) == (False, True)
        assert (ack.generation, ack.episode_id) == (generation, before.episode)
        status = await run.status()
        assert {lock.kind for lock in status.locks} == {"holds", "operator"}
        assert (status.reason, status.actor) == ("lunch", "ann")
        assert (status.generation, status.episode_id) == (generation, before.episode)
        assert status.holds == before.holds


async def test_a_second_pause_is_a_recorded_no_op(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: else it is a recorded no-op: the lock keeps who set it."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        first = await run.pause(actor="ann")
        before = await run.status()
        subject.clock.advance(1)
        second = await run.pause(actor="bob", request_id="second")
        assert (second.transitioned, second.locked) == (False, False)
        assert (second.generation, second.episode_id) == (first.generation, first.episode_id)
        assert (second.captured, second.draining) == (1, 1)
        assert (await run.status()).model_dump() == before.model_dump()
        last = (await subject.events(rt, run.id))[-1]
        assert (last.actor, last.request_id) == ("bob", "second")


async def test_a_body_that_pauses_itself_makes_the_same_fence(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: the same fence, episode and receipts, lock `holds`."""
    flow = kind.asks(reason="which?")
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        outcome = await paused(run)
        status = await run.status()
        assert (status.state, status.generation, status.phase) == ("paused", 2, "quiescent")
        assert [(lock.kind, lock.reason) for lock in status.locks] == [("holds", "which?")]
        assert status.quiescent_at == status.fenced_at == subject.clock.now()
        (receipt,) = await rt.receipts(outcome.episode)
        assert receipt.drain in ("absent", "released")
        assert receipt.outcome is None


async def test_a_question_asked_in_the_drain_is_listed_and_kept(subject: Subject, kind: Kind) -> None:
    """spec graph, pause rule 2: a visit that pauses after the fence is held also; lock `holds` joins."""
    stage = Stage()
    flow = kind.works_then_asks(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.pause()
        generation = (await run.status()).generation
        stage.open()
        outcome = await paused(run)
        status = await run.status()
        assert {lock.kind for lock in status.locks} == {"operator", "holds"}
        assert status.generation == generation
        (hold,) = outcome.holds
        ack = await run.resume()
        assert (ack.transitioned, ack.generation) == (False, generation)
        assert [lock.kind for lock in (await run.status()).locks] == ["holds"]
        await rt.answer(hold.id, "yes")
        assert await run.result() == "yes"


async def test_a_completion_in_the_drain_is_applied_and_ends_the_episode(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 3: the last statement was under way at the fence; the episode closes as `ended`."""
    stage = Stage(open=True)
    last = Stage()
    flow = kind.works(stage, after=last)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await last.wait_came()
        ack = await run.pause()
        last.open()
        if kind.name == "team":  # its turn keeps the value on its receipt, for the turn that continues it
            assert (await paused(run)).holds == ()
            assert (await run.resume()).continued == 1
            assert await run.settled() == Completed(2)
            assert last.came == 1
            return
        assert await run.settled() == Completed(2)
        status = await run.status()
        assert (status.state, status.generation, status.result) == ("completed", ack.generation, 2)
        assert (status.locks, status.episode_id, status.phase) == ((), None, None)
        (receipt,) = await rt.receipts(ack.episode_id or "")
        assert (receipt.drain, receipt.outcome) == ("released", "ended")


async def test_a_failure_in_the_drain_is_applied_and_ends_the_episode(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: a failure that arrives while paused is applied."""
    stage = Stage()
    flow = kind.works_then_fails(stage, ValueError("boom"))
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        ack = await run.pause()
        stage.open()
        if kind.name == "team":  # as with a value
            assert (await paused(run)).holds == ()
            await run.resume()
            with pytest.raises(FAILURES, match="boom"):
                await run.settled()
            assert stage.came == 1
            return
        with pytest.raises(FAILURES, match="boom"):
            await run.settled()
        status = await run.status()
        assert (status.state, status.generation, status.locks) == ("failed", ack.generation, ())
        (receipt,) = await rt.receipts(ack.episode_id or "")
        assert receipt.outcome == "ended"


async def test_generation_rises_with_what_the_spec_lists_and_nothing_else(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 2 (generation): entering paused, leaving it to run, retry, reset, cancel."""
    stage = Stage()
    flow = kind.works_then_asks(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        seen = []

        async def note(what: str) -> None:
            await wait_all_tasks_blocked()
            seen.append((what, (await run.status()).generation))

        await note("start")
        await run.pause()
        await note("pause")
        await run.pause()
        await note("pause again")
        await run.resume()
        await note("resume")
        stage.open()
        await note("asks")
        await run.pause()
        await note("lock")
        await run.resume()
        await note("unlock, still held")
        (hold,) = (await run.status()).holds
        await rt.answer(hold.id, 1)
        await note("answer, and complete")
        await run.reset()
        await note("reset")
        await run.reset()
        await note("reset again")
        await run.resume()
        await note("resume, and asks")
        await run.cancel()
        await note("cancel")
        assert seen == [
            ("start", 1),
            ("pause", 2),
            ("pause again", 2),
            ("resume", 3),
            ("asks", 4),
            ("lock", 4),
            ("unlock, still held", 4),
            ("answer, and complete", 5),
            ("reset", 6),
            ("reset again", 6),
            ("resume, and asks", 7),
            ("cancel", 8),
        ]
