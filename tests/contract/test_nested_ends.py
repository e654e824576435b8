"""What do the end, the failure and the restart of a run mean for those inside it, and around it?"""

from __future__ import annotations

import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Completed
from quiesce.errors import Fenced, NodeError

from .kinds import Kind, Stage
from .subject import Subject, locks, only_child, paused

pytestmark = pytest.mark.anyio


async def test_a_reset_child_of_a_paused_run_is_fenced(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: so is resume after reset."""
    inner = kind.asks()
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        child = await only_child(rt, run)
        await run.pause()
        await child.reset()
        async with subject.refused(rt, Fenced, run):
            await child.resume()
        await run.resume()
        assert (await run.status()).state == "paused"
        assert (await child.resume()).transitioned
        outcome = await paused(run)
        await rt.answer(outcome.holds[0].id, "yes")
        assert await run.result() == ["answered", "yes"]


async def test_a_reset_of_the_only_child_pauses_the_outer_run_until_it_is_resumed(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 3: when nothing of a run is runnable, the engine fences it."""
    stage = Stage()
    inner = kind.works(stage)
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        child = await only_child(rt, run)
        await child.reset()
        status = await run.status()
        assert (status.state, locks(status), status.generation) == ("paused", ["child"], 2)
        stage.open()
        await child.resume()
        assert (await run.status()).state == "running"
        assert await run.result() == 2


async def test_a_cancel_descends_and_a_cancelled_child_fails_what_waited_for_it(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 4: cancel: descendants too; holds withdrawn."""
    inner = kind.asks()
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        await run.cancel()
        assert {status.state for status in await rt.list()} == {"cancelled"}
        assert list(await rt.holds()) == []
        other = await rt.start(flow, 1)
        await paused(other)
        await (await only_child(rt, other)).cancel()
        with pytest.raises(NodeError, match="cancelled"):
            await other.settled()
        await other.retry()  # which runs it anew
        outcome = await paused(other)
        await rt.answer(outcome.holds[0].id, "yes")
        assert await other.result() == ["answered", "yes"]


async def test_a_reset_of_the_outer_run_ends_what_was_inside(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: reset: the next execution has runs of its own inside."""
    inner = kind.asks()
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        child = await only_child(rt, run)
        await run.reset()
        assert (await child.status()).state == "cancelled"
        await run.resume()
        outcome = await paused(run)
        assert outcome.holds[0].run_id != child.id
        await outcome.resume("yes")
        assert await run.result() == ["answered", "yes"]


async def test_a_failing_run_suspends_what_is_inside(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: suspends its descendants (lock `parent`), it does not cancel them."""
    stage, other = Stage(), Stage()
    inner = kind.works(other)
    flow = kind.fails_beside(stage, inner, ValueError("boom"))
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await other.wait_came()
        child = await only_child(rt, run)
        stage.open()
        with pytest.raises(NodeError):
            await run.settled()
        status = await child.status()
        assert (status.state, locks(status), status.generation) == ("paused", ["parent"], 2)
        assert "failed" in (status.locks[0].reason or "")
        async with subject.refused(rt, Fenced, run):
            await child.resume()
        other.open()
        await paused(child)
        assert other.cancelled == 0


async def test_an_inner_failure_has_its_way_to_the_outer_waiter(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: the error of a nested body is the node's; the cause is the error itself."""
    boom = ValueError("boom")
    inner = kind.fails(boom)
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        with pytest.raises(NodeError, match="boom") as caught:
            await run.settled()
        with pytest.raises(NodeError) as own:
            await (await only_child(rt, run)).settled()
        assert caught.value.__cause__ is own.value
        assert own.value.__cause__ is boom


async def test_an_outer_run_pauses_although_another_inner_one_has_ended(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: when nothing of a run is runnable and a hold is open, the engine fences it."""
    inner = kind.asks()
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        await (await only_child(rt, run)).cancel()
        with pytest.raises(NodeError):
            await run.settled()
        await run.retry()
        status = (await paused(run)).run
        assert locks(await status.status()) == ["holds"]


async def test_a_tree_goes_on_in_a_new_runtime(subject: Subject, kind: Kind) -> None:
    """spec engine, 1: any process can continue it, the runs inside included."""
    stage = Stage()
    inner = kind.works(stage)
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        await stage.wait_came()
    async with subject.open(flow, inner) as rt:
        await stage.wait_came(2)
        stage.open()
        assert await (await rt.get(run.id)).result() == 2


async def test_a_run_inside_a_paused_tree_is_told_by_path_after_a_restart(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 4: listing, answering and going on need no process that knew the runs before."""
    inner = kind.asks()
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        before = await paused(run)
    async with subject.open(flow, inner) as rt:
        again = await rt.get(run.id)
        assert (await again.status()).holds == before.holds
        await again.resume("yes", episode=before.episode)
        assert await again.result() == ["answered", "yes"]


async def test_a_late_end_inside_does_not_resume_a_graph_that_paused_itself(
    subject: Subject, kind: Kind
) -> None:
    """spec graph, pause rules 2 and 5: results are applied; what follows is queued until a resume."""
    if kind.name != "graph":
        pytest.skip("the hold of another kind suspends just its piece")
    gate, last = Stage(), Stage()
    inner = kind.works(Stage(open=True), after=last)
    flow = kind.asks_over(inner, gate)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await gate.wait_came()
        await last.wait_came()
        child = await only_child(rt, run)
        gate.open()
        outcome = await paused(run)
        last.open()
        assert await child.settled() == Completed(2)
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.generation, status.episode_id) == ("paused", 2, outcome.episode)
        await outcome.resume("yes")
        assert await run.result() == [2, "yes"]
