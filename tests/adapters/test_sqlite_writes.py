"""Does every write of a process come to its end, whoever is cancelled, refused or late?"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from quiesce.clock import SystemClock
from quiesce.errors import RunActive, StoreBusy, StoreError
from quiesce.rules import starting
from quiesce.rules.requests import Request
from quiesce.store import Transaction
from quiesce_adapters.sqlite.migrations import check_identity
from quiesce_adapters.sqlite.queue import FairQueue
from quiesce_adapters.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio

CLOCK = SystemClock()
REQUESTS = map(str, itertools.count())
FLOW = starting.Definition("somewhere:flow", "1", "graph", "a", None)


@pytest.fixture
def store(db: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(db, CLOCK, busy_after=30.0)
    yield opened
    opened.close()


@pytest.fixture
def other(db: Path, store: SqliteStore) -> Iterator[FairQueue]:
    """Another connection of the store, whose turn it is."""
    queue = FairQueue.open(db.with_name(db.name + "-quiesce"), CLOCK)
    assert queue.try_enter()
    yield queue
    queue.close()


def create(run_id: str) -> Callable[[Transaction], str]:
    def work(tx: Transaction) -> str:
        starting.create(tx, Request("create", "", next(REQUESTS), "me"), run_id, FLOW)
        return run_id

    return work


def runs(store: SqliteStore) -> list[str]:
    return store.read(lambda tx: [row.id for row in tx.runs(_all(), 100, None)[0]])


def _all() -> Any:
    from quiesce.store import RunFilter

    return RunFilter()


async def test_a_cancelled_scope_does_not_stop_a_write(store: SqliteStore, other: FairQueue) -> None:
    """A write is bounded and others may wait for it, so it ends before the cancellation acts."""
    told: list[str] = []
    async with anyio.create_task_group() as group:
        scopes = [anyio.CancelScope(), anyio.CancelScope()]

        async def write(run_id: str) -> None:
            with scopes[run_id == "second"]:
                await store.write(create(run_id), committed=told.append)

        group.start_soon(write, "first")
        group.start_soon(write, "second")
        await wait_all_tasks_blocked()
        for scope in scopes:
            scope.cancel()
        await wait_all_tasks_blocked()
        assert told == []
        other.leave()
    assert sorted(told) == ["first", "second"]
    assert sorted(runs(store)) == ["first", "second"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("cancelled", [[0], [1], [0, 1], [0, 1, 2]], ids=str)
async def test_a_task_that_asyncio_cancels_takes_no_other_write_with_it(
    store: SqliteStore, other: FairQueue, cancelled: list[int], anyio_backend: str
) -> None:
    """No shield stops `Task.cancel`: what was not begun is not done later, the others are served."""
    told: list[str] = []
    tasks = [asyncio.ensure_future(store.write(create(f"r{n}"), committed=told.append)) for n in range(4)]
    await wait_all_tasks_blocked()
    for n in cancelled:
        tasks[n].cancel()
    await wait_all_tasks_blocked()
    other.leave()
    with anyio.fail_after(20):
        done = await asyncio.gather(*tasks, return_exceptions=True)
    kept = [f"r{n}" for n in range(4) if n not in cancelled]
    assert [type(done[n]) for n in cancelled] == [asyncio.CancelledError] * len(cancelled)
    assert sorted(told) == kept
    await store.write(lambda tx: None)  # it would run what was left behind
    assert sorted(runs(store)) == kept


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_turn_is_not_kept_by_a_task_that_asyncio_cancels(
    db: Path, store: SqliteStore, anyio_backend: str
) -> None:
    """Cancelled while SQLite's own lock is waited for, with the turn of this process taken."""
    rude = sqlite3.connect(db, isolation_level=None)
    rude.execute("BEGIN IMMEDIATE")
    task = asyncio.ensure_future(store.write(create("r")))
    await wait_all_tasks_blocked()
    queue = FairQueue.open(db.with_name(db.name + "-quiesce"), CLOCK)
    assert not queue.try_enter()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rude.execute("ROLLBACK")
    rude.close()
    with anyio.fail_after(20):
        await queue.enter(10.0)
    queue.close()
    assert runs(store) == []


async def test_what_follows_a_commit_is_told_before_the_caller(store: SqliteStore) -> None:
    """`committed` is where a claimed run is driven, so nobody can be between it and the commit."""
    order: list[str] = []
    await store.write(create("r"), committed=lambda run_id: order.append(f"told {run_id}"))
    order.append("returned")
    assert order == ["told r", "returned"]
    with pytest.raises(RunActive):
        await store.write(create("r"), committed=order.append)
    assert order == ["told r", "returned"]


async def test_a_write_that_is_refused_is_not_done_later(db: Path, store: SqliteStore) -> None:
    """The caller was told that nothing changed, so nothing may change by the next write."""
    store._busy_after = 0.05
    rude = sqlite3.connect(db, isolation_level=None)
    rude.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        await store.write(create("refused"))
    rude.execute("ROLLBACK")
    rude.close()
    await store.write(create("kept"))
    assert runs(store) == ["kept"]


async def test_a_queue_that_cannot_be_opened_refuses_each_write_and_is_tried_again(
    db: Path, store: SqliteStore
) -> None:
    """An error of the operating system is told to every writer, and hangs none."""
    folder = db.with_name(db.name + "-quiesce")
    folder.write_text("in the way")
    refused: list[str] = []

    async def write(run_id: str) -> None:
        try:
            await store.write(create(run_id))
        except StoreError as error:
            refused.append(str(error))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(write, "a")
            group.start_soon(write, "b")
    assert len(refused) == 2
    assert all("write queue" in text for text in refused)
    folder.unlink()
    await store.write(create("c"))
    assert runs(store) == ["c"]


async def test_a_constraint_that_one_unit_breaks_spoils_no_other(store: SqliteStore) -> None:
    """spec engine, 6: a unit that is refused is rolled back alone."""

    def breaks(tx: Transaction) -> None:
        create("half")(tx)
        tx.put_value("nobody", b"1")  # no such run: a foreign key

    refused: list[Exception] = []

    async def write(work: Callable[[Transaction], Any]) -> None:
        try:
            await store.write(work)
        except StoreError as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for work in (create("a"), breaks, create("b")):
            group.start_soon(write, work)
    assert len(refused) == 1
    assert sorted(runs(store)) == ["a", "b"]


class Raced:
    """A connection; whenever it has no view, another process makes a store of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._reads = 0

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, sql: str) -> sqlite3.Cursor:
        if self._reads and not self.in_transaction:
            SqliteStore(self._path, CLOCK).close()
        self._reads += not sql.startswith(("BEGIN", "COMMIT"))
        return self._connection.execute(sql)

    def close(self) -> None:
        self._connection.close()


def test_a_file_that_two_make_a_store_of_at_once_is_nobody_elses_database(tmp_path: Path) -> None:
    """Found by a race of two processes: what tells whose file it is must be read in one view."""
    path = tmp_path / "flows.db"
    path.touch()
    raced = Raced(path)
    assert not check_identity(raced, path)  # type: ignore[arg-type]
    raced.close()
