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
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel

from quiesce.clock import Clock
from quiesce.errors import (
    QuiesceError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
)
from quiesce.store import Reader, Transaction

from .doorbell import Doorbell
from .filesystem import refuse_unusable
from .forks import ForkGuard
from .liveness import Liveness
from .migrations import migrate
from .queue import FairQueue
from .rows import SqliteTransaction

__all__ = ["SqliteStore", "open_store"]

T = TypeVar("T")

BUSY_AFTER = 5.0
"""Seconds that a write waits for its turn before it is refused with `StoreBusy`."""
RETRY_EVERY = 0.005
"""Seconds between tries while a program that does not queue holds SQLite's write lock."""


def open_store(url: str, *, clock: Clock, durability: str = "full") -> SqliteStore:
    """The entry point `sqlite` of `quiesce.stores`: a path, or `sqlite:///path`, there also with `?mode=ro`."""
    path = url.removeprefix("sqlite:///")
    read_only = path != url and path.endswith("?mode=ro")
    return SqliteStore(path.removesuffix("?mode=ro"), clock, durability=durability, read_only=read_only)


class _Unit(Generic[T]):
    """One unit of work, and what became of it."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Callable[[Transaction], T]) -> None:
        self.work = work
        self.done: anyio.Event | None = None
        self.result: T | None = None
        self.error: BaseException | None = None


class SqliteStore:
    """A store in one SQLite file, shared by the processes of one machine.

    Args:
        durability: `full` syncs every commit to the disk. `normal` does not: a commit that was
            acknowledged survives the death of the process, and may be lost with the power.
        read_only: look at a store that is there; its file keeps its bytes, also if the last writer died
            before it could tidy up (SQLite's close would do that).
        on_statement: called with the label of every statement before it is sent; for tests of faults.
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
        on_statement: Callable[[str], None] | None = None,
    ) -> None:
        if durability not in ("full", "normal"):
            raise StoreError(f"durability {durability!r} is unknown: 'full' or 'normal'")
        self.path = Path(path).absolute()
        self.label = str(self.path)
        self._clock = clock
        refuse_unusable(self.path)
        with self._translated():
            self._connection = self._connect(durability, read_only)
        self._guard = ForkGuard(clock, str(self.path), lambda: None)
        self._tx = SqliteTransaction(self._connection, self._alive, on_statement)
        self._folder = self.path.with_name(self.path.name + "-quiesce")
        self._life: Liveness | None = None
        self._turn: FairQueue | None = None
        self._bells: dict[int, Doorbell] = {}
        self._ringer: Doorbell | None = None
        self._mine: set[int] = set()
        self._pending: deque[_Unit[Any]] = deque()
        self._serving = False

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
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA synchronous = {durability.upper()}")
            for attempt in range(400):  # the last process may have crashed: WAL recovery is exclusive
                try:
                    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
                    if mode != "wal":
                        connection.execute("PRAGMA journal_mode = WAL")
                    migrate(connection, str(self.path))
                    break
                except sqlite3.OperationalError as error:
                    if not _is_busy(error) or attempt == 399:
                        raise
                    connection.execute("PRAGMA busy_timeout = 25")
            connection.execute("PRAGMA busy_timeout = 0")
        except BaseException:
            connection.close()
            raise
        return connection

    # --- transactions ------------------------------------------------------------------------------

    async def write(self, work: Callable[[Transaction], T], *, urgent: bool = False) -> T:
        """Run `work` in one transaction and commit it; units that are ready together share a commit."""
        self._guard.check()
        unit = _Unit(work)
        if urgent:
            self._pending.appendleft(unit)
        else:
            self._pending.append(unit)
        if self._serving:
            unit.done = anyio.Event()
            try:
                await unit.done.wait()
            except BaseException:
                if unit in self._pending:
                    self._pending.remove(unit)
                raise
        else:
            with anyio.CancelScope(shield=True):  # bounded; others wait for what is served here
                await self._serve()
        if unit.error is not None:
            raise unit.error
        return unit.result  # type: ignore[return-value]

    async def _serve(self) -> None:
        self._serving = True
        try:
            await anyio.lowlevel.cancel_shielded_checkpoint()
            while self._pending:
                error: QuiesceError | None = None
                queue = self._queue()
                try:
                    if not queue.try_enter():
                        await queue.enter(BUSY_AFTER)
                    await self._begin()
                except QuiesceError as refused:
                    error = refused
                batch = list(self._pending)
                self._pending.clear()
                try:
                    if error is None:
                        self._run(batch)
                    else:
                        for unit in batch:
                            unit.error = error
                finally:
                    queue.leave()
                    for unit in batch:
                        if unit.done is not None:
                            unit.done.set()
        finally:
            self._serving = False

    async def _begin(self) -> None:
        deadline = self._clock.monotonic() + BUSY_AFTER
        while True:
            try:
                self._tx.statement("begin", "BEGIN IMMEDIATE")
                return
            except sqlite3.Error as error:
                if not _is_busy(error) or self._clock.monotonic() >= deadline:
                    raise self._translate(error) from error
            await anyio.sleep(RETRY_EVERY)

    def _run(self, batch: list[_Unit[Any]]) -> None:
        """Run the units of one transaction and commit; what goes wrong becomes their error."""
        now = self._clock.now()
        alone = len(batch) == 1
        try:
            for unit in batch:
                if not alone:
                    self._tx.statement("savepoint", "SAVEPOINT unit")
                try:
                    self._tx.open(now)
                    unit.result = unit.work(self._tx)
                    if not alone:
                        self._tx.statement("release", "RELEASE unit")
                except sqlite3.Error:
                    raise
                except BaseException as refused:
                    unit.error = refused
                    if alone:
                        raise
                    self._connection.execute("ROLLBACK TO unit")
                    self._connection.execute("RELEASE unit")
            self._tx.statement("commit", "COMMIT")
        except BaseException as error:
            # SQLite itself has rolled back after some errors (a full disk); then there is nothing to undo.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            ours = self._translate(error) if isinstance(error, sqlite3.Error) else error
            for unit in batch:
                if unit.error is None:
                    unit.error = ours
                    if ours is not error:
                        unit.error.__cause__ = error

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` over one consistent view; it may be called wherever no write is being run."""
        self._guard.check()
        with self._translated():
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
            self._life = Liveness.open(self._folder, self._clock)
        return self._life

    def _queue(self) -> FairQueue:
        if self._turn is None:
            self._turn = FairQueue.open(self._folder, self._clock)
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
        self._bells[incarnation] = Doorbell.open(self._folder, incarnation, self._clock)

    async def rung(self, incarnation: int) -> None:
        await self._bells[incarnation].wait()

    def ring(self, incarnations: Collection[int] | None = None) -> None:
        if self._ringer is None:
            self._ringer = Doorbell.open(self._folder, None, self._clock)
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
            raise self._translate(error) from error

    def _translate(self, error: sqlite3.Error) -> QuiesceError:
        """A driver's error as ours; the one place that knows SQLite's names."""
        name = getattr(error, "sqlite_errorname", None) or ""
        if _is_busy(error):
            holder = self._turn.holder() if self._turn is not None else None
            who = f"process {holder}" if holder else "another program"
            return StoreBusy(
                f"{self.path} is busy: {who} has held its write lock for more than {BUSY_AFTER:g} s; "
                "nothing was changed: try again, or see `flowctl doctor`"
            )
        if name == "SQLITE_FULL":
            return StoreFull(f"the disk of {self.path} is full; nothing was changed: make room and repeat")
        if name.startswith("SQLITE_READONLY"):
            return StoreReadOnly(f"{self.path} can only be read here; nothing was changed")
        if name.startswith("SQLITE_CANTOPEN"):
            return StoreReadOnly(
                f"{self.path} cannot be opened: {error}; does its folder exist and allow it?"
            )
        if name in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
            return StoreMismatch(
                f"{self.path} is no quiesce store: {error}; nothing was changed: name another file with --db"
            )
        return StoreError(f"{self.path}: {name or type(error).__name__}: {error}; nothing was changed")


def _is_busy(error: sqlite3.Error) -> bool:
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
