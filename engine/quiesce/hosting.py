"""Which runs does this process drive over a store, and how does it hear of what others do?

Nobody is told *what* happened. After a commit the drivers and waiters that it concerns are told to read
the rows again, other processes by their doorbell; so a message that is lost or doubled does no harm. The
event log is the feed that a rung process reads on.

A run that can go on is driven by whoever holds its lease; if nobody living does, by a living worker that
serves its flow; else by this process, which claims it in the very transaction that made it runnable.

Source: spec engine, 4, 5 (Runtime) and 6 (doorbell).
"""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.abc

from quiesce import codec
from quiesce.alarms import Alarms
from quiesce.backend import Driver, Mechanism, SuspensionBackend
from quiesce.clock import Clock
from quiesce.errors import FlowChanged, FlowNotFound, QuiesceError, RunFailed, StoreError
from quiesce.fitting import code_changed
from quiesce.flows import Flows, is_flow
from quiesce.rules import claims, fence, release, starting
from quiesce.rules.requests import found
from quiesce.signals import Signal
from quiesce.states import RunState
from quiesce.store import Reader, RunFilter, RunRecord, Store, Transaction

__all__ = ["Hosting"]

T = TypeVar("T")

log = logging.getLogger("quiesce")

FOLLOWS = ("*", "events")
"""What a worker that follows every event says it serves."""

SAFETY_READ = 30.0
"""Seconds between the reads that cover a bell which was lost with its ringer."""
TRY_AGAIN = timedelta(seconds=1)
"""After this, a deadline that passed while the store was busy or full is acted on again."""


class Hosting:
    """What this process drives over one store, and how it hears of the others. Entered as a context.

    Args:
        drive: whether this process drives what it makes runnable; off, verbs only record.
    """

    verbs: SuspensionBackend
    """Set by the backend that serves them over this host."""

    def __init__(
        self, store: Store, clock: Clock, *, flows: Iterable[Any], drain_timeout: float, drive: bool
    ) -> None:
        self.store = store
        self.clock = clock
        self.drain_timeout = drain_timeout
        self.worker = 0
        self.flows = Flows()
        self.serves = [self.flow_reference(flow) for flow in flows]
        self.drive = drive
        self._mechanisms: dict[str, Mechanism] = {}
        self.drivers: dict[str, Driver] = {}
        self.scopes: dict[str, anyio.CancelScope] = {}
        self.waiters: dict[str, set[Signal]] = {}
        self.listeners: set[Signal] = set()
        self.errors: dict[str, BaseException] = {}
        self.unseen: set[str] = set()
        self.broken: dict[str, Exception] = {}
        self._owed: dict[str, int] = {}
        self._drains: set[str] = set()
        self._deadline_signal = Signal()
        self._seen_event = 0
        self._follows = False
        self._is_followed = False
        self._listening = False
        self._timing = False
        self._watching: dict[str, set[Driver]] = {}
        self._alarms: Alarms | None = None
        self.closing = False

    # --- opening and closing --------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        try:
            if self.serves and self.drive:
                await self.enlist()
                self._start_background()
                await self.claim_waiting()
        except BaseException as error:
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(type(error), error, error.__traceback__)
            self.store.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Hand back what is driven here, and report what nobody looked at."""
        self.closing = True
        for driver in list(self.drivers.values()):
            driver.notify()
        self._tasks.cancel_scope.cancel()
        try:
            # Without the error of the `async with` body, which would come back inside a group.
            await self._tasks.__aexit__(None, None, None)
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
        served = self._served()
        pid, host = self.clock.pid(), self.clock.host()
        self._seen_event = self.read(lambda tx: tx.last_event())
        worker = await self.store.write(lambda tx: tx.enlist(pid, host, served))
        if self.worker:  # two verbs came at once
            await self.store.write(lambda tx: tx.discharge(worker))
            return
        self.store.hold_life(worker)  # first: nothing may be claimed by who cannot prove that it lives
        self.worker = worker

    def _served(self) -> list[tuple[str, str]]:
        found = [
            (text, self.mechanism((flow := self.flows.get(text)).kind).version(flow)) for text in self.serves
        ]
        if not self.drive:
            found = []  # nobody may leave a run to it
        return [*found, FOLLOWS] if self._follows else found

    async def follow(self) -> None:
        """Hear of every event of every process, visits included, from now on."""
        await self.enlist()
        if self.store.shared and not self._follows:
            self._follows = True
            await self.store.write(lambda tx: tx.announce(self.worker, self._served()))
            self.store.ring()
        self.listen()

    # --- transactions ---------------------------------------------------------------------------------

    async def write(self, work: Callable[[Transaction], T], *, urgent: bool = False) -> T:
        """One transaction; claims what it made runnable and this process is to drive; tells everybody."""

        claimed: list[RunRecord] = []
        drains: dict[str, float] = {}

        def unit(tx: Transaction) -> tuple[T, list[str], bool, list[str]]:
            paid = self._pay(tx) if self._owed else []
            result = work(tx)
            claimed.clear()
            drains.clear()
            if not self.closing and not tx.quiet:
                for run_id in dict.fromkeys(tx.touched):
                    run = tx.run(run_id)
                    if run is None:
                        continue
                    drains.update(self._drain_of(tx, run))
                    if self.worker and self.drive and self._is_mine_to_drive(tx, run):
                        taken = claims.claim(tx, run.id, self.worker)
                        if taken is not None:
                            claimed.append(taken)
            return result, tx.touched, tx.quiet, paid

        def committed(outcome: tuple[T, list[str], bool, list[str]]) -> None:
            _, touched, quiet, paid = outcome
            for run_id in paid:
                self._owed.pop(run_id, None)
            for run in claimed:
                self._spawn(run)
            self._watch_drains(drains)
            self._tell(touched)
            if self.store.shared:
                self._ring(quiet)

        return (await self.store.write(unit, urgent=urgent, committed=committed))[0]

    def read(self, work: Callable[[Reader], T]) -> T:
        return self.store.read(work)

    def _is_mine_to_drive(self, tx: Reader, run: RunRecord) -> bool:
        if run.state is not RunState.RUNNING or run.id in self.drivers:
            return False
        if run.lease_holder is not None and tx.alive(run.lease_holder):
            return False
        return self.flows.known(run.flow) is not None and not self.served_elsewhere(tx, run)

    def served_elsewhere(self, tx: Reader, run: RunRecord) -> bool:
        """Whether another living process serves this flow and version; it will claim the run when rung."""
        if not self.store.shared or run.flow in self.serves:
            return False
        return any(
            (run.flow, run.version) in worker.flows
            and worker.incarnation != self.worker
            and tx.alive(worker.incarnation)
            for worker in tx.workers()
        )

    def _ring(self, quiet: bool) -> None:
        """Wake other processes; visits concern only those that follow every event."""
        if not quiet or self._is_followed:
            self.store.ring()

    def _tell(self, touched: Iterable[str]) -> None:
        """Let the drivers and waiters of these runs look again."""
        seen = dict.fromkeys(touched)
        for run_id in seen:
            driver = self.drivers.get(run_id)
            if driver is not None:
                driver.notify()
            for watcher in list(self._watching.get(run_id, ())):
                watcher.notify()
            for signal in self.waiters.get(run_id, ()):
                signal.set()
        if seen:
            for signal in self.listeners:
                signal.set()

    # --- driving --------------------------------------------------------------------------------------

    def mechanism(self, kind: str) -> Mechanism:
        """The mechanism for a kind of run, loaded on first use.

        Raises:
            FlowNotFound: none is installed.
        """
        known = self._mechanisms.get(kind)
        if known is None:
            for point in importlib.metadata.entry_points(group="quiesce.mechanisms", name=kind):
                found_here: Mechanism = point.load()()
                self._mechanisms[kind] = found_here
                return found_here
            raise FlowNotFound(f"nothing here can run a flow of kind {kind!r}")
        return known

    def flow(self, text: str) -> Any:
        return self.flows.get(text)

    def flow_reference(self, flow: Any) -> str:
        return self.flows.add(flow)[0]

    def describe(self, flow: Any, value: Any) -> tuple[starting.Definition, Any]:
        what = self.define(flow)
        mechanism = self.mechanism(flow.kind)
        checked = mechanism.check_input(flow, value)
        return what, self.pack(checked, mechanism.input_type(flow), f"input of {flow.name!r}")

    def value_of(self, run: RunRecord) -> Any:
        return self.result(run.id)

    def error_of(self, run: RunRecord) -> BaseException:
        self.unseen.discard(run.id)
        return self.errors.get(run.id) or RunFailed(run.id, f"run {run.id!r} failed: {run.error}")

    def failed(self, run_id: str, error: BaseException) -> None:
        self.errors[run_id] = error
        self.unseen.add(run_id)

    def listened(self) -> bool:
        return bool(self.listeners)

    def interrupt(self, run_id: str) -> None:
        scope = self.scopes.get(run_id)
        if scope is not None:
            scope.cancel()

    def watch(self, run_id: str, driver: Driver) -> None:
        self._watching.setdefault(run_id, set()).add(driver)

    def unwatch(self, run_id: str, driver: Driver) -> None:
        watching = self._watching.get(run_id, set())
        watching.discard(driver)
        if not watching:
            self._watching.pop(run_id, None)

    def alarm(self, at: datetime, ring: Callable[[], None]) -> None:
        if self._alarms is None:
            self._alarms = Alarms(self.clock)
            self._tasks.start_soon(self._alarms.run)
        self._alarms.set(at, ring)

    def _spawn(self, run: RunRecord) -> None:
        try:
            driver = self.mechanism(run.kind).driver(self, run, self.flows.get(run.flow))
        except Exception as error:
            self._break(run.id, error)
            self._tasks.start_soon(self._hand_back, run)
            return
        self.drivers[run.id] = driver
        self.broken.pop(run.id, None)
        self._tasks.start_soon(self._drive_run, run, driver, name=f"quiesce {run.id}")
        self._start_background()

    async def _drive_run(self, run: RunRecord, driver: Driver) -> None:
        scope = anyio.CancelScope()
        self.scopes[run.id] = scope
        try:
            with scope:
                await driver.drive()
        except Exception as error:
            self._break(run.id, error)
        finally:
            if self.drivers.get(run.id) is driver:
                del self.drivers[run.id]
                self.scopes.pop(run.id, None)
            with anyio.CancelScope(shield=True):
                await self._hand_back(run)
            self._tell([run.id])
        if run.id not in self.broken:
            # Reset and resumed, retried or taken over while this driver unwound; it was not claimed then.
            await self._tolerant(self._claim_if_wanted, run.id)

    def _break(self, run_id: str, error: Exception) -> None:
        """One bad run never stops the others: keep its error for whoever waits for it."""
        log.error("run %s is not driven any more: %s", run_id, error, exc_info=_unexpected(error))
        self.broken[run_id] = error

    async def _tolerant(self, work: Callable[..., Awaitable[None]], *arguments: object) -> bool:
        """Do what nobody waits for; if the store refuses (busy, full), say so and go on. Whether it went."""
        try:
            await work(*arguments)
        except StoreError as error:
            log.warning("put off: %s", error)
            return False
        return True

    async def _claim_if_wanted(self, run_id: str) -> None:
        if self._wants(run_id):
            await self.claim_waiting([run_id])

    async def _hand_back(self, run: RunRecord) -> None:
        def give_up(tx: Transaction) -> list[str]:
            claims.hand_back(tx, run.id, self.worker, run.lease_epoch)
            return tx.touched

        def committed(touched: list[str]) -> None:
            self._tell(touched)
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
            self._tasks.start_soon(self._watch_deadlines)

    def listen(self) -> None:
        if self.store.shared and self.worker and not self._listening:
            self._listening = True
            self.store.listen(self.worker)
            self._tasks.start_soon(self._answer_bell)

    async def _answer_bell(self) -> None:
        while True:
            with anyio.move_on_after(SAFETY_READ):
                await self.store.rung(self.worker)
            await self._tolerant(self._catch_up)

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
        for run_id in touched & (self.drivers.keys() | self.waiters.keys()):
            run = self.read(lambda tx, run_id=run_id: tx.run(run_id))  # type: ignore[misc]
            if run is not None:
                self._watch_drains(self.read(lambda tx, run=run: self._drain_of(tx, run)))  # type: ignore[misc]
        self._deadline_signal.set()
        self._tell(touched | {run_id for run_id in self.waiters if run_id not in self.drivers})
        await self.claim_waiting(touched | set(self.waiters))

    async def claim_waiting(self, run_ids: Iterable[str] = ()) -> None:
        """Claim running runs that nobody living drives: of the served flows, and of `run_ids`."""
        if not self.drive or self.closing:
            return
        served = set(self.serves)
        ids = self.read(lambda tx: tx.claimable(served)) if served else []
        own = [run_id for run_id in run_ids if self._wants(run_id)]
        for run_id in dict.fromkeys([*ids, *own]):
            run = self.read(lambda tx, run_id=run_id: tx.run(run_id))  # type: ignore[misc]
            if run is None or run_id in self.drivers or run_id in self.broken:
                continue
            try:
                fault = code_changed(self, run, self.flows.get(run.flow))
            except FlowNotFound:
                continue

            def take(
                tx: Transaction, run_id: str = run_id, fault: FlowChanged | None = fault
            ) -> RunRecord | None:
                now = found(tx, run_id)
                if now.state is not RunState.RUNNING or tx.alive(now.lease_holder):
                    return None
                if fault is not None:
                    claims.fault(tx, now, str(fault))
                    return None
                return claims.claim(tx, run_id, self.worker)

            def committed(taken: RunRecord | None, run_id: str = run_id) -> None:
                if taken is not None:
                    self._spawn(taken)
                self._tell([run_id])

            await self.store.write(take, committed=committed)

    def _wants(self, run_id: str) -> bool:
        run = self.read(lambda tx: tx.run(run_id))
        return run is not None and self.read(lambda tx: self._is_mine_to_drive(tx, run))

    # --- time -----------------------------------------------------------------------------------------

    async def _watch_deadlines(self) -> None:
        """Do what holds say about their deadlines, as they pass."""
        while True:
            if not await self._tolerant(self._act_at_deadline):
                await self._wait_for_deadline(self.clock.now() + TRY_AGAIN)

    async def _act_at_deadline(self) -> None:
        flows = list(self.flows.names())
        due = self.read(lambda tx: tx.next_deadline(flows))
        if due is None:
            await self._deadline_signal.wait()
        elif due > self.clock.now():
            await self._wait_for_deadline(due)
        else:
            await self.write(lambda tx: self._expire_due(tx, flows))

    async def _wait_for_deadline(self, due: datetime) -> None:
        """Until then, or until something about deadlines may have changed."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._sleep_until, due, group.cancel_scope)
            await self._deadline_signal.wait()
            group.cancel_scope.cancel()

    def _expire_due(self, tx: Transaction, flows: list[str]) -> None:
        for hold in tx.due_holds(tx.now, flows):
            release.expire(tx, hold, found(tx, hold.run_id))

    async def _sleep_until(self, due: datetime, scope: anyio.CancelScope) -> None:
        # Asked of the clock here, not before: it may have moved on since this task was made.
        await self.clock.sleep((due - self.clock.now()).total_seconds())
        scope.cancel()

    def deadline_changed(self) -> None:
        """A hold with a deadline was opened."""
        self._deadline_signal.set()

    def _drain_of(self, tx: Reader, run: RunRecord) -> dict[str, float]:
        """The episode of a paused run in which something runs, and the seconds until that is overdue."""
        if run.state is not RunState.PAUSED or run.episode_id is None or run.episode_id in self._drains:
            return {}
        if not tx.drain_counts(run.episode_id).get("pending"):
            return {}
        episode = tx.episode(run.episode_id)
        return {} if episode is None else {episode.id: (episode.drain_until - tx.now).total_seconds()}

    def _watch_drains(self, drains: dict[str, float]) -> None:
        for episode_id, seconds in drains.items():
            self._drains.add(episode_id)
            self._tasks.start_soon(self._watch_drain, episode_id, seconds)

    async def _watch_drain(self, episode_id: str, seconds: float) -> None:
        """At the bound, record what of this episode still runs as overdue."""
        try:
            await self.clock.sleep(seconds)
            await self.write(lambda tx: fence.mark_overdue(tx, episode_id))
        except StoreError as error:  # nothing in a teardown may hurt whoever paused
            log.warning("could not record what is overdue of %s: %s", episode_id, error)
        finally:
            self._drains.discard(episode_id)

    # --- flows and values ------------------------------------------------------------------------------

    def pack(self, value: Any, declared: Any, place: str) -> Any:
        return codec.encode(value, declared, place=place) if self.store.durable else value

    def define(self, flow: Any) -> starting.Definition:
        if not is_flow(flow):
            raise FlowNotFound(f"{flow!r} is not a flow (a Graph, an @agent function or a Team)")
        mechanism = self.mechanism(flow.kind)
        mechanism.prepare(flow)
        text, importable = self.flows.add(flow)
        if self.store.durable and not importable and text not in self.serves:
            raise FlowNotFound(
                f"flow {flow.name!r} is no module-level name of {flow.defined_in.module}, so no other "
                f"process could continue its runs in {self.store.label}; assign it to one, or pass flows=",
                flow=text,
            )
        signature = mechanism.signature(flow)
        return starting.Definition(
            flow=text,
            version=mechanism.version(flow),
            kind=flow.kind,
            entry=mechanism.entry(flow),
            signature=self.pack(signature, None, "signature"),
        )

    def result(self, run_id: str) -> Any:
        run = self.read(lambda tx: found(tx, run_id))
        ref = run.result
        if ref is None:
            raise QuiesceError(f"run {run_id!r} has no value: it is {run.state.value}")
        stored = self.read(lambda tx: tx.value(run_id, ref))
        if not isinstance(stored, bytes) or not self.store.durable:
            return stored
        flow = self.flows.get(run.flow)
        return codec.decode(stored, self.mechanism(run.kind).output_type(flow, run))


def _unexpected(error: Exception) -> Exception | None:
    return None if isinstance(error, QuiesceError) else error


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error itself, where a group holds just one."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found
