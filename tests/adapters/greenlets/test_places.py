"""Is the line known where a paused body stands, from any process, whatever it waits for there?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import Runtime, agent, await_, gather, pause, receive, sleep, spawn, step
from quiesce.agent import RunHandle
from quiesce.insight import view

pytestmark = pytest.mark.anyio

GATE: list[anyio.Event] = []


@step
async def known() -> None: ...


@step
async def slow() -> None:
    await GATE[0].wait()


@agent
def listens() -> Any:
    return receive()


async def nothing_but_the_loop(event: anyio.Event) -> None:
    await event.wait()  # of an await in an await


WAYS: dict[str, Callable[[RunHandle], Any]] = {
    "a message": lambda child: receive(),  # of a message
    "a time": lambda child: sleep(1000),  # of a time
    "a child": lambda child: child.result(),  # of a child
    "a child to settle": lambda child: child.settled(),  # of a child to settle
    "a step": lambda child: [await_(slow()), receive()],  # of a step
    "a group": lambda child: [gather(slow.call(), slow.call()), receive()],  # of a group
}
"""Each is one line, where a body stands at a fence."""


@agent
def body(way: str) -> Any:
    await_(known())
    child = spawn(listens)
    return WAYS[way](child)


@agent
async def waits() -> Any:
    await known()
    await nothing_but_the_loop(GATE[0])
    return pause("after")


async def line_of(rt: Runtime) -> str | None:
    seen = view(rt.backend.host, "r", events=0)
    assert seen.stands_at is not None
    assert seen.stands_at.file == __file__
    return seen.stands_at.source


@pytest.mark.parametrize("way", WAYS)
async def test_a_body_that_an_operator_paused_stands_where_it_waits(db: Path, way: str) -> None:
    """Source: spec engine, 7 (file and line of each paused body), not where it wrote to its journal last."""
    GATE[:] = [anyio.Event()]
    async with Runtime(db) as rt:
        run = await rt.start(body, way, run_id="r")
        with anyio.fail_after(20):
            while not (await run.status()).children:
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            await run.pause()
            GATE[0].set()
            await run.settled()
        assert str(await line_of(rt)).endswith(f"# of {way}")
    async with Runtime(db) as rt:
        assert str(await line_of(rt)).endswith(f"# of {way}")


async def test_a_body_that_was_paused_in_an_await_stands_there(db: Path) -> None:
    """Source: spec engine, 7; a coroutine that waits has frames of its own."""
    GATE[:] = [anyio.Event()]
    async with Runtime(db) as rt:
        run = await rt.start(waits, run_id="r")
        with anyio.fail_after(20):
            while not view(rt.backend.host, "r", events=0).journal:
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            await run.pause()
            GATE[0].set()
            await run.settled()
        assert await line_of(rt) == "await event.wait()  # of an await in an await"


async def test_a_body_whose_child_asks_stands_where_it_waits_for_that(db: Path) -> None:
    """Source: spec engine, 7; 4 (nesting)."""
    GATE[:] = [anyio.Event()]
    async with Runtime(db) as rt:
        run = await rt.start(outer, run_id="r")
        with anyio.fail_after(20):
            await run.settled()
        assert await line_of(rt) == "return child.result()  # of an inner question"


@agent
def asks() -> Any:
    return pause("inner?")


@agent
def outer() -> Any:
    child = spawn(asks)
    return child.result()  # of an inner question
