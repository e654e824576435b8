"""Is the drain of a team parallel, bounded, and never worse for one turn because of another?

Source: cases team 70, 71, 74, 84, 85, 93; spec team, "drain" and "Numbers"; W5, W6, W9; N13.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Runtime, Team, Turn, step
from quiesce.clock import ManualClock
from quiesce.rules import continuing
from quiesce.rules.requests import found
from quiesce_adapters.sqlite.checks import violations_of_file
from quiesce_adapters.sqlite.store import SqliteStore

from .crew import Crew, task

pytestmark = pytest.mark.anyio


async def test_ten_bodies_drain_at_the_same_time(path: Path | None) -> None:
    """Case 84: each yields after 3 seconds, the coordinator's too; all have after 3, none before."""
    clock = ManualClock()
    members = [f"m{number}" for number in range(9)]

    @step
    async def work() -> None:
        await clock.sleep(3)

    async def plan(turn: Turn) -> None:
        if not turn.tasks():
            for name in members:
                turn.create_task(name, owner=name)
            await work()
        elif all(item.state == "completed" for item in turn.tasks()):
            turn.finish("done")

    async def member(turn: Turn) -> None:
        await work()
        turn.checkpoint()

    team = Team("ten", coordinator=plan, members=dict.fromkeys(members, member))
    async with Runtime(path, flows=[team], clock=clock) as rt:
        run = await rt.start(team, run_id="r")
        await wait_all_tasks_blocked()
        ack = await run.pause()
        assert (ack.captured, ack.draining) == (10, 10)
        clock.advance(2.9)
        await wait_all_tasks_blocked()
        assert (await run.status()).draining == 10
        clock.advance(0.1)
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.draining, status.overdue, status.phase) == (0, 0, "quiescent")
        await run.resume()
        assert await run.result() == "done"


async def test_a_fence_sends_as_many_statements_for_eighty_turns_as_for_four(tmp_path: Path) -> None:
    """Case 85: one transaction, whose length does not depend on the turns; benchmarks hold it to time."""
    sent: list[Counter[str]] = []
    for turns in (4, 80):
        seen: list[str] = []
        crew = Crew(None, [task(f"t{at}", f"m{at % 2}") for at in range(turns)], members=2)
        store = SqliteStore(tmp_path / f"{turns}.db", crew.clock, on_statement=seen.append)
        async with Runtime(store, flows=[crew.team], clock=crew.clock) as rt:
            run = await crew.start(rt)
            await crew.wait_began(2)
            before = len(seen)
            ack = await run.pause()
            assert (ack.captured, ack.draining) == (turns, 2)
            begun = seen.index("begin", before)
            sent.append(Counter(seen[begun : seen.index("commit", begun)]))
            crew.holds.set()
            await run.settled()
    assert sent[0] == sent[1]


async def test_a_body_that_breaks_in_the_drain_hurts_no_other(path: Path | None) -> None:
    """Case 93; W9: it raises at its safe point; every other one is released, and so is it."""
    crew = Crew(path, [task(name, f"m{at}") for at, name in enumerate("abc")])
    crew.breaks.add("a")
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(3)
        await run.pause()
        crew.holds.set()
        await run.settled()
        await wait_all_tasks_blocked()
        assert {item.name: item.drain for item in await rt.receipts("r:2")} == {
            "m0": "released",
            "m1": "released",
            "m2": "released",
        }
        assert {item.state for item in await run.tasks()} == {"in_progress"}
        await run.resume()
        assert await run.result() == ["failed", "completed", "completed"]


async def test_a_store_that_refuses_one_release_takes_it_later(tmp_path: Path) -> None:
    """Case 93; W9: from stored facts; the others are released meanwhile, and the fence stands."""
    crew = Crew(tmp_path / "flows.db", [task(name, f"m{at}") for at, name in enumerate("abc")])
    crew.gates["a"] = anyio.Event()
    refuses = [0]

    def hook(label: str) -> None:
        if label == "receipt.release" and refuses[0]:
            refuses[0] -= 1
            raise _full()

    store = SqliteStore(crew.path or "", crew.clock, on_statement=hook)
    async with Runtime(store, flows=[crew.team], clock=crew.clock) as rt:
        run = await crew.start(rt)
        await crew.wait_began(3)
        await run.pause()
        refuses[0] = 1
        crew.gates["a"].set()
        await wait_all_tasks_blocked()
        assert refuses == [0]
        crew.holds.set()
        await wait_all_tasks_blocked()
        for _ in range(4):
            crew.clock.advance(2)
            await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.phase) == ("paused", "quiescent")
        await run.resume()
        assert await run.result() == ["completed"] * 3


def _full() -> Exception:
    error = sqlite3.OperationalError("injected: the disk is full")
    error.sqlite_errorname = "SQLITE_FULL"
    return error


HANGS = """
import sys, threading
import anyio
from quiesce import Runtime, Team, Turn, step
from quiesce.clock import ManualClock

@step
def work() -> str:
    print("works", flush=True)
    threading.Event().wait()

async def plan(turn: Turn) -> None:
    tasks = turn.tasks()
    if not tasks:
        turn.create_task("a", owner="m0")
    elif tasks[0].state == "completed":
        turn.finish(tasks[0].result)

async def m0(turn: Turn) -> str:
    return work()

async def main() -> None:
    team = Team(sys.argv[2], coordinator=plan, members={"m0": m0})
    async with Runtime(sys.argv[1], flows=[team], clock=ManualClock()) as rt:
        await rt.start(team, run_id=sys.argv[2], request_id=sys.argv[2])
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_an_overdue_turn_whose_process_dies_is_absent_and_keeps_the_evidence(
    tmp_path: Path, start: Any
) -> None:
    """Cases 70, 71; W5, W6, N13: overdue is no proof, death is; what a living one holds stays."""
    store = tmp_path / "flows.db"
    dies, lives = start(HANGS, store, "dies"), start(HANGS, store, "lives")
    for process in (dies, lives):
        assert process.hear() == "works"
    clock = ManualClock()
    async with Runtime(store, drive=False, clock=clock) as rt:
        for name in ("dies", "lives"):
            assert (await rt.pause(name, drain_timeout=5)).draining == 1
        await wait_all_tasks_blocked()
        clock.advance(5)
        await wait_all_tasks_blocked()
        with anyio.fail_after(20):
            while [(await rt.status(name)).overdue for name in ("dies", "lives")] != [1, 1]:
                await anyio.lowlevel.checkpoint()
        dies.kill()
        assert [(await rt.status(name)).phase for name in ("dies", "lives")] == ["quiescent", "draining"]
        host = rt.backend.host
        changed = [
            await host.write(lambda tx, name=name: continuing.reconcile(tx, found(tx, name)))
            for name in ("dies", "lives", "dies", "lives")
        ]
        assert changed == [1, 0, 0, 0]
        (receipt,) = await rt.receipts("dies:2")
        assert (receipt.drain, receipt.overdue_at is None) == ("absent", False)
        (other,) = await rt.receipts("lives:2")
        assert (other.drain, other.overdue_at is None) == ("overdue", False)
    lives.kill()
    assert violations_of_file(store) == []


async def test_a_copy_of_the_store_that_a_killed_process_left_is_whole(tmp_path: Path, start: Any) -> None:
    """Case 74; N1 to N4: with its log, every rule holds in it, and it can be gone on with."""
    store, copy = tmp_path / "flows.db", tmp_path / "copy.db"
    process = start(HANGS, store, "r")
    assert process.hear() == "works"
    async with Runtime(store, drive=False) as rt:
        await rt.pause("r")
        process.kill()
        for end in ("", "-wal"):
            shutil.copyfile(f"{store}{end}", f"{copy}{end}")
    assert violations_of_file(copy) == []
    async with Runtime(copy, drive=False) as rt:
        status = await rt.status("r")
        assert (status.state, status.phase, status.generation) == ("paused", "quiescent", 2)
        ack = await rt.resume("r")
        assert (ack.continued, ack.generation) == (1, 3)
    assert violations_of_file(copy) == []
