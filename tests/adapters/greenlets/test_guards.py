"""Who may suspend a body? Only code on its own call stack; everybody else is told at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from quiesce import (
    Completed,
    Runtime,
    agent,
    ask_human,
    await_,
    checkpoint,
    current_run,
    errors,
    gather,
    now,
    pause,
    random,
    receive,
    send,
    sleep,
    spawn,
    step,
    uuid4,
)

pytestmark = pytest.mark.anyio

VERBS: dict[str, Callable[[], Any]] = {
    "pause()": pause,
    "checkpoint()": checkpoint,
    "receive()": receive,
    "send()": lambda: send("run", 1),
    "sleep()": lambda: sleep(1),
    "spawn()": lambda: spawn(None),
    "now()": now,
    "uuid4()": uuid4,
    "random()": random,
    "gather()": gather,
    "await_()": lambda: await_(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("verb", VERBS)
async def test_outside_a_body_there_is_nothing_to_suspend(verb: str) -> None:
    """Source: cases agent S12."""
    with pytest.raises(errors.PauseOutsideBody, match=r"outside an agent's body"):
        VERBS[verb]()


async def test_current_run_outside_a_body_is_an_error() -> None:
    """Source: cases agent S12."""
    with pytest.raises(errors.PauseOutsideBody):
        current_run()


async def test_after_the_end_of_its_body_a_closure_cannot_pause() -> None:
    """Source: cases agent B2 (an error at once, never a hang)."""
    kept: list[Callable[[], Any]] = []

    @agent
    def body() -> None:
        kept.append(lambda: pause("too late"))

    async with Runtime() as rt:
        await rt.run(body)
        with pytest.raises(errors.PauseOutsideBody):
            kept[0]()


async def test_a_context_that_outlives_its_body_cannot_pause() -> None:
    """Source: cases agent S48, B2 (after the end, with the body's own context at hand)."""
    import contextvars

    kept: list[contextvars.Context] = []

    @agent
    def body() -> None:
        kept.append(contextvars.copy_context())

    async with Runtime() as rt:
        await rt.run(body)
        with pytest.raises(errors.PauseOutsideBody, match="after the end"):
            kept[0].run(pause, "too late")


async def test_a_closure_of_one_body_called_by_another_pauses_the_caller() -> None:
    """Source: cases agent B3 (found dynamically: the body that calls is the one that is suspended)."""
    kept: list[Callable[[], Any]] = []

    @agent
    def first() -> None:
        kept.append(lambda: pause("whose?"))
        pause("first")

    @agent
    def second() -> Any:
        return kept[0]()

    async with Runtime() as rt:
        one = await rt.start(first)
        await one.settled()
        two = await rt.run(second)
        assert two.reason == "whose?"  # type: ignore[union-attr]
        assert await two.resume(2) == Completed(2)  # type: ignore[union-attr]
        assert (await one.status()).reason == "first"
        await one.resume()


async def test_a_thread_of_a_body_cannot_pause_it() -> None:
    """Source: cases agent B3, S48; style, 2 (a helper thread that copied the context)."""

    @agent
    async def body() -> str:
        try:
            await anyio.to_thread.run_sync(pause, "from a thread")
        except errors.WrongThread as error:
            return str(error)
        return "paused"

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert "pause() was called in thread" in outcome.value  # type: ignore[union-attr]


async def test_a_bare_thread_cannot_pause_a_body() -> None:
    """Source: cases agent S48."""
    caught: list[BaseException] = []

    def elsewhere() -> None:
        try:
            pause("from a bare thread")
        except errors.QuiesceError as error:
            caught.append(error)

    @agent
    def body() -> None:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    async with Runtime() as rt:
        await rt.run(body)
    assert isinstance(caught[0], errors.PauseOutsideBody)


async def test_a_step_in_its_thread_cannot_pause_the_body() -> None:
    """Source: cases agent B4 (an error in the tool; the status stays what it is)."""

    @step
    def tool() -> None:
        pause("in a step")

    @agent
    def body() -> str:
        try:
            tool()
        except errors.PauseOutsideBody as error:
            return str(error)
        return "paused"

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert "pause() was called inside the step 'tool'" in outcome.value  # type: ignore[union-attr]


async def test_a_task_of_a_body_cannot_pause_it() -> None:
    """Source: cases agent B4; spec agent, "Concurrency" (no pause inside tasks that it started)."""

    @agent
    async def body() -> list[str]:
        told: list[str] = []

        async def child() -> None:
            try:
                ask_human("from a task")
            except errors.PauseOutsideBody as error:
                told.append(str(error))

        async with anyio.create_task_group() as group:
            group.start_soon(child)
        return told

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert "in a task that the body" in outcome.value[0]  # type: ignore[union-attr]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_asyncio_task_of_a_body_cannot_pause_it() -> None:
    """Source: cases agent B4."""

    @agent
    async def body() -> str:
        async def child() -> None:
            pause("from a task")

        try:
            await asyncio.create_task(child())
        except errors.PauseOutsideBody:
            return "refused"
        return "paused"

    async with Runtime() as rt:
        assert await rt.run(body) == Completed("refused")


async def test_await_takes_an_awaitable_only() -> None:
    """Source: spec agent, "Concurrency" (`await_`)."""

    @agent
    def body() -> None:
        await_(5)  # type: ignore[arg-type]

    async with Runtime() as rt:
        with pytest.raises(TypeError, match="as a call of an async function is, not 5"):
            await rt.run(body)
