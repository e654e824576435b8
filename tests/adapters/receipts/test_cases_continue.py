"""Is each captured turn gone on with once, in its place, or left with the reason that there is?

What changes while a team is paused is written into its rows here, since no order does it then. Source: cases
team 103 to 106, 111, 113, 117, 119 to 121; spec team, "resume"; W13; N4, N5, N8, N10.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Run, Runtime, Team, Turn, step
from quiesce.clock import ManualClock
from quiesce_adapters.sqlite.store import SqliteStore

from .crew import Crew, log_of, task

pytestmark = pytest.mark.anyio


async def quiescent(crew: Crew, run: Run, count: int) -> None:
    """So many bodies have begun; the team is paused, and all of them have yielded."""
    await crew.wait_began(count)
    await run.pause()
    crew.holds.set()
    await run.settled()


def change(number: int, **changes: Any) -> Any:
    """A unit of work that writes a task as nobody may while its team is paused."""

    def work(tx: Any) -> None:
        now = tx.task("r", number)
        tx.save_task("r", replace(now, **changes), was=now.state)

    return work


async def test_of_six_captured_turns_those_that_are_valid_are_continued(path: Path | None) -> None:
    """Case 103; N8: three continued in their places, three skipped, and no task is touched."""
    gate = anyio.Event()

    @step
    async def work() -> None:
        await gate.wait()

    async def plan(turn: Turn) -> None:
        if not turn.tasks():
            for title, owner in (("open", "a"), ("waits", "a"), ("done", "b"), ("moved", "c"), ("anew", "d")):
                turn.create_task(title, owner=owner)
            await work()
        elif all(item.state == "completed" for item in turn.tasks() if item.id < 4):
            turn.finish("enough")

    async def member(turn: Turn) -> None:
        await work()

    team = Team("t", coordinator=plan, members=dict.fromkeys("abcd", member))
    async with Runtime(path, flows=[team], clock=ManualClock()) as rt:
        run = await rt.start(team, run_id="r")
        await wait_all_tasks_blocked()
        ack = await run.pause()
        assert (ack.captured, ack.draining) == (6, 5)
        gate.set()
        await run.settled()
        host = rt.backend.host
        await host.write(change(3, state="completed"))
        await host.write(change(4, owner="b"))

        def make_anew(tx: Any) -> None:
            (old,) = [row for row in tx.participants("r") if row.name == "d"]
            tx.put_participants("r", [replace(old, incarnation=old.incarnation + 1)])

        await host.write(make_anew)
        before = await run.tasks()
        resumed = await run.resume()
        assert await run.tasks() == before
        assert (resumed.continued, resumed.skipped, resumed.carried) == (3, 3, 0)
        receipts = await rt.receipts("r:2")
        assert [(item.name, item.outcome, item.reason) for item in receipts] == [
            ("coordinator", "continued", None),
            ("a", "continued", None),
            ("a", "continued", None),
            ("b", "skipped", "task_completed"),
            ("c", "skipped", "task_owner_changed"),
            ("d", "skipped", "participant_changed"),
        ]
        continued = [turn for turn in await run.turns() if turn.source == "resume"]
        assert [(turn.participant, turn.sequence) for turn in continued] == [
            ("coordinator", 2), ("a", 3), ("a", 4),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"state": "cancelled"}, "task_cancelled"),
        ({"state": "failed"}, "task_failed"),
        ({"state": "completed"}, "task_completed"),
        ({"owner": "m2", "state": "pending"}, "task_owner_changed"),
    ],
)
async def test_a_turn_whose_task_has_changed_is_skipped_with_that_reason(
    path: Path | None, changes: dict[str, str], reason: str
) -> None:
    """Cases 104 to 106, 113; W13: and the others go on; a new owner gets no continuation of this episode."""
    crew = Crew(path, [task("a", "m0"), task("b", "m1")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await quiescent(crew, run, 2)
        await rt.backend.host.write(change(1, **changes))
        ack = await run.resume()
        assert (ack.continued, ack.skipped) == (1, 1)
        assert [item.reason for item in await rt.receipts("r:2")] == [reason, None]
        assert [turn.task for turn in await run.turns() if turn.source == "resume"] == [2]
        await run.result()
        ended = [item.state for item in await run.tasks()]
        assert ended == [changes["state"] if "owner" not in changes else "completed", "completed"]
        owners = [
            turn.participant for turn in await run.turns() if turn.task == 1 and turn.state == "completed"
        ]
        assert owners == (["m2"] if "owner" in changes else [])
        body = await rt.status("r.2")
        assert body.state == "cancelled"  # nobody goes on with it


async def test_a_turn_whose_task_is_gone_is_skipped_and_blocks_nobody(tmp_path: Path) -> None:
    """Cases 105, 115; W13: deleted by hand; the resume commits, and the other turn goes on."""
    crew = Crew(tmp_path / "flows.db", [task("a", "m0"), task("b", "m1")])
    async with Runtime(crew.path, flows=[crew.team], clock=crew.clock) as rt:
        run = await crew.start(rt)
        await quiescent(crew, run, 2)
        connection = sqlite3.connect(crew.path or "", isolation_level=None)
        connection.execute("DELETE FROM tasks WHERE number = 1")
        connection.close()
        ack = await run.resume()
        assert (ack.continued, ack.skipped) == (1, 1)
        assert [item.reason for item in await rt.receipts("r:2")] == ["task_missing", None]
        assert await run.result() == ["completed"]


async def test_a_team_of_which_all_is_skipped_runs_and_then_is_idle_or_done(path: Path | None) -> None:
    """Case 113: nothing to go on with is no reason to stay paused; the coordinator is told."""
    crew = Crew(path, [task("a", "m0"), task("b", "m1")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await quiescent(crew, run, 2)
        for number in (1, 2):
            await rt.backend.host.write(change(number, state="cancelled"))
        ack = await run.resume()
        assert (ack.continued, ack.skipped, ack.generation) == (0, 2, 3)
        assert await run.result() == ["cancelled", "cancelled"]


async def test_a_turn_that_had_not_begun_is_continued_like_one_that_had(path: Path | None) -> None:
    """Case 111: captured in the queue, it begins, once, behind the one that ran."""
    crew = Crew(path, [task("a", "m0"), task("b", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await quiescent(crew, run, 1)
        receipts = [(item.was, item.drain) for item in await rt.receipts("r:2")]
        assert receipts == [("running", "released"), ("queued", "absent")]
        ack = await run.resume()
        assert ack.continued == 2
        assert await run.result() == ["completed", "completed"]
        assert [what for _, what in crew.began] == ["a", "b"]
        tasks = {turn.task: turn.state for turn in await run.turns() if turn.source == "resume"}
        assert tasks == {1: "completed", 2: "completed"}


@pytest.mark.parametrize("at", ["turn.save", "piece.move", "run.save"])
async def test_a_dispatch_that_the_store_refuses_is_done_again_and_once(tmp_path: Path, at: str) -> None:
    """Case 117: refused before its commit, the continuation stays queued; it begins once."""
    crew = Crew(tmp_path / "flows.db", [task("a", "m0")])
    refuses, refused = [False], []

    def hook(label: str) -> None:
        if refuses[0] and label == at:
            refuses[0] = False
            refused.append(label)
            error = sqlite3.OperationalError("injected")
            error.sqlite_errorname = "SQLITE_FULL"
            raise error

    store = SqliteStore(crew.path or "", crew.clock, on_statement=hook)
    async with Runtime(store, flows=[crew.team], clock=crew.clock) as rt:
        run = await crew.start(rt)
        await quiescent(crew, run, 1)
        async with Runtime(crew.path, drive=False, clock=crew.clock) as other:
            refuses[0] = True
            await other.resume("r")
            with anyio.fail_after(20):
                while not refused:
                    await wait_all_tasks_blocked()
        for _ in range(3):
            crew.clock.advance(2)
            await wait_all_tasks_blocked()
        assert await run.result() == ["completed"]
        begun = [event.data["turn"] for event in await log_of(rt, "r") if event.kind == "turn-running"]
        assert len(begun) == len(set(begun))
        assert crew.began == [("m0", "a")]
        assert [turn.state for turn in await run.turns() if turn.source == "resume"] == ["completed"]


async def test_what_wakes_a_member_waits_for_its_continuation(path: Path | None) -> None:
    """Cases 119, 120; N5: mail of the pause gets its turn behind it, and is read once; the task ends once."""
    crew = Crew(path, [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.pause()
        await run.send("hello", to="m0")
        await run.resume()
        await wait_all_tasks_blocked()
        waiting = [(turn.source, turn.state) for turn in await run.turns() if turn.participant == "m0"][1:]
        assert waiting == [("resume", "queued"), ("inbox", "queued")]
        crew.holds.set()
        assert await run.result() == ["completed"]
        log = await log_of(rt, "r")
        begun = [event.data["turn"] for event in log if event.kind == "turn-running"]
        ours = [turn.id for turn in await run.turns() if turn.source in ("resume", "inbox")]
        assert [turn for turn in begun if turn in ours] == ours
        assert [event.kind for event in log].count("task-completed") == 1
        (mail,) = rt.backend.host.read(lambda tx: tx.mail("r", None, unread=False))
        assert mail.turn == ours[1]


async def test_the_coordinator_goes_on_before_the_members(path: Path | None) -> None:
    """Case 121: whatever the order of capture and of the names is."""
    gate = anyio.Event()

    @step
    async def work() -> None:
        await gate.wait()

    async def plan(turn: Turn) -> None:
        if not turn.tasks():
            for name in "ab":
                turn.create_task(name, owner=name)
            await work()
        elif all(item.state == "completed" for item in turn.tasks()):
            turn.finish("done")

    async def member(turn: Turn) -> None:
        await work()

    team = Team("t", coordinator=plan, members=dict.fromkeys("ab", member))
    async with Runtime(path, flows=[team], clock=ManualClock()) as rt:
        run = await rt.start(team, run_id="r")
        await wait_all_tasks_blocked()
        await run.pause()
        gate.set()
        await run.settled()
        await run.resume()
        assert await run.result() == "done"
        log = await log_of(rt, "r")
        resumed = [event.kind for event in log].index("resumed")
        begun = [event.data["participant"] for event in log[resumed:] if event.kind == "turn-running"]
        assert begun[:3] == ["coordinator", "a", "b"]


async def test_a_turn_whose_member_is_gone_is_skipped_and_blocks_nobody(tmp_path: Path) -> None:
    """Case 115; W13: removed from the snapshot while paused; the other member goes on."""
    crew = Crew(tmp_path / "flows.db", [task("a", "m0"), task("b", "m1")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        ack = await run.pause()
        crew.holds.set()
        await run.settled()
        with closing(sqlite3.connect(crew.path or "", isolation_level=None)) as connection:
            connection.execute("UPDATE participants SET gone = 1 WHERE name = 'm0'")
        resumed = await run.resume()
        assert (resumed.continued, resumed.skipped) == (1, 1)
        receipts = {
            item.name: (item.outcome, item.reason) for item in await rt.receipts(ack.episode_id or "")
        }
        assert receipts == {"m0": ("skipped", "participant_gone"), "m1": ("continued", None)}
        await wait_all_tasks_blocked()
        states = {item.title: item.state for item in await run.tasks()}
        assert states == {"a": "in_progress", "b": "completed"}
