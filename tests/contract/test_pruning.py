"""What does a store forget when it is pruned, and what does it keep?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from quiesce.errors import RequestConflict, RunCancelled, RunNotFound

from .kinds import Kind, Stage
from .subject import Subject, only_child, outermost, paused

pytestmark = pytest.mark.anyio

DAY = 86_400.0


async def test_what_ended_long_ago_is_forgotten_with_all_that_it_had(subject: Subject, kind: Kind) -> None:
    """spec engine, 6: ended runs older than a given age; nothing that is read shows them afterwards."""
    asks, adds = kind.asks(), kind.adds()
    async with subject.open(asks, adds) as rt:
        old = await rt.start(asks, 1)
        (hold,) = (await paused(old)).holds
        await rt.answer(hold.id, "yes")
        await old.settled()
        subject.clock.advance(DAY)
        new = await rt.start(adds, 1)
        await new.settled()
        assert await rt.prune(subject.clock.now() - timedelta(hours=1)) == kind.tree(old.id)
        with pytest.raises(RunNotFound):
            await rt.status(old.id)
        assert [run.id for run in await outermost(rt)] == [new.id]
        assert list(await rt.holds(state=None)) == []
        assert {event.run_id for event in await subject.events(rt)} <= set(kind.tree(new.id))
        assert await rt.prune(subject.clock.now() - timedelta(hours=1)) == []


async def test_the_age_is_that_of_the_last_thing_that_happened(subject: Subject, kind: Kind) -> None:
    """A run that began long ago and ended a moment ago is not old."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        subject.clock.advance(30 * DAY)
        await rt.answer(hold.id, "yes")
        await run.settled()
        assert await rt.prune(subject.clock.now() - timedelta(days=1)) == []
        assert await rt.prune(subject.clock.now()) == []  # not before this very instant
        subject.clock.advance(1)
        assert await rt.prune(subject.clock.now()) == kind.tree(run.id)


@pytest.mark.parametrize("state", ["created", "running", "paused"])
async def test_what_has_not_ended_is_never_forgotten(subject: Subject, kind: Kind, state: str) -> None:
    """spec engine, 6: never a run that is not ended, however old it is."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.create(flow) if state == "created" else await rt.start(flow, 1)
        if state != "created":
            await stage.wait_came()
        if state == "paused":
            await run.pause()
        subject.clock.advance(1000 * DAY)
        assert await rt.prune(subject.clock.now()) == []
        assert (await run.status()).state == state
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.settled()
        subject.clock.advance(DAY)
        assert await rt.prune(subject.clock.now()) == ([run.id] if state == "created" else kind.tree(run.id))


async def test_runs_inside_a_run_are_forgotten_with_it_and_never_alone(subject: Subject, kind: Kind) -> None:
    """A tree goes as a whole: what is inside is part of what its outer run tells."""
    inner = kind.adds()
    middle = kind.encloses(inner)
    flow = kind.encloses(middle)
    async with subject.open(flow, middle, inner) as rt:
        run = await rt.start(flow, 1)
        await run.settled()
        subject.clock.advance(DAY)
        assert await rt.prune(subject.clock.now()) == subject.inside(run.id, 2)
        assert list(await rt.list()) == []


async def test_a_failed_run_stays_while_a_run_inside_it_could_be_brought_back(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 3: a failing run suspends its descendants; a retry brings them back."""
    stage = Stage()
    inner = kind.asks()
    flow = kind.fails_beside(stage, inner, ValueError("boom"))
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        stage.open()
        with pytest.raises(Exception, match="boom"):
            await run.settled()
        assert (await (await only_child(rt, run)).status()).state == "paused"
        subject.clock.advance(DAY)
        assert await rt.prune(subject.clock.now()) == []
        assert len(await outermost(rt)) == 1


async def test_a_request_id_answers_what_it_answered_though_its_run_is_forgotten(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 6: request ids leave a tombstone; 4: for ever."""
    flow = kind.adds()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1, request_id="begin")
        await run.settled()
        subject.clock.advance(DAY)
        assert await rt.prune(subject.clock.now()) == kind.tree(run.id)
        assert (await rt.start(flow, 1, request_id="begin")).id == run.id
        with pytest.raises(RequestConflict):
            await rt.start(flow, 2, request_id="begin")
        assert list(await rt.list()) == []
