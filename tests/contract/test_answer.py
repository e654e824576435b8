"""What does an answer settle, once, and what does it let go on?"""

from __future__ import annotations

from typing import Any

import pytest
from anyio import create_task_group, wait_all_tasks_blocked

from quiesce import AnswerAck, Completed
from quiesce.errors import (
    AlreadyAnswered,
    AnswerRejected,
    IllegalTransition,
    QuiesceError,
    UnknownHold,
    Withdrawn,
)

from .kinds import FAILURES, Kind, Stage
from .subject import Subject, paused

pytestmark = pytest.mark.anyio

JSON = [None, False, True, 0, 1, -1.5, "", "text", "é\u2028", [], {}, [None], {"": [{}, 0]}, 2**60]


@pytest.mark.parametrize("value", JSON, ids=repr)
async def test_every_json_value_is_an_answer(subject: Subject, kind: Kind, value: Any) -> None:
    """spec engine, 4: every JSON value, None, False, 0, "" and {} included, is an answer."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        ack = await rt.answer(hold.id, value, actor="ann")
        assert (ack.state, ack.resumed, ack.hold_id) == ("answered", True, hold.id)
        given = await run.result()
        assert given == ["answered", value]
        assert type(given[1]) is type(value)
        (settled,) = await rt.holds(run.id, None)
        assert (settled.state, settled.answer, settled.answered_by) == ("answered", value, "ann")
        assert type(settled.answer) is type(value)


async def test_an_answer_is_the_resume_too(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: no lock but `holds`: generation+1, the answered piece continues."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        outcome = await paused(run)
        (hold,) = outcome.holds
        subject.clock.advance(5)
        ack = await rt.answer(hold.id, "yes", request_id="r")
        assert ack == AnswerAck(
            request_id="r",
            run_id=hold.run_id,
            transitioned=True,
            generation=3,
            hold_id=hold.id,
            state="answered",
            resumed=True,
        )
        assert await run.settled() == Completed(["answered", "yes"])
        (receipt,) = await rt.receipts(outcome.episode)
        assert receipt.outcome == "continued"
        (settled,) = await rt.holds(run.id, "answered")
        assert settled.answered_at == subject.clock.now()
        assert kind.evaluated == ["ask", "ask"]


FITS = [(bool, True), (int, 3), (str, "x"), (list[int], [1]), (dict[str, int], {"a": 1}), (int | None, None)]
MISFITS: list[tuple[Any, Any]] = [
    (bool, 1),
    (bool, "true"),
    (bool, None),
    (int, "3"),
    (int, 1.5),
    (int, True),
    (str, 1),
    (list[int], ["a"]),
    (list[int], None),
    (dict[str, int], {"a": "b"}),
]


@pytest.mark.parametrize(("expects", "value"), FITS, ids=repr)
async def test_an_answer_of_the_declared_type_is_taken(
    subject: Subject, kind: Kind, expects: Any, value: Any
) -> None:
    """spec engine, 4: the value is validated against the hold's declared type."""
    flow = kind.asks(expects=expects)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        assert isinstance(hold.expects, dict)
        await rt.answer(hold.id, value)
        assert await run.result() == ["answered", value]


@pytest.mark.parametrize(("expects", "value"), MISFITS, ids=repr)
@pytest.mark.parametrize("verb", ["answer", "resume"])
async def test_an_answer_of_another_type_changes_nothing(
    subject: Subject, kind: Kind, expects: Any, value: Any, verb: str
) -> None:
    """spec engine, 4: AnswerRejected with the validator's message, nothing changed."""
    flow = kind.asks(expects=expects)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        async with subject.refused(rt, AnswerRejected, run) as caught:
            if verb == "answer":
                await rt.answer(hold.id, value)
            else:
                await run.resume(value)
        assert str(caught.value).startswith("answer")
        assert kind.evaluated == ["ask"]


async def test_a_refused_answer_lifts_no_lock(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: a resume with an answer is one transaction: all of it, or nothing."""
    flow = kind.asks(expects=bool)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        await run.pause()
        for hold_id in (None, hold.id):
            async with subject.refused(rt, AnswerRejected, run):
                await run.resume("maybe", hold=hold_id)
        async with subject.refused(rt, UnknownHold, run):
            await run.resume(True, hold="nothing")
        assert {lock.kind for lock in (await run.status()).locks} == {"holds", "operator"}


async def test_an_unknown_hold_lists_the_open_ones(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: UnknownHold listing the open ones."""
    flow = kind.asks_each([{}, {}])
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        ids = [hold.id for hold in (await paused(run)).holds]
        for verb in (rt.answer, rt.reject):
            async with subject.refused(rt, UnknownHold, run) as caught:
                await verb("nothing", "x")
            assert isinstance(caught.value, UnknownHold)
            assert sorted(caught.value.open_holds) == sorted(ids)
            assert all(hold_id in str(caught.value) for hold_id in ids)


@pytest.mark.parametrize("rejected", [False, True])
async def test_a_settled_hold_says_who_when_and_what(subject: Subject, kind: Kind, rejected: bool) -> None:
    """spec engine, 4: AlreadyAnswered, with who, when, what; judged before the run's state."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        await (rt.reject if rejected else rt.answer)(hold.id, "first", actor="ann")
        at = subject.clock.now()
        await run.settled()
        subject.clock.advance(9)
        for verb in (rt.answer, rt.reject):
            async with subject.refused(rt, AlreadyAnswered, run) as caught:
                await verb(hold.id, "second", actor="bob")
            assert isinstance(caught.value, AlreadyAnswered)
            assert (caught.value.by, caught.value.value) == ("ann", "first")
            assert caught.value.at == at.isoformat(timespec="seconds")
        async with subject.refused(rt, AlreadyAnswered, run):
            await run.resume("second", hold=hold.id)


@pytest.mark.parametrize("verb", ["cancel", "reset"])
async def test_a_hold_of_a_run_that_gave_up_is_withdrawn(subject: Subject, kind: Kind, verb: str) -> None:
    """spec engine, 4: cancel and reset withdraw holds; Withdrawn comes before the run's state."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        await getattr(run, verb)()
        (withdrawn,) = await rt.holds(run.id, None)
        assert (withdrawn.id, withdrawn.state) == (hold.id, "withdrawn")
        assert list(await rt.holds()) == []
        async with subject.refused(rt, Withdrawn, run):
            await rt.answer(hold.id, 1)
        async with subject.refused(rt, Withdrawn, run):
            await run.resume(1, hold=hold.id)


async def test_of_two_callers_exactly_one_wins(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: two callers: exactly one wins, one effect."""
    flow = kind.asks()
    got: list[Any] = []
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds

        async def call(value: int) -> None:
            try:
                got.append((value, (await rt.answer(hold.id, value)).state))
            except QuiesceError as error:
                got.append((value, type(error)))

        async with create_task_group() as group:
            for value in range(4):
                group.start_soon(call, value)
        winners = [value for value, result in got if result == "answered"]
        assert len(winners) == 1
        assert [result for _, result in got].count(AlreadyAnswered) == 3
        assert await run.result() == ["answered", winners[0]]
        assert kind.evaluated == ["ask", "ask"]


async def test_of_two_runtimes_exactly_one_wins(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: also from two processes."""
    flow = kind.asks()
    got: list[Any] = []
    async with subject.open(flow) as rt:
        subject.needs(rt, "cross_process")
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        async with subject.open(drive=False) as other:

            async def call(runtime: Any, value: str) -> None:
                try:
                    got.append((value, (await runtime.answer(hold.id, value)).state))
                except QuiesceError as error:
                    got.append((value, type(error)))

            async with create_task_group() as group:
                group.start_soon(call, rt, "ours")
                group.start_soon(call, other, "theirs")
        assert sorted(str(result) for _, result in got) == sorted([str(AlreadyAnswered), "answered"])
        (winner,) = [value for value, result in got if result == "answered"]
        assert await run.result() == ["answered", winner]


async def test_an_answer_under_an_operator_s_lock_acts_when_it_is_lifted(
    subject: Subject, kind: Kind
) -> None:
    """spec engine, 4: stored at once, acts when the lock is lifted."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        outcome = await paused(run)
        await run.pause()
        ack = await rt.answer(outcome.holds[0].id, "yes", actor="ann")
        assert (ack.transitioned, ack.resumed, ack.generation, ack.state) == (False, False, 2, "answered")
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.generation, status.episode_id) == ("paused", 2, outcome.episode)
        assert [lock.kind for lock in status.locks] == ["operator"]
        assert status.holds == ()
        assert kind.evaluated == ["ask"]
        (settled,) = await rt.holds(run.id, None)
        assert (settled.state, settled.answered_by) == ("answered", "ann")
        resumed = await run.resume()
        assert (resumed.transitioned, resumed.generation) == (True, 3)
        assert await run.result() == ["answered", "yes"]
        assert kind.evaluated == ["ask", "ask"]


async def test_one_of_several_answers_evaluates_that_piece_alone(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: the others are carried: same hold ids, not evaluated again, re-listed; graph.md 7."""
    flow = kind.asks_each([{}, {}, {}])
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        first = await paused(run)
        one, two, three = first.holds
        del kind.evaluated[:]
        await rt.answer(two.id, "b")
        second = await paused(run)
        assert kind.evaluated == ["ask2"]
        assert [hold.id for hold in second.holds] == [one.id, three.id]
        assert second.episode != first.episode
        assert (await run.status()).generation == 4
        outcomes = sorted(receipt.outcome or "" for receipt in await rt.receipts(first.episode))
        if subject.capabilities(rt).survives_restart:  # a memory store keeps a run's last episode
            # What an agent asks at the same time is asked by runs of their own, so it is not in its episode.
            expected = ["carried", "carried", "continued"] if kind.name == "graph" else ["continued"]
            assert outcomes == expected
        await rt.answer(one.id, "a")
        await paused(run)
        await rt.answer(three.id, "c")
        assert await run.result() == ["a", "b", "c"]
        assert kind.evaluated == ["ask2", "ask1", "ask3"]


async def test_an_answer_while_other_pieces_work_queues_just_its_piece(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: while the run is running the waiting piece is queued; generation unchanged."""
    stage = Stage()
    inner = kind.asks()
    flow = kind.asks_beside(stage, inner)
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.generation) == ("running", 1)
        (hold,) = status.holds
        await rt.answer(hold.id, "yes")
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.generation, status.holds) == ("running", 1, ())
        stage.open()
        assert await run.result() == [["answered", "yes"], "worked"]
        assert stage.came == 1


async def test_a_rejection_is_seen_by_what_asked(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: a rejection settles a hold the same way; a graph's node sees ctx.rejected."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        ack = await rt.reject(hold.id, "not on a Friday", actor="ann")
        assert (ack.state, ack.resumed, ack.transitioned, ack.generation) == ("rejected", True, True, 3)
        assert await run.result() == ["rejected", "not on a Friday"]
        (settled,) = await rt.holds(run.id, None)
        assert (settled.state, settled.answer, settled.answered_by) == ("rejected", "not on a Friday", "ann")


async def test_a_rejection_needs_no_type(subject: Subject, kind: Kind) -> None:
    """spec engine, 4: the declared type is the answer's."""
    flow = kind.asks(expects=bool)
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
        await rt.reject(hold.id, "no")
        assert await run.result() == ["rejected", "no"]


async def test_a_hold_of_a_failed_run_says_retry_first(subject: Subject, kind: Kind) -> None:
    """spec engine, 3: holds stay open but leave the inbox; answering one is refused with "retry first"."""
    stage = Stage()
    inner = kind.asks()
    flow = kind.fails_beside(stage, inner, ValueError("boom"))
    async with subject.open(flow, inner) as rt:
        run = await rt.start(flow, 1)
        await stage.wait_came()
        await wait_all_tasks_blocked()
        (hold,) = (await run.status()).holds
        stage.open()
        with pytest.raises(FAILURES):
            await run.settled()
        assert list(await rt.holds()) == []
        assert (await run.status()).holds == ()
        assert [item.state for item in await rt.holds(hold.run_id, None)] == ["open"]
        for verb in (rt.answer, rt.reject):
            async with subject.refused(rt, IllegalTransition, run) as caught:
                await verb(hold.id, "x")
            assert "retry" in str(caught.value)
