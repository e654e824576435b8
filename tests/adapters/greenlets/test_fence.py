"""What does an operator's pause do to a body: it stands still at its next safe point, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from quiesce import (
    Completed,
    Paused,
    Run,
    RunState,
    Runtime,
    agent,
    await_,
    checkpoint,
    pause,
    receive,
    sleep,
    spawn,
    step,
)
from quiesce.clock import ManualClock

pytestmark = pytest.mark.anyio


class Gate:
    """Where a body waits until the test opens."""

    def __init__(self) -> None:
        self.there = anyio.Event()
        self.open = anyio.Event()

    async def pass_through(self) -> str:
        self.there.set()
        await self.open.wait()
        return "passed"


async def states(run: Run) -> tuple[RunState, str | None]:
    status = await run.status()
    return status.state, status.phase


@pytest.mark.parametrize("kind", ["await", "step", "await_"])
async def test_a_body_in_an_await_drains_and_stands_still_when_that_is_done(kind: str) -> None:
    """Source: spec engine, 4 (pause: an agent at its next step, pause, checkpoint or await)."""
    gate = Gate()
    seen: list[str] = []

    if kind == "await_":

        @agent
        def body() -> str:
            passed = await_(gate.pass_through())
            checkpoint()
            seen.append(passed)
            return "end"
    else:
        work = step(gate.pass_through) if kind == "step" else gate.pass_through

        @agent
        async def body() -> str:
            passed = await work()
            checkpoint()
            seen.append(passed)
            return "end"

    async with Runtime() as rt:
        run = await rt.start(body)
        await gate.there.wait()
        ack = await run.pause(reason="hold on")
        assert (ack.captured, ack.draining) == (1, 1)
        assert await states(run) == (RunState.PAUSED, "draining")
        gate.open.set()
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert await states(run) == (RunState.PAUSED, "quiescent")
        assert seen == []
        (receipt,) = await rt.receipts(outcome.episode)
        assert (receipt.kind, receipt.was, receipt.drain) == ("body", "running", "released")
        ack2 = await run.resume()
        assert (ack2.transitioned, ack2.continued) == (True, 1)
        assert await run.settled() == Completed("end")
        assert seen == ["passed"]


async def test_a_checkpoint_is_a_safe_point() -> None:
    """Source: spec agent, `checkpoint`; spec engine, 4 (pause)."""
    seen: list[str] = []

    async with Runtime() as rt:

        @agent
        def body() -> None:
            await_(run.pause())
            seen.append("after the pause")
            checkpoint()
            seen.append("after the checkpoint")

        run = await rt.create(body)
        run = await rt.start(body, run_id=run.id)
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert seen == ["after the pause"]
        await run.resume()
        await run.settled()
        assert seen == ["after the pause", "after the checkpoint"]


async def test_a_step_that_began_before_the_fence_ends_and_the_next_does_not_begin() -> None:
    """Source: spec engine, 4 (it is the next one that does not start)."""
    gate = Gate()
    done: list[str] = []

    @step
    async def first() -> None:
        await gate.pass_through()
        done.append("first")

    @step
    async def second() -> None:
        done.append("second")

    @agent
    async def body() -> None:
        await first()
        await second()

    async with Runtime() as rt:
        run = await rt.start(body)
        await gate.there.wait()
        await run.pause()
        gate.open.set()
        await run.settled()
        assert done == ["first"]
        await run.resume()
        await run.settled()
        assert done == ["first", "second"]


@pytest.mark.parametrize("waits", ["receive", "sleep"])
async def test_a_body_that_waits_for_a_message_or_a_time_stands_still_at_once(waits: str) -> None:
    """Source: spec agent, "Concurrency" (receive and sleep cost nothing while they wait)."""
    clock = ManualClock()

    @agent
    def body() -> Any:
        return receive() if waits == "receive" else sleep(10)

    async with Runtime(clock=clock) as rt:
        run = await rt.start(body)
        await anyio.wait_all_tasks_blocked()
        await run.pause()
        assert isinstance(await run.settled(), Paused)
        assert await states(run) == (RunState.PAUSED, "quiescent")
        await run.send("kept")
        clock.advance(11)
        await anyio.wait_all_tasks_blocked()
        assert (await run.status()).state is RunState.PAUSED
        await run.resume()
        assert await run.settled() == Completed("kept" if waits == "receive" else None)


async def test_a_question_under_an_operator_pause_is_listed_and_needs_both() -> None:
    """Source: spec engine, 4 (with an operator lock: stored at once, acts when the lock is lifted)."""

    @agent
    def body() -> Any:
        return pause("r")

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.settled()
        ack = await run.pause(reason="stop")
        assert (ack.transitioned, ack.locked) == (False, True)
        assert {lock.kind for lock in (await run.status()).locks} == {"holds", "operator"}
        assert (await run.answer("early")).resumed is False
        assert (await run.status()).state is RunState.PAUSED
        await run.resume()
        assert await run.settled() == Completed("early")


async def test_a_body_that_asks_while_it_drains_releases_its_receipt() -> None:
    """Source: spec engine, 4 (pause); its question is open when the operator's lock goes."""
    gate = Gate()

    @agent
    async def body() -> Any:
        await gate.pass_through()
        return pause("asked")

    async with Runtime() as rt:
        run = await rt.start(body)
        await gate.there.wait()
        await run.pause()
        gate.open.set()
        await run.settled()
        await run.resume()
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert outcome.reason == "asked"
        assert await outcome.resume(1) == Completed(1)


async def test_the_last_statement_of_a_fenced_body_completes_the_run() -> None:
    """Source: spec engine, 3 (a completion that arrives while paused is applied)."""

    async with Runtime() as rt:

        @agent
        def body() -> str:
            current_run().pause()
            return "end"

        from quiesce import current_run

        run = await rt.start(body)
        outcome = await run.settled()
        assert outcome == Completed("end") or isinstance(outcome, Paused)
        if isinstance(outcome, Paused):  # the verb itself was a safe point
            await run.resume()
            assert await run.settled() == Completed("end")


async def test_what_does_not_yield_in_time_is_overdue_and_released_later() -> None:
    """Source: spec engine, 4 (overdue past the bound; a piece that yields later is recorded)."""
    gate = Gate()
    clock = ManualClock()

    @agent
    async def body() -> None:
        await gate.pass_through()

    async with Runtime(clock=clock) as rt:
        run = await rt.start(body)
        await gate.there.wait()
        ack = await rt.pause(run.id, drain_timeout=1)
        await anyio.wait_all_tasks_blocked()
        clock.advance(2)
        await anyio.wait_all_tasks_blocked()
        assert ((await run.status()).overdue, (await run.status()).draining) == (1, 0)
        gate.open.set()
        await anyio.wait_all_tasks_blocked()
        assert (await run.status()).phase == "quiescent"
        (receipt,) = await rt.receipts(ack.episode_id or "")
        assert receipt.overdue_at is not None
        assert receipt.released_at is not None
        await run.resume()
        await run.settled()


SAFE_POINTS = ("checkpoint", "step", "await", "ask", "receive", "sleep", "child", "end")


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
@pytest.mark.parametrize("point", SAFE_POINTS)
async def test_a_body_yields_at_its_next_safe_point_although_its_run_goes_on(
    tmp_path: Path, point: str, durable: bool
) -> None:
    """Source: spec engine, 4 (pause: at its next step, pause, checkpoint or await; recorded if later)."""
    first, then = Gate(), Gate()

    @step
    async def begun_before_the_fence() -> None:
        await first.pass_through()

    @step
    async def work() -> None:
        await then.pass_through()

    @agent
    async def child() -> None:
        await then.pass_through()

    @agent
    async def body() -> None:
        await begun_before_the_fence()
        match point:
            case "checkpoint":
                checkpoint()
                await then.pass_through()
            case "step":
                await work()
            case "await":
                await anyio.lowlevel.checkpoint()
                await then.pass_through()
            case "ask":
                pause("go on?")
            case "receive":
                receive()
            case "sleep":
                sleep(100)
            case "child":
                spawn(child).result()

    store = tmp_path / "flows.db" if durable else None
    async with Runtime(store, flows=[body, child], clock=ManualClock()) as rt:
        run = await rt.start(body)
        await first.there.wait()
        ack = await run.pause()
        await run.resume()
        await anyio.wait_all_tasks_blocked()
        (receipt,) = await rt.receipts(ack.episode_id or "")
        assert receipt.drain == "pending"
        first.open.set()
        await anyio.wait_all_tasks_blocked()
        assert (await run.status()).state == {"end": "completed", "ask": "paused"}.get(point, "running")
        if point != "ask" or durable:  # which is another episode, and a memory store keeps the last one
            (receipt,) = await rt.receipts(ack.episode_id or "")
            assert (receipt.drain, receipt.outcome) == ("released", "continued")


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
async def test_a_body_that_waits_yields_although_the_pause_was_taken_back_at_once(
    tmp_path: Path, durable: bool
) -> None:
    """Source: spec engine, 4 (a piece that yields later is recorded so): it stands at a safe point."""

    @agent
    def body() -> str:
        message: str = receive()
        return message + receive()

    async with Runtime(tmp_path / "flows.db" if durable else None, flows=[body]) as rt:
        run = await rt.start(body)
        await anyio.wait_all_tasks_blocked()
        ack = await run.pause()
        await run.resume()
        await run.send("a ")
        await anyio.wait_all_tasks_blocked()
        (receipt,) = await rt.receipts(ack.episode_id or "")
        assert (receipt.drain, receipt.outcome) == ("released", "continued")
        await run.send("message")
        assert await run.settled() == Completed("a message")


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "sqlite"])
async def test_a_scope_of_the_body_that_ends_while_it_stands_behind_an_await_is_heard_of_later(
    tmp_path: Path, durable: bool
) -> None:
    """Source: spec agent, concurrency: a time-out around a pause is delivered when the body continues."""
    gate, scope, seen = Gate(), anyio.CancelScope(), list[str]()

    @agent
    async def body() -> str:
        with scope:
            seen.append(await gate.pass_through())
            await anyio.sleep_forever()
        return "end"

    async with Runtime(tmp_path / "flows.db" if durable else None, flows=[body]) as rt:
        run = await rt.start(body)
        await gate.there.wait()
        await run.pause()
        gate.open.set()
        assert isinstance(await run.settled(), Paused)
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert await states(run) == (RunState.PAUSED, "quiescent")
        await run.resume()
        assert await run.settled() == Completed("end")
        assert seen == ["passed"]
