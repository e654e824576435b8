"""How are the verbs served over a store, by the processes of one machine?

Every verb is one transaction of `rules`, and after its commit whoever it concerns is told: the drivers
and waiters of this process at once, other processes by their doorbell. Nobody is told *what* happened.
They read the rows again, so a message that is lost or doubled does no harm; the event log is the feed
that a rung process reads on.

A run that can go on is driven by whoever holds its lease; if nobody living does, by a living worker that
serves its flow; else by this process, which claims it in the very transaction that made it runnable.

Source: spec engine, 4, 5 (Runtime) and 6 (doorbell).
"""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.abc

from quiesce import codec
from quiesce.backend import Asked, Capabilities, Driver, Mechanism
from quiesce.clock import Clock
from quiesce.errors import (
    Expired,
    FlowChanged,
    FlowNotFound,
    HeldElsewhere,
    IllegalTransition,
    QuiesceError,
    RunCancelled,
    RunFailed,
    StoreError,
    UnknownHold,
)
from quiesce.flows import Flows
from quiesce.rules import claims, ending, fence, holds, release, starting
from quiesce.rules.requests import UNSET, Request, check_request_id, found
from quiesce.rules.status import event_value, receipt_value, status
from quiesce.runs import Ack, AnswerAck, Event, Hold, Page, PauseAck, Receipt, ResumeAck, RunStatus
from quiesce.signals import Signal
from quiesce.states import ENDED, RunState
from quiesce.store import Reader, RunFilter, RunRecord, Store, Transaction

__all__ = ["LocalBackend"]

T = TypeVar("T")

log = logging.getLogger("quiesce")

SAFETY_READ = 30.0
"""Seconds between the reads that cover a bell which was lost with its ringer."""


class LocalBackend:
    """The verbs over one store, and the drivers of this process. Entered as a context.

    Args:
        drive: whether this process drives what it makes runnable; off, verbs only record.
    """

    def __init__(
        self, store: Store, clock: Clock, *, flows: Iterable[Any], drain_timeout: float, drive: bool
    ) -> None:
        self.store = store
        self.clock = clock
        self.drain_timeout = drain_timeout
        self.worker = 0
        self.flows = Flows()
        self._serves = [self.flow_reference(flow) for flow in flows]
        self._drive = drive
        self._mechanisms: dict[str, Mechanism] = {}
        self._drivers: dict[str, Driver] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._waiters: dict[str, set[Signal]] = {}
        self._listeners: set[Signal] = set()
        self._errors: dict[str, BaseException] = {}
        self._unseen: set[str] = set()
        self._broken: dict[str, Exception] = {}
        self._deadline_signal = Signal()
        self._seen_event = 0
        self._listening = False
        self._timing = False
        self._closing = False

    # --- opening and closing -----------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        try:
            if self._serves:
                await self._enlist()
                await self._claim_waiting()
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
        self._closing = True
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
        for run_id in sorted(self._unseen):
            log.error("run %s failed and nobody waited for it: %s", run_id, self._errors[run_id])
        if not self.store.durable:
            active, _ = self.read(lambda tx: tx.runs(RunFilter(states=("running", "paused", "idle")), 100, None))
            for run in active:
                log.warning(
                    "run %s (%s) ends with its memory store: it was %s", run.id, run.flow, run.state.value
                )

    async def _enlist(self) -> None:
        """Become a worker of the store: get an incarnation, prove its life, hang up a bell."""
        if self.worker:
            return
        served = [(text, self._version_of(text)) for text in self._serves]
        pid, host = self.clock.pid(), self.clock.host()
        self._seen_event = self.read(lambda tx: tx.last_event())
        worker = await self.store.write(lambda tx: tx.enlist(pid, host, served))
        if self.worker:  # two verbs came at once
            await self.store.write(lambda tx: tx.discharge(worker))
            return
        self.worker = worker
        self.store.hold_life(worker)

    def _version_of(self, text: str) -> str:
        flow = self.flows.get(text)
        return self.mechanism(flow.kind).version(flow)

    # --- transactions ------------------------------------------------------------------------------

    async def write(self, work: Callable[[Transaction], T], *, urgent: bool = False) -> T:
        """One transaction; claims what it made runnable and this process is to drive; tells everybody."""

        def unit(tx: Transaction) -> tuple[T, list[str], bool, list[RunRecord]]:
            result = work(tx)
            claimed = []
            if self.worker and self._drive and not self._closing and not tx.quiet:
                for run_id in dict.fromkeys(tx.touched):
                    run = tx.run(run_id)
                    if run is not None and self._is_mine_to_drive(tx, run):
                        taken = claims.claim(tx, run.id, self.worker)
                        if taken is not None:
                            claimed.append(taken)
            return result, tx.touched, tx.quiet, claimed

        result, touched, quiet, claimed = await self.store.write(unit, urgent=urgent)
        for run in claimed:
            self._spawn(run)
        self._tell(touched)
        if self.store.shared:
            self._ring(quiet)
        return result

    def read(self, work: Callable[[Reader], T]) -> T:
        return self.store.read(work)

    def _is_mine_to_drive(self, tx: Reader, run: RunRecord) -> bool:
        if run.state is not RunState.RUNNING or run.id in self._drivers:
            return False
        if run.lease_holder is not None and tx.alive(run.lease_holder):
            return False
        return self.flows.known(run.flow) is not None and not self._served_elsewhere(tx, run)

    def _served_elsewhere(self, tx: Reader, run: RunRecord) -> bool:
        """Whether another living process serves this flow and version; it will claim the run when rung."""
        if not self.store.shared or run.flow in self._serves:
            return False
        return any(
            (run.flow, run.version) in worker.flows
            and worker.incarnation != self.worker
            and tx.alive(worker.incarnation)
            for worker in tx.workers()
        )

    def _ring(self, quiet: bool) -> None:
        if not quiet or self._others_listen():
            self.store.ring()

    def _others_listen(self) -> bool:
        return self._followed

    _followed = False

    def _tell(self, touched: Iterable[str]) -> None:
        """Let the drivers and waiters of these runs look again."""
        seen = dict.fromkeys(touched)
        for run_id in seen:
            driver = self._drivers.get(run_id)
            if driver is not None:
                driver.notify()
            for signal in self._waiters.get(run_id, ()):
                signal.set()
        if seen:
            for signal in self._listeners:
                signal.set()

    # --- driving -----------------------------------------------------------------------------------

    def mechanism(self, kind: str) -> Mechanism:
        """The mechanism for a kind of run, loaded on first use.

        Raises:
            FlowNotFound: none is installed.
        """
        known = self._mechanisms.get(kind)
        if known is None:
            for point in importlib.metadata.entry_points(group="quiesce.mechanisms", name=kind):
                known = self._mechanisms[kind] = point.load()()
                return known
            raise FlowNotFound(f"nothing here can run a flow of kind {kind!r}")
        return known

    def capabilities(self, kind: str) -> Capabilities:
        return self.mechanism(kind).capabilities(self.store)

    def flow(self, text: str) -> Any:
        return self.flows.get(text)

    def flow_reference(self, flow: Any) -> str:
        return self.flows.add(flow)[0]

    def describe(self, flow: Any, value: Any) -> tuple[starting.Definition, Any]:
        mechanism = self.mechanism(flow.kind)
        what = self._definition(flow)
        checked = mechanism.check_input(flow, value)
        return what, self._pack(checked, mechanism.input_type(flow), f"input of {flow.name!r}")

    def value_of(self, run: RunRecord) -> Any:
        return self.result(run.id)

    def error_of(self, run: RunRecord) -> BaseException:
        self._unseen.discard(run.id)
        return self._errors.get(run.id) or RunFailed(run.id, f"run {run.id!r} failed: {run.error}")

    def failed(self, run_id: str, error: BaseException) -> None:
        self._errors[run_id] = error
        self._unseen.add(run_id)

    def listened(self) -> bool:
        return bool(self._listeners)

    def _spawn(self, run: RunRecord) -> None:
        flow = self.flows.get(run.flow)
        driver = self.mechanism(run.kind).driver(self, run, flow)
        self._drivers[run.id] = driver
        self._broken.pop(run.id, None)
        self._tasks.start_soon(self._drive_run, run, driver, name=f"quiesce {run.id}")
        self._start_background()

    async def _drive_run(self, run: RunRecord, driver: Driver) -> None:
        scope = anyio.CancelScope()
        self._scopes[run.id] = scope
        try:
            with scope:
                await driver.drive()
        except Exception as error:  # one bad run never stops the others
            log.error("run %s is not driven any more: %s", run.id, error, exc_info=_unexpected(error))
            self._broken[run.id] = error
        finally:
            if self._drivers.get(run.id) is driver:
                del self._drivers[run.id]
                self._scopes.pop(run.id, None)
            with anyio.CancelScope(shield=True):
                await self._hand_back(run)
            self._tell([run.id])

    async def _hand_back(self, run: RunRecord) -> None:
        now = self.read(lambda tx: tx.run(run.id))
        if now is None or now.lease_holder != self.worker or now.lease_epoch != run.lease_epoch:
            return

        def give_up(tx: Transaction) -> list[str]:
            claims.hand_back(tx, run.id, self.worker, run.lease_epoch)
            return tx.touched

        try:
            self._tell(await self.store.write(give_up))
            if self.store.shared:
                self.store.ring()
        except StoreError as error:
            log.warning("the lease of run %s could not be handed back: %s", run.id, error)

    def _start_background(self) -> None:
        self._listen()
        if not self._timing:
            self._timing = True
            self._tasks.start_soon(self._watch_deadlines)

    def _listen(self) -> None:
        if self.store.shared and self.worker and not self._listening:
            self._listening = True
            self.store.listen(self.worker)
            self._tasks.start_soon(self._answer_bell)

    async def _answer_bell(self) -> None:
        while True:
            with anyio.move_on_after(SAFETY_READ):
                await self.store.rung(self.worker)
            await self._catch_up()

    async def _catch_up(self) -> None:
        """Read the feed on, tell whoever is concerned here, and claim what nobody living drives."""
        touched: set[str] = set()
        while rows := self.read(lambda tx: tx.events(None, self._seen_event, 500)):
            self._seen_event = rows[-1][0]
            touched.update(row[2] for row in rows)
        self._deadline_signal.set()
        self._tell(touched | {run_id for run_id in self._waiters if run_id not in self._drivers})
        await self._claim_waiting(touched | set(self._waiters))

    async def _claim_waiting(self, run_ids: Iterable[str] = ()) -> None:
        """Claim running runs that nobody living drives: of the served flows, and of `run_ids`."""
        if not self._drive or self._closing:
            return
        served = set(self._serves)
        ids = self.read(lambda tx: tx.claimable(served)) if served else []
        own = [run_id for run_id in run_ids if self._wants(run_id)]
        for run_id in dict.fromkeys([*ids, *own]):
            run = self.read(lambda tx, run_id=run_id: tx.run(run_id))  # type: ignore[misc]
            if run is None or run_id in self._drivers:
                continue
            try:
                fault = self._fault_of(run, self.flows.get(run.flow))
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

            taken = await self.store.write(take)
            if taken is not None:
                self._spawn(taken)
            self._tell([run_id])

    def _wants(self, run_id: str) -> bool:
        run = self.read(lambda tx: tx.run(run_id))
        return run is not None and self.read(lambda tx: self._is_mine_to_drive(tx, run))

    # --- time --------------------------------------------------------------------------------------

    async def _watch_deadlines(self) -> None:
        """Do what holds say about their deadlines, as they pass."""
        while True:
            flows = list(self.flows.names())
            due = self.read(lambda tx: tx.next_deadline(flows))  # noqa: B023
            if due is None:
                await self._deadline_signal.wait()
                continue
            wait = (due - self.clock.now()).total_seconds()
            if wait > 0:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._sleep_then_stop, wait, group.cancel_scope)
                    await self._deadline_signal.wait()
                    group.cancel_scope.cancel()
                continue
            await self.write(lambda tx: self._expire_due(tx, flows))  # noqa: B023

    def _expire_due(self, tx: Transaction, flows: list[str]) -> None:
        for hold in tx.due_holds(tx.now, flows):
            release.expire(tx, hold, found(tx, hold.run_id))

    async def _sleep_then_stop(self, seconds: float, scope: anyio.CancelScope) -> None:
        await self.clock.sleep(seconds)
        scope.cancel()

    def deadline_changed(self) -> None:
        """A hold with a deadline was opened."""
        self._deadline_signal.set()

    async def _watch_drain(self, episode_ids: list[str], seconds: float) -> None:
        await self.clock.sleep(seconds)

        def overdue(tx: Transaction) -> None:
            for episode_id in episode_ids:
                fence.mark_overdue(tx, episode_id)

        try:
            await self.write(overdue)
        except StoreError as error:  # nothing in a teardown may hurt whoever paused
            log.warning("could not record what is overdue of %s: %s", ", ".join(episode_ids), error)

    # --- verbs -------------------------------------------------------------------------------------

    def _request(
        self, verb: str, scope: str, asked: Asked, arguments: dict[str, Any] | None = None
    ) -> Request:
        explicit = asked.request_id is not None
        request_id = check_request_id(asked.request_id) if asked.request_id is not None else ""
        return Request(
            verb=verb,
            scope=scope,
            id=request_id if explicit else self.clock.new_id("req"),
            actor=asked.actor or self._actor(),
            reason=asked.reason,
            arguments=arguments,
            remember=explicit or self.store.durable,
        )

    _known_actor = ""

    def _actor(self) -> str:
        if not self._known_actor:
            self._known_actor = self.clock.actor()
        return self._known_actor

    def _pack(self, value: Any, declared: Any, place: str) -> Any:
        return codec.encode(value, declared, place=place) if self.store.durable else value

    def _definition(self, flow: Any) -> starting.Definition:
        mechanism = self.mechanism(flow.kind)
        mechanism.prepare(flow)
        text, importable = self.flows.add(flow)
        if self.store.durable and not importable and text not in self._serves:
            raise FlowNotFound(
                f"flow {flow.name!r} is no module-level name of {flow.defined_in.module}, so no other process "
                f"could continue its runs in {self.store.label}; assign it to one, or pass it with flows=",
                flow=text,
            )
        signature = mechanism.signature(flow)
        return starting.Definition(
            flow=text,
            version=mechanism.version(flow),
            kind=flow.kind,
            entry=mechanism.entry(flow),
            signature=self._pack(signature, None, "signature"),
        )

    async def create(self, flow: Any, run_id: str | None, asked: Asked) -> Ack:
        what = self._definition(flow)
        given = check_run_id(run_id) if run_id is not None else self.clock.new_id("run")
        request = self._request("create", "", asked, {"flow": what.flow, "run": run_id})
        return await self.write(lambda tx: starting.create(tx, request, given, what))

    async def start(self, flow: Any, input: Any, run_id: str | None, asked: Asked) -> Ack:
        what = self._definition(flow)
        mechanism = self.mechanism(flow.kind)
        value = mechanism.check_input(flow, input)
        packed = self._pack(value, mechanism.input_type(flow), "input")
        arguments = None
        if asked.request_id is not None:
            digest = codec.digest(packed) if isinstance(packed, bytes) else repr(value)
            arguments = {"flow": what.flow, "input": digest, "run": run_id}
        request = self._request("start", "", asked, arguments)
        given = check_run_id(run_id) if run_id is not None else self.clock.new_id("run")
        if self._drive:
            await self._enlist()
        return await self.write(lambda tx: starting.start(tx, request, given, what, packed))

    async def pause(self, run_id: str, asked: Asked, drain_timeout: float) -> PauseAck:
        request = self._request("pause", run_id, asked, {})
        drain = timedelta(seconds=drain_timeout)

        def work(tx: Transaction) -> tuple[PauseAck, list[str]]:
            ack = fence.pause(tx, request, run_id, tx.now + drain)
            episodes = []
            for touched in dict.fromkeys(tx.touched):
                run = tx.run(touched)
                if run is not None and run.episode_id is not None and tx.drain_counts(run.episode_id).get("pending"):
                    episodes.append(run.episode_id)
            return ack, episodes

        ack, draining = await self.write(work, urgent=True)
        if draining and not ack.replayed:
            self._tasks.start_soon(self._watch_drain, draining, drain_timeout)
        return ack

    async def resume(
        self,
        run_id: str,
        asked: Asked,
        answer: Any = UNSET,
        hold: str | None = None,
        episode: str | None = None,
        accept_changes: bool = False,
    ) -> ResumeAck:
        arguments = {"hold": hold, "episode": episode}
        if answer is not UNSET:
            arguments["answer"] = answer = codec.jsonable(answer, place="answer")
        request = self._request("resume", run_id, asked, arguments)
        run = self.read(lambda tx: found(tx, run_id))
        changed = self._preflight(run)
        accepted = None
        if changed is not None:
            if not accept_changes and not self._is_replay(request) and run.state is not RunState.CREATED:
                raise changed
            accepted = self._accepted(run)
        fault = self._standing_fault(run)
        await self._ready_to_drive()

        def work(tx: Transaction) -> ResumeAck:
            if accepted is not None and self._accept(tx, run_id, accepted):
                return release.resume(tx, request, run_id, answer=answer, hold=hold, episode=episode)
            return release.resume(
                tx, request, run_id, answer=answer, hold=hold, episode=episode, fault=fault
            )

        return await self.write(work)

    async def answer(self, hold_id: str, value: Any, asked: Asked, *, rejected: bool = False) -> AnswerAck:
        plain = codec.jsonable(value, place="answer")
        hold = self.read(lambda tx: tx.hold(hold_id))
        if hold is None:
            self.read(lambda tx: holds.judge(tx, hold_id))
            raise UnknownHold(f"there is no hold {hold_id!r}")
        verb, verdict = ("reject", "rejected") if rejected else ("answer", "answered")
        request = self._request(verb, hold.run_id, asked, {"hold": hold_id, "value": plain})
        run = self.read(lambda tx: found(tx, hold.run_id))
        if not self._is_replay(request):
            self.read(lambda tx: holds.judge(tx, hold_id))
            changed = self._preflight(run)
            if changed is not None:
                raise changed
            if not rejected:
                self.read(lambda tx: holds.check_answer(hold, plain))
        await self._ready_to_drive()
        ack = await self.write(lambda tx: release.answer(tx, request, hold_id, plain, verdict=verdict))
        if isinstance(ack, Expired):
            raise ack
        assert isinstance(ack, AnswerAck)
        return ack

    async def cancel(self, run_id: str, asked: Asked) -> Ack:
        request = self._request("cancel", run_id, asked, {})
        return await self.write(lambda tx: ending.cancel(tx, request, run_id))

    async def reset(self, run_id: str, asked: Asked) -> Ack:
        request = self._request("reset", run_id, asked, {})
        return await self.write(lambda tx: ending.reset(tx, request, run_id))

    async def retry(self, run_id: str, asked: Asked, accept_changes: bool = False) -> Ack:
        request = self._request("retry", run_id, asked, {"accept_changes": accept_changes})
        run = self.read(lambda tx: found(tx, run_id))
        changed = self._preflight(run)
        accepted = None
        if changed is not None:
            if not accept_changes and not self._is_replay(request):
                raise changed
            accepted = self._accepted(run)
        await self._ready_to_drive()
        self._errors.pop(run_id, None)
        self._unseen.discard(run_id)
        return await self.write(lambda tx: ending.retry(tx, request, run_id, accepted=accepted))

    async def takeover(self, run_id: str, asked: Asked) -> Ack:
        request = self._request("takeover", run_id, asked, {})
        changed = self._preflight(self.read(lambda tx: found(tx, run_id)))
        if changed is not None and not self._is_replay(request):
            raise changed
        await self._ready_to_drive()
        scope = self._scopes.get(run_id)
        ack = await self.write(lambda tx: claims.takeover(tx, request, run_id))
        if scope is not None and not ack.replayed:
            scope.cancel()
        return ack

    async def _ready_to_drive(self) -> None:
        if self._drive:
            await self._enlist()

    def _is_replay(self, request: Request) -> bool:
        return request.remember and self.read(lambda tx: tx.request(request.scope, request.id)) is not None

    def _preflight(self, run: RunRecord) -> FlowChanged | None:
        """Before a verb makes a run runnable that this process would have to drive: can it?

        Returns what changed in the flow's code since the run was started, if anything did.

        Raises:
            FlowNotFound: the flow cannot be loaded here, and no living process serves it.
        """
        if not self._drive or run.state in ENDED - {RunState.FAILED}:
            return None
        if self.read(lambda tx: tx.alive(run.lease_holder) or self._served_elsewhere(tx, run)):
            return None
        return self._fault_of(run, self.flows.get(run.flow))

    def _fault_of(self, run: RunRecord, flow: Any) -> FlowChanged | None:
        if run.signature is None:
            return None
        mechanism = self.mechanism(run.kind)
        ref = run.signature
        stored = self.read(lambda tx: tx.value(run.id, ref))
        old = codec.decode(stored) if isinstance(stored, bytes) else stored
        new = mechanism.signature(flow)
        lines = list(mechanism.changes(old, new)) if old != new else []
        version = mechanism.version(flow)
        if not lines and version != run.version:
            lines = [f"version {run.version} -> {version}"]
        if not lines:
            return None
        return FlowChanged(
            f"{run.flow} has changed since run {run.id!r} was started: {'; '.join(lines)}; "
            f"go on with the new code by retry(accept_changes=True) (flowctl retry {run.id} "
            "--accept-changes), or bring the old code back",
            diff=lines,
        )

    def _standing_fault(self, run: RunRecord) -> str | None:
        lock = run.locks.get("fault")
        if lock is None:
            return None
        try:
            changed = self._fault_of(run, self.flows.get(run.flow))
        except FlowNotFound as error:
            return str(error)
        if changed is not None:
            return str(changed)
        return None if "has changed since" in (lock.reason or "") else lock.reason

    def _accepted(self, run: RunRecord) -> tuple[str, Any]:
        flow = self.flows.get(run.flow)
        mechanism = self.mechanism(run.kind)
        return mechanism.version(flow), self._pack(mechanism.signature(flow), None, "signature")

    def _accept(self, tx: Transaction, run_id: str, accepted: tuple[str, Any]) -> bool:
        run = found(tx, run_id)
        run.version = accepted[0]
        run.signature = tx.put_value(run.id, accepted[1])
        tx.save_run(run, generation=run.generation)
        return True

    # --- reading -----------------------------------------------------------------------------------

    def status(self, run_id: str) -> RunStatus:
        durable = self.store.durable
        return self.read(lambda tx: status(tx, found(tx, run_id), durable=durable))

    def list(self, which: RunFilter, limit: int, after: str | None) -> Page[RunStatus]:
        durable = self.store.durable

        def work(tx: Reader) -> Page[RunStatus]:
            runs, cursor = tx.runs(which, limit, after)
            return Page((status(tx, run, durable=durable, brief=True) for run in runs), cursor)

        return self.read(work)

    def holds(self, run_id: str | None, state: str | None, limit: int, after: str | None) -> Page[Hold]:
        offset = int(after or 0)

        def work(tx: Reader) -> Page[Hold]:
            if run_id is not None and state == "open":
                shown = holds.listed(tx, found(tx, run_id))
                more = len(shown) > offset + limit
                return Page(shown[offset : offset + limit], str(offset + limit) if more else None)
            rows = tx.holds(run_id, state, limit + 1, offset)
            more = len(rows) > limit
            return Page(
                (holds.public(row, tx.now) for row in rows[:limit]), str(offset + limit) if more else None
            )

        return self.read(work)

    def receipts(self, episode_id: str) -> Page[Receipt]:
        return self.read(lambda tx: Page(receipt_value(row) for row in tx.receipts(episode_id)))

    async def events(self, run_id: str | None, after: int) -> AsyncIterator[Event]:
        """Every event after `after`, and then each new one as it is committed, by whatever process."""
        signal = Signal()
        self._listeners.add(signal)
        try:
            if self.store.shared:
                await self._follow()
            while True:
                rows = self.read(lambda tx: tx.events(run_id, after, 200))  # noqa: B023
                for row in rows:
                    after = row[0]
                    yield event_value(row)
                if not rows:
                    await signal.wait()
        finally:
            self._listeners.discard(signal)

    async def _follow(self) -> None:
        await self._enlist()
        self._listen()

    async def settled(self, run_id: str) -> RunStatus:
        signal = Signal()
        self._waiters.setdefault(run_id, set()).add(signal)
        try:
            while True:
                now = self._settled_now(run_id)
                if now is not None:
                    return now
                if self.store.shared and run_id not in self._drivers:
                    await self._follow()
                    await self._claim_waiting([run_id])
                    if (now := self._settled_now(run_id)) is not None:
                        return now
                await signal.wait()
        finally:
            waiting = self._waiters[run_id]
            waiting.discard(signal)
            if not waiting:
                del self._waiters[run_id]

    def _settled_now(self, run_id: str) -> RunStatus | None:
        run = self.read(lambda tx: found(tx, run_id))
        if run.state in ENDED and run_id not in self._drivers:
            return self._ended(run)
        if run_id in self._broken and run.state is RunState.RUNNING:
            raise self._broken[run_id]
        if run.state is RunState.CREATED:
            raise IllegalTransition(
                run.id, run.state, "wait for", f"run {run.id!r} is created; start or resume it before you wait for it"
            )
        if run.state is RunState.IDLE:
            return self.status(run_id)
        if run.state is RunState.PAUSED:
            now = self.status(run_id)
            return now if now.phase == "quiescent" or now.draining == 0 else None
        return None

    def _ended(self, run: RunRecord) -> RunStatus:
        if run.state is RunState.CANCELLED:
            raise RunCancelled(run.id)
        if run.state is RunState.FAILED:
            self._unseen.discard(run.id)
            error = self._errors.get(run.id)
            if error is not None:
                raise error
            raise RunFailed(run.id, f"run {run.id!r} failed: {run.error}")
        return self.status(run.id)

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

    async def awaited_result(self, run_id: str) -> Any:
        """Wait through pauses for the value."""
        signal = Signal()
        self._waiters.setdefault(run_id, set()).add(signal)
        try:
            while True:
                now = await self.settled(run_id)
                if now.state is RunState.COMPLETED:
                    return self.result(run_id)
                await signal.wait()
        finally:
            self._waiters.get(run_id, set()).discard(signal)

    def sole_hold(self, run_id: str) -> str:
        """The id of the only open hold of a run, at any depth. Raises UnknownHold, AmbiguousAnswer."""
        return self.read(lambda tx: release.sole_hold(tx, found(tx, run_id), None)[0].id)

    def current_nodes(self, run_id: str, kind: type[T]) -> list[T]:
        """The node objects of exactly this type that the run stands at. Raises HeldElsewhere."""
        run = self.read(lambda tx: found(tx, run_id))
        if run.lease_holder not in (None, self.worker) and self.read(lambda tx: tx.alive(run.lease_holder)):
            raise HeldElsewhere(
                f"run {run_id!r} is driven by another process, which has its node objects; see its holds"
            )
        flow = self.flows.get(run.flow)
        rows = self.read(lambda tx: tx.pieces(run_id))
        if run.state is RunState.CREATED and run.has_input:
            rows = [starting.first_piece(run)]
        held = [row for row in rows if row.state in ("held", "waiting")]
        return [
            node
            for row in held or [row for row in rows if row.state == "queued"]
            if type(node := self.mechanism(run.kind).node(flow, row.name)) is kind
        ]


def _unexpected(error: Exception) -> Exception | None:
    return None if isinstance(error, QuiesceError) else error


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error itself, where a group holds just one."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found


def check_run_id(run_id: str) -> str:
    """Refuse an id that could not be printed or typed.

    Raises:
        QuiesceError: it is not 1 to 200 printable characters without spaces.
    """
    if not (1 <= len(run_id) <= 200 and run_id.isprintable() and " " not in run_id):
        raise QuiesceError(
            f"run id {run_id[:40]!r} cannot be used: 1 to 200 printable characters without spaces, please"
        )
    return run_id
