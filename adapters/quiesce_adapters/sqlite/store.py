"""How do runs outlive their process, and several processes share them?

One SQLite file in WAL mode, and beside it a folder `<file>-quiesce/` for what only the operating system
can say: who lives (`liveness.py`), whose turn it is to write (`queue.py`), who wants to be woken
(`doorbell.py`).

Theory of a write. All writes of a process are units of work in one queue. Whoever finds the queue
unserved serves it: lets the event loop turn once, so that units which are ready at the same time share
one commit, takes the process's turn, and runs them in one BEGIN IMMEDIATE. IMMEDIATE, since a rule reads
before it writes: a deferred transaction would fail with BUSY_SNAPSHOT, at once and whatever the busy
timeout, if another process commits in between. A unit that is refused is rolled back alone, by a
savepoint. The commit itself runs on the event loop's thread: a hop to another thread would cost more than
the commit (0.15 ms); only waiting for other processes leaves the loop free.

Nothing is acknowledged before the commit that holds it returned.

Source: spec engine, 6; cases failures-durable-engines 33, 61 to 70.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel

from quiesce.clock import Clock
from quiesce.errors import StoreError
from quiesce.store import Reader, Transaction

from .doorbell import Doorbell
from .filesystem import refuse_unusable
from .forks import ForkGuard
from .liveness import Liveness
from .migrations import check_identity, migrate
from .queue import FairQueue
from .refusals import is_busy, refused_by_sqlite
from .rows import SqliteTransaction

__all__ = ["SqliteStore", "open_store"]

T = TypeVar("T")

BUSY_AFTER = 5.0
"""Seconds that anything waits for another process before it is refused with `StoreBusy`."""
RETRY_EVERY = 0.005
"""Seconds between tries while a program that does not queue holds SQLite's write lock."""


def open_store(url: str, *, clock: Clock, durability: str = "full") -> SqliteStore:
    """The entry point `sqlite` of `quiesce.stores`: a path, or `sqlite:///path` (there also `?mode=ro`)."""
    path = url.removeprefix("sqlite:///")
    read_only = path != url and path.endswith("?mode=ro")
    return SqliteStore(path.removesuffix("?mode=ro"), clock, durability=durability, read_only=read_only)


class _Unit(Generic[T]):
    """One unit of work, and what became of it."""

    __slots__ = ("_woken", "committed", "error", "over", "result", "work")

    def __init__(self, work: Callable[[Transaction], T], committed: Callable[[T], None] | None) -> None:
        self.work = work
        self.committed = committed
        self.over = False
        self.result: T | None = None
        self.error: BaseException | None = None
        self._woken: anyio.Event | None = None

    def finish(self) -> None:
        """What became of it is known: tell whoever follows, then whoever waits."""
        if self.error is None and self.committed is not None:
            try:
                self.committed(self.result)  # type: ignore[arg-type]  # it has no error, so it has a result
            except Exception as error:  # the commit stands; the caller hears of it
                self.error = error
        self.over = True
        self.wake()

    async def wait(self) -> None:
        self._woken = anyio.Event()
        await self._woken.wait()

    def wake(self) -> None:
        if self._woken is not None:
            self._woken.set()


class SqliteStore:
    """A store in one SQLite file, shared by the processes of one machine.

    Args:
        durability: `full` syncs every commit to the disk. `normal` does not: a commit that was
            acknowledged survives the death of the process, and may be lost with the power.
        read_only: look at a store that is there; its file keeps its bytes, also if the last writer died
            before it could tidy up (SQLite's close would do that).
        busy_after: seconds that anything waits for another process before `StoreBusy`.
        on_statement: called with the label of every statement before it is sent; for tests of faults.

    Raises:
        StoreMismatch, StoreReadOnly, StoreFull, StoreBusy: the file cannot be used; it is as before.
    """

    durable = True
    shared = True

    def __init__(
        self,
        path: str | Path,
        clock: Clock,
        *,
        durability: str = "full",
        read_only: bool = False,
        busy_after: float = BUSY_AFTER,
        on_statement: Callable[[str], None] | None = None,
    ) -> None:
        if durability not in ("full", "normal"):
            raise StoreError(f"durability {durability!r} is unknown: 'full' or 'normal'")
        self.path = Path(path).absolute()
        self.label = str(self.path)
        self._clock = clock
        self._busy_after = busy_after
        self.folder = self.path.with_name(self.path.name + "-quiesce")
        self._life: Liveness | None = None
        self._turn: FairQueue | None = None
        self._bells: dict[int, Doorbell] = {}
        self._ringer: Doorbell | None = None
        self._mine: set[int] = set()
        self._pending: deque[_Unit[Any]] = deque()
        self._serving = False
        refuse_unusable(self.path)
        with self._translated():
            self._connection = self._connect(durability, read_only)
        self._guard = ForkGuard(clock, str(self.path), lambda: None)
        self._tx = SqliteTransaction(self._connection, self._alive, on_statement)

    def _connect(self, durability: str, read_only: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path.as_uri() + ("?mode=ro" if read_only else ""),
            uri=True,
            isolation_level=None,
            timeout=0.0,
            cached_statements=256,
            check_same_thread=False,
        )
        try:
            # Opening waits in SQLite: another process may migrate, or recover the WAL of one that crashed.
            self._wait_in_sqlite(connection, self._busy_after)
            check_identity(connection, self.path)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA synchronous = {durability.upper()}")
            if not read_only:
                self._use_wal(connection)
            migrate(connection, self.path)
            self._wait_in_sqlite(connection, 0.0)
        except BaseException:
            connection.close()
            raise
        return connection

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Set the journal mode; of two that do so at once SQLite refuses one, without waiting."""
        tries = int(self._busy_after / RETRY_EVERY)
        while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.Error as error:
                tries -= 1
                if not is_busy(error) or tries < 0:
                    raise
                threading.Event().wait(RETRY_EVERY)

    def _wait_in_sqlite(self, connection: sqlite3.Connection, seconds: float) -> None:
        connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    # --- transactions ------------------------------------------------------------------------------

    async def write(
        self,
        work: Callable[[Transaction], T],
        *,
        urgent: bool = False,
        committed: Callable[[T], None] | None = None,
    ) -> T:
        """Run `work` in one transaction and commit it; units that are ready together share a commit.

        It cannot be cancelled, and is bounded: others may wait for what is served here.
        """
        self._guard.check()
        unit = _Unit(work, committed)
        if urgent:
            self._pending.appendleft(unit)
        else:
            self._pending.append(unit)
        try:
            with anyio.CancelScope(shield=True):
                while not unit.over:
                    if self._serving:
                        await unit.wait()
                    else:
                        await self._serve()
        except BaseException:  # asyncio's own cancellation, which no shield stops
            if not unit.over:
                self._pending.remove(unit)
            raise
        finally:
            if self._pending and not self._serving:
                self._pending[0].wake()  # it serves the rest
        if unit.error is not None:
            raise unit.error
        return unit.result  # type: ignore[return-value]

    async def _serve(self) -> None:
        self._serving = True
        try:
            await anyio.lowlevel.cancel_shielded_checkpoint()
            while self._pending:
                await self._serve_batch()
        finally:
            self._serving = False

    async def _serve_batch(self) -> None:
        error: BaseException | None = None
        batch: list[_Unit[Any]] = []
        try:
            try:
                queue = self._queue()
                if not queue.try_enter():
                    await queue.enter(self._busy_after)
                await self._begin()
            except Exception as refused:
                error = refused
            batch.extend(self._pending)
            self._pending.clear()
            if error is None:
                self._run(batch)
            else:
                for unit in batch:
                    unit.error = error
        finally:
            if self._turn is not None:
                self._turn.leave()
            for unit in batch:
                unit.finish()

    async def _begin(self) -> None:
        busy: sqlite3.Error | None = None
        with anyio.move_on_after(self._busy_after):
            while True:
                try:
                    self._tx.statement("begin", "BEGIN IMMEDIATE")
                    return
                except sqlite3.Error as error:
                    if not is_busy(error):
                        raise self._ours(error) from error
                    busy = error
                await anyio.sleep(RETRY_EVERY)
        assert busy is not None
        raise self._ours(busy) from busy

    def _run(self, batch: list[_Unit[Any]]) -> None:
        """Run the units of one transaction and commit; what goes wrong becomes their error."""
        now = self._clock.now()
        alone = len(batch) == 1
        try:
            for unit in batch:
                if alone:
                    self._do(unit, now)
                else:
                    self._do_apart(unit, now)
            self._tx.statement("commit", "COMMIT")
        except BaseException as error:
            # SQLite itself has rolled back after some errors (a full disk); then there is nothing to undo.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            for unit in batch:
                if unit.error is None:
                    unit.error = self._ours(error)

    def _do(self, unit: _Unit[Any], now: datetime) -> None:
        self._tx.open(now)
        unit.result = unit.work(self._tx)

    def _do_apart(self, unit: _Unit[Any], now: datetime) -> None:
        """Run one unit of several, so that a refusal of it undoes nothing of the others."""
        self._tx.statement("savepoint", "SAVEPOINT unit")
        try:
            self._do(unit, now)
            self._tx.statement("release", "RELEASE unit")
        except sqlite3.OperationalError:  # the store's, not the unit's: nothing of the batch can be kept
            raise
        except BaseException as refused:
            unit.error = self._ours(refused)
            self._tx.statement("undo", "ROLLBACK TO unit")
            self._tx.statement("undone", "RELEASE unit")

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` over one consistent view; it may be called wherever no write is being run."""
        self._guard.check()
        with self._translated():
            try:
                return self._view(work)
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise
            # Readers wait for nobody but for a process that recovers the WAL or lays it down: shortly.
            self._wait_in_sqlite(self._connection, self._busy_after)
            try:
                return self._view(work)
            finally:
                self._wait_in_sqlite(self._connection, 0.0)

    def _view(self, work: Callable[[Reader], T]) -> T:
        self._tx.open(self._clock.now())
        self._tx.statement("begin-read", "BEGIN")
        try:
            return work(self._tx)
        finally:
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")

    # --- the operating system's part ----------------------------------------------------------------

    def _alive(self, incarnation: int) -> bool:
        return incarnation in self._mine or self._liveness().alive(incarnation)

    def _liveness(self) -> Liveness:
        if self._life is None:
            self._life = Liveness.open(self.folder, self._clock)
        return self._life

    def _queue(self) -> FairQueue:
        if self._turn is None:
            self._turn = FairQueue.open(self.folder, self._clock)
        return self._turn

    def hold_life(self, incarnation: int) -> None:
        self._liveness().hold(incarnation)
        self._mine.add(incarnation)

    def drop_life(self, incarnation: int) -> None:
        self._mine.discard(incarnation)
        self._liveness().release(incarnation)
        bell = self._bells.pop(incarnation, None)
        if bell is not None:
            bell.close()

    def listen(self, incarnation: int) -> None:
        bell = self._bells[incarnation] = Doorbell.open(self.folder, incarnation, self._clock)
        bell.sweep(lambda other: not self._alive(other))

    async def rung(self, incarnation: int) -> None:
        await self._bells[incarnation].wait()

    def ring(self, incarnations: Collection[int] | None = None) -> None:
        if self._ringer is None:
            self._ringer = Doorbell.open(self.folder, None, self._clock)
        if incarnations is None:
            self._ringer.ring_all(except_=self._mine)
        else:
            for incarnation in incarnations:
                self._ringer.ring(incarnation)

    def close(self) -> None:
        """Close the file. Leases are handed back before, by whoever holds them."""
        for incarnation in list(self._mine):
            self.drop_life(incarnation)
        for part in (self._life, self._turn, self._ringer):
            if part is not None:
                part.close()
        self._connection.close()

    # --- errors ------------------------------------------------------------------------------------

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._ours(error) from error

    def _ours(self, error: BaseException) -> BaseException:
        """The error as the engine knows it."""
        if not isinstance(error, sqlite3.Error):
            return error
        holder = self._turn.holder() if self._turn is not None and is_busy(error) else None
        ours = refused_by_sqlite(error, self.path, waited=self._busy_after, holder=holder)
        ours.__cause__ = error
        return ours
