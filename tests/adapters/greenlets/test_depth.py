"""Where in a call stack may a body pause? Anywhere, and everything is as it was when it goes on."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from quiesce import Completed, Paused, Runtime, agent, await_, pause

pytestmark = pytest.mark.anyio


def ask(what: str) -> Any:
    """A helper that is declared far from any body."""
    return pause(what)


async def answer_all(rt: Runtime, flow: Any, input: Any = None) -> tuple[Any, list[str | None]]:
    """Run a flow, and answer each of its questions with its number; its value, and its reasons."""
    reasons: list[str | None] = []
    outcome = await rt.run(flow, input)
    while isinstance(outcome, Paused):
        reasons.append(outcome.reason)
        outcome = await outcome.resume(len(reasons))
    assert isinstance(outcome, Completed)
    return outcome.value, reasons


async def test_a_helper_declared_elsewhere_pauses_the_body_that_called_it() -> None:
    """Source: cases agent S20 and B1 (found dynamically, not lexically)."""

    @agent
    def body() -> Any:
        return [ask("outside"), ask("again")]

    async with Runtime() as rt:
        assert await answer_all(rt, body) == ([1, 2], ["outside", "again"])


async def test_a_loop_pauses_at_each_turn() -> None:
    """Source: cases agent S18."""

    @agent
    def body() -> Any:
        return [pause(str(turn)) for turn in range(3)]

    async with Runtime() as rt:
        assert await answer_all(rt, body) == ([1, 2, 3], ["0", "1", "2"])


@pytest.mark.parametrize("depth", [50, 500])
async def test_recursion_keeps_every_frame(depth: int) -> None:
    """Source: cases agent S19; issue 4 (recursion 500 deep)."""

    @agent
    def body() -> int:
        def down(level: int) -> int:
            if level == 0:
                return int(pause("bottom"))
            return level + down(level - 1)

        return down(depth)

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert isinstance(outcome, Paused)
        frames = outcome.run.frames()
        assert [frame.locals["level"] for frame in frames if frame.function.endswith("down")] == list(
            range(depth, -1, -1)
        )
        assert await outcome.resume(1) == Completed(1 + sum(range(depth + 1)))


async def test_a_sort_key_pauses_inside_the_c_function_that_calls_it() -> None:
    """Source: issue 4 (through C callbacks such as a sort key)."""

    @agent
    def body() -> list[str]:
        return sorted("cab", key=lambda letter: ask(letter))

    async with Runtime() as rt:
        assert await answer_all(rt, body) == (["c", "a", "b"], ["c", "a", "b"])


async def test_a_reduction_pauses_in_its_callback() -> None:
    """Source: issue 4 (C callbacks)."""

    @agent
    def body() -> int:
        return functools.reduce(lambda total, item: total + item * ask(str(item)), [1, 2, 3], 0)

    async with Runtime() as rt:
        assert await answer_all(rt, body) == (14, ["1", "2", "3"])


async def test_generators_and_comprehensions_pause_inside() -> None:
    """Source: spec agent, "Body and lifecycle" (a comprehension, the middle of an expression)."""

    @agent
    def body() -> Any:
        def numbers() -> Iterator[Any]:
            for _ in range(2):
                yield ask("generator")

        in_generator = list(numbers())
        in_dict = {key: ask("dict") for key in "ab"}
        in_expression = 10 * ask("left") + ask("right")
        return in_generator, in_dict, in_expression

    async with Runtime() as rt:
        value, _ = await answer_all(rt, body)
    assert value == ([1, 2], {"a": 3, "b": 4}, 10 * 5 + 6)


async def test_with_blocks_and_finally_run_once_after_the_resume() -> None:
    """Source: cases agent S22."""
    seen: list[str] = []

    class Block:
        def __enter__(self) -> None:
            seen.append("enter")

        def __exit__(self, *_: object) -> None:
            seen.append("exit")

    @agent
    def body() -> None:
        with Block():
            try:
                ask("inside")
                seen.append("after")
            finally:
                seen.append("finally")

    async with Runtime() as rt:
        outcome = await rt.run(body)
        assert seen == ["enter"]
        await outcome.resume()  # type: ignore[union-attr]
        assert seen == ["enter", "after", "finally", "exit"]


async def test_plain_code_called_from_async_code_pauses_the_body() -> None:
    """Source: spec agent, "Body and lifecycle" (sync code called from async code called from the body)."""

    async def middle() -> Any:
        await anyio.lowlevel.checkpoint()
        return ask("deep")

    @agent
    async def body() -> Any:
        return [await middle(), await middle()]

    async with Runtime() as rt:
        assert await answer_all(rt, body) == ([1, 2], ["deep", "deep"])


async def test_a_plain_body_awaits_and_async_code_below_it_pauses() -> None:
    """Source: spec agent, "Concurrency" (`await_`)."""

    async def fetch(word: str) -> str:
        await anyio.lowlevel.checkpoint()
        return f"{word}{ask('inside the await')}"

    @agent
    def body() -> Any:
        return [await_(fetch("a")), await_(fetch("b"))]

    async with Runtime() as rt:
        assert await answer_all(rt, body) == (["a1", "b2"], ["inside the await"] * 2)


async def test_the_stack_that_awaits_shows_the_coroutines_below() -> None:
    """Source: spec agent (`run.frames()`: the paused stack with locals)."""
    gate = anyio.Event()
    there = anyio.Event()

    async def inner(word: str) -> None:
        there.set()
        await gate.wait()

    async def outer() -> None:
        await inner("low")

    @agent
    async def body() -> None:
        number = 7
        await outer()
        assert number == 7

    async with Runtime() as rt:
        run = await rt.start(body)
        await there.wait()
        frames = {frame.function.rpartition(".")[2]: frame for frame in run.frames()}
        assert list(frames)[:3] == ["body", "outer", "inner"]
        assert frames["body"].locals["number"] == 7
        assert frames["inner"].source == "await gate.wait()"
        gate.set()
        await run.settled()


async def test_the_stack_of_a_paused_body_has_lines_and_locals() -> None:
    """Source: cases agent S23 (`run.frames()`)."""

    @agent
    def body(amount: int) -> None:
        doubled = amount * 2
        ask("now")
        assert doubled

    async with Runtime() as rt:
        outcome = await rt.run(body, 21)
        frames = outcome.run.frames()  # type: ignore[union-attr]
        assert [frame.function.rpartition(".")[2] for frame in frames] == ["body", "ask"]
        assert frames[0].locals["doubled"] == 42
        assert frames[0].source == 'ask("now")'
        assert frames[0].file == __file__
        await outcome.run.cancel()  # type: ignore[union-attr]


async def test_a_run_that_is_not_suspended_has_no_stack() -> None:
    """Source: spec engine, 5 (`run.frames()`)."""

    @agent
    def body() -> int:
        return 1

    async with Runtime() as rt:
        run = await rt.start(body)
        await run.settled()
        assert run.frames() == []
