"""Does what users of durable engines reported of SQLite happen here: locks, snapshots, lost commits?

Each test is named for its entry in the cases; the list is in the file beside this one.
"""

from __future__ import annotations

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from anyio import create_task_group, fail_after, wait_all_tasks_blocked

from quiesce import Completed, Paused, Run, Runtime
from quiesce.clock import SystemClock
from quiesce_adapters.sqlite.checks import violations_of_file
from quiesce_adapters.sqlite.store import SqliteStore

import fault_flows as flows  # isort: skip

pytestmark = pytest.mark.anyio


def busy() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorname = "SQLITE_BUSY"
    return error


async def test_durable_engine_case_61_a_lock_while_it_is_checked_what_was_done_fails_nothing(
    db: Path,
) -> None:
    """Source: cases failures-durable-engines 61."""
    locked = {"request.get", "begin-read", "hold.get", "run.get", "piece.woken"}

    def hook(label: str) -> None:
        if label in locked:  # each of them once
            locked.remove(label)
            raise busy()

    store = SqliteStore(db, SystemClock(), busy_after=0.02, on_statement=hook)
    async with Runtime(store, flows=flows.FLOWS) as rt:
        refused = 0
        while True:
            try:
                await rt.start(flows.linear, 1, run_id="r", request_id="start")
                with fail_after(20):
                    while isinstance(outcome := await Run(rt, "r").settled(), Paused):
                        await rt.answer(outcome.holds[0].id, True, request_id="answer")
                break
            except Exception as error:
                assert type(error).__name__ == "StoreBusy", error  # noqa: PT017
                refused += 1
                await wait_all_tasks_blocked()
        assert outcome == Completed(20)
        assert refused
        assert locked == set()
        assert (await rt.status("r")).generation == 3


async def test_durable_engine_case_62_a_worker_outlasts_a_lock_and_loses_no_visit(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source: cases failures-durable-engines 62."""
    visits = tmp_path / "visits"
    monkeypatch.setenv("FAULT_VISITS", str(visits))
    flows.STAGE.reset()
    other = sqlite3.connect(db, isolation_level=None)
    tried = 0

    def hook(label: str) -> None:
        nonlocal tried
        if label == "begin" and other.in_transaction:
            tried += 1
            if tried == 30:
                other.execute("ROLLBACK")

    store = SqliteStore(db, SystemClock(), busy_after=0.01, on_statement=hook)
    async with Runtime(store, flows=flows.FLOWS) as rt:
        run = await rt.start(flows.work, 1)
        await flows.STAGE.came.wait()
        other.execute("BEGIN IMMEDIATE")
        flows.STAGE.go.set()
        with fail_after(20):
            assert await run.settled() == Completed(30)
    assert tried >= 30
    other.close()
    assert [line.split()[0] for line in lines(visits)] == ["prepare", "labour", "finish"]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


async def test_durable_engine_case_65_nothing_is_written_in_a_transaction_that_began_to_read(
    db: Path,
) -> None:
    """Source: cases failures-durable-engines 65."""
    store = SqliteStore(db, SystemClock())
    sent: list[str] = []
    store._connection.set_trace_callback(sent.append)
    async with Runtime(store, flows=flows.FLOWS) as rt:
        for flow in (flows.linear, flows.two_gates, flows.outer, flows.fan):
            run = await rt.start(flow, 1)
            await run.pause()
            await run.resume()
            while isinstance(outcome := await run.settled(), Paused):
                for hold in outcome.holds:
                    await rt.answer(hold.id, 1 if flow is flows.two_gates else True)
    inside = ""
    wrote = 0
    for text in sent:
        word = text.lstrip().split()[0].upper()
        if word == "BEGIN":
            assert not inside, text
            inside = text
        elif word in ("COMMIT", "ROLLBACK"):
            inside = ""
        elif word in ("INSERT", "UPDATE", "DELETE", "CREATE"):
            assert inside == "BEGIN IMMEDIATE", text
            wrote += 1
    assert wrote > 100


async def test_durable_engine_case_67_what_is_acknowledged_is_synced_by_default(db: Path) -> None:
    """Source: cases failures-durable-engines 67."""
    async with Runtime(db) as rt:
        connection = rt.backend.host.store._connection  # type: ignore[attr-defined]
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        await rt.create(flows.linear, "r")
        # Not closed and not checkpointed: the files as a crash at this moment would leave them.
        left = copy_as_crashed(db)
        assert violations_of_file(left) == []
        assert sqlite3.connect(left).execute("SELECT id FROM runs").fetchall() == [("r",)]


def copy_as_crashed(db: Path) -> Path:
    left = db.with_name("left.db")
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{db}{suffix}", f"{left}{suffix}")
    return left


async def test_durable_engine_case_69_two_open_at_once_what_a_crash_left(db: Path) -> None:
    """Source: cases failures-durable-engines 69."""
    async with Runtime(db) as rt:
        for n in range(20):
            await rt.create(flows.linear, f"r{n}")
        left = copy_as_crashed(db)
    together = Barrier(4)

    def open_and_count() -> int:
        together.wait()
        store = SqliteStore(left, SystemClock())
        try:
            return int(store._connection.execute("SELECT count(*) FROM runs").fetchone()[0])
        finally:
            store.close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: open_and_count(), range(4))) == [20] * 4
    assert violations_of_file(left) == []


def test_durable_engine_case_70_threads_share_one_runtime(db: Path) -> None:
    """Source: cases failures-durable-engines 70."""
    with Runtime.blocking(db, flows=flows.FLOWS, durability="normal") as rt:
        together = Barrier(8)

        def one(n: int) -> object:
            together.wait()
            run = rt.start(flows.linear, n, run_id=f"r{n}")
            while isinstance(outcome := run.settled(), Paused):
                rt.answer(outcome.holds[0].id, True)
            return outcome

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(one, range(8))) == [Completed((n + 1) * 10) for n in range(8)]


async def test_verbs_at_the_same_moment_share_a_commit_and_a_refused_one_spoils_none(db: Path) -> None:
    """spec engine, 6: one commit for what is ready together; a refusal is rolled back alone."""
    commits = 0

    def hook(label: str) -> None:
        nonlocal commits
        commits += label == "commit"

    refused: list[str] = []
    async with Runtime(SqliteStore(db, SystemClock(), on_statement=hook)) as rt:
        await rt.create(flows.linear, "taken")
        commits = 0

        async def create(run_id: str) -> None:
            try:
                await rt.create(flows.linear, run_id)
            except Exception as error:
                refused.append(type(error).__name__)

        async with create_task_group() as group:
            for n in range(10):
                group.start_soon(create, f"r{n}")
                group.start_soon(create, "taken")
        assert commits <= 2
        assert refused == ["RunActive"] * 10
        assert len(await rt.list()) == 11
