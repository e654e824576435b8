"""How are the verbs served over a store, by the processes of one machine?

Every verb is one transaction of `rules`. Before it, what only this process can know is checked: whether
the flow of a run that it would have to drive can be loaded here, and whether its code still fits. What
follows the commit (drivers, waiters, bells) is `hosting.py`'s.

Source: spec engine, 4.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from quiesce import codec, waiting
from quiesce.answering import check_answer, check_sole
from quiesce.backend import Asked, Capabilities
from quiesce.claiming import served_elsewhere
from quiesce.errors import Expired, FlowChanged, HeldElsewhere, QuiesceError, UnknownHold
from quiesce.fitting import code_changed, new_code, standing_fault
from quiesce.frames import Frame
from quiesce.hosting import Hosting
from quiesce.records import HoldRecord, RunFilter, RunRecord
from quiesce.rules import (
    claims,
    ending,
    fence,
    holds,
    messages,
    orders,
    pruning,
    release,
    starting,
    team_status,
)
from quiesce.rules.requests import UNSET, Request, check_request_id, found
from quiesce.rules.status import receipt_value, status
from quiesce.runs import Ack, AnswerAck, Event, Hold, Page, PauseAck, Receipt, ResumeAck, RunStatus
from quiesce.states import ACTIVE, ENDED, RunState
from quiesce.store import Reader, Transaction
from quiesce.team.orders import Order, SendTo
from quiesce.team.values import Message, OrderAck, Task, TurnStatus

__all__ = ["LocalBackend", "check_run_id"]

T = TypeVar("T")


class LocalBackend:
    """The verbs over one store. Entered as a context, which opens and closes its host."""

    def __init__(self, host: Hosting) -> None:
        self.host = host
        host.verbs = self

    async def __aenter__(self) -> Self:
        await self.host.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self.host.__aexit__(kind, error, trace)

    def capabilities(self, kind: str) -> Capabilities:
        return self.host.mechanism(kind).capabilities(self.host.store)

    # --- verbs -----------------------------------------------------------------------------------------

    def _request(
        self, verb: str, scope: str, asked: Asked, arguments: dict[str, Any] | None = None
    ) -> Request:
        for what, text in (("actor", asked.actor), ("reason", asked.reason)):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"the {what} of a request is text, not {type(text).__name__}: {text!r}")
        explicit = asked.request_id is not None
        request_id = check_request_id(asked.request_id) if asked.request_id is not None else ""
        return Request(
            verb=verb,
            scope=scope,
            id=request_id if explicit else self.host.clock.new_id("req"),
            actor=asked.actor or self._actor(),
            reason=asked.reason,
            arguments=arguments,
            remember=explicit or self.host.store.durable,
        )

    _known_actor = ""

    def _actor(self) -> str:
        if not self._known_actor:
            self._known_actor = self.host.clock.actor()
        return self._known_actor

    async def create(self, flow: Any, run_id: str | None, asked: Asked) -> Ack:
        what = self.host.define(flow)
        given = check_run_id(run_id) if run_id is not None else self.host.clock.new_id("run")
        request = self._request("create", "", asked, {"flow": what.flow, "run": run_id})
        return await self.host.write(lambda tx: starting.create(tx, request, given, what))

    async def start(self, flow: Any, input: Any, run_id: str | None, asked: Asked) -> Ack:
        what = self.host.define(flow)
        mechanism = self.host.mechanism(flow.kind)
        value = mechanism.check_input(flow, input)
        packed = self.host.pack(value, mechanism.input_type(flow), "input")
        arguments = None
        if asked.request_id is not None:
            digest = codec.digest(packed) if isinstance(packed, bytes) else repr(value)
            arguments = {"flow": what.flow, "input": digest, "run": run_id}
        request = self._request("start", "", asked, arguments)
        given = check_run_id(run_id) if run_id is not None else self.host.clock.new_id("run")
        if self.host.drive:
            await self.host.enlist()
        return await self.host.write(lambda tx: starting.start(tx, request, given, what, packed))

    async def pause(self, run_id: str, asked: Asked, drain_timeout: float) -> PauseAck:
        request = self._request("pause", run_id, asked, {})
        drain = timedelta(seconds=drain_timeout)
        return await self.host.write(lambda tx: fence.pause(tx, request, run_id, tx.now + drain), urgent=True)

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
        run = self.host.read(lambda tx: found(tx, run_id))
        changed = self._preflight(run)
        accepted = None
        if changed is not None:
            if not accept_changes and not self._is_replay(request) and run.state is not RunState.CREATED:
                raise changed
            accepted = new_code(self.host, run)
        fault = standing_fault(self.host, run)
        if answer is not UNSET and not self._is_replay(request):
            check_sole(self.host, run, hold, answer)
        await self._ready_to_drive()

        def work(tx: Transaction) -> ResumeAck | Expired:
            if accepted is not None and self._accept(tx, run_id, accepted):
                return release.resume(tx, request, run_id, answer=answer, hold=hold, episode=episode)
            return release.resume(tx, request, run_id, answer=answer, hold=hold, episode=episode, fault=fault)

        ack = await self.host.write(work)
        if isinstance(ack, Expired):
            raise ack
        return ack

    async def answer(self, hold_id: str, value: Any, asked: Asked, *, rejected: bool = False) -> AnswerAck:
        plain = codec.jsonable(value, place="answer")
        verb, verdict = ("reject", "rejected") if rejected else ("answer", "answered")

        def look(tx: Reader) -> tuple[Request, HoldRecord | None]:
            hold = tx.hold(hold_id)
            if hold is None:
                holds.judge(tx, hold_id)
                raise UnknownHold(f"there is no hold {hold_id!r}")
            request = self._request(verb, hold.run_id, asked, {"hold": hold_id, "value": plain})
            if self._is_replay(request):
                return request, None
            holds.judge(tx, hold_id)
            if (changed := self._preflight(found(tx, hold.run_id))) is not None:
                raise changed
            return request, hold

        request, fresh = self.host.read(look)
        if fresh is not None and not rejected:
            check_answer(self.host, fresh, plain)
        await self._ready_to_drive()
        ack = await self.host.write(lambda tx: release.answer(tx, request, hold_id, plain, verdict=verdict))
        if isinstance(ack, Expired):
            raise ack
        return ack

    async def cancel(self, run_id: str, asked: Asked) -> Ack:
        request = self._request("cancel", run_id, asked, {})
        return await self.host.write(lambda tx: ending.cancel(tx, request, run_id))

    async def reset(self, run_id: str, asked: Asked) -> Ack:
        request = self._request("reset", run_id, asked, {})
        return await self.host.write(lambda tx: ending.reset(tx, request, run_id))

    async def retry(self, run_id: str, asked: Asked, accept_changes: bool = False) -> Ack:
        request = self._request("retry", run_id, asked, {"accept_changes": accept_changes})
        run = self.host.read(lambda tx: found(tx, run_id))
        changed = self._preflight(run)
        accepted = None
        if changed is not None:
            if not accept_changes and not self._is_replay(request):
                raise changed
            accepted = new_code(self.host, run)
        await self._ready_to_drive()

        def work(tx: Transaction) -> Ack:
            ack = ending.retry(tx, request, run_id, accepted=accepted, leave_journal=accept_changes)
            if not ack.replayed:  # a refused or repeated one leaves the error as it is
                self.host.errors.pop(run_id, None)
                self.host.unseen.discard(run_id)
            return ack

        ack = await self.host.write(work)
        self.host.deadline_changed()  # what is held is asked again
        return ack

    async def takeover(self, run_id: str, asked: Asked) -> Ack:
        request = self._request("takeover", run_id, asked, {})
        run = self.host.read(lambda tx: found(tx, run_id))
        bodies = self.host.read(lambda tx: [body.id for body in claims.bodies_of(tx, run)])
        if self.host.drive and run.state in ACTIVE:  # its holder lives, and is not to go on with it
            changed = code_changed(self.host, run, self.host.flows.get(run.flow))
            if changed is not None and not self._is_replay(request):
                raise changed
            self.host.taken.update([run_id, *bodies])
        await self._ready_to_drive()
        scopes = [self.host.scopes.get(taken) for taken in (run_id, *bodies)]
        ack = await self.host.write(lambda tx: claims.takeover(tx, request, run_id))
        for scope in scopes:
            if scope is not None and not ack.replayed:
                scope.cancel()
        return ack

    async def restart_from(self, run_id: str, position: int, asked: Asked) -> Ack:
        request = self._request("restart", run_id, asked, {"position": position})
        run = self.host.read(lambda tx: found(tx, run_id))
        if run.kind != "agent" or not self.host.store.durable:
            raise QuiesceError(
                f"run {run_id!r} has no journal to restart it from; an agent's has one, in a durable store"
            )
        changed = self._preflight(run)
        if changed is not None and not self._is_replay(request):
            raise changed
        await self._ready_to_drive()
        return await self.host.write(lambda tx: ending.restart_from(tx, request, run_id, position))

    async def fork(self, run_id: str, at: int, new_id: str | None, asked: Asked) -> Ack:
        old = self.host.read(lambda tx: found(tx, run_id))
        if not self.host.store.durable:
            raise QuiesceError(
                f"run {run_id!r} cannot be forked: a memory store keeps no visits; use a durable store"
            )
        request = self._request("fork", run_id, asked, {"at": at, "run": new_id})
        flow = self.host.flows.get(old.flow)
        changed = code_changed(self.host, old, flow)
        if changed is not None:
            raise changed
        given = check_run_id(new_id) if new_id is not None else self.host.clock.new_id("run")
        mechanism = self.host.mechanism(old.kind)
        await self._ready_to_drive()
        return await self.host.write(
            lambda tx: starting.fork(
                tx, request, old, given, at, lambda: mechanism.fork(tx, old, given, flow, at)
            )
        )

    async def send(self, run_id: str, message: Any, asked: Asked, to: str | None = None) -> Ack:
        run = self.host.read(lambda tx: found(tx, run_id))
        if run.kind == "team":
            return await self.order(run_id, SendTo(message, to), asked)
        if to is not None:
            raise QuiesceError(
                f"run {run_id!r} is no team, so it has no member {to!r}; send it without a name"
            )
        packed = self.host.pack(message, None, "message")
        told = codec.digest(packed) if isinstance(packed, bytes) else repr(message)
        request = self._request("send", run_id, asked, {"message": told})
        return await self.host.write(lambda tx: messages.send(tx, request, run_id, packed))

    async def order(self, run_id: str, order: Order, asked: Asked, by: orders.By | None = None) -> OrderAck:
        arguments = order.arguments()
        packed = order
        if order.packs is not None:
            value = self.host.pack(arguments[order.packs], None, order.packs)
            packed = replace(order, **{order.packs: value})
            arguments[order.packs] = codec.digest(value) if isinstance(value, bytes) else repr(value)
        request = self._request(order.verb, run_id, asked, arguments)
        if by is None:  # a body's team is driven by somebody already
            run = self.host.read(lambda tx: found(tx, run_id))
            changed = self._preflight(run)
            if changed is not None and not self._is_replay(request):
                raise changed
        await self._ready_to_drive()
        return await self.host.write(lambda tx: orders.carry_out(tx, request, run_id, packed, by))

    async def prune(self, before: datetime) -> builtins.list[str]:
        """Forget what `forgettable` lists, one tree a transaction, so that nobody waits long for a turn."""
        gone = []
        for run_id in self.host.read(lambda tx: pruning.forgettable(tx, before)):
            gone += await self.host.write(lambda tx, run_id=run_id: pruning.forget(tx, run_id, before))  # type: ignore[misc]
        return gone

    async def _ready_to_drive(self) -> None:
        if self.host.drive:
            await self.host.enlist()

    def _is_replay(self, request: Request) -> bool:
        return (
            request.remember and self.host.read(lambda tx: tx.request(request.scope, request.id)) is not None
        )

    def _preflight(self, run: RunRecord) -> FlowChanged | None:
        """Before a verb makes a run runnable that this process would have to drive: can it?

        Returns what changed in the flow's code since the run was started, if anything did.

        Raises:
            FlowNotFound: the flow cannot be loaded here, and no living process serves it.
            QuiesceError: nothing of its kind can run here.
        """
        if not self.host.drive or run.state in ENDED - {RunState.FAILED}:
            return None
        if self.host.read(lambda tx: tx.alive(run.lease_holder) or served_elsewhere(self.host, tx, run)):
            return None
        flow = self.host.flows.get(run.flow)
        changed = code_changed(self.host, run, flow)
        if changed is None:
            self.host.mechanism(run.kind).prepare(flow)
        return changed

    def _accept(self, tx: Transaction, run_id: str, accepted: starting.Definition) -> bool:
        run = found(tx, run_id)
        starting.accept(tx, run, accepted)
        tx.save_run(run, generation=run.generation)
        return True

    # --- reading ---------------------------------------------------------------------------------------

    def status(self, run_id: str) -> RunStatus:
        return waiting.read_status(self.host, run_id)

    async def settled(self, run_id: str) -> RunStatus:
        return await waiting.settled(self.host, run_id)

    async def awaited_result(self, run_id: str) -> Any:
        return await waiting.awaited_result(self.host, run_id)

    def events(self, run_id: str | None, after: int) -> AsyncIterator[Event]:
        return waiting.events(self.host, run_id, after)

    def result(self, run_id: str) -> Any:
        return self.host.result(run_id)

    def list(self, which: RunFilter, limit: int, after: str | None) -> Page[RunStatus]:
        durable = self.host.store.durable

        def work(tx: Reader) -> Page[RunStatus]:
            runs, cursor = tx.runs(which, limit, after)
            return Page((status(tx, run, durable=durable, brief=True) for run in runs), cursor)

        return self.host.read(work)

    def holds(self, run_id: str | None, state: str | None, limit: int, after: str | None) -> Page[Hold]:
        offset = int(after or 0)

        def work(tx: Reader) -> Page[Hold]:
            if run_id is not None:
                run = found(tx, run_id)
                shown = holds.listed(tx, run) if state == "open" else holds.history(tx, run, state)
                more = len(shown) > offset + limit
                return Page(shown[offset : offset + limit], str(offset + limit) if more else None)
            rows = tx.holds(None, state, limit + 1, offset)
            more = len(rows) > limit
            return Page(
                (holds.public(row, tx.now) for row in rows[:limit]), str(offset + limit) if more else None
            )

        return self.host.read(work)

    def receipts(self, episode_id: str) -> Page[Receipt]:
        return self.host.read(lambda tx: Page(receipt_value(row) for row in tx.receipts(episode_id)))

    def tasks(self, run_id: str) -> builtins.list[Task]:
        def work(tx: Reader) -> builtins.list[Task]:
            return team_status.task_values(tx, run_id, found(tx, run_id).execution)

        return self.host.read(work)

    def turns(self, run_id: str) -> builtins.list[TurnStatus]:
        def work(tx: Reader) -> builtins.list[TurnStatus]:
            return team_status.turn_values(tx, run_id, found(tx, run_id).execution)

        return self.host.read(work)

    def messages(self, run_id: str, only: Sequence[int]) -> builtins.list[Message]:
        def work(tx: Reader) -> builtins.list[Message]:
            rows = tx.mail(run_id, None, unread=False)
            return team_status.message_values([row for row in rows if row.number in only])

        return self.host.read(work)

    def sole_hold(self, run_id: str) -> str:
        """The id of the only open hold of a run, at any depth. Raises UnknownHold, AmbiguousAnswer."""
        return self.host.read(lambda tx: release.sole_hold(tx, found(tx, run_id), None)[0].id)

    def frames(self, run_id: str) -> builtins.list[Frame]:
        driver = self.host.drivers.get(run_id)
        if driver is not None:
            return list(driver.frames())
        run = self.host.read(lambda tx: found(tx, run_id))
        if self.host.read(lambda tx: tx.alive(run.lease_holder)):
            raise HeldElsewhere(
                f"run {run_id!r} is driven by another process, which has its stack; see its holds and journal"
            )
        return []

    def current_nodes(self, run_id: str, kind: type[T]) -> builtins.list[T]:
        """The node objects of exactly this type that the run stands at. Raises HeldElsewhere."""
        run = self.host.read(lambda tx: found(tx, run_id))
        if run.lease_holder not in (None, self.host.worker) and self.host.read(
            lambda tx: tx.alive(run.lease_holder)
        ):
            raise HeldElsewhere(
                f"run {run_id!r} is driven by another process, which has its node objects; see its holds"
            )
        if run.state is RunState.PAUSED:
            rows = self.host.read(lambda tx: tx.pieces(run_id))
        else:  # whatever else it does, it waits at none
            rows = [starting.first_piece(run)] if run.state is RunState.CREATED and run.has_input else []
        flow = self.host.flows.get(run.flow)
        held = [row for row in rows if row.state in ("held", "waiting")]
        return [
            node
            for row in held or [row for row in rows if row.state == "queued"]
            if type(node := self.host.mechanism(run.kind).node(flow, row.name)) is kind
        ]


def check_run_id(run_id: str) -> str:
    """Refuse an id that could not be printed or typed.

    Raises:
        QuiesceError: it is not 1 to 200 printable characters without spaces.
    """
    if not isinstance(run_id, str):
        raise QuiesceError(f"run id {run_id!r} cannot be used: it is {type(run_id).__name__}, and no text")
    if not (1 <= len(run_id) <= 200 and run_id.isprintable() and " " not in run_id):
        raise QuiesceError(
            f"run id {run_id[:40]!r} cannot be used: 1 to 200 printable characters without spaces, please"
        )
    return run_id
