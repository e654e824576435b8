"""Are the facts that `flowctl show`, `explain` and `status` tell those of the run?"""

from __future__ import annotations

import pytest

from quiesce.insight import explain, overview, view, where

from .kinds import Kind, Stage
from .subject import Subject, only_child, paused

pytestmark = pytest.mark.anyio


async def test_nothing_changes_by_looking(subject: Subject, kind: Kind) -> None:
    """spec engine, 7 (explain): no side effects."""
    flow = kind.asks(reason="why?")
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        before = await subject.dump(rt, run.id)
        host = rt.backend.host
        view(host, run.id, events=5)
        explain(host, run.id)
        where(host, run.id)
        overview(host)
        assert await subject.dump(rt, run.id) == before


async def test_a_view_has_the_pieces_the_receipts_and_the_newest_events(subject: Subject, kind: Kind) -> None:
    """spec engine, 7 (show)."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        seen = view(rt.backend.host, run.id, events=2)
        (piece,) = seen.pieces
        (receipt,) = seen.receipts
        assert receipt.piece == piece.piece
        if kind.name == "team":  # which asks in the body of its turn
            assert (piece.state, piece.child) == ("waiting", kind.tree(run.id)[-1])
            (asking,) = view(rt.backend.host, kind.tree(run.id)[-1], events=0).pieces
            assert (asking.state, asking.hold) == ("held", hold.id)
        else:
            assert (piece.state, piece.hold) == ("held", hold.id)
        assert list(seen.events) == (await subject.events(rt, run.id))[-2:]
        assert view(rt.backend.host, run.id, events=0).events == ()
        assert list(view(rt.backend.host, run.id, events=10_000).events) == await subject.events(rt, run.id)


@pytest.mark.parametrize("typed", [True, False])
async def test_what_a_resume_evaluates_again_is_what_it_evaluates(
    subject: Subject, kind: Kind, typed: bool
) -> None:
    """spec engine, 4 (resume): typed questions are carried, the others let go."""
    if kind.name != "graph":
        pytest.skip("a body is not evaluated again")
    questions = [{"expects": bool} if typed else {}, {"expects": bool}]
    flow = kind.asks_each(questions)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        told = explain(rt.backend.host, run.id)
        assert (len(told.again), len(told.carried)) == ((0, 2) if typed else (1, 1))
        assert told.code.fits is True
        before = len(kind.evaluated)
        if not typed:
            await run.resume()
            await paused(run)
        assert len(kind.evaluated) - before == len(told.again)


async def test_under_an_operators_lock_a_resume_only_lifts_it(subject: Subject, kind: Kind) -> None:
    """spec engine, 4 (resume): with the operator lock on it lifts that, and holds still wait."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        await run.pause(reason="maintenance")
        told = explain(rt.backend.host, run.id)
        assert (told.again, len(told.carried)) == ((), 1)
        before = list(kind.evaluated)
        await run.resume()
        await paused(run)
        assert kind.evaluated == before


async def test_what_drains_is_told_until_its_bound_and_overdue_from_then_on(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 2 (drain): draining, quiescent, overdue."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await rt.pause(run.id, drain_timeout=5.0)
        told = explain(rt.backend.host, run.id)
        assert (len(told.draining), len(told.overdue)) == (1, 0)
        assert sorted(overview(rt.backend.host).draining) == kind.tree(run.id)
        subject.clock.advance(5.0)
        told = explain(rt.backend.host, run.id)
        assert (len(told.draining), len(told.overdue)) == (0, 1)
        stage.open()
        await paused(run)
        await rt.status(run.id)


async def test_an_inner_run_is_told_which_run_keeps_it(subject: Subject, kind: Kind) -> None:
    """spec engine, 4 (nesting): pausing the outer gives every descendant the lock `parent`."""
    inner = kind.asks()
    flow = kind.encloses(inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        child = await only_child(rt, run)
        assert explain(rt.backend.host, child.id).fenced_by is None
        assert [text.rpartition(" ")[2] for text in explain(rt.backend.host, run.id).waiting] == [
            next(iter([*kind.tree(run.id)[1:], child.id]))
        ]
        await run.pause()
        assert explain(rt.backend.host, child.id).fenced_by == kind.tree(run.id)[-1]


async def test_what_failed_is_told_to_be_evaluated_again(subject: Subject, kind: Kind) -> None:
    """spec engine, 4 (retry): it continues from the point that failed."""
    if kind.name != "graph":
        pytest.skip("a body goes on over its journal; its rehearsal says where")
    flow = kind.fails(ValueError("boom"))
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        with pytest.raises(Exception, match="boom"):
            await run.settled()
        told = explain(rt.backend.host, run.id)
        if rt.backend.host.store.durable:  # a memory store keeps no visits, so it cannot tell
            assert (told.again, told.fresh) == (("second",), ())
        assert (*told.again, *told.fresh) == ("second",)


async def test_a_store_is_told_by_its_counts(subject: Subject, kind: Kind) -> None:
    flow = kind.asks()
    async with subject.open(flow) as rt:
        runs = [await rt.start(flow, number) for number in range(3)]
        for run in runs:
            await paused(run)
        await runs[0].cancel()
        seen = overview(rt.backend.host)
        each = len(kind.tree(runs[0].id))
        assert seen.counts == {"paused": 2 * each, "cancelled": each}
        assert (seen.open_holds, seen.dead, seen.unclaimed) == (2, (), ())
        (piece,) = view(rt.backend.host, runs[1].id, events=0).pieces
        assert where(rt.backend.host, runs[1].id) == {
            piece.name: {"waiting" if kind.name == "team" else "paused": 1}
        }
