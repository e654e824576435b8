"""Is a body, after a pause, where it was: context variables, cancel scopes, the current task?"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from quiesce import Completed, Paused, Runtime, agent, await_, pause, step

pytestmark = pytest.mark.anyio

LEVEL: ContextVar[str] = ContextVar("level", default="none")


async def test_two_bodies_never_see_each_others_context() -> None:
    """Source: cases agent S35; spec agent, "Concurrency"."""

    @agent
    def body(name: str) -> list[str]:
        LEVEL.set(name)
        seen = [LEVEL.get()]
        pause(name)
        return [*seen, LEVEL.get()]

    async with Runtime() as rt:
        one, two = await rt.start(body, "one"), await rt.start(body, "two")
        await one.settled()
        await two.settled()
        await two.resume()
        await one.resume()
        assert await one.result() == ["one", "one"]
        assert await two.result() == ["two", "two"]
        assert LEVEL.get() == "none"


async def test_a_body_has_the_context_of_whoever_started_it() -> None:
    """Source: style, 2 (a new greenlet starts with an empty context)."""

    @agent
    def body() -> str:
        return LEVEL.get()

    token = LEVEL.set("starter")
    try:
        async with Runtime() as rt:
            assert await rt.run(body) == Completed("starter")
    finally:
        LEVEL.reset(token)


async def test_what_is_awaited_and_steps_see_the_context_of_the_body() -> None:
    """Source: spec agent, "Concurrency" (as if it had never been suspended)."""

    async def read() -> str:
        await anyio.lowlevel.checkpoint()
        return LEVEL.get()

    @step
    def read_in_thread() -> str:
        return LEVEL.get()

    @agent
    def body() -> list[str]:
        LEVEL.set("mine")
        pause("r")
        return [await_(read()), read_in_thread()]

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert await outcome.resume() == Completed(["mine", "mine"])  # type: ignore[union-attr]


async def test_a_body_is_in_the_same_task_before_and_after_a_pause() -> None:
    """Source: facts, 7 (one driver task for a fiber's whole life)."""

    @agent
    async def body() -> bool:
        before = anyio.get_current_task().id
        pause("r")
        await anyio.lowlevel.checkpoint()
        return before == anyio.get_current_task().id

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert await outcome.resume() == Completed(True)  # type: ignore[union-attr]


async def test_a_time_out_opened_before_a_pause_runs_on_and_is_delivered_afterwards() -> None:
    """Source: spec agent, "Concurrency" (deadlines are absolute)."""

    @agent
    async def body() -> str:
        try:
            with anyio.fail_after(0.01):  # noqa: ASYNC100 - the pause waits
                pause("longer than that")
        except TimeoutError:
            return "late"
        return "in time"

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        with anyio.CancelScope() as scope:  # the same loop has seen the deadline pass when this one did
            scope.deadline = anyio.current_time() + 0.02
            await anyio.sleep_forever()
        assert (await outcome.run.status()).reason == "longer than that"
        assert await outcome.resume("x") == Completed("late")


async def test_a_time_out_that_has_not_passed_does_not_disturb() -> None:
    """Source: spec agent, "Concurrency"."""

    @agent
    async def body() -> Any:
        with anyio.fail_after(60):  # noqa: ASYNC100 - the pause waits
            return pause("r")

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert await outcome.resume("x") == Completed("x")  # type: ignore[union-attr]


async def test_a_passed_time_out_does_not_keep_a_paused_body_from_being_cancelled() -> None:
    """Source: spec engine, 4 (cancel); a scope of the body must not shield its driver."""
    seen: list[str] = []

    @agent
    async def body() -> None:
        with anyio.move_on_after(0):  # noqa: ASYNC100 - the pause waits
            try:
                pause("r")
            finally:
                seen.append("finally")

    from quiesce import errors

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.settled()
        await anyio.wait_all_tasks_blocked()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
    assert seen == ["finally"]


async def test_a_passed_time_out_does_not_keep_the_runtime_from_closing() -> None:
    """Source: spec engine, 5 (leaving it)."""

    @agent
    async def body() -> None:
        with anyio.move_on_after(0):  # noqa: ASYNC100 - the pause waits
            pause("r")

    with anyio.fail_after(5):
        async with Runtime() as rt:
            await rt.run(body)
            await anyio.wait_all_tasks_blocked()


async def test_scopes_and_task_groups_stay_open_across_pauses() -> None:
    """Source: facts, 7 (a cancel scope entered under one task and left under another is corrupted)."""

    @agent
    async def body() -> list[Any]:
        found: list[Any] = []

        async def tick() -> None:
            for number in range(3):
                found.append(number)
                await anyio.lowlevel.checkpoint()

        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(tick)
                found.append(pause("inside"))
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        return [*found, scope.cancelled_caught]

    async with Runtime() as rt:
        outcome = await rt.run(body)
        value = (await outcome.resume("answer")).value  # type: ignore[union-attr]
        assert sorted(map(str, value)) == ["0", "1", "2", "True", "answer"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_asyncio_time_out_and_task_group_work_in_a_body() -> None:
    """Source: facts, 7 (asyncio.timeout and TaskGroup too)."""

    @agent
    async def body() -> list[Any]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.sleep(0, "done"))
            asked = pause("r")
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return [asked, task.result(), "timed out"]
        return []

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert await outcome.resume(1) == Completed([1, "done", "timed out"])  # type: ignore[union-attr]


async def test_errors_pass_both_ways_through_an_await_as_the_same_object() -> None:
    """Source: facts, 7 (await-bridge, exceptions come back)."""
    problem = ValueError("below")

    async def fails() -> None:
        await anyio.lowlevel.checkpoint()
        raise problem

    @agent
    def body() -> bool:
        try:
            await_(fails())
        except ValueError as error:
            return error is problem
        return False

    async with Runtime() as rt:
        assert await rt.run(body) == Completed(True)


async def test_bodies_that_await_let_others_run() -> None:
    """Source: spec agent, "Concurrency" (thousands of bodies on one loop)."""
    here, gate = [0], anyio.Event()

    @agent
    async def body(number: int) -> int:
        here[0] += 1
        await gate.wait()
        return number

    async with Runtime() as rt:
        runs = [await rt.start(body, number) for number in range(200)]
        await anyio.wait_all_tasks_blocked()
        assert here == [200]
        gate.set()
        assert [await run.result() for run in runs] == list(range(200))
