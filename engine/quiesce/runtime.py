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

import builtins
import importlib.metadata
import math
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from quiesce.backend import Asked, Capabilities
from quiesce.blocking import BlockingRuntime
from quiesce.clock import Clock, SystemClock
from quiesce.errors import QuiesceError, StoreMismatch
from quiesce.handles import Outcome, Run
from quiesce.hosting import Hosting
from quiesce.local import LocalBackend
from quiesce.records import RunFilter
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
from quiesce.store import Store

__all__ = ["Runtime", "open_store"]

T = TypeVar("T")


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
        self._drain_timeout = _seconds(drain_timeout)
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
        backend, self._entered = self.backend, None
        return await backend.__aexit__(kind, error, trace)

    @property
    def backend(self) -> LocalBackend:
        """What serves the verbs, for code of quiesce itself."""
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
        ack = await self.backend.create(flow, run_id, Asked(request_id, actor, reason))
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
        ack = await self.backend.start(flow, input, run_id, Asked(request_id, actor, reason))
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
        drain = self._drain_timeout if drain_timeout is None else _seconds(drain_timeout)
        return await self.backend.pause(run_id, Asked(request_id, actor, reason), drain)

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
        return await self.backend.resume(
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
        return await self.backend.answer(hold_id, value, Asked(request_id, actor, reason))

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
        if not isinstance(message, str):
            raise TypeError(f"the message of a rejection is text, not {type(message).__name__}: {message!r}")
        return await self.backend.answer(hold_id, message, Asked(request_id, actor, reason), rejected=True)

    async def cancel(
        self,
        run_id: str,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ack:
        """End a run and every run inside it. Raises IllegalTransition if it has ended."""
        return await self.backend.cancel(run_id, Asked(request_id, actor, reason))

    async def reset(
        self,
        run_id: str,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ack:
        """Back to `created` with the last input queued; a resume then runs it from its start."""
        return await self.backend.reset(run_id, Asked(request_id, actor, reason))

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
        return await self.backend.retry(run_id, Asked(request_id, actor, reason), accept_changes)

    async def takeover(
        self,
        run_id: str,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ack:
        """Take a run away from a process that lives but hangs; its later writes are refused."""
        return await self.backend.takeover(run_id, Asked(request_id, actor, reason))

    async def fork(
        self,
        run_id: str,
        *,
        at: int,
        new_id: str | None = None,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Run:
        """A new run that goes on from an earlier point of this one, which stays as it is.

        What finished before visit number `at` is not run again; what asked there asks again.

        Args:
            at: the number of the first visit that the new run does itself, from 1.

        Raises:
            QuiesceError: the run has no such visit, or its store keeps none.
            FlowChanged: the flow's code is not what the run was started with.
        """
        ack = await self.backend.fork(run_id, at, new_id, Asked(request_id, actor, reason))
        return Run(self, ack.run_id)

    async def send(
        self,
        run_id: str,
        message: Any,
        *,
        to: str | None = None,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ack:
        """Put a message into the box of a run, for its body to receive. Never resumes anything.

        Args:
            to: of a team, whose inbox it is; default is the coordinator's.

        Raises:
            RunNotFound, NotSerializable; IllegalTransition: the run has ended, or takes no messages.
        """
        return await self.backend.send(run_id, message, Asked(request_id, actor, reason), to)

    async def prune(self, before: datetime) -> builtins.list[str]:
        """Forget runs that ended before this instant, each with the runs inside it; returns their ids.

        A run stays while one inside it has not ended, or ended later. Request ids are kept for ever.
        """
        return await self.backend.prune(before)

    # --- reading -----------------------------------------------------------------------------------

    def capabilities(self, kind: str) -> Capabilities:
        """What this store and the mechanism for that kind of run can do together. Raises FlowNotFound."""
        return self.backend.capabilities(kind)

    async def get(self, run_id: str) -> Run:
        """The run of this id. Raises RunNotFound."""
        self.backend.status(run_id)
        return Run(self, run_id)

    async def status(self, run_id: str) -> RunStatus:
        """The run as it is stored now. Raises RunNotFound."""
        return self.backend.status(run_id)

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
        _check_limit(limit)
        states = None
        if state is not None:
            states = tuple(RunState(item).value for item in ([state] if isinstance(state, str) else state))
        return self.backend.list(RunFilter(states, kind, flow, parent), limit, after)

    async def holds(
        self,
        run_id: str | None = None,
        state: str | None = "open",
        *,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Hold]:
        """Holds, oldest first: of a run and the runs inside it, or of the whole store (the inbox)."""
        _check_limit(limit)
        return self.backend.holds(run_id, state, limit, after)

    async def receipts(self, episode_id: str) -> Page[Receipt]:
        """The receipts of an episode, in the order of capture."""
        return self.backend.receipts(episode_id)

    def events(self, run_id: str | None = None, after: int = 0) -> AsyncIterator[Event]:
        """Events after sequence number `after`, and each new one as it is committed, live."""
        return self.backend.events(run_id, after)


def _seconds(drain_timeout: float) -> float:
    if isinstance(drain_timeout, bool) or not isinstance(drain_timeout, int | float):
        raise TypeError(f"drain_timeout is a number of seconds, not {drain_timeout!r}")
    if not (math.isfinite(drain_timeout) and drain_timeout >= 0):
        raise ValueError(f"drain_timeout is a number of seconds from 0, not {drain_timeout!r}")
    return drain_timeout


def _check_limit(limit: int) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit is a number from 1, not {limit!r}")


def open_store(target: str | Path | Store | None, clock: Clock, durability: str) -> Store:
    """Open what a user named as a store, by the entry points `quiesce.stores`.

    Raises:
        StoreMismatch: no store is installed for that URL scheme; and what the store raises.
    """
    if target is not None and not isinstance(target, str | Path):
        if not hasattr(target, "write"):
            raise TypeError(f"a store is a path, a URL, a Store or None, not {target!r}")
        return target
    text = None if target is None else str(target)
    scheme = "memory" if text is None else "sqlite"
    if text is not None and "://" in text:
        scheme = text.split("://", 1)[0]
    for point in importlib.metadata.entry_points(group="quiesce.stores", name=scheme):
        opened: Store = point.load()(text, clock=clock, durability=durability)
        return opened
    raise StoreMismatch(f"no store is installed for {scheme}:// ({text}); a path or sqlite:///path will do")
