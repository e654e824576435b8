"""Does an agent's run live as every run does: started, paused, resumed, ended, once each?"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from quiesce import Completed, Graph, Paused, RunState, Runtime, agent, ask_human, errors, pause, receive

pytestmark = pytest.mark.anyio


async def test_a_created_run_has_not_run_its_body() -> None:
    """Source: cases agent S1."""
    ran = []

    @agent
    def body() -> None:
        ran.append(1)

    async with Runtime() as rt:
        run = await rt.create(body)
        await anyio.wait_all_tasks_blocked()
        assert ((await run.status()).state, ran) == (RunState.CREATED, [])


async def test_a_body_without_a_pause_completes_with_its_value() -> None:
    """Source: cases agent S2, S17 (an early return)."""

    @agent
    def body(number: int) -> int:
        if number:
            return number * 2
        return 0

    async with Runtime() as rt:
        assert await rt.run(body, 4) == Completed(8)


async def test_a_pause_stops_between_what_is_before_and_what_is_after() -> None:
    """Source: cases agent S3, S5 (a resume without an answer gives None)."""
    seen: list[Any] = []

    @agent
    def body() -> None:
        seen.append("before")
        seen.append(pause("r"))

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        assert (outcome.reason, seen) == ("r", ["before"])
        assert (await outcome.run.status()).reason == "r"
        assert await outcome.resume() == Completed(None)
        assert seen == ["before", None]


async def test_a_pause_without_a_reason_has_none() -> None:
    """Source: cases agent S4."""

    @agent
    def body() -> None:
        pause()

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        assert outcome.reason is None
        await outcome.resume()


async def test_a_value_is_consumed_once() -> None:
    """Source: cases agent S6, S7 (a later resume without a value gives None, never the older one)."""

    @agent
    def body() -> list[Any]:
        return [pause("first"), pause("second")]

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        outcome = await outcome.resume("v")
        assert isinstance(outcome, Paused)
        assert await outcome.resume() == Completed(["v", None])


async def test_the_reason_is_cleared_when_the_run_goes_on() -> None:
    """Source: cases agent B8 (history keeps it)."""
    stage, gate = anyio.Event(), anyio.Event()

    @agent
    async def body() -> None:
        pause("because")
        stage.set()
        await gate.wait()

    async with Runtime() as rt:
        outcome = await rt.run(body)
        run = outcome.run  # type: ignore[union-attr]
        await run.resume()
        await stage.wait()
        status = await run.status()
        assert (status.state, status.reason, status.locks) == (RunState.RUNNING, None, ())
        gate.set()
        await run.settled()
        assert (await run.status()).reason is None
        held = await rt.holds(run.id, None)
        assert [(hold.reason, hold.state) for hold in held] == [("because", "dropped")]


async def test_a_second_start_is_refused_and_changes_nothing() -> None:
    """Source: cases agent S8."""

    @agent
    def body() -> None:
        pause("r")

    async with Runtime() as rt:
        run = await rt.start(body, run_id="one")
        await run.settled()
        before = await run.status()
        with pytest.raises(errors.RunActive, match="paused"):
            await rt.start(body, run_id="one")
        assert await run.status() == before


async def test_resume_of_what_is_not_paused_names_its_state() -> None:
    """Source: cases agent S9, S16."""

    @agent
    def busy() -> None:
        receive()

    @agent
    def fine() -> None: ...

    @agent
    def broken() -> None:
        raise ValueError("no")

    async with Runtime() as rt:
        running = await rt.start(busy)
        with pytest.raises(errors.NotResumable, match="running"):
            await running.resume()
        created = await rt.create(fine)
        with pytest.raises(errors.NotResumable, match="created"):
            await created.resume()
        done = await rt.start(fine)
        await done.settled()
        with pytest.raises(errors.NotResumable, match="completed"):
            await done.resume()
        failed = await rt.start(broken, run_id="failed")
        with pytest.raises(ValueError, match="no"):
            await failed.settled()
        with pytest.raises(errors.NotResumable, match="failed"):
            await failed.resume()
        with pytest.raises(errors.IllegalTransition, match="failed"):
            await rt.start(broken, run_id="failed")


async def test_resume_and_start_of_what_is_no_agent_are_errors() -> None:
    """Source: cases agent S10, S11."""
    async with Runtime() as rt:
        with pytest.raises(errors.RunNotFound):
            await rt.resume("nothing")
        for wrong in (lambda: 1, 5, "text"):
            with pytest.raises(errors.FlowNotFound, match="not a flow"):
                await rt.start(wrong)
        with pytest.raises(TypeError):
            await rt.resume()  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            await rt.resume("r", 1, 2)  # type: ignore[misc]


async def test_an_error_before_the_first_pause_is_raised_to_whoever_waits() -> None:
    """Source: cases agent S14."""
    problem = ValueError("early")

    @agent
    def body() -> None:
        raise problem

    async with Runtime() as rt:
        with pytest.raises(ValueError, match="early") as caught:
            await rt.run(body, run_id="r")
        assert caught.value is problem
        assert (await rt.status("r")).state is RunState.FAILED


async def test_an_error_after_a_pause_is_raised_by_the_resume_and_is_the_same_each_time() -> None:
    """Source: cases agent S15, S45, B6."""
    problem = ValueError("late")

    @agent
    def body() -> None:
        pause("r")
        raise problem

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        with pytest.raises(ValueError, match="late") as first:
            await outcome.resume()
        with pytest.raises(ValueError, match="late") as second:
            await outcome.run.settled()
        with pytest.raises(ValueError, match="late") as third:
            await outcome.run.result()
        assert first.value is second.value is third.value is problem
        status = await outcome.run.status()
        assert (status.state, status.error) == (RunState.FAILED, "ValueError: late")


async def test_an_error_that_nobody_awaited_is_reported_at_the_close(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Source: cases agent B10."""

    @agent
    def body() -> None:
        raise ValueError("silent")

    async with Runtime() as rt:
        await rt.start(body, run_id="quiet")
        await anyio.wait_all_tasks_blocked()
    assert "run quiet failed and nobody waited for it: silent" in caplog.text


async def test_start_returns_before_the_body_ends() -> None:
    """Source: cases agent S43 (a wait waits; a wait on a paused run returns)."""
    gate = anyio.Event()

    @agent
    async def body() -> int:
        await gate.wait()
        pause("then")
        return 1

    async with Runtime() as rt:
        run = await rt.start(body)
        assert (await run.status()).state is RunState.RUNNING
        gate.set()
        assert isinstance(await run.settled(), Paused)
        assert isinstance(await run.settled(), Paused)
        await run.resume()
        assert await run.result() == 1


async def test_another_handle_resumes_the_same_run() -> None:
    """Source: cases agent S28 (an alias)."""

    @agent
    def body() -> Any:
        return pause("r")

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.settled()
        alias = await rt.get(run.id)
        await alias.resume("through the alias")
        assert await run.settled() == Completed("through the alias")


async def test_of_two_quick_resumes_one_is_accepted() -> None:
    """Source: cases agent B5 (one compare-and-set)."""

    @agent
    def body() -> list[Any]:
        return [pause("a"), pause("b")]

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        await outcome.run.resume("first", episode=outcome.episode)
        with pytest.raises(errors.StaleGeneration):
            await outcome.run.resume("second", episode=outcome.episode)
        again = await outcome.run.settled()
        assert isinstance(again, Paused)
        assert (again.reason, await again.resume("third")) == ("b", Completed(["first", "third"]))


async def test_ask_human_in_a_body_is_a_pause() -> None:
    """Source: cases agent S31."""

    @agent
    def body(amount: int) -> str:
        return "charged" if ask_human(f"approve {amount}?") == "yes" else "cancelled"

    async with Runtime() as rt:
        outcome = await rt.run(body, 5000)
        assert isinstance(outcome, Paused)
        assert outcome.reason == "approve 5000?"
        assert await outcome.resume("yes") == Completed("charged")


async def test_a_retry_of_a_failed_body_begins_again() -> None:
    """Source: spec engine, 4 (retry); in memory nothing of a body is recorded."""
    tries: list[int] = []

    @agent
    def body() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("once")
        return len(tries)

    async with Runtime() as rt:
        run = await rt.start(body)
        with pytest.raises(ValueError, match="once"):
            await run.settled()
        await run.retry()
        assert await run.settled() == Completed(2)


async def test_a_reset_ends_the_body_and_a_resume_runs_it_from_its_start() -> None:
    """Source: spec engine, 4 (reset)."""
    seen: list[str] = []

    @agent
    def body(word: str) -> Any:
        seen.append("start")
        try:
            return pause(word)
        finally:
            seen.append("finally")

    async with Runtime() as rt:
        run = await rt.start(body, "again")
        await run.settled()
        await run.reset()
        await run.resume()
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert seen == ["start", "finally", "start"]
        assert (await run.status()).execution == 2
        assert await outcome.resume(3) == Completed(3)


async def test_a_graph_runs_an_agent_as_a_node() -> None:
    """Source: spec engine, 4 (nesting: an agent as a graph node)."""

    @agent
    def review(text: str) -> bool:
        return ask_human(f"publish {text}?", expects=bool)

    graph = Graph("publish")
    node = graph.node(review, start=True)

    @graph.transition(node)
    def decide(published: bool) -> Any:
        from quiesce import Transition

        return Transition.finish("published" if published else "dropped")

    async with Runtime() as rt:
        outcome = await rt.run(graph, "this")
        assert isinstance(outcome, Paused)
        assert [hold.reason for hold in outcome.holds] == ["publish this?"]
        assert outcome.holds[0].path == "review/review"
        assert await outcome.resume(True) == Completed("published")
