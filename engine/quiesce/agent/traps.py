"""What can a body hand to its driver? Every way in which a body ever stops, as values.

A public function of this package (`pause`, `receive`, `spawn` …) makes one of these and suspends the whole
call stack with it (`Body.suspend`); the driver serves it and goes on with the value, or with an error
raised right there. Nothing else in a body talks to a store, so what is durable about a body is what a
driver does between the trap and the value (`journal.py`).

Awaiting is not a trap: what a body awaits is yielded to the event loop as it comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

__all__ = [
    "Act",
    "Approve",
    "Ask",
    "Attempt",
    "Begin",
    "Command",
    "ContinueAsNew",
    "Dismiss",
    "Doubt",
    "Draw",
    "Finish",
    "Launch",
    "Look",
    "Receive",
    "Safepoint",
    "Send",
    "Settle",
    "Sleep",
    "Spawn",
    "Trap",
    "Wait",
]


class Trap:
    """One of the values below. `kind` is what its journal entry is called, None where it has none."""

    __slots__ = ()
    kind: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class Ask(Trap):
    """Open a hold and wait for its answer. Deadlines are absolute; `expects` is the declared type."""

    kind: ClassVar[str | None] = "ask"
    reason: str | None
    expects: Any = None
    payload: Any = None
    key: str | None = None
    deadline: datetime | None = None
    on_deadline: Any = "hold"


@dataclass(frozen=True, slots=True)
class Safepoint(Trap):
    """Go on at once, unless the run is paused."""


@dataclass(frozen=True, slots=True)
class Receive(Trap):
    """Take the oldest message, or wait for one until the deadline."""

    kind: ClassVar[str | None] = "receive"
    deadline: datetime | None


@dataclass(frozen=True, slots=True)
class Send(Trap):
    """Put a message into the box of another run."""

    kind: ClassVar[str | None] = "send"
    run_id: str
    message: Any


@dataclass(frozen=True, slots=True)
class Sleep(Trap):
    """Wait until this instant; `seconds` from now where no instant is given."""

    kind: ClassVar[str | None] = "sleep"
    until: datetime | None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Spawn(Trap):
    """Start a run inside this one; gives its id."""

    kind: ClassVar[str | None] = "spawn"
    flow: Any
    input: Any


@dataclass(frozen=True, slots=True)
class Wait(Trap):
    """Wait for a run: `end` gives its value or raises its error, `settled` gives its status."""

    kind: ClassVar[str | None] = "wait"
    run_id: str
    until: Literal["end", "settled"] = "end"


@dataclass(frozen=True, slots=True)
class Act(Trap):
    """A verb on another run, by name and arguments of `SuspensionBackend`; gives the ack."""

    kind: ClassVar[str | None] = "act"
    verb: str
    run_id: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Command(Trap):
    """An order to the team whose turn this body is; gives the `gives` of its ack: the task, the messages."""

    kind: ClassVar[str | None] = "order"
    order: Any
    gives: Literal["task", "messages"] | None = None


@dataclass(frozen=True, slots=True)
class Look(Trap):
    """What the team of this body has now; recorded, so that it stays the same."""

    kind: ClassVar[str | None] = "look"
    what: Literal["tasks"]


@dataclass(frozen=True, slots=True)
class Launch(Trap):
    """Run this job (`quiesce.team.jobs`) whenever the body runs, from now on."""

    job: Any


@dataclass(frozen=True, slots=True)
class Dismiss(Trap):
    """End this job, and do not start it again."""

    job: Any


@dataclass(frozen=True, slots=True)
class Draw(Trap):
    """Take a time, an id or a random number from the clock; recorded, so that it stays the same."""

    kind: ClassVar[str | None] = "draw"
    what: Literal["now", "uuid4", "random"]


@dataclass(frozen=True, slots=True)
class Begin(Trap):
    """May these steps run? Gives, for each, what the journal says of it: see `quiesce.agent.journal`."""

    calls: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Approve(Trap):
    """May this action be committed? Gives the arguments by name that were approved.

    `permit` is None in a run without a journal.
    """

    call: Any
    permit: Any


@dataclass(frozen=True, slots=True)
class Doubt(Trap):
    """Nobody knows whether the effect of this step happened: ask a person, and give the answer."""

    call: Any
    permit: Any
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt(Trap):
    """Another attempt at the step of this permit begins; gives the permit, once that is kept."""

    permit: Any
    digest: str | None = None
    """Of the arguments that run, where a person approved them."""


@dataclass(frozen=True, slots=True)
class Finish(Trap):
    """This attempt at the step of this permit has this outcome; gives nothing, once that is kept.

    What is kept of an error is what every other process raises; where that is another one, it is given.
    """

    permit: Any
    value: Any = None
    error: BaseException | None = None
    outcome: Literal["done", "failed", "failed-once", "cancelled"] = "done"
    returns: Any = None


@dataclass(frozen=True, slots=True)
class Settle(Trap):
    """A task of a `gather` has come to its end: what is left of it may only ask, so that the run rests."""


@dataclass(frozen=True, slots=True)
class ContinueAsNew(Trap):
    """End this body here, and begin the same run again with this input and a fresh journal."""

    input: Any
