"""What a caller has in hand of a run: the outcome of waiting for it, and the run with its verbs bound.

Source: spec engine, 5.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from quiesce.backend import Asked
from quiesce.errors import QuiesceError
from quiesce.frames import Frame
from quiesce.rules.requests import UNSET
from quiesce.runs import Ack, AnswerAck, Event, Hold, PauseAck, ResumeAck, RunStatus
from quiesce.states import RunState
from quiesce.team.orders import Assign, CancelTask, CreateTask, Direct, Order
from quiesce.team.values import Task, TurnStatus, task_ids

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["Completed", "CurrentNodes", "Idle", "Outcome", "Paused", "Run"]

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
        target = hold if hold is not None else self.runtime.backend.sole_hold(self.id)
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

    async def fork(
        self,
        *,
        at: int,
        new_id: str | None = None,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Run:
        """See `Runtime.fork`."""
        return await self.runtime.fork(
            self.id, at=at, new_id=new_id, request_id=request_id, actor=actor, reason=reason
        )

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
        status = await self.runtime.backend.settled(self.id)
        if status.state is RunState.COMPLETED:
            return Completed(self.runtime.backend.result(self.id))
        if status.state is RunState.IDLE:
            return Idle(self)
        return Paused(self, status.episode_id or "", status.reason, status.holds)

    async def result(self) -> Any:
        """Wait through pauses and idle times for the value. Raises as `settled`."""
        return await self.runtime.backend.awaited_result(self.id)

    async def send(
        self,
        message: Any,
        *,
        to: str | None = None,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ack:
        """See `Runtime.send`."""
        return await self.runtime.send(
            self.id, message, to=to, request_id=request_id, actor=actor, reason=reason
        )

    async def tasks(self) -> list[Task]:
        """The tasks of a team, by id."""
        return self.runtime.backend.tasks(self.id)

    async def turns(self) -> list[TurnStatus]:
        """The turns of a team, by id: what was, is and will be executed, and why."""
        return self.runtime.backend.turns(self.id)

    async def create_task(
        self,
        title: str,
        *,
        goal: str | None = None,
        owner: str | None = None,
        after: Sequence[int | Task] = (),
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Task:
        """A new task for a team; its owner begins when all of `after` are completed.

        Raises:
            Fenced: the team is paused. IllegalTransition: the run is no team, or has ended.
            QuiesceError: an unknown member or task, the coordinator as owner, a title that is no line.
        """
        order = CreateTask(title, goal, owner, task_ids(after))
        return await self._ordered(order, Asked(request_id, actor, reason))

    async def assign(
        self,
        task: int | Task,
        owner: str,
        *,
        after: Sequence[int | Task] | None = None,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Task:
        """Another owner, and with `after` other dependencies, for a task that is open."""
        order = Assign(task_ids([task])[0], owner, None if after is None else task_ids(after))
        return await self._ordered(order, Asked(request_id, actor, reason))

    async def cancel_task(
        self,
        task: int | Task,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Task:
        """End a task that is open; its turn is cancelled."""
        order = CancelTask(task_ids([task])[0], reason)
        return await self._ordered(order, Asked(request_id, actor, reason))

    async def direct(
        self,
        member: str,
        prompt: Any,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> TurnStatus:
        """A user-directed turn of a member, at the next place of its queue; no pause of the team holds it.

        Raises:
            IllegalTransition: the run is no team, or has ended. QuiesceError: it has no such member.
        """
        asked = Asked(request_id, actor, reason)
        ack = await self.runtime.backend.order(self.id, Direct(member, prompt), asked)
        return next(turn for turn in await self.turns() if turn.id == ack.turn)

    async def _ordered(self, order: Order, asked: Asked) -> Task:
        ack = await self.runtime.backend.order(self.id, order, asked)
        return next(task for task in await self.tasks() if task.id == ack.task)

    async def restart_from(
        self,
        position: int,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Ack:
        """Execute an agent that stands again up to this position of its journal, and go on live from there.

        The rest is set aside, where `flowctl show` lists it. A step that is the same call as before keeps its
        idempotency key; to have its effect once more, reset the run.

        Raises:
            IllegalTransition: the run is neither paused nor failed. QuiesceError: it has no such position.
        """
        return await self.runtime.backend.restart_from(self.id, position, Asked(request_id, actor, reason))

    def frames(self) -> list[Frame]:
        """The suspended call stack of an agent, outermost first, with lines and locals.

        Raises:
            HeldElsewhere: another process drives the run, and has its stack.
        """
        return self.runtime.backend.frames(self.id)

    def current_nodes(self, kind: type[T]) -> CurrentNodes[T]:
        """The registered nodes of exactly this type that the run of a graph stands at.

        Those of the paused branches, by branch id; only if none is paused, of the queued ones.

        Raises:
            HeldElsewhere: this process does not drive the run; look at its holds instead.
        """
        return CurrentNodes(self.runtime.backend.current_nodes(self.id, kind))
