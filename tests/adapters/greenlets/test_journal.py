"""Does a durable body follow its journal in a new runtime: what is given back, what is unknown, what differs?

Every `Runtime` here has nothing but the store in common with the one before. Source: spec agent, "Steps and
the journal".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import (
    Completed,
    Paused,
    Run,
    RunState,
    Runtime,
    agent,
    ask_human,
    current_run,
    current_step,
    errors,
    gather,
    pause,
    sleep,
    step,
)
from quiesce.agent import Agent
from quiesce.clock import ManualClock, SystemClock
from quiesce.rules import fence
from quiesce.rules.requests import Request
from quiesce_adapters.sqlite.queue import FairQueue
from quiesce_adapters.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio


class Refused(Exception):
    """An error with a fact of its own."""

    def __init__(self, amount: int) -> None:
        self.amount = amount
        super().__init__(f"{amount} refused")


async def settled(run: Run) -> Any:
    with anyio.fail_after(20):
        return await run.settled()


async def paused(run: Run) -> Paused:
    outcome = await settled(run)
    assert isinstance(outcome, Paused)
    return outcome


def entries(db: Path, *, aside: bool = False) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(db)
    try:
        where = "aside > 0" if aside else "aside = 0"
        query = f"SELECT position, kind, name, state FROM journal WHERE {where} ORDER BY position"
        return connection.execute(query).fetchall()
    finally:
        connection.close()


VALUES = [None, False, 0, "", [], {}, (), b"", {"a": (1, 2)}]


async def test_every_result_comes_back_as_it_was(db: Path) -> None:
    """spec agent, journal: None, empty and falsy results are recorded exactly, and no step is done twice."""
    done: list[str] = []

    @step
    def give(number: int) -> Any:
        done.append(str(number))
        return VALUES[number]

    @agent
    def body() -> Any:
        found = [give(number) for number in range(len(VALUES))]
        pause("look")
        return found

    async with Runtime(db, flows=[body]) as rt:
        run = await rt.start(body, run_id="r")
        await paused(run)
    async with Runtime(db, flows=[body]) as rt:
        await rt.resume("r")
        assert await settled(Run(rt, "r")) == Completed(VALUES)
    assert done == [str(number) for number in range(len(VALUES))]


async def test_the_error_of_a_step_is_the_same_in_another_runtime(db: Path) -> None:
    """spec agent, journal: an error is recorded, and raised again with its type, text and facts."""
    seen: list[tuple[type, str, int]] = []

    @step
    def charge(amount: int) -> None:
        raise Refused(amount)

    @agent
    def body() -> str:
        try:
            charge(7)
        except Refused as error:
            seen.append((type(error), str(error), error.amount))
        return str(ask_human("and now?"))

    async with Runtime(db, flows=[body]) as rt:
        await paused(await rt.start(body, run_id="r"))
    async with Runtime(db, flows=[body]) as rt:
        await rt.get("r")
        await Run(rt, "r").answer("go")
        assert await settled(Run(rt, "r")) == Completed("go")
    assert seen == [(Refused, "7 refused", 7)] * 2


async def test_an_error_that_cannot_be_kept_is_told_at_once(db: Path) -> None:
    """spec engine, 6: what does not round-trip is refused where it happens, not in the next process."""

    class Local(Exception):
        pass

    @step
    def charge() -> None:
        raise Local("no")

    @agent
    def body() -> str:
        try:
            charge()
        except errors.StepFailed as error:
            return f"{error} ({type(error.__cause__).__name__})"
        return "no error"

    async with Runtime(db, flows=[body]) as rt:
        assert await rt.run(body) == Completed("step 'charge' failed: Local: no (Local)")


async def test_a_result_that_cannot_be_stored_is_an_error_of_its_step(db: Path) -> None:
    """spec engine, 6: refused at save, with the place; the effect is not repeated for it."""
    done: list[int] = []

    @step
    def opens() -> Any:
        done.append(1)
        return object()

    @agent
    def body() -> str:
        try:
            opens()
        except errors.NotSerializable as error:
            return f"{error.place} {ask_human('go on?')}"
        return "stored"

    async with Runtime(db, flows=[body]) as rt:
        await paused(await rt.start(body, run_id="r"))
    async with Runtime(db, flows=[body]) as rt:
        await Run(rt, "r").answer("yes")
        assert await settled(Run(rt, "r")) == Completed("result of step 'opens' yes")
    assert done == [1]


async def test_arguments_that_cannot_be_stored_are_refused_before_the_effect(db: Path) -> None:
    """issue 4, bad input: the earliest moment is the call, and the body may go on."""
    done: list[int] = []

    @step
    def uses(thing: object) -> None:
        done.append(1)

    @agent
    def body() -> str:
        with pytest.raises(errors.NotSerializable, match=r"argument 'thing' of step 'uses'"):
            uses(object())
        return "went on"

    async with Runtime(db, flows=[body]) as rt:
        assert await rt.run(body) == Completed("went on")
    assert done == []


async def test_a_paused_agent_is_not_created_again_until_it_is_answered(db: Path) -> None:
    """spec agent, journal: after a restart paused agents cost disk, not memory or start-up time."""
    created: list[int] = []

    @agent
    def body(number: int) -> int:
        created.append(number)
        pause("wait")
        return number

    async with Runtime(db, flows=[body]) as rt:
        for number in range(3):
            await paused(await rt.start(body, number, run_id=f"r{number}"))
    del created[:]
    async with Runtime(db, flows=[body]) as rt:
        assert {(await rt.status(f"r{number}")).recoverable for number in range(3)} == {"stored"}
        await rt.resume("r1")
        assert await settled(Run(rt, "r1")) == Completed(1)
    assert created == [1]


def changed(first: Callable[..., Any], then: Callable[..., Any]) -> tuple[Agent[..., Any], Agent[..., Any]]:
    """The same flow before and after an edit."""
    return agent(name="body")(first), agent(name="body")(then)


@step
def fetch(name: str) -> str:
    FETCHED.append(name)
    return name.upper()


FETCHED: list[str] = []


def before() -> str:
    one = fetch("a")
    two = fetch("b")
    return f"{one}{two}{ask_human('go on?')}"


def after() -> str:
    one = fetch("a")
    two = fetch("c")
    return f"{one}{two}{ask_human('go on?')}"


async def test_changed_code_is_held_with_position_expected_and_got(db: Path) -> None:
    """spec agent, journal: divergence pauses the run under the lock fault; it is not failed."""
    old, new = changed(before, after)
    async with Runtime(db, flows=[old]) as rt:
        await paused(await rt.start(old, run_id="r"))
    async with Runtime(db, flows=[new]) as rt:
        await Run(rt, "r").answer("!")
        outcome = await paused(Run(rt, "r"))
        status = await rt.status("r")
        assert [lock.kind for lock in status.locks] == ["fault"]
        for told in ("position 2", "expected step 'fetch'", "got step 'fetch' with other arguments"):
            assert told in (outcome.reason or "")
        assert not (await rt.resume("r")).transitioned, "the fault stands"
    async with Runtime(db, flows=[old]) as rt:
        await rt.resume("r")
        assert await settled(Run(rt, "r")) == Completed("AB!"), "old code is a way on"


async def test_changed_code_goes_on_from_the_last_record_that_fits(db: Path) -> None:
    """spec agent, journal: retry(accept_changes=True) sets the rest aside, where it is shown."""
    old, new = changed(before, after)
    async with Runtime(db, flows=[old]) as rt:
        await paused(await rt.start(old, run_id="r"))
    del FETCHED[:]
    async with Runtime(db, flows=[new]) as rt:
        await Run(rt, "r").answer("lost")
        await paused(Run(rt, "r"))
        await rt.retry("r", accept_changes=True)
        outcome = await paused(Run(rt, "r"))
        assert outcome.reason == "go on?", "asked again, since the old question is set aside"
        await Run(rt, "r").answer("?")
        assert await settled(Run(rt, "r")) == Completed("AC?")
    assert FETCHED == ["c"]
    assert [entry[:3] for entry in entries(db, aside=True)] == [(2, "step", "fetch"), (3, "ask", "go on?")]


async def test_a_body_that_ends_too_early_is_held(db: Path) -> None:
    """spec agent, journal: an end, or an error, where the journal has more is a difference."""

    def shorter() -> str:
        return fetch("a")

    old, new = changed(before, shorter)
    async with Runtime(db, flows=[old]) as rt:
        await paused(await rt.start(old, run_id="r"))
    async with Runtime(db, flows=[new]) as rt:
        await Run(rt, "r").answer("!")
        outcome = await paused(Run(rt, "r"))
        assert "position 2 of the journal: expected step 'fetch', got the end of the body" in str(
            outcome.reason
        )


async def test_a_changed_signature_is_refused_with_a_difference(db: Path) -> None:
    """spec agent, journal; spec engine, 4: changed parameters are FlowChanged, before anything runs."""

    def more(extra: int = 0) -> str:
        return before()

    old, new = changed(before, more)
    async with Runtime(db, flows=[old]) as rt:
        await paused(await rt.start(old, run_id="r"))
    async with Runtime(db, flows=[new]) as rt:
        with pytest.raises(errors.FlowChanged, match="parameter 'extra' was added"):
            await Run(rt, "r").answer("!")
        await rt.retry("r", accept_changes=True)
        await Run(rt, "r").answer("!")
        assert await settled(Run(rt, "r")) == Completed("AB!")


async def test_a_retry_does_again_what_failed_and_nothing_before_it(db: Path) -> None:
    """spec engine, 4 (retry): recorded steps are not run again; the failed one is, with the same key."""
    keys: list[str] = []
    broken = [True]
    del FETCHED[:]

    @step
    def charge() -> str:
        keys.append(current_step().key)
        if broken[0]:
            raise Refused(1)
        return "charged"

    @agent
    def body() -> str:
        fetch("a")
        try:
            return charge()
        except Refused:
            fetch("apology")
            raise

    async with Runtime(db, flows=[body]) as rt:
        with pytest.raises(Refused):
            await rt.run(body, run_id="r")
    broken[0] = False
    async with Runtime(db, flows=[body]) as rt:
        await rt.retry("r")
        assert await settled(Run(rt, "r")) == Completed("charged")
    assert FETCHED == ["a", "apology"]
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_the_others_of_a_failed_group_are_not_done_twice(db: Path) -> None:
    """spec agent, journal, gather: what was done beside the step that failed stays done."""
    done: list[str] = []
    broken = [True]
    went = anyio.Event()

    @step
    async def good() -> str:
        done.append("good")
        return "good"

    @step
    async def bad() -> str:
        await went.wait()
        if broken[0]:
            raise Refused(2)
        return "bad"

    @step
    async def slow() -> str:
        done.append("slow")
        went.set()
        if broken[0]:
            await anyio.sleep_forever()
        return "slow"

    @agent
    def body() -> list[str]:
        return gather(good(), bad(), slow())

    async with Runtime(db, flows=[body]) as rt:
        with pytest.raises(Refused):
            await rt.run(body, run_id="r")
    assert [entry[3] for entry in entries(db)] == ["done", "fatal", "cancelled"]
    broken[0] = False
    async with Runtime(db, flows=[body]) as rt:
        await rt.retry("r")
        assert await settled(Run(rt, "r")) == Completed(["good", "bad", "slow"])
    assert sorted(done) == ["good", "slow", "slow"]


class Crashing:
    """A step whose runtime is left in the middle of it, so that nobody knows what became of it."""

    def __init__(self, **options: Any) -> None:
        self.keys: list[str] = []
        self.began = anyio.Event()
        self.crash = True

        @step(**options)
        async def charge(amount: int) -> int:
            self.keys.append(current_step().key)
            if self.crash:
                self.began.set()
                await anyio.sleep_forever()
            return amount

        @agent
        async def body() -> list[Any]:
            return [await charge(5), ask_human("done?")]

        self.body = body

    async def leave(self, db: Path) -> None:
        async with Runtime(db, flows=[self.body]) as rt:
            await rt.start(self.body, run_id="r")
            with anyio.fail_after(20):
                await self.began.wait()
        self.crash = False


async def test_an_unknown_step_is_run_again_with_the_same_key(db: Path) -> None:
    """spec agent, journal: by default at least once, with a stable idempotency key to pass on."""
    crashing = Crashing()
    await crashing.leave(db)
    async with Runtime(db, flows=[crashing.body]) as rt:
        await paused(Run(rt, "r"))
        await Run(rt, "r").answer("yes")
        assert await settled(Run(rt, "r")) == Completed([5, "yes"])
    assert len(crashing.keys) == 2
    assert len(set(crashing.keys)) == 1


@pytest.mark.parametrize(("seen", "result", "runs"), [(99, 99, 1), (None, 5, 2)])
async def test_verify_finds_out_what_became_of_an_unknown_step(
    db: Path, seen: int | None, result: int, runs: int
) -> None:
    """spec agent, journal: `verify` says whether the effect happened, and what it gave."""
    asked: list[tuple[int, str]] = []

    def look(amount: int) -> int | None:
        asked.append((amount, current_step().key))
        return seen

    crashing = Crashing(verify=look)
    await crashing.leave(db)
    async with Runtime(db, flows=[crashing.body]) as rt:
        await paused(Run(rt, "r"))
        await Run(rt, "r").answer("yes")
        assert await settled(Run(rt, "r")) == Completed([result, "yes"])
    assert asked == [(5, crashing.keys[0])]
    assert len(crashing.keys) == runs


@pytest.mark.parametrize(
    ("answer", "result", "runs"), [({"happened": True, "result": 7}, 7, 1), ({"happened": False}, 5, 2)]
)
async def test_a_person_says_what_became_of_an_unknown_step(
    db: Path, answer: dict[str, Any], result: int, runs: int
) -> None:
    """spec agent, journal: on_unknown="hold" asks, with the arguments and the key; answers are typed."""
    crashing = Crashing(on_unknown="hold")
    await crashing.leave(db)
    async with Runtime(db, flows=[crashing.body]) as rt:
        outcome = await paused(Run(rt, "r"))
        (hold,) = outcome.holds
        assert hold.payload["arguments"] == {"amount": 5}
        assert hold.payload["key"] == crashing.keys[0]
        for wrong in ({"happened": True, "result": "seven"}, {"happened": True}):
            with pytest.raises(errors.AnswerRejected):
                await rt.answer(hold.id, wrong)
        await rt.answer(hold.id, answer)
        await paused(Run(rt, "r"))
        await Run(rt, "r").answer("yes")
        assert await settled(Run(rt, "r")) == Completed([result, "yes"])
    assert len(crashing.keys) == runs


async def test_a_person_who_says_too_little_of_an_unknown_step_is_asked_again(db: Path) -> None:
    """spec engine, 4 (answer): who cannot know the type is taken at his word; the body raises nothing."""
    crashing = Crashing(on_unknown="hold")
    await crashing.leave(db)
    async with Runtime(db, flows=[crashing.body]) as rt:
        (hold,) = (await paused(Run(rt, "r"))).holds
        async with Runtime(db, drive=False) as other:
            await other.answer(hold.id, {"happened": True})
        await anyio.wait_all_tasks_blocked()
    async with Runtime(db, flows=[crashing.body]) as rt:
        (again,) = (await paused(Run(rt, "r"))).holds
        assert "the last one was refused: result: expected int, got None" in (again.reason or "")
        await rt.answer(again.id, {"happened": True, "result": 7})
        await paused(Run(rt, "r"))
        await Run(rt, "r").answer("yes")
        assert await settled(Run(rt, "r")) == Completed([7, "yes"])
    assert len(crashing.keys) == 1


async def test_what_a_person_said_of_an_unknown_step_counts_also_where_nobody_drove_its_run(db: Path) -> None:
    """spec engine, 4 (answer): settled once, by whichever process; the next one does not ask again."""
    crashing = Crashing(on_unknown="hold")
    await crashing.leave(db)
    async with Runtime(db, flows=[crashing.body]) as rt:
        (hold,) = (await paused(Run(rt, "r"))).holds
    async with Runtime(db, drive=False) as other:
        await other.answer(hold.id, {"happened": True, "result": 7})
    async with Runtime(db, flows=[crashing.body]) as rt:
        (done,) = (await paused(Run(rt, "r"))).holds
        assert done.reason == "done?"
        await Run(rt, "r").answer("yes")
        assert await settled(Run(rt, "r")) == Completed([7, "yes"])
    assert len(crashing.keys) == 1


async def test_a_no_of_a_person_counts_for_the_attempt_that_was_asked_about_alone(db: Path) -> None:
    """spec agent, journal: each attempt that is lost is unknown anew, whatever was said of the one before."""
    crashing = Crashing(on_unknown="hold")
    await crashing.leave(db)
    async with Runtime(db, flows=[crashing.body]) as rt:
        (hold,) = (await paused(Run(rt, "r"))).holds
    crashing.crash, crashing.began = True, anyio.Event()
    async with Runtime(db, drive=False) as other:
        await other.answer(hold.id, {"happened": False})
    async with Runtime(db, flows=[crashing.body]):
        with anyio.fail_after(20):
            await crashing.began.wait()
    crashing.crash = False
    async with Runtime(db, flows=[crashing.body]) as rt:
        (again,) = (await paused(Run(rt, "r"))).holds
        assert (again.id == hold.id, again.payload["attempt"]) == (False, 2)
    assert len(crashing.keys) == 2


async def test_a_journal_that_is_set_aside_takes_the_question_about_its_unknown_step_with_it(
    db: Path,
) -> None:
    """spec agent, journal (restart_from): what is set aside is not asked any more."""
    crashing = Crashing(on_unknown="hold")
    await crashing.leave(db)
    async with Runtime(db, flows=[crashing.body]) as rt:
        run = Run(rt, "r")
        (hold,) = (await paused(run)).holds
        await run.restart_from(1)
        (done,) = (await paused(run)).holds
        assert done.reason == "done?"
        assert [one.state for one in await rt.holds("r", state=None) if one.id == hold.id] == ["withdrawn"]


async def test_retries_are_counted_before_each_attempt_and_kept(db: Path) -> None:
    """spec agent, journal: `retries`, with backoff from the clock; the last error is the step's."""
    clock = ManualClock()
    attempts: list[int] = []

    @step(retries=2)
    async def flaky() -> str:
        attempts.append(current_step().attempt)
        if len(attempts) < 3:
            raise Refused(len(attempts))
        return "third"

    @agent
    async def body() -> str:
        return await flaky()

    async with Runtime(db, flows=[body], clock=clock) as rt:
        run = await rt.start(body, run_id="r")
        async with anyio.create_task_group() as group:
            outcome: list[Any] = []

            async def wait() -> None:
                outcome.append(await settled(run))
                group.cancel_scope.cancel()

            group.start_soon(wait)
            while not outcome:
                await anyio.wait_all_tasks_blocked()
                clock.advance(1)
        assert outcome == [Completed("third")]
    assert attempts == [1, 2, 3]


async def test_a_timeout_ends_one_attempt(db: Path) -> None:
    """spec agent, journal: `timeout` is an error of the step, recorded like every other."""

    @step(timeout=0.01)
    async def slow() -> None:
        await anyio.sleep_forever()

    @agent
    async def body() -> str:
        try:
            await slow()
        except TimeoutError as error:
            return f"{error} {ask_human('go on?')}"
        return "in time"

    async with Runtime(db, flows=[body]) as rt:
        await paused(await rt.start(body, run_id="r"))
    async with Runtime(db, flows=[body]) as rt:
        await Run(rt, "r").answer("yes")
        outcome = await settled(Run(rt, "r"))
        assert outcome == Completed("step 'slow' took longer than its time-out of 0.01 s yes")


async def test_a_step_that_the_body_gave_up_is_given_up_again(db: Path) -> None:
    """spec agent, journal: the body's own time-out around a step is part of what is recorded."""

    @step
    async def slow() -> str:
        await anyio.sleep_forever()
        return "never"

    @agent
    async def body() -> str:
        found = "gave up"
        with anyio.move_on_after(0.01):
            found = await slow()
        return f"{found} {ask_human('go on?')}"

    async with Runtime(db, flows=[body]) as rt:
        await paused(await rt.start(body, run_id="r"))
    async with Runtime(db, flows=[body]) as rt:
        await Run(rt, "r").answer("yes")
        assert await settled(Run(rt, "r")) == Completed("gave up yes")


async def test_sleep_ends_at_the_instant_that_was_kept(db: Path) -> None:
    """spec agent, concurrency: `sleep` is durable: a restart does not begin it anew."""
    clock = ManualClock()

    @agent
    def body() -> str:
        sleep(timedelta(hours=1))
        return "woke"

    async with Runtime(db, flows=[body], clock=clock) as rt:
        await rt.start(body, run_id="r")
        await anyio.wait_all_tasks_blocked()
    clock.advance(3601)
    async with Runtime(db, flows=[body], clock=clock) as rt:
        assert await settled(Run(rt, "r")) == Completed("woke")


async def test_a_long_loop_continues_as_new_with_a_fresh_journal(db: Path) -> None:
    """spec agent, journal: `continue_as_new`: the same run, no growth."""
    del FETCHED[:]

    @agent
    def body(number: int) -> int:
        fetch(str(number))
        if number < 20:
            current_run().continue_as_new(number + 1)
        return number

    async with Runtime(db, flows=[body]) as rt:
        assert await rt.run(body, 1, run_id="r") == Completed(20)
    assert FETCHED == [str(number) for number in range(1, 21)]
    assert entries(db) == [(1, "step", "fetch", "done")]


async def test_steps_of_many_agents_share_commits(db: Path) -> None:
    """spec engine, 8: group commit; counted, not timed."""
    labels: list[str] = []
    done: list[int] = []

    @step
    async def touch(number: int) -> int:
        done.append(number)
        return number

    @agent
    async def body(number: int) -> int:
        for turn in range(10):
            await touch(number * 10 + turn)
        return number

    store = SqliteStore(db, SystemClock(), durability="normal", on_statement=labels.append)
    async with Runtime(store, flows=[body]) as rt:
        runs = [await rt.start(body, number) for number in range(20)]
        del labels[:]
        for run in runs:
            await settled(run)
    assert len(done) == 200
    commits = labels.count("commit")
    assert commits <= 400 / 5, f"{commits} commits for 200 steps of two records each"


async def test_nothing_is_asked_of_the_store_while_an_agent_is_paused(db: Path) -> None:
    """spec engine, 8: store statements per second while paused: 0."""
    labels: list[str] = []

    @agent
    def body() -> None:
        pause("wait")

    store = SqliteStore(db, SystemClock(), on_statement=labels.append)
    async with Runtime(store, flows=[body]) as rt:
        run = await rt.start(body)
        await paused(run)
        await anyio.wait_all_tasks_blocked()
        del labels[:]
        await anyio.wait_all_tasks_blocked()
        assert labels == []
        assert (await run.status()).state is RunState.PAUSED


async def test_a_pause_and_its_answer_are_two_write_transactions(db: Path) -> None:
    """spec engine, 8: one has the question and its fence, one the answer and its effect."""
    labels: list[str] = []

    @agent
    def body() -> list[str]:
        return [ask_human(f"{number}?", expects=str) for number in range(3)]

    store = SqliteStore(db, SystemClock(), on_statement=labels.append)
    async with Runtime(store, flows=[body]) as rt:
        run = await rt.start(body)
        outcome = await paused(run)
        del labels[:]
        assert isinstance(await outcome.resume("a"), Paused)
        assert labels.count("commit") == 2
        del labels[:]
        await run.answer("b")
        await paused(run)
        assert labels.count("commit") == 2
        assert await (await paused(run)).resume("c") == Completed(["a", "b", "c"])


async def test_an_answer_that_lets_nothing_go_on_leaves_the_body_where_it_stands(db: Path) -> None:
    """spec engine, 3: an answered body is queued under the operator's lock, and runs after it."""
    store = SqliteStore(db, SystemClock())

    @agent
    def body() -> str:
        return ask_human("?", expects=str)

    async with Runtime(store, flows=[body]) as rt:
        run = await rt.start(body)
        await paused(run)
        await run.pause()
        await run.answer("a")
        [piece] = store.read(lambda tx: tx.pieces(run.id))
        assert piece.state == "queued"
        await run.resume()
        assert await run.result() == "a"


async def test_a_body_that_is_fenced_right_behind_its_answer_stands_queued(db: Path) -> None:
    """spec engine, 3 and 4: it does not run, so its process may die without that being counted."""
    store = SqliteStore(db, SystemClock())

    @agent
    def body() -> str:
        return ask_human("?", expects=str)

    async with Runtime(store, flows=[body]) as rt:
        run = await rt.start(body)
        await paused(run)
        request = Request("pause", run.id, "fence", "me")

        async def fence_it() -> None:
            await rt.backend.host.write(
                lambda tx: fence.pause(tx, request, run.id, tx.now + timedelta(minutes=1))
            )

        other = FairQueue.open(db.with_name(db.name + "-quiesce"), SystemClock())
        assert other.try_enter()  # so that both wait for one commit, the answer first
        async with anyio.create_task_group() as group:
            group.start_soon(run.answer, "a")
            await anyio.wait_all_tasks_blocked()
            group.start_soon(fence_it)
            await anyio.wait_all_tasks_blocked()
            other.close()
        outcome = await paused(run)
        assert outcome.holds == ()
        [piece] = store.read(lambda tx: tx.pieces(run.id))
        [receipt] = await rt.receipts(outcome.episode)
        assert (receipt.was, receipt.drain, piece.state) == ("running", "released", "queued")
        assert await outcome.resume() == Completed("a")
