"""The face of quiesce: start runs of flows, pause, resume, answer, watch and cancel them.

    async with Runtime("flows.db") as rt:
        outcome = await rt.run(architect, Path("."))
        while isinstance(outcome, Paused):
            print(outcome.reason, outcome.holds)
            outcome = await outcome.resume(True)
        print(outcome.value)

A `Runtime` opens a store, finds the backend for it, and adds nothing to the verbs but their names. Runs
belong to the runtime: cancelling a waiter only stops the waiting. Every verb takes `request_id` (its
idempotency key, made up if absent), `actor` (default user@host) and `reason`.

Source: spec engine, 4 and 5.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from quiesce.backend import Asked
from quiesce.blocking import BlockingRuntime
from quiesce.clock import Clock, SystemClock
from quiesce.errors import QuiesceError, StoreMismatch
from quiesce.hosting import Hosting
from quiesce.local import LocalBackend
from quiesce.rules.requests import UNSET
from quiesce.runs import (
    Ack,
    AnswerAck,
    Event,
    Hold,
    Page,
    PauseAck,
    Receipt,
    ResumeAck,
    RunStatus,
)
from quiesce.states import RunState
from quiesce.store import RunFilter, Store

__all__ = ["Completed", "CurrentNodes", "Idle", "Outcome", "Paused", "Run", "Runtime"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Completed:
    """The run is over; `value` is its result."""

    value: Any


@dataclass(frozen=True, slots=True)
class Paused:
    """The run is paused and nothing of it runs, or only pieces that are overdue.

    `episode` is the stay in `paused` that the caller saw; `resume` is bound to it.
    """

    run: Run
    episode: str
    reason: str | None
    holds: tuple[Hold, ...]

    async def resume(self, answer: Any = UNSET, *, hold: str | None = None) -> Outcome:
        """Resume what was shown, with an answer or without, and wait until the run settles again.

        Raises:
            StaleGeneration: the run has moved on since this outcome; and what `Run.resume` raises.
        """
        await self.run.resume(answer, hold=hold, episode=self.episode)
        return await self.run.settled()


@dataclass(frozen=True, slots=True)
class Idle:
    """A team that has nothing to do for now."""

    run: Run


Outcome = Completed | Paused | Idle
"""What a call that waits returns."""


class CurrentNodes(list[T]):
    """The nodes of one type that a run stands at: none, one or several."""

    @property
    def none(self) -> bool:
        """There is no such node."""
        return not self

    def one(self) -> T:
        """The only one.

        Raises:
            QuiesceError: there is none, or there are several.
        """
        if len(self) != 1:
            raise QuiesceError(f"asked for the one current node of this type, but there are {len(self)}")
        return self[0]

    def all(self) -> list[T]:
        """Every one, by branch id; the same object as often as branches stand at it."""
        return list(self)


class Run:
    """One run, and the verbs bound to it."""

    def __init__(self, runtime: Runtime, run_id: str) -> None:
        self.runtime = runtime
        self.id = run_id

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and (self.id, self.runtime) == (other.id, other.runtime)

    def __hash__(self) -> int:
        return hash(self.id)

    async def status(self) -> RunStatus:
        """The run as it is stored now. Never waits for a worker."""
        return await self.runtime.status(self.id)

    async def pause(
        self, *, request_id: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> PauseAck:
        """See `Runtime.pause`."""
        return await self.runtime.pause(self.id, request_id=request_id, actor=actor, reason=reason)

    async def resume(
        self,
        answer: Any = UNSET,
        *,
        hold: str | None = None,
        episode: str | None = None,
        accept_changes: bool = False,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> ResumeAck:
        """See `Runtime.resume`."""
        return await self.runtime.resume(
            self.id,
            answer,
            hold=hold,
            episode=episode,
            accept_changes=accept_changes,
            request_id=request_id,
            actor=actor,
            reason=reason,
        )

    async def answer(
        self,
        value: Any,
        *,
        hold: str | None = None,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> AnswerAck:
        """Answer the hold of this id, or the only one that is open in this run.

        Raises:
            AmbiguousAnswer, UnknownHold and what `Runtime.answer` raises.
        """
        target = hold if hold is not None else self.runtime._backend.sole_hold(self.id)
        return await self.runtime.answer(target, value, request_id=request_id, actor=actor, reason=reason)

    async def cancel(
        self, *, request_id: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Ack:
        """See `Runtime.cancel`."""
        return await self.runtime.cancel(self.id, request_id=request_id, actor=actor, reason=reason)

    async def reset(
        self, *, request_id: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Ack:
        """See `Runtime.reset`."""
        return await self.runtime.reset(self.id, request_id=request_id, actor=actor, reason=reason)

    async def retry(
        self,
        *,
        accept_changes: bool = False,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ack:
        """See `Runtime.retry`."""
        return await self.runtime.retry(
            self.id, accept_changes=accept_changes, request_id=request_id, actor=actor, reason=reason
        )

    async def takeover(
        self, *, request_id: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Ack:
        """See `Runtime.takeover`."""
        return await self.runtime.takeover(self.id, request_id=request_id, actor=actor, reason=reason)

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """The events of this run after sequence number `after`, and each new one."""
        return self.runtime.events(self.id, after)

    async def settled(self) -> Outcome:
        """Wait until the run is ended, idle, quiescent, or only overdue pieces remain.

        Cancelling this only stops the waiting.

        Raises:
            RunCancelled: the run was cancelled.
            RunFailed: it failed in another process; in this one the body's own error is raised, the
                same each time.
        """
        status = await self.runtime._backend.settled(self.id)
        if status.state is RunState.COMPLETED:
            return Completed(self.runtime._backend.result(self.id))
        if status.state is RunState.IDLE:
            return Idle(self)
        return Paused(self, status.episode_id or "", status.reason, status.holds)

    async def result(self) -> Any:
        """Wait through pauses and idle times for the value. Raises as `settled`."""
        return await self.runtime._backend.awaited_result(self.id)

    def current_nodes(self, kind: type[T]) -> CurrentNodes[T]:
        """The registered nodes of exactly this type that the run of a graph stands at.

        Those of the paused branches, by branch id; only if none is paused, of the queued ones.

        Raises:
            HeldElsewhere: this process does not drive the run; look at its holds instead.
        """
        return CurrentNodes(self.runtime._backend.current_nodes(self.id, kind))


class Runtime:
    """Opens a store and runs flows over it; an async context manager.

    It drives what it starts, and claims queued runs of `flows`. A verb that makes another run runnable
    imports the stored flow and drives it, if no living process serves it. Leaving it hands work back;
    no state or generation changes by that.

    Args:
        store: a path or `sqlite:///…` for a durable store; None keeps all in memory; or a `Store`.
        flows: flows whose queued runs this process drives, also those that others started.
        drain_timeout: seconds after which a piece that still runs under a fence is overdue.
        durability: `"full"` syncs every commit; `"normal"` may lose the last ones with the power.
        clock: the source of time, ids, randomness and process identity.
        drive: off, verbs only record what they decide, and other processes run it.

    Raises (on entering):
        StoreMismatch, StoreReadOnly, StoreBusy: the store cannot be used; the message says why.
    """

    def __init__(
        self,
        store: str | Path | Store | None = None,
        *,
        flows: Iterable[Any] = (),
        drain_timeout: float = 10.0,
        durability: Literal["full", "normal"] = "full",
        clock: Clock | None = None,
        drive: bool = True,
    ) -> None:
        self._target = store
        self._flows = tuple(flows)
        self._drain_timeout = drain_timeout
        self._durability = durability
        self._clock = clock or SystemClock()
        self._drive = drive
        self._entered: LocalBackend | None = None

    @classmethod
    def blocking(cls, store: str | Path | Store | None = None, **options: Any) -> BlockingRuntime:
        """The same verbs without `await`: `with Runtime.blocking("flows.db") as rt: …`."""
        return BlockingRuntime(lambda: cls(store, **options))

    async def __aenter__(self) -> Self:
        store = open_store(self._target, self._clock, self._durability)
        backend = LocalBackend(
            Hosting(
                store, self._clock, flows=self._flows, drain_timeout=self._drain_timeout, drive=self._drive
            )
        )
        await backend.__aenter__()
        self._entered = backend
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        backend, self._entered = self._backend, None
        return await backend.__aexit__(kind, error, trace)

    @property
    def _backend(self) -> LocalBackend:
        if self._entered is None:
            raise QuiesceError("the runtime is not open: use it inside `async with Runtime(…) as rt:`")
        return self._entered

    # --- verbs -------------------------------------------------------------------------------------

    async def create(
        self,
        flow: Any,
        run_id: str | None = None,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Run:
        """Make a run without an input.

        Raises:
            RunActive: the run id is taken.
        """
        ack = await self._backend.create(flow, run_id, Asked(request_id, actor, reason))
        return Run(self, ack.run_id)

    async def start(
        self,
        flow: Any,
        input: Any = None,
        *,
        run_id: str | None = None,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Run:
        """Commit a running run, and drive it.

        Raises:
            InputRejected: the input does not fit the flow.
            NotSerializable: the input would not come back from the store as it is.
            RunActive: a run of this id is under way; IllegalTransition: it has ended.
            GraphError and its leaves: the flow cannot run as it is defined.
            FlowNotFound: another process could never find this flow.
        """
        ack = await self._backend.start(flow, input, run_id, Asked(request_id, actor, reason))
        return Run(self, ack.run_id)

    async def run(
        self,
        flow: Any,
        input: Any = None,
        *,
        run_id: str | None = None,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Outcome:
        """Start a run and wait until it settles; the body's error is raised here."""
        run = await self.start(flow, input, run_id=run_id, request_id=request_id, actor=actor, reason=reason)
        return await run.settled()

    async def pause(
        self,
        run_id: str,
        *,
        drain_timeout: float | None = None,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> PauseAck:
        """Fence a run and every run inside it; returns when that is committed, before anything yields.

        Args:
            drain_timeout: seconds until what still runs is overdue; default is the runtime's.

        Raises:
            IllegalTransition: it is not running or paused.
        """
        drain = self._drain_timeout if drain_timeout is None else drain_timeout
        return await self._backend.pause(run_id, Asked(request_id, actor, reason), drain)

    async def resume(
        self,
        run_id: str,
        answer: Any = UNSET,
        *,
        hold: str | None = None,
        episode: str | None = None,
        accept_changes: bool = False,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> ResumeAck:
        """Lift what keeps a run, with an answer for the only open hold (or the named one) or without.

        Args:
            episode: only if the run is still in this episode.
            accept_changes: go on although the flow's code has changed.

        Raises:
            NotResumable, Fenced, StaleGeneration, FlowChanged, FlowNotFound, AnswerRequired,
            AmbiguousAnswer, UnknownHold, AnswerRejected, AlreadyAnswered, Expired, Withdrawn.
        """
        return await self._backend.resume(
            run_id, Asked(request_id, actor, reason), answer, hold, episode, accept_changes
        )

    async def answer(
        self,
        hold_id: str,
        value: Any,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> AnswerAck:
        """Settle an open hold, once; what waited for it goes on unless a lock keeps it.

        Raises:
            UnknownHold, AlreadyAnswered, Expired, Withdrawn, AnswerRejected, FlowChanged, FlowNotFound.
        """
        return await self._backend.answer(hold_id, value, Asked(request_id, actor, reason))

    async def reject(
        self,
        hold_id: str,
        message: str = "",
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> AnswerAck:
        """Settle an open hold with a no; raises as `answer`."""
        return await self._backend.answer(hold_id, message, Asked(request_id, actor, reason), rejected=True)

    async def cancel(
        self,
        run_id: str,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ack:
        """End a run and every run inside it. Raises IllegalTransition if it has ended."""
        return await self._backend.cancel(run_id, Asked(request_id, actor, reason))

    async def reset(
        self,
        run_id: str,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ack:
        """Back to `created` with the last input queued; a resume then runs it from its start."""
        return await self._backend.reset(run_id, Asked(request_id, actor, reason))

    async def retry(
        self,
        run_id: str,
        *,
        accept_changes: bool = False,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ack:
        """Continue a failed run from the point that failed, or a faulty one in spite of its fault.

        Raises:
            IllegalTransition: it did not fail. FlowChanged: its code changed. Fenced: an outer run is held.
        """
        return await self._backend.retry(run_id, Asked(request_id, actor, reason), accept_changes)

    async def takeover(
        self,
        run_id: str,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ack:
        """Take a run away from a process that lives but hangs; its later writes are refused."""
        return await self._backend.takeover(run_id, Asked(request_id, actor, reason))

    # --- reading -----------------------------------------------------------------------------------

    async def get(self, run_id: str) -> Run:
        """The run of this id. Raises RunNotFound."""
        self._backend.status(run_id)
        return Run(self, run_id)

    async def status(self, run_id: str) -> RunStatus:
        """The run as it is stored now. Raises RunNotFound."""
        return self._backend.status(run_id)

    async def list(
        self,
        *,
        state: str | Iterable[str] | None = None,
        kind: str | None = None,
        flow: str | None = None,
        parent: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[RunStatus]:
        """Runs, newest first, without their holds and results. `after` is the `.next` of the page before."""
        states = None
        if state is not None:
            states = tuple(RunState(item).value for item in ([state] if isinstance(state, str) else state))
        return self._backend.list(RunFilter(states, kind, flow, parent), limit, after)

    async def holds(
        self,
        run_id: str | None = None,
        state: str | None = "open",
        *,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Hold]:
        """Holds, oldest first: of a run and the runs inside it, or of the whole store (the inbox)."""
        return self._backend.holds(run_id, state, limit, after)

    async def receipts(self, episode_id: str) -> Page[Receipt]:
        """The receipts of an episode, in the order of capture."""
        return self._backend.receipts(episode_id)

    def events(self, run_id: str | None = None, after: int = 0) -> AsyncIterator[Event]:
        """Events after sequence number `after`, and each new one as it is committed, live."""
        return self._backend.events(run_id, after)


def open_store(target: str | Path | Store | None, clock: Clock, durability: str) -> Store:
    """Open what a user named as a store, by the entry points `quiesce.stores`.

    Raises:
        StoreMismatch: no store is installed for that URL scheme; and what the store raises.
    """
    if target is not None and not isinstance(target, str | Path):
        return target
    text = None if target is None else str(target)
    scheme = "memory" if text is None else "sqlite"
    if text is not None and "://" in text:
        scheme = text.split("://", 1)[0]
    for point in importlib.metadata.entry_points(group="quiesce.stores", name=scheme):
        opened: Store = point.load()(text, clock=clock, durability=durability)
        return opened
    raise StoreMismatch(f"no store is installed for {scheme}:// ({text}); a path or sqlite:///path will do")
