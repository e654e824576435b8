"""What does a run inside a run hold, and what of it does the outer one list, wake and wait for?"""

from __future__ import annotations

import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Completed
from quiesce.errors import AmbiguousAnswer, Fenced, StaleGeneration

from .kinds import FAILURES, Kind, Stage, cause_of
from .subject import Subject, only_child, paused

pytestmark = pytest.mark.anyio


def locks(status: object) -> list[str]:
    return sorted(lock.kind for lock in status.locks)  # type: ignore[attr-defined]


async def test_a_nested_body_is_a_run_of_its_own(subject: Subject, kind: Kind) -> None:
    """spec engine, 4 (nesting): every nested body is a run with parent_id; its value is the node's."""
    inner = kind.adds()
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        assert await run.settled() == Completed(2)
        child = await (await only_child(rt, run)).status()
        assert (child.parent_id, child.state, child.result) == (kind.tree(run.id)[-1], "completed", 2)
        assert [status.id for status in await rt.list(parent=child.parent_id)] == [child.id]


async def test_the_outer_run_lists_what_the_inner_one_asks(subject: Subject, kind: Kind) -> None:
    """spec engine, 4 (nesting): outer paused (lock `holds`), lists the inner holds with their paths."""
    inner = kind.asks(reason="which?")
    middle = kind.encloses(inner)
    flow = kind.encloses(middle)
    async with subject.open(flow, middle, inner) as rt:
        run = await rt.start(flow, 1)
        outcome = await paused(run)
        status = await run.status()
        assert (status.state, locks(status), status.generation) == ("paused", ["holds"], 2)
        assert outcome.reason == "which?"
        (hold,) = outcome.holds
        (own,) = await rt.holds()
        assert (hold.id, hold.run_id) == (own.id, subject.inside(run.id, 2)[-1])
        way = {
            "graph": "inner/inner",
            "agent": f"{flow.name}/{middle.name}",
            "team": "coordinator#1/encloses/coordinator#1/encloses/coordinator#1",
        }[kind.name]
        assert hold.path == f"{way}/{own.path}"
        middle_run = await only_child(rt, run)
        assert [item.id for item in (await middle_run.status()).holds] == [hold.id]


@pytest.mark.parametrize("how", ["answer", "resume", "resume the inner", "resume it by the hold"])
async def test_an_answer_wakes_just_what_waits(subject: Subject, kind: Kind, how: str) -> None:
    """spec engine, 4: an answer to the one open hold, at any depth, lets every run around it go."""
    inner = kind.asks()
    middle = kind.encloses(inner)
    flow = kind.encloses(middle)
    async with subject.open(flow, middle, inner) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        match how:
            case "answer":
                await rt.answer(hold.id, "yes")
            case "resume":
                ack = await run.resume("yes")
                assert (ack.transitioned, ack.generation) == (True, 3)
            case "resume the inner":
                await rt.resume(hold.run_id, "yes")
            case "resume it by the hold":
                await run.resume("yes", hold=hold.id)
        assert await run.result() == ["answered", "yes"]
        assert {status.generation for status in await rt.list()} == {3}
        assert kind.evaluated == ["ask", "ask"]


async def test_siblings_go_on_while_an_inner_run_asks(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: a hold in it suspends just that piece; outer paused when nothing else can run."""
    stage = Stage()
    inner = kind.asks()
    flow = kind.asks_beside(stage, inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        child = await only_child(rt, run)
        await paused(child)
        await wait_all_tasks_blocked()
        assert (await run.status()).state == "running"
        stage.open()
        outcome = await paused(run)
        status = await run.status()
        assert (status.generation, locks(status)) == (2, ["holds"])
        await rt.answer(outcome.holds[0].id, "yes")
        assert await run.result() == [["answered", "yes"], "worked"]
        assert stage.came == 1


async def test_a_pause_of_the_outer_run_fences_the_tree(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: every running descendant gets an episode and the lock `parent` in the same step."""
    stage = Stage()
    inner = kind.works(stage)
    middle = kind.encloses(inner)
    flow = kind.encloses(middle)
    async with subject.open(flow, middle, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await wait_all_tasks_blocked()
        await run.pause(actor="ann", reason="lunch")
        statuses = {status.id: status for status in await rt.list()}
        assert {status.state for status in statuses.values()} == {"paused"}
        assert {status.generation for status in statuses.values()} == {2}
        assert locks(statuses[run.id]) == ["operator"]
        tree = subject.inside(run.id, 2)
        for depth in tree[1:]:
            (lock,) = statuses[depth].locks
            assert (lock.kind, lock.actor) == ("parent", "ann")
            assert run.id in (lock.reason or "")
        assert len({status.episode_id for status in statuses.values()}) == len(statuses) == len(tree)
        assert {status.fenced_at for status in statuses.values()} == {subject.clock.now()}
        (receipt,) = await rt.receipts(statuses[tree[-1]].episode_id or "")
        assert (receipt.was, receipt.drain) == ("running", "pending")
        stage.open()
        await paused(await rt.get(tree[-1]))
        ack = await run.resume()
        assert (ack.transitioned, ack.generation) == (True, 3)
        if kind.name != "team":  # there a body goes on when the turn that continues it is promoted
            assert {status.state for status in await rt.list()} == {"running"}
        assert await run.result() == 2
        assert {status.generation for status in await rt.list()} == {3}
        assert stage.came == 1


async def test_what_a_parent_lock_keeps_cannot_go_by_itself(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: under a parent lock: Fenced; so is everything else that would make the run go."""
    inner = kind.asks()
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        child = await only_child(rt, run)
        await run.pause()
        for verb in (child.resume, child.takeover):
            async with subject.refused(rt, Fenced, run) as caught:
                await verb()
            assert run.id in str(caught.value)
        async with subject.refused(rt, Fenced, run):
            await child.resume("yes")
        ack = await rt.answer(hold.id, "yes")
        assert (ack.transitioned, ack.resumed) == (False, False)
        assert kind.evaluated == ["ask"]
        await run.resume()
        assert await run.result() == ["answered", "yes"]


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


async def test_a_resume_of_the_outer_run_lifts_only_parent_locks(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: an operator who paused the inner run too still has it."""
    stage = Stage()
    inner = kind.works(stage)
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        child = await only_child(rt, run)
        await run.pause()
        ack = await child.pause()
        assert (ack.transitioned, ack.locked) == (False, True)
        assert locks(await child.status()) == ["operator", "parent"]
        stage.open()
        await paused(child)
        await run.resume()
        await wait_all_tasks_blocked()
        assert locks(await child.status()) == ["operator"]
        status = await run.status()
        assert (status.state, locks(status)) == ("paused", ["child"])
        await child.resume()
        assert await run.result() == 2


async def test_a_pause_of_just_the_child_leaves_the_outer_run_alone_while_it_has_work(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 4: outer running while it has other work, then paused with the lock `child`."""
    stage, other = Stage(), Stage()
    inner = kind.works(other)
    flow = kind.asks_beside(stage, inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await other.wait_came()
        child = await only_child(rt, run)
        await child.pause(actor="ann")
        other.open()
        await paused(child)
        assert (await run.status()).state == "running"
        stage.open()
        outcome = await paused(run)
        status = await run.status()
        assert (locks(status), status.generation, outcome.holds) == (["child"], 2, ())
        assert [*kind.tree(run.id)[1:], child.id][0] in (status.reason or "")
        ack = await child.resume()
        assert (ack.transitioned, ack.generation) == (True, 3)
        assert await run.result() == [2, "worked"]
        assert (await run.status()).generation == 3


async def test_a_pause_of_the_only_child_pauses_the_outer_run_at_once(subject: Subject, kind: Kind) -> None:
    """spec engine, 2 (lock `child`): all that it waits for is a child that an operator paused."""
    stage = Stage()
    inner = kind.works(stage)
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await wait_all_tasks_blocked()
        child = await only_child(rt, run)
        await child.pause()
        status = await run.status()
        assert (status.state, locks(status), status.generation) == ("paused", ["child"], 2)
        stage.open()
        await paused(child)
        ack = await run.resume()  # lifts nothing of the child's
        assert (ack.transitioned, ack.generation) == (False, 2)
        assert locks(await child.status()) == ["operator"]
        await child.resume()
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
        with pytest.raises(FAILURES, match="cancelled"):
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
        with pytest.raises(FAILURES):
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
        with pytest.raises(FAILURES, match="boom") as caught:
            await run.settled()
        with pytest.raises(FAILURES) as own:
            await (await only_child(rt, run)).settled()
        assert caught.value is own.value or caught.value.__cause__ is own.value
        assert cause_of(own.value) is boom


async def test_answers_inside_count_at_any_depth(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: counted at any depth; Paused.resume is bound to the outer episode."""
    inner = kind.asks_each([{}, {}])
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        first = await paused(run)
        async with subject.refused(rt, AmbiguousAnswer, run):
            await run.resume("x")
        one, two = first.holds
        await first.resume("b", hold=two.id)
        second = await paused(run)
        assert [hold.id for hold in second.holds] == [one.id]
        async with subject.refused(rt, StaleGeneration, run):
            await first.resume("a")
        await second.resume("a")
        assert await run.result() == ["a", "b"]


async def test_a_plain_resume_of_the_outer_run_lets_untyped_holds_inside_go(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 4: without an answer: every hold that declared no type is let go, at any depth."""
    inner = kind.asks()
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        if subject.capabilities(rt).resumes_mid_statement:
            pytest.skip("a body goes on behind its pause; its own tests say so")
        run = await rt.start(flow, 1)
        first = await paused(run)
        ack = await run.resume()
        assert (ack.transitioned, ack.generation) == (True, 3)
        second = await paused(run)
        assert second.holds == first.holds
        assert kind.evaluated == ["ask", "ask"]


async def test_an_outer_run_pauses_although_another_inner_one_has_ended(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: when nothing of a run is runnable and a hold is open, the engine fences it."""
    inner = kind.asks()
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        await (await only_child(rt, run)).cancel()
        with pytest.raises(FAILURES):
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


async def test_a_graph_that_pauses_itself_stops_the_runs_inside_it(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: only a graph's own Transition.pause, or an operator, stops siblings."""
    if kind.name != "graph":
        pytest.skip("the hold of another kind suspends just its piece")
    gate, first, then = Stage(), Stage(), Stage()
    inner = kind.works(first, after=then)
    flow = kind.asks_over(inner, gate)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await gate.wait_came()
        await first.wait_came()
        child = await only_child(rt, run)
        gate.open()
        await wait_all_tasks_blocked()
        assert (locks(await run.status()), locks(await child.status())) == (["holds"], ["parent"])
        first.open()
        await paused(child)
        assert then.came == 0
        async with subject.refused(rt, Fenced, run):
            await child.resume()
        await child.reset()
        async with subject.refused(rt, Fenced, run):
            await child.resume()


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
