"""What can be asked of a team, by its bodies and from outside? Every order, as a value.

An order changes what a team has to do; the verbs of the engine (pause, resume, …) change whether it does
it. All are idempotent by request id and go through one transaction (`quiesce.rules.orders`), which says who
may give them: structure is the coordinator's and the outside's, a task's progress its owner's.

Source: spec team, "Model" (Turn API; from outside).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

__all__ = [
    "Assign",
    "CancelTask",
    "Complete",
    "CreateTask",
    "Direct",
    "Fail",
    "FinishTeam",
    "Order",
    "SendTo",
    "TakeInbox",
]


@dataclass(frozen=True, slots=True)
class Order:
    """One of the values below. `verb` is its name in the log, and what its request id is tied to."""

    verb: ClassVar[str]
    packs: ClassVar[str | None] = None
    """The field that holds a value of a user's, which the store keeps in its own form."""

    def arguments(self) -> dict[str, Any]:
        """The fields by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, slots=True)
class CreateTask(Order):
    """A new task, pending; `owner` may be named later."""

    verb: ClassVar[str] = "create-task"
    title: str
    goal: str | None = None
    owner: str | None = None
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Assign(Order):
    """Another owner for a task that is open, and with `after` other dependencies."""

    verb: ClassVar[str] = "assign"
    task: int
    owner: str
    after: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class CancelTask(Order):
    """End a task that is open; its turn, if it has one, is cancelled."""

    verb: ClassVar[str] = "cancel-task"
    task: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Complete(Order):
    """The owner says that its task is done, before its body returns."""

    verb: ClassVar[str] = "complete"
    packs: ClassVar[str | None] = "result"
    result: Any = None
    task: int | None = None


@dataclass(frozen=True, slots=True)
class Fail(Order):
    """The owner says that its task cannot be done; no other attempt follows."""

    verb: ClassVar[str] = "fail"
    reason: str
    task: int | None = None


@dataclass(frozen=True, slots=True)
class SendTo(Order):
    """Put a message into the inbox of a participant; None is the coordinator."""

    verb: ClassVar[str] = "send"
    packs: ClassVar[str | None] = "message"
    message: Any
    to: str | None = None


@dataclass(frozen=True, slots=True)
class TakeInbox(Order):
    """The turn reads what its participant was sent and has not read."""

    verb: ClassVar[str] = "inbox"


@dataclass(frozen=True, slots=True)
class Direct(Order):
    """A user-directed turn of a member: it is no formal work, and no pause holds it."""

    verb: ClassVar[str] = "direct"
    packs: ClassVar[str | None] = "prompt"
    member: str
    prompt: Any


@dataclass(frozen=True, slots=True)
class FinishTeam(Order):
    """The coordinator says that the run is done: queued turns are cancelled, running ones waited for."""

    verb: ClassVar[str] = "finish"
    packs: ClassVar[str | None] = "result"
    result: Any = None
