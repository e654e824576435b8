"""What does a pause return or raise, for each way in which its hold can be settled?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from quiesce import Completed, Paused, RunState, Runtime, agent, ask_human, errors, pause
from quiesce.clock import ManualClock

pytestmark = pytest.mark.anyio


class Decision(BaseModel):
    approve: bool
    amount: int = 0


class Unspeakable: ...


@dataclass
class Place:
    street: str
    number: int


@pytest.mark.parametrize(
    ("expects", "given", "returned"),
    [
        (bool, True, True),
        (int, 3, 3),
        (float, 3, 3.0),
        (str, "x", "x"),
        (list[int], [1, 2], [1, 2]),
        (tuple[int, str], [1, "a"], (1, "a")),
        (datetime, "2030-01-01T00:00:00Z", datetime(2030, 1, 1, tzinfo=UTC)),
        (Decision, {"approve": True, "amount": 4}, Decision(approve=True, amount=4)),
        (Place, {"street": "a", "number": 1}, Place("a", 1)),
        (None, {"anything": [None, 0, ""]}, {"anything": [None, 0, ""]}),
    ],
)
async def test_an_answer_is_returned_as_the_declared_type(expects: Any, given: Any, returned: Any) -> None:
    """Source: spec engine, 4 (answer); spec agent, "Body and lifecycle"."""

    @agent
    def body() -> list[Any]:
        return [pause("r", expects=expects)]

    async with Runtime() as rt:
        outcome = await rt.run(body)
        done = await outcome.resume(given)  # type: ignore[union-attr]
        assert isinstance(done, Completed)
        assert done.value == [returned]
        assert type(done.value[0]) is type(returned)


async def test_an_answer_of_a_wrong_type_is_refused_and_the_body_still_waits() -> None:
    """Source: issue 4 (an answer of a wrong type: a clear error, nothing lost)."""

    @agent
    def body() -> bool:
        return ask_human("well?", expects=bool)

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        before = await outcome.run.status()
        with pytest.raises(errors.AnswerRejected):
            await outcome.run.answer("perhaps")
        assert await outcome.run.status() == before
        assert await outcome.resume(True) == Completed(True)


@pytest.mark.parametrize("answer", [None, False, 0, "", {}, []])
async def test_empty_answers_are_answers(answer: Any) -> None:
    """Source: spec engine, 4 (every JSON value is an answer)."""

    @agent
    def body() -> list[Any]:
        return [pause("r")]

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert await outcome.resume(answer) == Completed([answer])  # type: ignore[union-attr]
        assert [hold.state for hold in await rt.holds(outcome.run.id, None)] == ["answered"]  # type: ignore[union-attr]


async def test_a_plain_resume_of_a_typed_question_is_refused() -> None:
    """Source: spec engine, 4 (resume: if all open holds are typed, AnswerRequired)."""

    @agent
    def body() -> bool:
        return pause("r", expects=bool)

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        with pytest.raises(errors.AnswerRequired):
            await outcome.run.resume()
        assert await outcome.resume(False) == Completed(False)


async def test_a_rejection_is_raised_at_the_pause_and_may_be_caught() -> None:
    """Source: spec engine, 4 (`Rejected(message)` is raised at its pause)."""

    @agent
    def body() -> str:
        try:
            pause("spend?", expects=bool)
        except errors.Rejected as no:
            return f"rejected: {no}"
        return "approved"

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        await rt.reject(outcome.holds[0].id, "too much")
        assert await outcome.run.settled() == Completed("rejected: too much")


async def test_a_rejection_that_nobody_catches_fails_the_run() -> None:
    """Source: spec engine, 4; spec agent, "Body and lifecycle"."""

    @agent
    def body() -> None:
        pause("spend?")

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        await rt.reject(outcome.holds[0].id, "no")
        with pytest.raises(errors.Rejected, match="no"):
            await outcome.run.settled()


async def pass_time(clock: ManualClock, seconds: float) -> None:
    await anyio.wait_all_tasks_blocked()
    clock.advance(seconds)
    await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize(
    "deadline", [10.0, timedelta(seconds=10), datetime(2030, 1, 1, 0, 0, 10, tzinfo=UTC)]
)
async def test_a_deadline_that_fails_raises_expired_in_the_body(deadline: Any) -> None:
    """Source: spec engine, 4 (hold identity: on_deadline)."""
    clock = ManualClock()

    @agent
    def body() -> str:
        try:
            pause("soon?", deadline=deadline, on_deadline="fail")
        except errors.Expired:
            return "expired"
        return "answered"

    async with Runtime(clock=clock) as rt:
        run = await rt.start(body)
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        await pass_time(clock, 9.9)
        assert (await run.status()).state is RunState.PAUSED
        await pass_time(clock, 0.2)
        assert await run.settled() == Completed("expired")
        with pytest.raises(errors.Expired):
            await rt.answer(outcome.holds[0].id, True)


async def test_a_deadline_may_answer() -> None:
    """Source: spec engine, 4 (("answer", value), by the actor `deadline`)."""
    clock = ManualClock()

    @agent
    def body() -> bool:
        return pause("soon?", expects=bool, deadline=5, on_deadline=("answer", False))

    async with Runtime(clock=clock) as rt:
        run = await rt.start(body)
        await run.settled()
        await pass_time(clock, 6)
        assert await run.settled() == Completed(False)
        (hold,) = await rt.holds(run.id, None)
        assert (hold.state, hold.answered_by) == ("answered", "deadline")


async def test_a_deadline_that_holds_only_marks_the_hold_late() -> None:
    """Source: spec engine, 4 ("hold": stay open, marked late)."""
    clock = ManualClock()

    @agent
    def body() -> Any:
        return pause("soon?", deadline=5)

    async with Runtime(clock=clock) as rt:
        run = await rt.start(body)
        await run.settled()
        await pass_time(clock, 6)
        (hold,) = (await run.status()).holds
        assert (hold.state, hold.late) == ("open", True)
        await run.resume("late")
        assert await run.settled() == Completed("late")


async def test_an_operator_pause_delays_what_a_deadline_does() -> None:
    """Source: spec engine, 4 (it runs on while an operator lock is on, and acts when the lock is lifted)."""
    clock = ManualClock()

    @agent
    def body() -> str:
        try:
            pause("soon?", deadline=5, on_deadline="fail")
        except errors.Expired:
            return "expired"
        return "answered"

    async with Runtime(clock=clock) as rt:
        run = await rt.start(body)
        await run.settled()
        await run.pause()
        await pass_time(clock, 6)
        assert (await run.status()).state is RunState.PAUSED
        await run.resume()
        assert await run.settled() == Completed("expired")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"deadline": datetime(2030, 1, 1)}, "no time zone"),
        ({"deadline": -1}, "lies ahead"),
        ({"on_deadline": "explode"}, "on_deadline is"),
    ],
)
async def test_a_deadline_that_means_nothing_is_refused_where_it_is_written(
    options: dict[str, Any], told: str
) -> None:
    """Source: issue 4 (bad input: a clear error at the earliest moment)."""

    @agent
    def body() -> None:
        pause("r", **options)

    async with Runtime() as rt:
        with pytest.raises(ValueError, match=told):
            await rt.run(body)


async def test_what_cannot_be_shown_or_asked_for_is_refused_in_the_body() -> None:
    """Source: spec engine, 6 (values); the run is not paused by a question that failed."""

    @agent
    def body() -> str:
        for options in ({"payload": object()}, {"expects": Unspeakable}):
            with pytest.raises(errors.NotSerializable):
                pause("r", **options)
        return "went on"

    async with Runtime() as rt:
        assert await rt.run(body) == Completed("went on")


async def test_a_key_names_the_hold() -> None:
    """Source: spec engine, 4 (hold identity: path, key or ordinal)."""

    @agent
    def body() -> None:
        pause("first", key="one", payload={"shown": 1})
        pause("second", key="two")

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        (hold,) = outcome.holds
        assert (hold.path, hold.key, hold.payload) == ("body/one", "one", {"shown": 1})
        outcome = await outcome.resume()
        assert isinstance(outcome, Paused)
        assert outcome.holds[0].path == "body/two"
        await outcome.resume()
