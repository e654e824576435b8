"""What does a resume lift, what does it let go, and what does it carry?"""

from __future__ import annotations

import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Completed, Paused
from quiesce.errors import (
    AmbiguousAnswer,
    AnswerRequired,
    NotResumable,
    StaleGeneration,
    UnknownHold,
)

from .kinds import Kind, Stage
from .subject import Subject, paused

pytestmark = pytest.mark.anyio


async def test_lifting_the_operator_s_lock_leaves_what_is_held(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: holds still wait and nothing else can run: same episode and generation."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        before = await paused(run)
        await run.pause()
        ack = await run.resume(request_id="r")
        assert (ack.transitioned, ack.generation, ack.episode_id) == (False, 2, before.episode)
        assert (ack.continued, ack.carried, ack.skipped) == (0, 0, 0)
        status = await run.status()
        assert (status.state, status.generation, status.episode_id) == ("paused", 2, before.episode)
        assert [lock.kind for lock in status.locks] == ["holds"]
        assert status.holds == before.holds
        assert kind.evaluated == ["ask"]


async def test_lifting_the_lock_with_an_answer_is_one_step(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: with an answer, settles that hold in the same transaction."""
    flow = kind.asks(expects=bool)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        await run.pause()
        ack = await run.resume(True)
        assert (ack.transitioned, ack.generation) == (True, 3)
        assert await run.settled() == Completed(["answered", True])


async def test_lifting_the_lock_carries_the_holds_of_others(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: an answer stored under the lock acts; the rest is carried."""
    flow = kind.asks_each([{}, {}])
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        one, two = (await paused(run)).holds
        await run.pause()
        await rt.answer(two.id, "b")
        del kind.evaluated[:]
        ack = await run.resume()
        # Branches are pieces of the run itself; what an agent asks at the same time is in runs of their own.
        pieces = (1, 1) if kind.name == "graph" else (1, 0)
        assert (ack.transitioned, ack.continued, ack.carried) == (True, *pieces)
        outcome = await paused(run)
        assert [hold.id for hold in outcome.holds] == [one.id]
        assert kind.evaluated == ["ask2"]


async def test_an_untyped_hold_is_let_go_and_may_ask_the_same_again(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: a graph gate is evaluated again, keeping its hold open if it asks the same again."""
    flow = kind.asks(payload={"n": 1})
    async with subject.open(flow) as rt:
        if subject.capabilities(rt).resumes_mid_statement:
            pytest.skip("a body goes on behind its pause; its own tests say so")
        run = await rt.start(flow, 1)
        first = await paused(run)
        subject.clock.advance(1)
        ack = await run.resume()
        assert (ack.transitioned, ack.generation) == (True, 3)
        second = await paused(run)
        assert second.holds == first.holds
        assert second.episode != first.episode
        assert (await run.status()).generation == 4
        assert kind.evaluated == ["ask", "ask"]


async def test_typed_holds_are_carried(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: every untyped hold is let go; typed ones are carried, not evaluated again."""
    flow = kind.asks_each([{}, {"expects": bool}, {}])
    async with subject.open(flow) as rt:
        if subject.capabilities(rt).resumes_mid_statement:
            pytest.skip("a body goes on behind its pause; its own tests say so")
        run = await rt.start(flow, 1)
        first = await paused(run)
        del kind.evaluated[:]
        ack = await run.resume()
        assert (ack.continued, ack.carried) == (2, 1)
        second = await paused(run)
        assert kind.evaluated == ["ask1", "ask3"]
        assert {hold.id for hold in second.holds} == {hold.id for hold in first.holds}


async def test_if_all_open_holds_are_typed_an_answer_is_required(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: AnswerRequired, naming the holds."""
    flow = kind.asks_each([{"expects": bool}, {"expects": int}])
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        outcome = await paused(run)
        async with subject.refused(rt, AnswerRequired, run) as caught:
            await run.resume()
        assert isinstance(caught.value, AnswerRequired)
        assert set(caught.value.open_holds) == {hold.id for hold in outcome.holds}
        async with subject.refused(rt, AnswerRequired, run):
            await outcome.resume()


async def test_an_answer_for_several_holds_is_ambiguous(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: several: AmbiguousAnswer listing them; hold= names it."""
    flow = kind.asks_each([{}, {}])
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        one, two = (await paused(run)).holds
        for act in (run.resume, run.answer):
            async with subject.refused(rt, AmbiguousAnswer, run) as caught:
                await act("a")
            assert isinstance(caught.value, AmbiguousAnswer)
            assert set(caught.value.open_holds) == {one.id, two.id}
        await run.resume("b", hold=two.id)
        outcome = await paused(run)
        assert [hold.id for hold in outcome.holds] == [one.id]
        await run.resume("a")
        assert await run.result() == ["a", "b"]


async def test_an_answer_where_nothing_is_asked_is_refused(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: none open: UnknownHold; the lock stays."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await run.pause()
        async with subject.refused(rt, UnknownHold, run):
            await run.resume("yes")
        async with subject.refused(rt, UnknownHold, run):
            await run.answer("yes")
        stage.open()


async def test_a_hold_of_another_run_is_refused(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: the answer is for a hold of this run, at any depth."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        one, two = await rt.start(flow, 1), await rt.start(flow, 2)
        (theirs,) = (await paused(two)).holds
        await paused(one)
        async with subject.refused(rt, UnknownHold, one, two):
            await one.resume("yes", hold=theirs.id)


async def test_an_episode_binds_a_resume_to_what_was_seen(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: if the run has moved on, StaleGeneration."""
    flow = kind.asks_in_turn(3)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, [])
        first = await paused(run)
        ack = await run.resume("a", episode=first.episode)
        assert (ack.transitioned, ack.episode_id) == (True, first.episode)
        await paused(run)
        async with subject.refused(rt, StaleGeneration, run) as caught:
            await run.resume("b", episode=first.episode)
        assert isinstance(caught.value, StaleGeneration)
        assert (caught.value.expected, caught.value.actual) == (
            first.episode,
            (await run.status()).episode_id,
        )


async def test_an_outcome_s_resume_is_bound_to_its_episode(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: so is Paused.resume; a double click answers one question."""
    flow = kind.asks_in_turn(2)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, [])
        first = await paused(run)
        second = await first.resume("a")
        assert isinstance(second, Paused)
        async with subject.refused(rt, StaleGeneration, run):
            await first.resume("a")
        assert await second.resume("b") == Completed(["a", "b"])
        async with subject.refused(rt, StaleGeneration, run):
            await second.resume("b")


async def test_a_running_run_with_a_living_driver_is_not_resumable(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: with a living holder: NotResumable; from another process too."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        async with subject.refused(rt, NotResumable, run):
            await run.resume()
        if subject.capabilities(rt).cross_process:
            async with subject.open(flow) as other, subject.refused(rt, NotResumable, run):
                await other.resume(run.id)
        stage.open()
        assert stage.came == 1


async def test_a_running_run_without_a_driver_is_claimed(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: of a running run with no holder: claims it, transitioned False."""
    flow = kind.adds()
    async with subject.open(flow, drive=False) as rt:
        subject.needs(rt, "cross_process")
        run = await rt.start(flow, 1)
    async with subject.open() as other:
        other.backend.host.flow_reference(flow)  # at hand, but not served: nothing claims it by itself
        assert (await other.status(run.id)).worker is None
        ack = await other.resume(run.id)
        assert (ack.transitioned, ack.generation) == (False, 1)
        assert await (await other.get(run.id)).result() == 2


async def test_a_takeover_takes_a_run_from_a_living_driver(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: takeover forces it; from then on the old one's writes are refused."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        ack = await run.takeover()
        assert (ack.transitioned, ack.generation) == (False, 1)
        await stage.wait_came(2)
        stage.open()
        assert await run.result() == 2
        assert kind.evaluated.count("then") == 1
        assert "taken-over" in await subject.kinds_of_events(rt, run.id)


async def test_a_takeover_by_another_runtime_ends_the_old_driver_s_writes(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 4: whoever hangs may wake up; it is stale then."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        subject.needs(rt, "cross_process")
        run = await rt.start(flow, 1)
        await stage.wait_came()
        async with subject.open(flow) as other:
            await other.takeover(run.id)
            await stage.wait_came(2)
            stage.open()
            theirs = await other.get(run.id)
            assert await theirs.result() == 2
            assert await run.result() == 2
            await wait_all_tasks_blocked()
            assert (await run.status()).generation == 1
            assert kind.evaluated.count("then") == 1
