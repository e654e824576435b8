"""Does nothing formal begin while a team is paused, whoever asks for it, and does nobody look for work?

Each way into the scheduler is tried by itself. Source: cases team 94 to 102; spec team, N8, N11; W14.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Run, Runtime, Team, Turn, errors, pause
from quiesce.clock import ManualClock
from quiesce.rules import claims, scheduling
from quiesce.rules.requests import found
from quiesce_adapters.sqlite.store import SqliteStore

from .crew import Crew, dump, log_of, task

pytestmark = pytest.mark.anyio

WORK = [task("a", "m0"), task("b", "m1"), task("c", "m0"), task("d", "m2", 1)]


def refuse(*_: object) -> Any:
    raise AssertionError("a body was opened while the team was paused")


async def tick(rt: Runtime, run: Run) -> None:
    """What the driver does after every change, even if it were not asked whether it may."""
    await rt.backend.host.write(
        lambda tx: scheduling.advance_team(tx, found(tx, "r"), refuse, tx.now + timedelta(seconds=1))
    )


async def push(rt: Runtime, run: Run) -> None:
    """Everybody is told that something happened."""
    rt.backend.host.tell(["r", "r.2", "r.3"])


async def watchdog(rt: Runtime, run: Run) -> None:
    """The safety read that covers a lost bell; and an hour passes for every timer."""
    await rt.backend.host._catch_up()
    rt.backend.host.clock.advance(3600)  # type: ignore[attr-defined]


async def message(rt: Runtime, run: Run) -> None:
    await run.send("to the coordinator")
    await run.send("to a member", to="m2")


async def claim(rt: Runtime, run: Run) -> None:
    """Somebody wants the lease of the team, and of a body that is at rest in there."""
    for name in ("r", "r.2"):
        assert await rt.backend.host.write(lambda tx, name=name: claims.claim(tx, name, 99)) is None


async def quiescence(rt: Runtime, run: Run) -> None:
    """The waiters look, and somebody waits for the run to settle."""
    await run.settled()


WAYS: list[Callable[[Runtime, Run], Awaitable[None]]] = [tick, push, watchdog, message, claim, quiescence]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_no_way_into_the_scheduler_begins_anything(
    path: Path | None, way: Callable[[Runtime, Run], Awaitable[None]]
) -> None:
    """Cases 95, 98; N8, N11: no turn begins or is admitted, no task moves, no mail is read."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.send("before", to="m2")
        await wait_all_tasks_blocked()
        await run.pause()
        crew.holds.set()
        await run.settled()
        before = await dump(rt)
        await way(rt, run)
        await wait_all_tasks_blocked()
        after = await dump(rt)
        same = ("tasks", "turns", "receipts")
        assert {name: after[name] for name in same} == {name: before[name] for name in same}
        assert after["status"].generation == before["status"].generation
        read = [row.turn for row in after["mail"]]
        assert read == [row.turn for row in before["mail"]] + [None] * (len(read) - len(before["mail"]))
        assert [event for event in after["log"] if event.kind in ("turn-running", "turn-queued")] == [
            event for event in before["log"] if event.kind in ("turn-running", "turn-queued")
        ]
        assert sorted(what for _, what in crew.began) == ["a", "b"]
        await run.resume()
        assert await run.result() == ["completed"] * 4


async def test_nothing_is_read_and_nothing_is_due_while_a_team_is_paused(tmp_path: Path) -> None:
    """Case 98; N11: quiescent, it costs no statement and sets no timer, for an hour."""
    seen: list[str] = []
    crew = Crew(tmp_path / "flows.db", WORK)
    store = SqliteStore(crew.path or "", crew.clock, on_statement=seen.append)
    async with Runtime(store, flows=[crew.team], clock=crew.clock) as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.pause()
        crew.holds.set()
        await run.settled()
        crew.clock.advance(11)  # past the bound of the drain
        await wait_all_tasks_blocked()
        before = len(seen)
        for seconds in (2.5, 3600):
            crew.clock.advance(seconds)
            await wait_all_tasks_blocked()
        assert seen[before:] == []
        assert (await run.status()).generation == 2


async def test_what_is_refused_while_paused_is_not_half_done(path: Path | None) -> None:
    """Case 94: the store is as it was, and the same request does it afterwards."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.pause()
        crew.holds.set()
        await run.settled()
        before = await dump(rt)
        with pytest.raises(errors.Fenced, match="is paused by operator"):
            await run.create_task("late", owner="m2", request_id="late")
        assert await dump(rt) == before
        await run.resume()
        made = await run.create_task("late", owner="m2", request_id="late")
        assert made.id == 5
        assert await run.result() == ["completed"] * 5


async def test_a_user_directed_turn_changes_no_task_while_its_team_is_paused(path: Path | None) -> None:
    """Cases 94, 96; N7, N8: it runs, and every order that it gives is refused until the team goes on."""
    told: list[str] = []

    async def plan(turn: Turn) -> None:
        if not turn.tasks():
            turn.create_task("a", owner="m")
        else:
            turn.finish(told)

    async def member(turn: Turn) -> Any:
        if turn.kind == "task":
            return pause("go on?", expects=str)
        try:
            turn.send("is stored")
            turn.create_task("b", owner="m")
        except errors.Fenced:
            told.append("fenced")
        return "done"

    team = Team("t", coordinator=plan, members={"m": member, "other": member})
    async with Runtime(path, flows=[team], clock=ManualClock()) as rt:
        run = await rt.start(team, run_id="r")
        await run.settled()
        await run.pause()
        await run.direct("other", "try it")
        await wait_all_tasks_blocked()
        (directed,) = [turn for turn in await run.turns() if turn.kind == "user_directed"]
        assert (directed.state, told) == ("completed", ["fenced"])
        assert [item.title for item in await run.tasks()] == ["a"]
        await run.resume()
        await run.answer("yes")
        assert await run.result() == ["fenced"]


async def test_what_was_admitted_is_asked_again_when_it_is_promoted(path: Path | None) -> None:
    """spec team, model; W14, N7: of another generation, owner or an ended task it does not begin."""
    crew = Crew(path, [task("a", "m0"), task("b", "m0"), task("c", "m0"), task("d", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        turns = {turn.task: turn.id for turn in await run.turns() if turn.task is not None}

        def behind_its_back(tx: Any) -> None:
            """What no order does: the rows change, and the turns stay in the queue."""
            turn, given, ended = tx.turn("r", turns[2]), tx.task("r", 3), tx.task("r", 4)
            turn.generation -= 1
            tx.save_turn("r", turn)
            tx.save_task("r", replace(given, owner="m1"), was="pending")
            tx.save_task("r", replace(ended, state="completed"), was="pending")

        await rt.backend.host.write(behind_its_back)
        crew.holds.set()
        assert await run.result() == ["completed"] * 4
        reasons = {turn.id: (turn.state, turn.reason) for turn in await run.turns()}
        assert reasons[turns[2]] == ("stale", "it was admitted in generation 0, and this is 1")
        assert reasons[turns[3]] == ("stale", "its task is m1's now")
        assert reasons[turns[4]] == ("stale", "its task is completed")
        assert sorted(crew.began) == [("m0", "a"), ("m0", "b"), ("m1", "c")]


async def test_views_are_ordered_by_number_whatever_the_clock_says(path: Path | None) -> None:
    """Case 73; W15: an hour back between pause and resume; order, replay and generation are unchanged."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        started = crew.clock.now()
        ack = await run.pause(request_id="P")
        crew.clock.set_wall(started - timedelta(hours=1))
        crew.holds.set()
        await run.settled()
        await run.resume(request_id="R")
        crew.clock.set_wall(started + timedelta(hours=1))
        assert await run.result() == ["completed"] * 4
        again = await run.pause(request_id="P")
        assert (again.replayed, again.generation, again.episode_id) == (True, 2, ack.episode_id)
        turns = await run.turns()
        assert [turn.id for turn in turns] == list(range(1, len(turns) + 1))
        assert min(turn.created_at for turn in turns) < turns[0].created_at  # so time does not order them
        assert [item.id for item in await run.tasks()] == [1, 2, 3, 4]
        kinds = [
            event.kind for event in await log_of(rt, "r") if event.kind in ("paused", "resumed", "completed")
        ]
        assert kinds == ["paused", "resumed", "completed"]
