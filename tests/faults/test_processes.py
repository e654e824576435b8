"""Do real processes on one store agree: who won, who drives, who is told, who must not write any more?

Source: spec engine, 4 and 6; cases failures-durable-engines 2, 33 to 35, 62, 63.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Completed, Paused, Run, RunState, Runtime, hosting
from quiesce.clock import SystemClock
from quiesce_adapters.sqlite.store import SqliteStore

import fault_flows as flows  # isort: skip

pytestmark = pytest.mark.anyio
LONG = 25.0
"""Seconds: less than the safety read of a worker, so whoever hears in time was rung."""

VERBS = """
import json, sys
import anyio
import fault_flows
from quiesce import Runtime

async def main():
    async with Runtime(sys.argv[1], drive=False) as rt:
        print("ready", flush=True)
        for line in sys.stdin:
            verb, arguments, options = json.loads(line)
            try:
                ack = await getattr(rt, verb)(*arguments, **options)
                print(json.dumps(ack.model_dump(mode="json")), flush=True)
            except Exception as error:
                print(json.dumps({"error": type(error).__name__, "text": str(error)}), flush=True)

anyio.run(main, backend=sys.argv[2])
"""

WORK = """
import sys
import anyio
import fault_flows as flows
from quiesce import Runtime

async def main():
    async with Runtime(sys.argv[1], flows=flows.FLOWS) as rt:
        print("ready", flush=True)
        async for line in anyio.wrap_file(sys.stdin):
            if line.strip() == "go":
                flows.STAGE.go.set()
            elif line.strip() == "came":
                await flows.STAGE.came.wait()
            elif line.startswith("settle"):
                outcome = await (await rt.get(line.split()[1])).settled()
                print(type(outcome).__name__, flush=True)
                continue
            else:
                break
            print("done", flush=True)

anyio.run(main, backend=sys.argv[2])
"""


def ask(process: Any, command: str) -> str:
    process.say(command)
    return str(process.hear())


def race(processes: Sequence[Any], verb: str, *arguments: Any, ids: Sequence[str]) -> list[dict[str, Any]]:
    """The same verb in all of them at once; what each was told."""
    for process, request_id in zip(processes, ids, strict=True):
        process.say(json.dumps([verb, arguments, {"request_id": request_id}]))
    told = [json.loads(process.hear()) for process in processes]
    for answer in told:
        assert "locked" not in str(answer.get("text")), answer
    return told


def test_of_eight_processes_that_send_a_verb_one_wins(db: Path, start: Any) -> None:
    """spec engine, 4: with one request id all get one ack; with several exactly one has the effect."""

    async def begin() -> str:
        async with Runtime(db) as rt:
            paused = await rt.run(flows.linear, 1, run_id="r")
            assert isinstance(paused, Paused)
            return paused.holds[0].id

    hold = anyio.run(begin)
    processes = [start(VERBS, db, ("asyncio", "trio")[n % 2]) for n in range(8)]
    assert [process.hear() for process in processes] == ["ready"] * 8
    same, own = ["one"] * 8, [f"own {n}" for n in range(8)]

    told = race(processes, "pause", "r", ids=["pause"] * 8)
    assert sorted(answer["replayed"] for answer in told) == [False] + [True] * 7
    assert len({json.dumps(answer | {"replayed": None}) for answer in told}) == 1

    told = race(processes, "resume", "r", ids=["resume"] * 8)
    assert sorted(answer["replayed"] for answer in told) == [False] + [True] * 7

    told = race(processes, "pause", "r", ids=own)
    assert [answer["locked"] for answer in told].count(True) == 1
    assert {answer["generation"] for answer in told} == {2}

    told = race(processes, "answer", hold, True, ids=same)
    assert sorted(answer["replayed"] for answer in told) == [False] + [True] * 7
    told = race(processes, "answer", hold, True, ids=[f"more {n}" for n in range(8)])
    assert {answer["error"] for answer in told} == {"AlreadyAnswered"}

    told = race(processes, "cancel", "r", ids=[f"cancel {n}" for n in range(8)])
    assert sorted(str(answer.get("error")) for answer in told) == ["IllegalTransition"] * 7 + ["None"]
    told = race(processes, "reset", "r", ids=[f"reset {n}" for n in range(8)])
    assert [answer["transitioned"] for answer in told].count(True) == 1


def test_eight_processes_that_answer_one_question_apply_one_answer(db: Path, start: Any) -> None:
    """cases 33 and 34: two callers, exactly one wins, one effect."""

    async def begin() -> str:
        async with Runtime(db) as rt:
            paused = await rt.run(flows.linear, 1, run_id="r")
            assert isinstance(paused, Paused)
            return paused.holds[0].id

    hold = anyio.run(begin)
    processes = [start(VERBS, db, ("asyncio", "trio")[n % 2]) for n in range(4)]
    assert [process.hear() for process in processes] == ["ready"] * 4
    told = race(processes, "answer", hold, True, ids=["a", "b", "c", "d"])
    assert sorted(str(answer.get("error")) for answer in told) == ["AlreadyAnswered"] * 3 + ["None"]

    async def end() -> Any:
        async with Runtime(db, flows=flows.FLOWS) as rt:
            return await (await rt.get("r")).settled()

    assert anyio.run(end) == Completed(20)


async def test_a_waiter_hears_of_what_another_process_did(db: Path, start: Any, anyio_backend: str) -> None:
    """spec engine, 6: processes on one store wake one another by a doorbell."""
    async with Runtime(db, drive=False) as rt:
        await rt.start(flows.linear, 1, run_id="r")
        with anyio.fail_after(LONG):
            async with anyio.create_task_group() as group:
                outcomes: list[Any] = []

                async def wait() -> None:
                    outcomes.append(await Run(rt, "r").settled())

                group.start_soon(wait)
                await wait_all_tasks_blocked()
                assert outcomes == []
                worker = start(WORK, db, anyio_backend)
            (paused,) = outcomes
            assert isinstance(paused, Paused)
            await paused.resume(True)
            assert await Run(rt, "r").settled() == Completed(20)
        assert worker.hear() == "ready"
        worker.say("end")
        assert worker.ended() == 0


async def test_nothing_is_read_while_all_is_paused(db: Path) -> None:
    """spec engine, 8: store statements per second while paused: 0. Nothing polls."""
    seen: list[str] = []
    async with Runtime(SqliteStore(db, SystemClock(), on_statement=seen.append), flows=flows.FLOWS) as rt:
        for n in range(3):
            assert isinstance(await rt.run(flows.linear, 1, run_id=f"r{n}"), Paused)
        async with anyio.create_task_group() as group:
            group.start_soon(Run(rt, "r0").result)
            await wait_all_tasks_blocked()
            before = len(seen)
            for _ in range(200):
                await wait_all_tasks_blocked()
            assert seen[before:] == []
            assert seconds_to_next_timer() > hosting.SAFETY_READ / 2
            group.cancel_scope.cancel()


def seconds_to_next_timer() -> float:
    """When the event loop would wake up by itself, if nobody rings."""
    import sniffio

    if sniffio.current_async_library() == "trio":
        import trio

        return float(trio.lowlevel.current_statistics().seconds_to_next_deadline)
    import asyncio

    loop: Any = asyncio.get_running_loop()
    return float(min((t.when() for t in loop._scheduled if not t.cancelled()), default=1e9) - loop.time())


async def test_the_death_of_a_driver_is_noticed_by_who_waits(
    db: Path, start: Any, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec engine, 6: the safety read covers a bell that was lost with its ringer; another drives on."""
    flows.STAGE.reset()
    async with Runtime(db, drive=False) as rt:
        await rt.start(flows.work, 1, run_id="r")
    worker = start(WORK, db, anyio_backend)
    assert worker.hear() == "ready"
    assert ask(worker, "came") == "done"
    monkeypatch.setattr(hosting, "SAFETY_READ", 0.05)
    async with Runtime(db, flows=flows.FLOWS) as rt:
        flows.STAGE.go.set()
        with anyio.fail_after(LONG):
            async with anyio.create_task_group() as group:
                outcomes: list[Any] = []

                async def wait() -> None:
                    outcomes.append(await Run(rt, "r").settled())

                group.start_soon(wait)
                await wait_all_tasks_blocked()
                assert (await rt.status("r")).state is RunState.RUNNING
                worker.kill()
        assert outcomes == [Completed(30)]
    assert visits(db, "r") == ["prepare", "labour", "finish"]


async def test_a_stopped_worker_that_was_replaced_writes_nothing_when_it_goes_on(
    db: Path, start: Any, anyio_backend: str
) -> None:
    """spec engine, 4: a stopped holder lives, a takeover replaces it, and its writes are refused."""
    flows.STAGE.reset()
    async with Runtime(db, drive=False) as rt:
        await rt.start(flows.work, 1, run_id="r")
    worker = start(WORK, db, anyio_backend)
    assert worker.hear() == "ready"
    assert ask(worker, "came") == "done"
    worker.stop()
    async with Runtime(db, drain_timeout=0.02) as rt:
        with anyio.fail_after(LONG):
            ack = await rt.pause("r")
            assert (ack.captured, ack.draining) == (1, 1)
            paused = await Run(rt, "r").settled()  # only an overdue piece remains
            assert isinstance(paused, Paused)
            status = await rt.status("r")
            assert (status.draining, status.overdue, status.recoverable) == (0, 1, "live")
            with pytest.raises(Exception, match="lives"):
                await resumed_then_claimed(rt)
            await rt.takeover("r")
            flows.STAGE.go.set()
            assert await Run(rt, "r").settled() == Completed(30)
            worker.go_on()
            assert ask(worker, "go") == "done"
            assert ask(worker, "settle r") == "Completed"
    worker.say("end")
    assert worker.ended() == 0
    assert visits(db, "r") == ["prepare", "labour", "finish"]


async def test_a_busy_worker_that_was_replaced_is_refused_when_it_writes(
    db: Path, start: Any, anyio_backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec engine, 4: it cannot hear that it was replaced; its late result is refused all the same."""
    async with Runtime(db, drive=False) as rt:
        await rt.start(flows.stuck, 1, run_id="r")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv("FAULT_PIPE", str(pipe))
    worker = start(WORK, db, anyio_backend)
    monkeypatch.delenv("FAULT_PIPE")
    with anyio.fail_after(LONG):  # it waits for the worker's visit
        mouth = await anyio.to_thread.run_sync(os.open, pipe, os.O_WRONLY, abandon_on_cancel=True)
    async with Runtime(db) as rt:
        with anyio.fail_after(LONG):
            await rt.takeover("r")
            paused = await Run(rt, "r").settled()
            assert isinstance(paused, Paused)
            os.close(mouth)
            assert worker.hear() == "ready"
            assert ask(worker, "settle r") == "Paused"
            worker.say("end")
            assert worker.ended() == 0
            assert visits(db, "r") == ["block", "confirm"]
            after = await Run(rt, "r").settled()
            assert isinstance(after, Paused)
            assert (after.episode, after.holds) == (paused.episode, paused.holds)
            await paused.resume(True)
            assert await Run(rt, "r").settled() == Completed(2)


async def resumed_then_claimed(rt: Runtime) -> None:
    """Lift the lock; then the run is running, and its holder lives, so it cannot be resumed again."""
    await rt.resume("r")
    await rt.resume("r")


def visits(db: Path, run_id: str) -> list[str]:
    """The visits of a run that were applied, in order."""
    connection = sqlite3.connect(db)
    try:
        query = (
            "SELECT json_extract(data, '$.node') FROM events WHERE kind = 'visit' AND run_id = ? ORDER BY seq"
        )
        return [node for (node,) in connection.execute(query, (run_id,))]
    finally:
        connection.close()


async def serve_runs(db: Path, start: Any, backend: str, runs: int, kills: int) -> None:
    """Two workers serve many runs; now and then one is killed, and another begins in its place."""
    async with Runtime(db, drive=False, durability="normal") as rt:
        async with anyio.create_task_group() as group:
            for n in range(runs):
                group.start_soon(lambda n=n: rt.start(flows.short, n, run_id=f"r{n}"))
        workers = [start(WORK, db, backend) for _ in range(2)]
        ended, killed = 0, 0
        async with aclosing(rt.events()) as events:
            async for event in events:
                if event.kind != "completed":
                    continue
                ended += 1
                if ended == runs:
                    break
                if killed < kills and ended >= (killed + 1) * runs // (kills + 2):
                    killed += 1
                    workers[killed % 2].kill()
                    workers[killed % 2] = start(WORK, db, backend)
        for worker in workers:
            assert worker.hear() == "ready"
            worker.say("end")
            assert worker.ended() == 0
        states = Counter(run.state for run in await rt.list(limit=runs))
        assert states == {RunState.COMPLETED: runs}
        assert killed == kills
        for n in range(runs):
            assert visits(db, f"r{n}") == ["one", "two", "three"], f"r{n}"
            assert (await rt.status(f"r{n}")).result == n * 3


async def test_many_runs_survive_the_death_of_their_workers(db: Path, start: Any, anyio_backend: str) -> None:
    """cases 33 to 35: no run is lost, and no visit is applied twice, whoever dies."""
    with anyio.fail_after(60):
        await serve_runs(db, start, anyio_backend, 100, 2)


@pytest.mark.slow
async def test_three_hundred_runs_survive_the_death_of_their_workers(
    db: Path, start: Any, anyio_backend: str
) -> None:
    """cases 33 to 35, and unhinged's own test: two kills, since the third loss of a piece is poison."""
    with anyio.fail_after(300):
        await serve_runs(db, start, anyio_backend, 300, 2)
