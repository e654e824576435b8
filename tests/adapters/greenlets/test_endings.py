"""How does a body end that must not go on? It unwinds where it stands, and can clean up; once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from quiesce import Paused, RunState, Runtime, action, agent, errors, gather, pause, step
from quiesce.agent import Unwind

pytestmark = pytest.mark.anyio


async def test_neither_except_exception_nor_a_bare_except_swallows_a_pause() -> None:
    """Source: spec agent, "Body and lifecycle" (the suspension cannot be swallowed)."""
    seen: list[str] = []

    @agent
    def body() -> Any:
        try:
            return pause("r")
        except Exception:
            seen.append("except Exception")
        except:  # noqa: E722
            seen.append("except")
        finally:
            seen.append("finally")

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert seen == []
        await outcome.resume("value")  # type: ignore[union-attr]
        assert seen == ["finally"]
        assert await outcome.run.result() == "value"  # type: ignore[union-attr]


async def test_cancel_raises_at_the_pause_so_that_finally_blocks_run() -> None:
    """Source: spec engine, 4 (cancel)."""
    seen: list[str] = []

    @agent
    def body() -> None:
        try:
            pause("r")
        except Exception:
            seen.append("swallowed")
        finally:
            seen.append("finally")
        seen.append("after")

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.settled()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
        assert seen == ["finally"]
        assert (await run.status()).phase is None


async def test_the_cleanup_of_a_cancelled_body_may_await() -> None:
    """Source: spec agent, "Body and lifecycle" (async clean-up included), without any shield."""
    seen: list[str] = []

    @agent
    async def body() -> None:
        try:
            pause("r")
        finally:
            await anyio.lowlevel.checkpoint()
            seen.append("cleaned")

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.settled()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
        assert seen == ["cleaned"]


async def test_cancel_interrupts_what_a_body_awaits_and_its_cleanup_may_await() -> None:
    """Source: spec engine, 4 (in a living agent it raises at the suspension point)."""
    seen: list[str] = []
    there = anyio.Event()

    @agent
    async def body() -> None:
        try:
            there.set()
            await anyio.sleep_forever()
        except Unwind:
            seen.append("unwound")
            raise
        finally:
            await anyio.lowlevel.checkpoint()
            seen.append("cleaned")

    async with Runtime() as rt:
        run = await rt.start(body)
        await there.wait()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
        assert seen == ["unwound", "cleaned"]


async def test_steps_in_the_cleanup_of_a_cancelled_body_are_carried_out() -> None:
    """Source: spec agent, "Body and lifecycle" (steps in them run unrecorded)."""
    seen: list[str] = []

    @step
    async def release(what: str) -> None:
        seen.append(what)

    @agent
    async def body() -> None:
        try:
            pause("r")
        finally:
            await release("lock")

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.settled()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
        assert seen == ["lock"]


async def test_a_pause_in_a_cleanup_unwinds_again() -> None:
    """Source: spec agent, "Body and lifecycle"; nobody could answer a cancelled run."""
    seen: list[str] = []

    @agent
    def body() -> None:
        try:
            pause("r")
        finally:
            try:
                pause("in the clean-up")
            finally:
                seen.append("inner")

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.settled()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
        assert seen == ["inner"]


@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_body_that_swallows_its_end_is_not_switched_to_again_and_is_reported(
    goes_on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Source: spec agent, "Body and lifecycle"."""
    seen: list[str] = []

    @agent
    def body() -> None:
        try:
            pause("r")
        except BaseException:
            seen.append("swallowed")
        if goes_on:
            pause("again")
            seen.append("went on")

    async with Runtime() as rt:
        run = await rt.start(body, run_id="stubborn")
        await run.settled()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
    assert seen == ["swallowed"]
    assert "run stubborn is cancelled, but its body swallowed what ends it" in caplog.text


async def test_a_cleanup_that_never_ends_is_given_up_at_the_drain_timeout(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Source: spec agent, "Body and lifecycle" (a body that swallows it is not switched to again)."""

    @agent
    async def body() -> None:
        try:
            pause("r")
        finally:
            while True:
                try:
                    await anyio.sleep_forever()
                except BaseException:
                    pass

    async with Runtime(drain_timeout=0.05) as rt:
        run = await rt.start(body, run_id="endless")
        await run.settled()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
    assert "run endless is cancelled, but its body swallowed what ends it" in caplog.text


async def test_an_error_of_a_cleanup_is_reported_and_the_run_stays_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Source: spec engine, 3 (terminal is terminal)."""

    @agent
    def body() -> None:
        try:
            pause("r")
        finally:
            raise ValueError("clean-up")

    async with Runtime() as rt:
        run = await rt.start(body, run_id="messy")
        await run.settled()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
        assert (await run.status()).state is RunState.CANCELLED
    assert "run messy: the clean-up of its body failed" in caplog.text


async def test_cancel_inside_a_task_group_of_the_body_ends_its_tasks_too() -> None:
    """Source: spec agent, "Body and lifecycle"; facts, 7 (a task group open in the body)."""
    seen: list[str] = []

    @agent
    async def body() -> None:
        async def work() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                seen.append("task")

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await anyio.lowlevel.checkpoint()
            pause("r")

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.settled()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
        assert seen == ["task"]


async def test_leaving_the_runtime_ends_bodies_and_reports_them(caplog: pytest.LogCaptureFixture) -> None:
    """Source: spec engine, 5 (leaving it ends and reports memory bodies)."""
    seen: list[str] = []
    there = anyio.Event()

    @agent
    async def paused() -> None:
        try:
            pause("r")
        finally:
            await anyio.lowlevel.checkpoint()
            seen.append("paused")

    @agent
    async def awaiting() -> None:
        try:
            there.set()
            await anyio.sleep_forever()
        finally:
            await anyio.lowlevel.checkpoint()
            seen.append("awaiting")

    with caplog.at_level(logging.WARNING):
        async with Runtime() as rt:
            await rt.run(paused, run_id="one")
            await rt.start(awaiting, run_id="two")
            await there.wait()
    assert sorted(seen) == ["awaiting", "paused"]
    assert "run one" in caplog.text
    assert "run two" in caplog.text


async def test_a_run_that_was_never_begun_is_cancelled_without_running() -> None:
    """Source: spec engine, 4 (cancel works in every state that is not ended)."""
    ran: list[int] = []

    @agent
    def body() -> None:
        ran.append(1)

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.cancel()  # before the event loop came to it
        with pytest.raises(errors.RunCancelled):
            await run.settled()
        assert ran == []


async def test_a_base_exception_of_a_body_fails_its_run_alone() -> None:
    """Source: spec agent, "Body and lifecycle" (an error fails the run)."""

    class Odd(BaseException): ...

    @agent
    def body() -> None:
        raise Odd("odd")

    async with Runtime() as rt:
        run = await rt.start(body)
        with pytest.raises(errors.RunFailed, match="Odd: odd"):
            await run.settled()


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
async def test_a_body_with_a_task_group_of_its_own_is_handed_back_when_the_runtime_closes(
    tmp_path: Path, durable: bool
) -> None:
    """spec agent, concurrency: cancel scopes in a body behave as if it had never been suspended."""
    came, ended = anyio.Event(), []

    async def works() -> None:
        try:
            came.set()
            await anyio.sleep_forever()
        finally:
            ended.append("task")

    @agent
    async def body() -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(works)
                await anyio.sleep_forever()
        finally:
            ended.append("body")

    async with Runtime(tmp_path / "flows.db" if durable else None, flows=[body]) as rt:
        run = await rt.start(body)
        with anyio.fail_after(10):
            await came.wait()
        assert (await run.status()).state == "running"
    assert ended == ["task", "body"]


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
async def test_the_questions_of_a_gather_are_in_the_order_of_its_calls(tmp_path: Path, durable: bool) -> None:
    """spec agent, concurrency: results in order; whoever answers sees the questions in that order too."""

    @action(approval=True)
    def pay(amount: int) -> int:
        return amount

    @agent
    def batch() -> list[int]:
        return gather(*(pay.call(amount) for amount in range(8)))

    async with Runtime(tmp_path / "flows.db" if durable else None, flows=[batch]) as rt:
        outcome = await rt.run(batch)
        assert isinstance(outcome, Paused)
        assert [hold.payload["arguments"]["amount"] for hold in outcome.holds] == list(range(8))
