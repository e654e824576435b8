"""Does what users of agent frameworks and durable engines reported happen to an agent here?

Each test is named for its entry in the cases: those of kind G (continuations) and N (replay: an agent is
executed again over its journal), and 71 to 80 of the durable engines. On disk every runtime is a new one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
    action,
    agent,
    ask_human,
    errors,
    gather,
    pause,
    spawn,
    step,
)

pytestmark = pytest.mark.anyio

AGENT_ENTRIES = {
    1, 2, 3, 7, 8, 15, 19, 21, 22, 25, 28, 33, 34, 39,
    42, 43, 44, 45, 48, 49, 51, 52, 59, 60, 61, 65, 77, 78, 79,
}  # fmt: skip
ENGINE_ENTRIES = {71, 72, 73, 75, 76, 77, 78, 80}

DONE: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    DONE.clear()


@step
def effect(name: str) -> str:
    DONE.append(name)
    return name


@action
def pay(amount: int) -> str:
    DONE.append(f"pay {amount}")
    return f"paid {amount}"


@agent
def two_questions() -> list[Any]:
    effect("charge")
    first = ask_human("first?")
    effect("between")
    return [first, ask_human("second?")]


@asynccontextmanager
async def runtime(db: Path | None, *flows: Any) -> AsyncIterator[Runtime]:
    async with Runtime(db, flows=flows) as rt:
        with anyio.fail_after(30):
            yield rt


async def paused(rt: Runtime, run_id: str = "r") -> Paused:
    outcome = await Run(rt, run_id).settled()
    assert isinstance(outcome, Paused), outcome
    return outcome


async def begin(db: Path, flow: Any, *arguments: Any) -> None:
    """Start the run `r`, and leave it as it is paused."""
    async with runtime(db, flow) as rt:
        await rt.start(flow, *arguments, run_id="r")
        await paused(rt)


# --- effects and answers -----------------------------------------------------------------------------------


@agent
def batch() -> list[str]:
    return gather(pay.call(1), pay.call(2), effect.call("c"))


async def test_agent_case_01_a_batch_with_questions_does_each_call_once(db: Path) -> None:
    """Source: cases failures-agent-frameworks 01."""
    await begin(db, batch)
    for left in (2, 1):
        async with runtime(db, batch) as rt:
            holds = await rt.holds("r")
            assert len(holds) == left
            await rt.answer(holds[0].id, {"approve": True})
            await Run(rt, "r").settled()
    assert sorted(DONE) == ["c", "pay 1", "pay 2"]


async def test_agent_case_02_code_before_the_question_does_not_repeat_its_effects(db: Path) -> None:
    """Source: cases failures-agent-frameworks 02."""
    await begin(db, two_questions)
    for answer in ("a", "b"):
        async with runtime(db, two_questions) as rt:
            await Run(rt, "r").answer(answer)
            outcome = await Run(rt, "r").settled()
    assert outcome == Completed(["a", "b"])
    assert DONE == ["charge", "between"]


async def test_agent_case_03_a_finished_step_is_kept_before_the_next_begins(db: Path) -> None:
    """Source: cases failures-agent-frameworks 03."""
    seen: list[list[str]] = []

    @step
    def second() -> None:
        with sqlite3.connect(db) as connection:
            rows = connection.execute("SELECT name, state FROM journal ORDER BY position").fetchall()
        seen.append([f"{name} {state}" for name, state in rows])

    @agent
    def body() -> None:
        effect("first")
        second()

    async with runtime(db, body) as rt:
        await rt.run(body)
    assert seen == [["effect done", "second started"]]


async def test_agent_case_07_an_answer_does_not_start_the_asking_step_again(db: Path) -> None:
    """Source: cases failures-agent-frameworks 07."""
    await begin(db, two_questions)
    async with runtime(db, two_questions) as rt:
        before = [hold.id for hold in await rt.holds("r", None)]
        await Run(rt, "r").answer("a")
        await paused(rt)
        holds = await rt.holds("r", None)
        assert [hold.reason for hold in holds] == ["first?", "second?"], "asked once each"
        assert holds[0].id == before[0]
    assert DONE == ["charge", "between"]


async def test_agent_case_08_a_finished_run_runs_nothing_when_resumed(db: Path) -> None:
    """Source: cases failures-agent-frameworks 08."""

    @agent
    def body() -> str:
        return effect("all")

    async with runtime(db, body) as rt:
        await rt.run(body, run_id="r")
    async with runtime(db, body) as rt:
        with pytest.raises(errors.NotResumable):
            await rt.resume("r")
        await anyio.wait_all_tasks_blocked()
    assert DONE == ["all"]


async def test_agent_case_15_a_resume_with_nothing_answers_nothing(db: Path) -> None:
    """Source: cases failures-agent-frameworks 15."""
    await begin(db, two_questions)
    async with runtime(db, two_questions) as rt:
        await Run(rt, "r").answer("a")
        await paused(rt)
    async with runtime(db, two_questions) as rt:
        await rt.resume("r")
        assert await Run(rt, "r").settled() == Completed(["a", None])


def edited(old: Callable[..., Any], new: Callable[..., Any]) -> tuple[Any, Any]:
    return agent(name="body")(old), agent(name="body")(new)


async def test_agent_case_19_a_question_that_was_inserted_takes_no_other_answer(db: Path) -> None:
    """Source: cases failures-agent-frameworks 19."""

    def old() -> Any:
        return ask_human("delete?")

    def new() -> Any:
        newsletter = ask_human("newsletter?")
        return [newsletter, ask_human("delete?")]

    before, after = edited(old, new)
    await begin(db, before)
    async with runtime(db, after) as rt:
        await Run(rt, "r").answer("yes")
        outcome = await paused(rt)
        assert "expected ask 'delete?', got ask 'newsletter?'" in str(outcome.reason)


async def test_agent_case_21_an_approval_is_for_the_arguments_that_run(db: Path) -> None:
    """Source: cases failures-agent-frameworks 21."""
    proposed = [10]

    @agent
    def body() -> str:
        return pay(proposed[0])  # an unrecorded model call

    await begin(db, body)
    proposed[0] = 1_000_000
    async with runtime(db, body) as rt:
        await Run(rt, "r").answer({"approve": True})
        outcome = await paused(rt)
        assert "got action 'pay' with other arguments" in str(outcome.reason)
    assert DONE == []


async def test_agent_case_22_the_arguments_shown_are_those_executed(db: Path) -> None:
    """Source: cases failures-agent-frameworks 22."""

    @agent
    def body() -> str:
        return pay(int("0012"))

    async with runtime(db, body) as rt:
        await rt.start(body, run_id="r")
        (hold,) = (await paused(rt)).holds
        await rt.answer(hold.id, {"approve": True})
        await Run(rt, "r").settled()
    assert DONE == [f"pay {hold.payload['arguments']['amount']}"]


async def test_agent_case_25_an_answer_finds_its_run_though_names_repeat() -> None:
    """Source: cases failures-agent-frameworks 25."""

    @agent(name="same")
    def inner() -> Any:
        return ask_human("inner?")

    @agent(name="same")
    def outer() -> Any:
        return [spawn(inner).result(), ask_human("outer?")]

    async with runtime(None) as rt:
        with anyio.fail_after(30):
            run = await rt.start(outer, run_id="r")
            for answer in ("one", "two"):
                outcome = await paused(rt)
                (hold,) = outcome.holds
                await rt.answer(hold.id, answer)
                assert await Run(rt, hold.run_id).status()
            assert await run.result() == ["one", "two"]


async def test_agent_case_28_callers_send_only_the_new_answer(db: Path) -> None:
    """Source: cases failures-agent-frameworks 28."""
    await begin(db, two_questions)
    for answer in ("a", "b"):
        async with runtime(db, two_questions) as rt:
            await Run(rt, "r").answer(answer)
            outcome = await Run(rt, "r").settled()
    assert outcome == Completed(["a", "b"])


async def test_agent_case_33_the_history_has_the_edited_call(db: Path) -> None:
    """Source: cases failures-agent-frameworks 33."""

    @agent
    def body() -> str:
        return pay(500)

    await begin(db, body)
    async with runtime(db, body) as rt:
        await Run(rt, "r").answer({"approve": True, "arguments": {"amount": 5}}, actor="alice")
        assert await Run(rt, "r").settled() == Completed("paid 5")
    with sqlite3.connect(db) as connection:
        query = "SELECT actor, data FROM events WHERE kind = 'approved'"
        ((actor, data),) = connection.execute(query).fetchall()
    assert (actor, json.loads(data)["arguments"], json.loads(data)["edited"]) == (
        "alice",
        {"amount": 5},
        True,
    )
    assert DONE == ["pay 5"]


async def test_agent_case_34_a_rejection_leaves_the_neighbours_alone(db: Path) -> None:
    """Source: cases failures-agent-frameworks 34."""
    await begin(db, batch)
    async with runtime(db, batch) as rt:
        first, second = sorted(await rt.holds("r"), key=lambda hold: str(hold.payload["arguments"]))
        await rt.reject(first.id, "no")
        await rt.answer(second.id, {"approve": True})
        with pytest.raises(errors.Rejected):
            await Run(rt, "r").result()
    assert sorted(DONE) == ["c", "pay 2"]


async def test_agent_case_39_only_what_needs_asking_asks(db: Path) -> None:
    """Source: cases failures-agent-frameworks 39."""
    await begin(db, batch)
    assert DONE == ["c"]


# --- pausing -----------------------------------------------------------------------------------------------


async def test_agent_case_42_a_removed_step_is_refused_with_a_difference(db: Path) -> None:
    """Source: cases failures-agent-frameworks 42."""

    def old() -> Any:
        effect("a")
        return ask_human("go on?")

    def new() -> Any:
        return ask_human("go on?")

    before, after = edited(old, new)
    await begin(db, before)
    async with runtime(db, after) as rt:
        await Run(rt, "r").answer("yes")
        outcome = await paused(rt)
        assert "expected step 'effect', got ask 'go on?'" in str(outcome.reason)
        assert (await rt.status("r")).state is RunState.PAUSED


@pytest.mark.parametrize("value", ["paused", {"state": "paused"}, None])
async def test_agent_case_43_waiting_is_a_state_that_no_value_can_imitate(value: Any) -> None:
    """Source: cases failures-agent-frameworks 43."""

    @agent
    def child() -> Any:
        pause("wait")
        return value

    @agent
    def outer() -> Any:
        return spawn(child).result()

    async with runtime(None) as rt:
        run = await rt.start(outer, run_id="r")
        assert (await paused(rt)).reason == "wait"
        await rt.resume((await rt.status("r")).children[0])
        assert await run.result() == value


async def test_agent_case_44_a_child_cannot_go_round_the_approval() -> None:
    """Source: cases failures-agent-frameworks 44."""

    @agent
    def child() -> str:
        return pay(7)

    @agent
    def outer() -> Any:
        return spawn(child).result()

    async with runtime(None) as rt:
        run = await rt.start(outer, run_id="r")
        (hold,) = (await paused(rt)).holds
        assert DONE == []
        await rt.answer(hold.id, {"approve": True})
        assert await run.result() == "paid 7"


async def test_agent_case_45_a_broad_except_does_not_eat_the_pause(db: Path) -> None:
    """Source: cases failures-agent-frameworks 45."""

    @agent
    def body() -> Any:
        try:
            return ask_human("go on?")
        except BaseException:
            DONE.append("swallowed")
            raise
        finally:
            DONE.append("finally")

    async with runtime(db, body) as rt:
        await rt.start(body, run_id="r")
        await paused(rt)
        assert DONE == []
        await Run(rt, "r").answer(1)
        assert await Run(rt, "r").settled() == Completed(1)
    assert DONE == ["finally"]


async def test_agent_case_48_a_started_effect_has_an_end_or_is_unknown(db: Path) -> None:
    """Source: cases failures-agent-frameworks 48."""
    began = anyio.Event()

    @step
    async def slow() -> None:
        began.set()
        await anyio.sleep_forever()

    @agent
    async def body() -> None:
        await slow()

    async with runtime(db, body) as rt:
        await rt.start(body, run_id="r")
        await began.wait()
        await rt.cancel("r")
    with sqlite3.connect(db) as connection:
        rows = connection.execute("SELECT name, state FROM journal").fetchall()
    assert rows == [("slow", "started")]


async def test_agent_case_49_a_cancel_that_is_swallowed_is_a_cancel(caplog: pytest.LogCaptureFixture) -> None:
    """Source: cases failures-agent-frameworks 49."""

    @agent
    def body() -> str:
        for _ in range(2):
            try:
                pause("wait")
            except BaseException:
                DONE.append("swallowed")
        return "success"

    async with runtime(None) as rt:
        run = await rt.start(body, run_id="r")
        await paused(rt)
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.result()
        assert (await run.status()).state is RunState.CANCELLED
    assert "swallowed what ends it" in caplog.text
