"""Does whatever comes at the same moment as a pause come before it or after it, and never by halves?

The pause is sent over a second connection after each number of turns of the event loop, so that it meets
the other commit in every order that there is. Source: cases team 21, 27 to 31; spec team, "pause"; N3, N5.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from quiesce import Idle, PauseAck, ResumeAck, Run, Runtime, errors

from .crew import Crew, task

pytestmark = pytest.mark.anyio


def each_moment(path: Path | None) -> range:
    """How many turns of the event loop come between what races and the pause."""
    return range(0, 26, 1 if path is None else 2)


@asynccontextmanager
async def two_clients(
    path: Path | None, plan: list[dict[str, Any]], **options: Any
) -> AsyncIterator[tuple[Crew, Run, Run]]:
    """A crew, its run, and the same run over a second connection to the store, where there can be one."""
    crew = Crew(path, plan, **options)
    async with crew.open(durability="normal") as rt:
        run = await crew.start(rt)
        if path is None:
            yield crew, run, run
            return
        async with Runtime(path, drive=False, clock=crew.clock, durability="normal") as other:
            yield crew, run, await other.get("r")


async def after(moments: int, verb: Callable[[], Awaitable[Any]]) -> Any:
    """What the verb gives so many turns of the event loop later, or how it is refused."""
    for _ in range(moments):
        await checkpoint()
    try:
        return await verb()
    except errors.QuiesceError as refused:
        return refused


async def together(*work: Callable[[], Awaitable[Any]]) -> list[Any]:
    """All of these at the same time; what each gives."""
    given: list[Any] = [None] * len(work)

    async def do(at: int) -> None:
        given[at] = await work[at]()

    async with anyio.create_task_group() as group:
        for at in range(len(work)):
            group.start_soon(do, at)
    return given


def place(path: Path | None, moments: int) -> Path | None:
    return None if path is None else path.with_name(f"{moments}.db")


async def test_a_turn_ends_before_the_pause_or_is_captured(path: Path | None) -> None:
    """Case 28: ended first, it has no receipt; fenced first, its task stays as it was, its work is kept."""
    seen = set()
    for moments in each_moment(path):
        async with two_clients(place(path, moments), [task("a", "m0"), task("b", "m1")]) as (
            crew,
            run,
            other,
        ):
            crew.gates["a"] = anyio.Event()
            await crew.wait_began(2)
            crew.gates["a"].set()
            ack = await after(moments, other.pause)
            assert isinstance(ack, PauseAck)
            first = (await run.tasks())[0].state
            captured = [item.name for item in await run.runtime.receipts("r:2")]
            assert ("m0" in captured) == (first == "in_progress"), (moments, first, captured)
            seen.add(first)
            crew.holds.set()
            await run.settled()
            assert (await run.tasks())[0].state == first
            await other.resume()
            assert await run.result() == ["completed", "completed"]
            assert sorted(what for _, what in crew.began) == ["a", "b"]
    assert seen == {"in_progress", "completed"}


async def test_a_turn_is_admitted_before_the_pause_or_refused(path: Path | None) -> None:
    """Case 29: a task that was taken is begun in the end; one that came after the fence is not there."""
    seen = set()
    for moments in each_moment(path):
        async with two_clients(place(path, moments), [task("a", "m0")]) as (crew, run, other):
            await crew.wait_began(1)
            made, ack = await together(
                lambda run=run: after(10, lambda: run.create_task("late", owner="m1")),
                lambda other=other, moments=moments: after(moments, other.pause),
            )
            refused = isinstance(made, errors.Fenced)
            assert isinstance(ack, PauseAck)
            assert len(await run.tasks()) == (1 if refused else 2)
            begun = ("m1", "late") in crew.began
            captured = {item.name: item.was for item in await run.runtime.receipts("r:2")}
            assert begun is False or captured["m1"] == "running"
            seen.add((refused, captured.get("m1")))
            crew.holds.set()
            await run.settled()
            await wait_all_tasks_blocked()
            assert captured.get("m1") == "running" or ("m1", "late") not in crew.began
            await other.resume()
            assert await run.result() == ["completed"] * (1 if refused else 2)
            assert len(crew.began) == (1 if refused else 2)
    assert {refused for refused, _ in seen} == {True, False}


async def test_a_turn_is_promoted_before_the_pause_or_never(path: Path | None) -> None:
    """Case 30; W14, N11: captured while queued, it is stale and never ran; promoted first, it drains."""
    seen = set()
    for moments in each_moment(path):
        async with two_clients(place(path, moments), [task("a", "m0"), task("b", "m0")]) as (
            crew,
            run,
            other,
        ):
            crew.gates["a"] = anyio.Event()
            await crew.wait_began(1)
            (queued,) = [turn.id for turn in await run.turns() if turn.task == 2]
            crew.gates["a"].set()
            await after(moments, other.pause)
            receipts = {item.piece: (item.was, item.drain) for item in await run.runtime.receipts("r:2")}
            (turn,) = [turn for turn in await run.turns() if turn.id == queued]
            assert (turn.state, turn.started_at is None) == {
                ("queued", "absent"): ("stale", True),
                ("running", "absent"): ("stale", False),  # whose body had not begun
                ("running", "pending"): ("running", False),
            }[receipts[queued]]
            crew.holds.set()
            await run.settled()
            await wait_all_tasks_blocked()
            assert receipts[queued] == ("running", "pending") or ("m0", "b") not in crew.began
            seen.add(receipts[queued][0])
            await other.resume()
            assert await run.result() == ["completed", "completed"]
            assert [what for _, what in crew.began] == ["a", "b"]
    assert seen == {"queued", "running"}


async def test_a_team_is_idle_before_the_pause_or_paused(path: Path | None) -> None:
    """Case 31: one of the two; who comes too late is told that there is nothing to pause."""
    seen = set()
    for moments in each_moment(path):
        async with two_clients(place(path, moments), [task("a", "m0"), task("b", "m1", 1)]) as (
            crew,
            run,
            other,
        ):
            crew.breaks.add("a")
            await crew.wait_began(1)
            crew.holds.set()
            told = await after(moments, other.pause)
            status = await run.status()
            if isinstance(told, PauseAck):
                assert (status.state, status.generation) == ("paused", 2)
                await run.settled()
                await other.resume()
            else:
                assert isinstance(told, errors.IllegalTransition), told
                assert "nothing to pause" in str(told)
                assert (status.state, status.generation) == ("idle", 1)
            seen.add(type(told))
            assert isinstance(await run.settled(), Idle)
            assert [item.state for item in await run.tasks()] == ["failed", "pending"]
            assert crew.began == [("m0", "a")]
    assert seen == {PauseAck, errors.IllegalTransition}


async def test_a_resume_and_a_second_pause_come_one_after_the_other(path: Path | None) -> None:
    """Case 21; N12: what both are told is what one of the two orders gives; so is the state."""
    seen = set()
    for moments in range(12):
        async with two_clients(place(path, moments), [task("a", "m0")]) as (crew, run, other):
            await crew.wait_began(1)
            await run.pause(request_id="A")
            resumed, paused = await together(
                lambda run=run: after(4, lambda: run.resume(request_id="R")),
                lambda other=other, moments=moments: after(moments, lambda: other.pause(request_id="B")),
            )
            assert isinstance(resumed, ResumeAck)
            assert isinstance(paused, PauseAck)
            assert (resumed.transitioned, resumed.generation, resumed.continued) == (True, 3, 1)
            told = (paused.transitioned, paused.generation, paused.episode_id)
            status = await run.status()
            if paused.transitioned:
                assert told == (True, 4, "r:4")
                assert (status.state, status.generation) == ("paused", 4)
                await run.resume()
            else:
                assert told == (False, 2, "r:2")
                assert (status.state, status.generation) == ("running", 3)
            seen.add(paused.transitioned)
            crew.holds.set()
            assert await run.result() == ["completed"]
            assert crew.began == [("m0", "a")]
    assert seen == {True, False}


async def test_teams_that_are_paused_at_once_share_nothing(path: Path | None) -> None:
    """Cases 27, 102: each its own episode and generation; a third one works on meanwhile."""
    crew = Crew(path, [task("a", "m0"), task("b", "m1")])
    async with crew.open() as rt:
        runs = [await rt.start(crew.team, run_id=name) for name in ("p", "q", "works")]
        await crew.wait_began(6)
        acks = await together(*[lambda run=run: run.pause(request_id="same") for run in runs[:2]])
        assert [(ack.episode_id, ack.generation, ack.captured) for ack in acks] == [
            ("p:2", 2, 2),
            ("q:2", 2, 2),
        ]
        crew.holds.set()
        assert await runs[2].result() == ["completed", "completed"]
        await runs[0].settled()
        ack = await runs[0].resume(request_id="go")
        assert ack.generation == 3
        assert await runs[0].result() == ["completed", "completed"]
        status = await runs[1].status()
        assert (status.state, status.generation, status.episode_id) == ("paused", 2, "q:2")
