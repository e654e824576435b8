"""The ports: what a suspension backend is to the runtime, and what a mechanism is to a local backend.

`SuspensionBackend` is at the level of the verbs, because an implementation on a distributed engine has no
transaction to lend. What it cannot do it declares in `Capabilities` and refuses with a clear error.

`LocalBackend` (`local.py`) is the one that serves the verbs over a `Store`; how the pieces of one kind of
run are suspended and driven is a `Mechanism`: node replay for graphs, greenlet continuations for agents,
receipts for teams. Mechanisms are found by the entry points `quiesce.mechanisms`, by kind.

Source: spec engine, 1 and 5 (ports).
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from quiesce.clock import Clock
from quiesce.errors import NonDeterminism
from quiesce.frames import Frame
from quiesce.records import HoldRecord, ParticipantRow, RunFilter, RunRecord
from quiesce.rules.orders import By
from quiesce.rules.requests import UNSET
from quiesce.rules.starting import Definition
from quiesce.runs import Ack, AnswerAck, Event, Hold, Page, PauseAck, Receipt, ResumeAck, RunStatus
from quiesce.store import Reader, Store, Transaction
from quiesce.team.orders import Order
from quiesce.team.values import Message, OrderAck, Task, TurnStatus
from quiesce.tracing import Traces

__all__ = ["Asked", "Capabilities", "Driver", "Host", "Mechanism", "SuspensionBackend"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend and its store can do together."""

    survives_restart: bool
    """A run that is paused, or whose process dies, can be continued by another process."""
    resumes_mid_statement: bool
    """A resume goes on at the statement that paused; otherwise a piece is evaluated again."""
    pauses_from_outside: bool
    """A run can be paused by somebody who is not its body."""
    cross_process: bool
    """Verbs work from any process on the same store."""
    atomic_tree_fence: bool
    """A run and all the runs inside it are fenced in one step."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks for a verb: its idempotency key, the actor and the reason; None where nobody said."""

    request_id: str | None = None
    actor: str | None = None
    reason: str | None = None


class SuspensionBackend(Protocol):
    """The verbs. Every method may raise `StoreError` and its leaves besides what it names."""

    def capabilities(self, kind: str) -> Capabilities:
        """What can be done with runs of this kind. Raises `FlowNotFound` if none can be run."""
        ...

    async def create(self, flow: Any, run_id: str | None, asked: Asked) -> Ack:
        """A run without an input. Raises IllegalTransition (the id is taken), RequestConflict."""
        ...

    async def start(self, flow: Any, input: Any, run_id: str | None, asked: Asked) -> Ack:
        """A running run. Raises RunActive, IllegalTransition, InputRejected, NotSerializable."""
        ...

    async def pause(self, run_id: str, asked: Asked, drain_timeout: float) -> PauseAck:
        """The fence. Raises RunNotFound, IllegalTransition, RequestConflict."""
        ...

    async def resume(
        self,
        run_id: str,
        asked: Asked,
        answer: Any = UNSET,
        hold: str | None = None,
        episode: str | None = None,
        accept_changes: bool = False,
    ) -> ResumeAck:
        """Lift what keeps a run. Raises NotResumable, Fenced, StaleGeneration, FlowChanged,
        AnswerRequired, AmbiguousAnswer and what `answer` raises."""
        ...

    async def answer(self, hold_id: str, value: Any, asked: Asked, *, rejected: bool = False) -> AnswerAck:
        """Settle a hold. Raises UnknownHold, AlreadyAnswered, Expired, Withdrawn, AnswerRejected."""
        ...

    async def cancel(self, run_id: str, asked: Asked) -> Ack: ...
    async def reset(self, run_id: str, asked: Asked) -> Ack: ...
    async def retry(self, run_id: str, asked: Asked, accept_changes: bool = False) -> Ack: ...
    async def takeover(self, run_id: str, asked: Asked) -> Ack: ...
    async def fork(self, run_id: str, at: int, new_id: str | None, asked: Asked) -> Ack: ...
    async def restart_from(self, run_id: str, position: int, asked: Asked) -> Ack: ...

    def status(self, run_id: str) -> RunStatus: ...
    def list(self, which: RunFilter, limit: int, after: str | None) -> Page[RunStatus]: ...
    def holds(self, run_id: str | None, state: str | None, limit: int, after: str | None) -> Page[Hold]: ...
    def sole_hold(self, run_id: str) -> str:
        """The id of the only open hold of a run, at any depth. Raises UnknownHold, AmbiguousAnswer."""
        ...

    def receipts(self, episode_id: str) -> Page[Receipt]: ...
    async def send(self, run_id: str, message: Any, asked: Asked, to: str | None = None) -> Ack:
        """Put a message into the box of a run, of a team's into that of a participant.

        Raises RunNotFound, IllegalTransition, NotSerializable."""
        ...

    async def order(self, run_id: str, order: Order, asked: Asked, by: By | None = None) -> OrderAck:
        """Change what a team has to do; `by` is the body whose turn says so. Raises as `carry_out`."""
        ...

    def tasks(self, run_id: str) -> builtins.list[Task]:
        """The tasks of a team's current execution. Raises RunNotFound."""
        ...

    def turns(self, run_id: str) -> builtins.list[TurnStatus]:
        """The turns of a team's current execution. Raises RunNotFound."""
        ...

    def messages(self, run_id: str, only: Sequence[int]) -> builtins.list[Message]:
        """These messages of a team, by number."""
        ...

    def frames(self, run_id: str) -> Sequence[Frame]:
        """The suspended stack of a run that this process drives. Raises HeldElsewhere."""
        ...

    def events(self, run_id: str | None, after: int) -> AsyncIterator[Event]: ...

    async def settled(self, run_id: str) -> RunStatus:
        """Wait until the run is ended, idle, quiescent or only overdue. Raises the body's own error."""
        ...

    def result(self, run_id: str) -> Any:
        """The value of a completed run, restored by the type that its flow declares."""
        ...


Join = Callable[[Transaction, RunRecord], Callable[[], None] | None]
"""What a driver writes in the transaction of a verb, given the run as that leaves it; returned is what it
does after the commit, before it is notified. So work that a verb lets go on needs no transaction more."""


class Driver(Protocol):
    """What runs the pieces of one run, in a task of the process that holds its lease."""

    async def drive(self) -> None:
        """Run what may run until the run has ended or the lease is lost."""
        ...

    def notify(self) -> None:
        """The run's rows changed, or the host is closing: look again.

        Called on the event loop's thread; never waits.
        """
        ...

    def check_answer(self, hold: HoldRecord, value: Any) -> None:
        """Hold an answer to this open hold against the type that was declared, where that is known.

        Raises:
            InputRejected: it does not fit.
        """
        ...

    def frames(self) -> Sequence[Frame]:
        """Where the bodies of this run stand, outermost first; empty where nothing is suspended."""
        ...


class Host(Protocol):
    """What a driver may ask of the local backend that hosts it."""

    clock: Clock
    store: Store
    drain_timeout: float
    worker: int
    """The incarnation that holds the leases of this process."""
    traces: Traces
    """The spans of what is driven here."""

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """One transaction; whoever it touched is told after its commit."""
        ...

    def read(self, work: Callable[[Reader], T]) -> T: ...
    def flow(self, text: str) -> Any:
        """The flow of a reference. Raises FlowNotFound."""
        ...

    def know_parts(self, text: str, flow: Any) -> Sequence[str]:
        """Remember the flows that are part of this one, by the references that lead to them."""
        ...

    def flow_reference(self, flow: Any) -> str:
        """The reference of a flow, which is at hand from now on."""
        ...

    def describe(self, flow: Any, value: Any, reference: str | None = None) -> tuple[Definition, Any]:
        """What the store keeps of a child's flow and of its input. Raises as a start does.

        `reference` is where another process finds a flow that is part of another one.
        """
        ...

    def value_of(self, run: RunRecord) -> Any:
        """The value of a completed child."""
        ...

    def error_of(self, run: RunRecord) -> BaseException:
        """The error of a failed child: itself in the process where it was raised, else its text."""
        ...

    def failed(self, run_id: str, error: BaseException) -> None:
        """Keep the error itself for whoever waits for the run in this process."""
        ...

    def deadline_changed(self) -> None:
        """A hold with a deadline was opened: look when to act next."""
        ...

    @property
    def verbs(self) -> SuspensionBackend:
        """The verbs, for a body that uses them on other runs."""
        ...

    closing: bool
    """Whether the runtime is being left, so that what is driven must be handed back."""

    joins: dict[str, Join]
    """By the id of a run: what takes part in each transaction of this process that touches it."""

    def interrupt(self, run_id: str) -> None:
        """Cancel what the driver of this run awaits, once it has said to itself why."""
        ...

    def watch(self, run_id: str, watcher: str) -> None:
        """Notify the driver of the run `watcher` also when this one changes, until `unwatch`."""
        ...

    def unwatch(self, run_id: str, watcher: str) -> None: ...
    def alarm(self, at: datetime, ring: Callable[[], None]) -> None:
        """Call `ring` at this instant."""
        ...

    def listened(self) -> bool:
        """Whether somebody follows the events of a store that does not keep visits."""
        ...


class Mechanism(Protocol):
    """How one kind of run is suspended, driven and described."""

    kind: str

    def capabilities(self, store: Store) -> Capabilities: ...
    def prepare(self, flow: Any) -> None:
        """Check a flow before a run of it exists. Raises GraphError and the like."""
        ...

    def entry(self, flow: Any) -> str:
        """The name of the first piece."""
        ...

    def check_input(self, flow: Any, value: Any) -> Any:
        """The input as it will be given. Raises InputRejected."""
        ...

    def input_type(self, flow: Any) -> Any: ...
    def output_type(self, flow: Any, run: RunRecord) -> Any: ...
    def version(self, flow: Any) -> str: ...
    def signature(self, flow: Any) -> Any:
        """What of the flow's code its runs depend on, as JSON."""
        ...

    def changes(self, old: Any, new: Any) -> Sequence[str]:
        """What differs between two signatures, in lines for a person; empty if nothing does."""
        ...

    def differs(self, host: Host, run: RunRecord, flow: Any) -> NonDeterminism | None:
        """Execute what is recorded of this run once more, without effects: where does the code not fit?"""
        ...

    def check_answer(
        self, host: Host, run: RunRecord, flow: Any, hold: HoldRecord, value: Any, *, dry: bool
    ) -> None:
        """The same as a driver's, for a run that is not driven here. Raises InputRejected.

        Args:
            dry: user code may be executed for it, without effects.
        """
        ...

    def fork(self, tx: Transaction, run: RunRecord, new_id: str, flow: Any, at: int) -> None:
        """Give the run `new_id` what `run` had still to do before its piece of work number `at`.

        Raises:
            QuiesceError: it has no such point.
        """
        ...

    def participants(self, flow: Any) -> Sequence[ParticipantRow]:
        """Who takes part in a run of a team; nobody in one of another kind."""
        ...

    def max_lost_attempts(self, flow: Any) -> int:
        """How many processes a piece of a run may lose before that is paused as poison."""
        ...

    def parts(self, flow: Any) -> Mapping[str, Any]:
        """Flows that are found as parts of this one, by what follows its reference and a dot."""
        ...

    def node(self, flow: Any, name: str) -> Any:
        """The registered object behind a piece of this name; None if there is none."""
        ...

    def driver(self, host: Host, run: RunRecord, flow: Any) -> Driver: ...
