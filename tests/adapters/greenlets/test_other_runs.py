"""What can a body do with other runs: messages, children, verbs; and when would it wait for ever?"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from quiesce import (
    Completed,
    Graph,
    Paused,
    RunState,
    Runtime,
    agent,
    current_run,
    errors,
    pause,
    receive,
    send,
    sleep,
    spawn,
)
from quiesce.clock import ManualClock

pytestmark = pytest.mark.anyio


@agent
def asks(word: str) -> Any:
    return pause(word)


@agent
def adds(number: int) -> int:
    return number + 1


async def test_messages_come_first_in_first_out_and_are_kept_before_start_and_while_paused() -> None:
    """Source: cases agent S46."""

    @agent
    def body() -> list[Any]:
        got = [receive()]
        pause("r")
        return [*got, receive(), receive()]

    async with Runtime() as rt:
        run = await rt.create(body)
        await run.send("before the start")
        await rt.start(body, run_id=run.id)
        await run.settled()
        await run.send("one")
        ack = await run.send({"number": 2})
        assert ack.transitioned is False
        assert (await run.status()).state is RunState.PAUSED
        await run.resume()
        assert await run.settled() == Completed(["before the start", "one", {"number": 2}])


async def test_a_receive_that_times_out_raises() -> None:
    """Source: spec agent, "Concurrency" (decides over S46); B12."""
    clock = ManualClock()

    @agent
    def body() -> str:
        try:
            receive(timeout=5)
        except TimeoutError as late:
            return str(late)
        return "came"

    async with Runtime(clock=clock) as rt:
        run = await rt.start(body)
        await anyio.wait_all_tasks_blocked()
        clock.advance(4)
        await anyio.wait_all_tasks_blocked()
        assert (await run.status()).state is RunState.RUNNING
        clock.advance(1)
        assert await run.settled() == Completed("no message came in time")


async def test_a_message_wakes_a_body_that_waits() -> None:
    """Source: spec agent, "Concurrency"."""

    @agent
    def body() -> Any:
        return receive()

    async with Runtime() as rt:
        run = await rt.start(body)
        await anyio.wait_all_tasks_blocked()
        await run.send("hello")
        assert await run.settled() == Completed("hello")


async def test_a_message_to_an_ended_run_or_a_graph_is_refused() -> None:
    """Source: spec engine, 3 (terminal is terminal)."""
    graph = Graph("no box")

    @graph.node(start=True)
    def node(x: object) -> None: ...

    graph.finish(node)
    async with Runtime() as rt:
        done = await rt.start(adds, 1)
        await done.settled()
        with pytest.raises(errors.IllegalTransition, match="completed"):
            await done.send("late")
        of_graph = await rt.start(graph)
        with pytest.raises(errors.IllegalTransition, match="takes no messages"):
            await of_graph.send("x")
        with pytest.raises(errors.RunNotFound):
            await rt.send("nobody", "x")


async def test_bodies_send_to_one_another() -> None:
    """Source: spec agent, "Concurrency" (send, receive)."""

    @agent
    def echo() -> None:
        sender, text = receive()
        send(sender, text.upper())

    @agent
    def body() -> Any:
        child = spawn(echo)
        child.send([current_run().id, "hello"])
        return receive()

    async with Runtime() as rt:
        assert await rt.run(body) == Completed("HELLO")


async def test_sleep_waits_for_its_time_only() -> None:
    """Source: spec agent, "Concurrency" (sleep(seconds or until))."""
    clock = ManualClock()
    woken: list[int] = []

    @agent
    def body(seconds: int) -> None:
        sleep(seconds)
        woken.append(seconds)

    async with Runtime(clock=clock) as rt:
        runs = [await rt.start(body, seconds) for seconds in (30, 10, 20)]
        await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            clock.advance(10)
            await anyio.wait_all_tasks_blocked()
        assert woken == [10, 20, 30]
        for run in runs:
            await run.settled()


async def test_a_child_gives_its_value_to_the_body_that_waits() -> None:
    """Source: spec agent, "Concurrency" (spawn)."""

    @agent
    def body() -> int:
        return spawn(adds, 1).result() + spawn(adds, 10).result()

    async with Runtime() as rt:
        run = await rt.start(body)
        assert await run.settled() == Completed(13)
        children = (await run.status()).children
        assert [(await rt.status(child)).parent_id for child in children] == [run.id, run.id]


async def test_the_error_of_a_child_is_raised_where_the_body_waits_the_same_object() -> None:
    """Source: spec agent, "Body and lifecycle" (the same error object each time: B6)."""
    problem = ValueError("child")

    @agent
    def fails() -> None:
        raise problem

    @agent
    def body() -> bool:
        child = spawn(fails)
        caught = []
        for _ in range(2):
            try:
                child.result()
            except ValueError as error:
                caught.append(error is problem)
        return caught == [True, True]

    async with Runtime() as rt:
        assert await rt.run(body) == Completed(True)


async def test_a_question_of_a_child_suspends_just_what_waits_for_it() -> None:
    """Source: spec engine, 4 (nesting: the outer run is paused when nothing else in it can run)."""

    @agent
    def body() -> Any:
        return spawn(asks, "inner?").result()

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        assert outcome.reason == "inner?"
        (hold,) = outcome.holds
        assert hold.path == "body/asks"
        (child,) = (await outcome.run.status()).children
        assert (await rt.status(child)).state is RunState.PAUSED
        assert await outcome.resume("yes") == Completed("yes")


async def test_a_body_goes_on_while_its_child_asks() -> None:
    """Source: spec agent, "Concurrency" (a pause inside suspends only what awaits it)."""

    @agent
    def body() -> list[Any]:
        child = spawn(asks, "inner?")
        status = child.settled()
        seen = [status.state.value, status.reason, [hold.reason for hold in child.holds()]]
        child.answer("from outside")
        return [*seen, child.result()]

    async with Runtime() as rt:
        assert await rt.run(body) == Completed(["paused", "inner?", ["inner?"], "from outside"])


async def test_a_body_resumes_pauses_rejects_and_cancels_its_children() -> None:
    """Source: cases agent S27, B15 (allowed, and the other body waits for its verb)."""

    @agent
    def body() -> list[Any]:
        one, two, three, four = (spawn(asks, str(number)) for number in range(4))
        for child in (one, two, three, four):
            child.settled()
        one.resume()
        two.pause("stop it")
        two.resume("let go")
        three.reject("no")
        four.cancel()
        found = [one.result(), two.result()]
        for child in (three, four):
            try:
                child.result()
            except errors.QuiesceError as error:
                found.append(type(error).__name__)
        return found

    async with Runtime() as rt:
        assert await rt.run(body) == Completed([None, "let go", "Rejected", "RunCancelled"])


async def test_an_operator_pause_of_the_outer_run_pauses_what_runs_inside_in_one_transaction() -> None:
    """Source: spec engine, 4 (pause: for every descendant likewise, lock `parent`)."""

    @agent
    def waits() -> Any:
        return receive()

    @agent
    def body() -> Any:
        return spawn(waits).result()

    async with Runtime() as rt:
        run = await rt.start(body)
        await anyio.wait_all_tasks_blocked()
        (child,) = (await run.status()).children
        await run.pause()
        inner = await rt.status(child)
        assert (inner.state, [lock.kind for lock in inner.locks]) == (RunState.PAUSED, ["parent"])
        with pytest.raises(errors.Fenced):
            await rt.resume(child)
        await rt.send(child, "kept")
        await run.resume()
        assert await run.settled() == Completed("kept")


async def test_an_operator_pause_of_just_the_child_leaves_the_outer_run_with_the_lock_child() -> None:
    """Source: spec engine, 4 (resume: paused with the lock `child`)."""

    @agent
    def waits() -> Any:
        return receive()

    @agent
    def body() -> Any:
        return spawn(waits).result()

    async with Runtime() as rt:
        run = await rt.start(body)
        await anyio.wait_all_tasks_blocked()
        (child,) = (await run.status()).children
        await rt.pause(child)
        await anyio.wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, [lock.kind for lock in status.locks]) == (RunState.PAUSED, ["child"])
        await rt.resume(child)
        await rt.send(child, 5)
        assert await run.settled() == Completed(5)


async def test_cancelling_the_outer_run_cancels_what_runs_inside() -> None:
    """Source: spec engine, 4 (cancel: descendants too)."""
    seen: list[str] = []

    @agent
    def inner() -> None:
        try:
            pause("r")
        finally:
            seen.append("inner")

    @agent
    def body() -> None:
        try:
            spawn(inner).result()
        finally:
            seen.append("outer")

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.settled()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
        await anyio.wait_all_tasks_blocked()
        assert sorted(seen) == ["inner", "outer"]
        assert {(await rt.status(child)).state for child in (await run.status()).children} == {
            RunState.CANCELLED
        }


async def test_two_bodies_that_wait_for_each_other_are_told_of_the_deadlock() -> None:
    """Source: spec agent, "Concurrency" (reported, not hung)."""

    @agent
    def inner(outer: Any) -> Any:
        receive()  # until the outer one waits
        return outer.result()

    @agent
    def body() -> str:
        child = spawn(inner, current_run())
        child.send("go on")
        try:
            return str(child.result())
        except errors.Deadlock as error:
            return str(error)

    async with Runtime() as rt:
        run = await rt.start(body)
        with anyio.fail_after(5):
            outcome = await run.settled()
        assert isinstance(outcome, Completed)
        (child,) = (await run.status()).children
        assert run.id in outcome.value
        assert child in outcome.value
        assert "would wait for itself" in outcome.value


async def test_a_body_that_waits_for_itself_is_told_of_the_deadlock() -> None:
    """Source: spec agent, "Concurrency"."""

    @agent
    def body() -> None:
        current_run().result()

    async with Runtime() as rt:
        with pytest.raises(errors.Deadlock):
            await rt.run(body)


async def test_the_end_of_one_child_does_not_answer_a_question_of_the_body() -> None:
    """Source: spec engine, 4 (a hold waits for its answer, whatever else ends meanwhile)."""

    @agent
    def waits() -> Any:
        return receive()

    @agent
    def body() -> list[Any]:
        child = spawn(waits)
        asked = pause("mine")
        return [asked, child.result()]

    async with Runtime() as rt:
        run = await rt.start(body)
        await anyio.wait_all_tasks_blocked()
        (child,) = (await run.status()).children
        await rt.send(child, "child")
        await anyio.wait_all_tasks_blocked()
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert outcome.reason == "mine"
        assert await outcome.resume("body") == Completed(["body", "child"])


async def test_a_failed_child_that_nobody_waits_for_does_not_keep_the_outer_run_from_pausing() -> None:
    """Source: spec engine, 3 (nothing runnable or in flight and a hold open: the engine fences it)."""

    @agent
    def fails() -> None:
        raise ValueError("child")

    @agent
    def body() -> Any:
        child = spawn(fails)
        sleep(0)
        try:
            child.settled()
        except ValueError:
            pass
        return pause("mine")

    async with Runtime() as rt:
        run = await rt.start(body)
        with anyio.fail_after(5):
            outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert await outcome.resume(1) == Completed(1)


async def test_a_body_that_cancels_its_own_run_ends_there() -> None:
    """Source: spec engine, 4 (cancel); it is raised at the very call."""
    seen: list[str] = []

    @agent
    def body() -> None:
        try:
            current_run().cancel()
            seen.append("went on")
        finally:
            seen.append("finally")

    async with Runtime() as rt:
        run = await rt.start(body)
        with pytest.raises(errors.RunCancelled):
            await run.settled()
        assert seen == ["finally"]


async def test_a_bad_child_is_refused_in_the_body() -> None:
    """Source: issue 4 (bad input: a clear error at the earliest moment)."""

    @agent
    def body() -> list[str]:
        told = []
        for flow, value in ((adds, "text"), (adds, None), (5, 1)):
            try:
                spawn(flow, value)
            except errors.QuiesceError as error:
                told.append(type(error).__name__)
        return told

    async with Runtime() as rt:
        assert await rt.run(body) == Completed(["InputRejected", "InputRejected", "FlowNotFound"])
