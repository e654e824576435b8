"""Which runs does this process drive over a store, and how does it hear of what others do?

Nobody is told *what* happened. After a commit the drivers and waiters that it concerns are told to read
the rows again, other processes by their doorbell; so a message that is lost or doubled does no harm. The
event log is the feed that a rung process reads on.

A run that can go on is driven by whoever holds its lease; if nobody living does, by a living worker that
serves its flow; else by this process, which claims it in the very transaction that made it runnable.

Source: spec engine, 4, 5 (Runtime) and 6 (doorbell).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.abc

from quiesce.alarms import Alarms
from quiesce.backend import Driver, Join, SuspensionBackend
from quiesce.catalog import Catalog
from quiesce.claiming import claim_inside, claim_waiting, is_mine_to_drive, wants
from quiesce.clock import Clock
from quiesce.errors import QuiesceError, RunFailed, StoreError
from quiesce.records import RunFilter, RunRecord
from quiesce.rules import claims
from quiesce.signals import Signal
from quiesce.store import Reader, Store, Transaction
from quiesce.timers import TRY_AGAIN, Timers
from quiesce.tracing import Traces

__all__ = ["Hosting"]

T = TypeVar("T")

log = logging.getLogger("quiesce")

FOLLOWS = ("*", "events")
"""What a worker that follows every event says it serves."""

SAFETY_READ = 30.0
"""Seconds between the reads that cover a bell which was lost with its ringer."""


class Hosting(Catalog):
    """What this process drives over one store, and how it hears of the others. Entered as a context.

    Args:
        drive: whether this process drives what it makes runnable; off, verbs only record.
    """

    verbs: SuspensionBackend
    """Set by the backend that serves them over this host."""

    def __init__(
        self, store: Store, clock: Clock, *, flows: Iterable[Any], drain_timeout: float, drive: bool
    ) -> None:
        super().__init__(store, flows)
        self.clock = clock
        self.drain_timeout = drain_timeout
        self.worker = 0
        self.drive = drive
        self.traces = Traces(store.read)
        self.timers = Timers(self)
        self.drivers: dict[str, Driver] = {}
        self.joins: dict[str, Join] = {}
        self.taken: set[str] = set()  # over from a process that hangs, so never left to it again
        self.scopes: dict[str, anyio.CancelScope] = {}
        self.waiters: dict[str, set[Signal]] = {}
        self.listeners: set[Signal] = set()
        self.errors: dict[str, BaseException] = {}
        self.unseen: set[str] = set()
        self.broken: dict[str, Exception] = {}
        self._owed: dict[str, int] = {}
        self._refusals: dict[str, int] = {}
        self._seen_event = 0
        self._follows = False
        self._is_followed = False
        self._listening = False
        self._timing = False
        self._watching: dict[str, set[str]] = {}
        self._alarms: Alarms | None = None
        self.closing = False

    # --- opening and closing --------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self.tasks = anyio.create_task_group()
        await self.tasks.__aenter__()
        try:
            if self.serves and self.drive:
                await self.enlist()
                self._start_background()
                await claim_waiting(self)
        except BaseException:
            self.closing = True
            self.tasks.cancel_scope.cancel()
            await self.tasks.__aexit__(None, None, None)  # the error itself, not a group of it
            with anyio.CancelScope(shield=True):
                await self._discharge()
            self.store.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Hand back what is driven here, and report what nobody looked at."""
        self.closing = True
        for run_id in list(self.drivers):
            self._notify(run_id)
        self.tasks.cancel_scope.cancel()
        try:
            # Without the error of the `async with` body, which would come back inside a group.
            await self.tasks.__aexit__(None, None, None)
        except BaseExceptionGroup as group:
            raise _only(group) from None
        finally:
            with anyio.CancelScope(shield=True):
                await self._discharge()
            self._report()
            self.store.close()
        return None

    async def _discharge(self) -> None:
        if not self.worker:
            return
        worker = self.worker
        try:
            await self.store.write(lambda tx: tx.discharge(worker))
        except StoreError as error:
            log.warning("worker %s could not sign off: %s", worker, error)
        self.store.drop_life(worker)

    def _report(self) -> None:
        for run_id in sorted(self.unseen):
            run = self.read(lambda tx, run_id=run_id: tx.run(run_id))  # type: ignore[misc]
            if run is not None and run.parent_piece is not None:
                continue  # the run around it has heard
            log.error("run %s failed and nobody waited for it: %s", run_id, self.errors[run_id])
        if not self.store.durable:
            active, _ = self.read(
                lambda tx: tx.runs(RunFilter(states=("running", "paused", "idle")), 100, None)
            )
            for run in active:
                log.warning(
                    "run %s (%s) ends with its memory store: it was %s", run.id, run.flow, run.state.value
                )

    async def enlist(self) -> None:
        """Become a worker of the store: get an incarnation, prove its life, hang up a bell."""
        if self.worker:
            return
        served = self._announced()
        pid, host = self.clock.pid(), self.clock.host()
        self._seen_event = self.read(lambda tx: tx.last_event())
        worker = await self.store.write(lambda tx: tx.enlist(pid, host, served))
        if self.worker:  # two verbs came at once
            await self.store.write(lambda tx: tx.discharge(worker))
            return
        self.store.hold_life(worker)  # first: nothing may be claimed by who cannot prove that it lives
        self.worker = worker

    def _announced(self) -> list[tuple[str, str]]:
        served = self.served() if self.drive else []  # nobody may leave a run to who does not drive
        return [*served, FOLLOWS] if self._follows else served

    async def follow(self) -> None:
        """Hear of every event of every process, visits included, from now on."""
        await self.enlist()
        if self.store.shared and not self._follows:
            self._follows = True
            await self.store.write(lambda tx: tx.announce(self.worker, self._announced()))
            self.store.ring()
        self.listen()

    # --- transactions ---------------------------------------------------------------------------------

    async def write(self, work: Callable[[Transaction], T], *, urgent: bool = False) -> T:
        """One transaction; claims what it made runnable and this process is to drive; tells everybody."""

        claimed: list[RunRecord] = []
        drains: dict[str, float] = {}
        joined: list[Callable[[], None]] = []

        def unit(tx: Transaction) -> tuple[T, list[str], bool, list[str]]:
            paid = self._pay(tx) if self._owed else []
            result = work(tx)
            for found in (claimed, drains, joined):
                found.clear()  # by an earlier try
            if not self.closing and not tx.quiet:
                touched = tx.those(tx.touched)
                drains.update(self.timers.drains_of(tx, touched))
                for run in touched:
                    if (join := self.joins.get(run.id)) and (then := join(tx, run)):
                        joined.append(then)
                    if self.worker and self.drive and is_mine_to_drive(self, tx, run):
                        taken = claims.claim(tx, run.id, self.worker)
                        if taken is not None:
                            claimed.append(taken)
            return result, tx.touched, tx.quiet, paid

        def committed(outcome: tuple[T, list[str], bool, list[str]]) -> None:
            _, touched, quiet, paid = outcome
            for run_id in paid:
                self._owed.pop(run_id, None)
            for then in joined:
                then()
            for run in claimed:
                self.spawn(run)
            self.timers.watch_drains(drains)
            self.tell(touched)
            if self.store.shared:
                self._ring(quiet)

        return (await self.store.write(unit, urgent=urgent, committed=committed))[0]

    def read(self, work: Callable[[Reader], T]) -> T:
        return self.store.read(work)

    def _ring(self, quiet: bool) -> None:
        """Wake other processes; visits concern only those that follow every event."""
        if not quiet or self._is_followed:
            self.store.ring()

    def tell(self, touched: Iterable[str]) -> None:
        """Let the drivers and waiters of these runs look again."""
        seen = dict.fromkeys(touched)
        try:
            if len(driven := self.drivers.keys() & seen.keys()) > 1:  # in one view
                self.read(lambda tx: self._tell(seen) if tx.those(driven) else None)
                return
        except StoreError:
            pass  # each as it can
        self._tell(seen)

    def _tell(self, seen: Iterable[str]) -> None:
        for run_id in seen:
            self._notify(run_id)
            for watcher in list(self._watching.get(run_id, ())):
                self._notify(watcher)
            for signal in self.waiters.get(run_id, ()):
                signal.set()
        for signal in self.listeners:
            signal.set()

    def _notify(self, run_id: str) -> None:
        """What was committed stands; a driver that cannot read it now must not look like a refusal."""
        driver = self.drivers.get(run_id)
        try:
            if driver is not None:
                self.traces.saw(run_id)
                driver.notify()
        except StoreError as error:
            log.warning("put off: %s", error)
            self.tasks.start_soon(self._notify_later, run_id)

    async def _notify_later(self, run_id: str) -> None:
        await self.clock.sleep(TRY_AGAIN)
        self._notify(run_id)

    # --- driving --------------------------------------------------------------------------------------

    def error_of(self, run: RunRecord) -> BaseException:
        self.unseen.discard(run.id)
        return self.errors.get(run.id) or RunFailed(run.id, f"run {run.id!r} failed: {run.error}")

    def failed(self, run_id: str, error: BaseException) -> None:
        self.errors[run_id] = error
        self.unseen.add(run_id)

    def deadline_changed(self) -> None:
        """A hold with a deadline was opened."""
        self.timers.changed()

    def listened(self) -> bool:
        return bool(self.listeners)

    def interrupt(self, run_id: str) -> None:
        scope = self.scopes.get(run_id)
        if scope is not None:
            scope.cancel()

    def watch(self, run_id: str, watcher: str) -> None:
        self._watching.setdefault(run_id, set()).add(watcher)

    def unwatch(self, run_id: str, watcher: str) -> None:
        watching = self._watching.get(run_id, set())
        watching.discard(watcher)
        if not watching:
            self._watching.pop(run_id, None)

    def alarm(self, at: datetime, ring: Callable[[], None]) -> None:
        if self._alarms is None:
            self._alarms = Alarms(self.clock)
            self.tasks.start_soon(self._alarms.run)
        self._alarms.set(at, ring)

    def spawn(self, run: RunRecord) -> None:
        try:
            driver = self.mechanism(run.kind).driver(self, run, self.flows.get(run.flow))
        except Exception as error:
            self.break_off(run.id, error)
            self.tasks.start_soon(self._hand_back, run)
            return
        self.drivers[run.id] = driver
        self.broken.pop(run.id, None)
        self.tasks.start_soon(self._drive_run, run, driver, name=f"quiesce {run.id}")
        if run.lease_epoch > 1:
            self.tasks.start_soon(self.tolerant, claim_inside, self, run.id)
        self._start_background()

    async def _drive_run(self, run: RunRecord, driver: Driver) -> None:
        scope = anyio.CancelScope()
        self.scopes[run.id] = scope
        try:
            with scope:
                await driver.drive()
        except Exception as error:
            self.break_off(run.id, error)
        except BaseException:  # it takes the runtime down: what is handed back is not claimed here again
            self.closing = True
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._hand_back(run)  # while it counts as driven, so nobody who waits is told too early
            if self.drivers.get(run.id) is driver:
                del self.drivers[run.id]
                self.scopes.pop(run.id, None)
                self.traces.left(run.id)
            self.tell([run.id])
        if isinstance(self.broken.get(run.id), StoreError):
            await self._drive_again(run.id)
        elif run.id not in self.broken:
            self._refusals.pop(run.id, None)
            # Reset and resumed, retried or taken over while this driver unwound; it was not claimed then.
            await self.tolerant(self._claim_if_wanted, run.id)

    def break_off(self, run_id: str, error: Exception) -> None:
        """One bad run never stops the others: keep its error for whoever waits for it."""
        log.error("run %s is not driven any more: %s", run_id, error, exc_info=_unexpected(error))
        self.broken[run_id] = error

    async def tolerant(self, work: Callable[..., Awaitable[None]], *arguments: object) -> bool:
        """Do what nobody waits for; if the store refuses (busy, full), say so and go on. Whether it went."""
        try:
            await work(*arguments)
        except StoreError as error:
            log.warning("put off: %s", error)
            return False
        return True

    async def _drive_again(self, run_id: str) -> None:
        """The store refused what a driver had to write, and may take it later."""
        while run_id in self.broken or run_id in self._owed:
            refusals = self._refusals[run_id] = self._refusals.get(run_id, 0) + 1
            await self.clock.sleep(min(SAFETY_READ, TRY_AGAIN * 2 ** (refusals - 1)))
            if await self.tolerant(self._retake, run_id):
                return

    async def _retake(self, run_id: str) -> None:
        if self._owed:
            await self.write(lambda tx: None)  # which hands back first
        self.broken.pop(run_id, None)
        await self._claim_if_wanted(run_id)

    async def _claim_if_wanted(self, run_id: str) -> None:
        if wants(self, run_id):
            await claim_waiting(self, [run_id])

    async def _hand_back(self, run: RunRecord) -> None:
        def give_up(tx: Transaction) -> list[str]:
            claims.hand_back(tx, run.id, self.worker, run.lease_epoch)
            return tx.touched

        def committed(touched: list[str]) -> None:
            self.tell(touched)
            if self.store.shared and touched:
                self.store.ring()

        try:
            now = self.read(lambda tx: tx.run(run.id))
            if now is None or now.lease_holder != self.worker or now.lease_epoch != run.lease_epoch:
                return
            await self.store.write(give_up, committed=committed)
        except StoreError as error:
            log.warning("the lease of run %s could not be handed back yet: %s", run.id, error)
            self._owed[run.id] = run.lease_epoch

    def _pay(self, tx: Transaction) -> list[str]:
        """Hand back the leases that could not be, so that no run is held here that nobody here drives."""
        for run_id, epoch in self._owed.items():
            claims.hand_back(tx, run_id, self.worker, epoch)
        return list(self._owed)

    def _start_background(self) -> None:
        self.listen()
        if not self._timing:
            self._timing = True
            self.tasks.start_soon(self.timers.watch_deadlines)

    def listen(self) -> None:
        if self.store.shared and self.worker and not self._listening:
            self._listening = True
            self.store.listen(self.worker)
            self.tasks.start_soon(self._answer_bell)

    async def _answer_bell(self) -> None:
        while True:
            with anyio.move_on_after(SAFETY_READ):
                await self.store.rung(self.worker)
            await self.tolerant(self._catch_up)

    async def _catch_up(self) -> None:
        """Read the feed on, tell whoever is concerned here, and claim what nobody living drives."""
        touched: set[str] = set()
        while rows := self.read(lambda tx: tx.events(None, self._seen_event, 500)):
            self._seen_event = rows[-1][0]
            touched.update(row[2] for row in rows)
            for row in rows:
                if row[5] not in ("claimed", "handed-back"):  # somebody did something about it
                    self.broken.pop(row[2], None)
        self._is_followed = self.read(
            lambda tx: any(
                FOLLOWS in worker.flows and worker.incarnation != self.worker and tx.alive(worker.incarnation)
                for worker in tx.workers()
            )
        )
        here = touched & (self.drivers.keys() | self.waiters.keys())
        self.timers.watch_drains(self.read(lambda tx: self.timers.drains_of(tx, tx.those(here))))
        self.timers.changed()
        self.tell(touched | {run_id for run_id in self.waiters if run_id not in self.drivers})
        await claim_waiting(self, touched | set(self.waiters))


def _unexpected(error: Exception) -> Exception | None:
    return None if isinstance(error, QuiesceError) else error


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error itself, where a group holds just one."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found
