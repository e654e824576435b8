"""Can an agent be restarted from a place of its journal, and does its body say where it stands?

Source: spec agent, "Steps and the journal" (restart_from, dry replay); spec engine, 5 and 7.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio

from quiesce import Completed, Paused, Run, Runtime, agent, ask_human, errors, pause, spawn, step
from quiesce.insight import explain, view

pytestmark = pytest.mark.anyio

DONE: list[str] = []


@step
def fetch(name: str) -> str:
    DONE.append(name)
    return name.upper()


@agent
def child() -> None:
    pause("inner")


@agent
def body() -> str:
    one = fetch("a")
    first = ask_human("first?", expects=str)
    spawn(child)
    two = fetch("b")
    second = ask_human("second?", expects=str)
    return f"{one}{first}{two}{second}"


@pytest.fixture(autouse=True)
def forget() -> None:
    del DONE[:]


async def paused(run: Run, reason: str | None) -> Paused:
    with anyio.fail_after(20):
        outcome = await run.settled()
        while isinstance(outcome, Paused) and reason not in {hold.reason for hold in outcome.holds}:
            outcome = await run.settled()
    assert isinstance(outcome, Paused)
    return outcome


@pytest.mark.parametrize("same_process", [True, False])
async def test_a_run_is_restarted_from_a_position(db: Path, same_process: bool) -> None:
    """spec agent: the rest is set aside and shown, its hold is withdrawn, its child is cancelled."""
    async with Runtime(db, flows=[body, child]) as rt:
        run = await rt.start(body, run_id="r")
        await paused(run, "first?")
        await run.answer("1")
        await paused(run, "second?")
        if same_process:
            await run.restart_from(2)
            await paused(run, "first?")
    async with Runtime(db, flows=[body, child]) as rt:
        run = Run(rt, "r")
        if not same_process:
            await run.restart_from(2)
        outcome = await paused(run, "first?")
        (inner,) = (await rt.status("r")).children
        assert (await rt.status(inner)).state == "cancelled"
        assert [hold.reason for hold in outcome.holds] == ["first?"]
        await run.answer("one")
        await paused(run, "second?")
        asks = [hold for hold in await rt.holds("r") if hold.reason == "second?"]
        await rt.answer(asks[0].id, "two")
        with anyio.fail_after(20):
            assert await run.settled() == Completed("AoneBtwo")
        shown = view(rt.backend.host, "r", events=0).journal
        assert [(line.position, line.name) for line in shown if line.aside] == [
            (2, "first?"), (3, "child"), (4, "fetch"), (5, "second?"),
        ]  # fmt: skip
    assert DONE == ["a", "b", "b"]


async def test_a_position_that_is_not_there_is_refused(db: Path) -> None:
    """spec agent: nothing is changed by a restart that cannot be."""
    async with Runtime(db, flows=[body, child]) as rt:
        run = await rt.start(body, run_id="r")
        await paused(run, "first?")
        with pytest.raises(errors.QuiesceError, match="has no position 9"):
            await run.restart_from(9)
        assert [hold.reason for hold in await rt.holds("r")] == ["first?"]
    async with Runtime() as rt:
        run = await rt.start(body)
        await paused(run, "first?")
        with pytest.raises(errors.QuiesceError, match="no journal"):
            await run.restart_from(1)


async def test_show_names_the_line_where_a_body_stands(db: Path) -> None:
    """spec engine, 7: file, line and source line of each paused body, from any process."""
    async with Runtime(db, flows=[body, child]) as rt:
        await paused(await rt.start(body, run_id="r"), "first?")
    async with Runtime(db) as rt:
        seen = view(rt.backend.host, "r", events=0)
        assert seen.stands_at is not None
        assert seen.stands_at.file == __file__
        assert seen.stands_at.source == 'first = ask_human("first?", expects=str)'
        assert [(line.kind, line.name, line.state) for line in seen.journal] == [
            ("step", "fetch", "done"), ("ask", "first?", "open"),
        ]  # fmt: skip


async def test_explain_replays_dry_and_names_the_first_step_that_differs(db: Path) -> None:
    """spec agent: without effects; a body that fits is told to fit."""
    cleaned: list[str] = []

    @agent(name="body")
    def other() -> str:
        try:
            fetch("a")
            return fetch("z")
        finally:
            cleaned.append(fetch("clean"))

    @agent(name="body")
    def same() -> str:
        fetch("a")
        pause("more?")
        fetch("b")
        return str(ask_human("more?"))

    async with Runtime(db, flows=[same]) as rt:
        run = await rt.start(same, run_id="r")
        await paused(run, "more?")
    del DONE[:]
    async with Runtime(db, flows=[same]) as rt:
        seen = explain(rt.backend.host, "r")
        assert (seen.code.fits, seen.done) == (True, 1)
    async with Runtime(db, flows=[other]) as rt:
        seen = explain(rt.backend.host, "r")
        assert seen.code.fits is False
        assert "position 2 of the journal: expected ask 'more?', got step 'fetch'" in seen.code.changes[0]
    assert DONE == []
    assert cleaned == []


STARTED: list[str] = []


async def beside() -> None:
    STARTED.append("beside")


async def anyio_group() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(beside)


async def trio_nursery() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside)


async def asyncio_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(beside())


@pytest.mark.parametrize("tasks", [anyio_group, trio_nursery, asyncio_group])
async def test_a_body_with_tasks_is_followed_up_to_them_and_none_is_started(
    db: Path, tasks: Any, anyio_backend_name: str
) -> None:
    """spec agent: dry, without effects; that there is no event loop says nothing about the journal."""
    if tasks.__name__.partition("_")[0] not in ("anyio", anyio_backend_name):
        tasks = anyio_group

    @agent(name="body")
    async def same() -> Any:
        fetch("a")
        await tasks()
        fetch("b")
        return pause("more?")

    @agent(name="body")
    async def other() -> Any:
        fetch("z")
        await tasks()
        return pause("more?")

    async with Runtime(db, flows=[same]) as rt:
        await paused(await rt.start(same, run_id="r"), "more?")
    del STARTED[:]
    async with Runtime(db, flows=[same]) as rt:
        assert explain(rt.backend.host, "r").code.fits is True
        await anyio.wait_all_tasks_blocked()
    async with Runtime(db, flows=[other]) as rt:
        assert explain(rt.backend.host, "r").code.fits is False
        await rt.resume("r")
        outcome = await rt.get("r")
        await outcome.settled()
        await rt.resume("r")  # which looks whether the fault still stands
        await anyio.wait_all_tasks_blocked()
    assert STARTED == []
