"""What a reader gets: runs, holds, episodes, receipts, events and acks, as frozen values.

All instants are aware and in UTC. `model_dump(mode="json")` of any of them is what `flowctl --json`
prints. They are plain dataclasses, which pydantic validates and describes as they are
(`TypeAdapter(RunStatus)`); loading pydantic only to print a status would cost more than the status.

Source: spec engine, 2 and 5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from quiesce.states import RunState

__all__ = [
    "Ack",
    "AnswerAck",
    "Episode",
    "Event",
    "Hold",
    "Lock",
    "Page",
    "PauseAck",
    "Receipt",
    "ResumeAck",
    "RunStatus",
    "Value",
]

T = TypeVar("T")


def _plain(value: Any) -> Any:
    if isinstance(value, Value):
        return value.model_dump(mode="json")
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, RunState):
        return value.value
    return value


class Value:
    """Base of the public values: a mapping of their fields, in order."""

    __slots__ = ()

    def model_dump(self, *, mode: Literal["python", "json"] = "python") -> dict[str, Any]:
        """The fields as a dict; with `mode="json"` only what JSON has (instants as ISO 8601 text)."""
        fields = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {name: _plain(value) for name, value in fields.items()} if mode == "json" else fields


@dataclass(frozen=True, slots=True)
class Lock(Value):
    """One reason why a run is paused: `operator`, `holds`, `parent`, `child` or `fault`."""

    kind: str
    reason: str | None
    actor: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class Hold(Value):
    """An open question, or what became of it.

    `expects` is a JSON schema, None where any JSON value will do. `path` names the place that asks:
    a node, a branch, a body; in the listing of an outer run it starts with the way to the inner one.
    `late` says that the deadline passed and the hold stayed open.
    """

    id: str
    run_id: str
    path: str
    key: str | None
    reason: str | None
    payload: Any
    expects: dict[str, Any] | None
    opened_at: datetime
    deadline: datetime | None
    late: bool
    state: Literal["open", "answered", "rejected", "expired", "dropped", "withdrawn"]
    answer: Any = None
    answered_by: str | None = None
    answered_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Episode(Value):
    """One stay in `paused`, from the fence to its release. `cause` is the lock that opened it."""

    id: str
    run_id: str
    generation: int
    cause: str
    opened_at: datetime
    quiescent_at: datetime | None = None
    closed_at: datetime | None = None
    ended_as: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt(Value):
    """One piece that an episode holds, how its drain went, and how it ended.

    `was` is what the piece was at the fence: `queued`, `running`, `held` or `waiting`. `drain`:
    `pending` (it still runs), `released`, `absent` (nothing ran), `overdue`. `outcome`: `continued`,
    `skipped`, `carried`, `ended`, `dropped`, or None while the episode is open.
    """

    id: int
    episode_id: str
    run_id: str
    piece: int
    kind: str
    name: str
    was: str
    drain: Literal["pending", "released", "absent", "overdue"]
    outcome: str | None
    reason: str | None
    lease: int | None
    at: datetime
    overdue_at: datetime | None = None
    released_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Event(Value):
    """One entry of the event log; `seq` rises over the whole store."""

    seq: int
    at: datetime
    run_id: str
    execution: int
    generation: int
    kind: str
    actor: str | None
    request_id: str | None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunStatus(Value):
    """A run as one read of the store saw it.

    `phase`: `draining` or `quiescent` while paused, `cancelling` while a cancelled run's bodies unwind.
    `recoverable`: `live` (its continuation is in a living process), `stored` (any process can continue
    it), `lost` (with `lost_reason`). `worker` is the process that drives it, as `pid@host`.
    """

    id: str
    flow: str
    version: str
    kind: str
    parent_id: str | None
    execution: int
    state: RunState
    generation: int
    locks: tuple[Lock, ...]
    reason: str | None
    actor: str | None
    phase: str | None
    draining: int
    overdue: int
    recoverable: Literal["live", "stored", "lost"]
    lost_reason: str | None
    holds: tuple[Hold, ...]
    episode_id: str | None
    created_at: datetime
    updated_at: datetime
    requested_at: datetime | None
    fenced_at: datetime | None
    quiescent_at: datetime | None
    worker: str | None
    result: Any
    error: str | None
    children: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ack(Value):
    """What a verb returns: fixed for ever for its request id."""

    request_id: str
    run_id: str
    transitioned: bool
    generation: int
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class PauseAck(Ack):
    """The ack of `pause`: how many pieces the fence captured, and how many of them still run."""

    episode_id: str | None = None
    locked: bool = False
    captured: int = 0
    draining: int = 0
    overdue: int = 0


@dataclass(frozen=True, slots=True)
class ResumeAck(Ack):
    """The ack of `resume`: how many receipts were continued, carried and skipped."""

    episode_id: str | None = None
    continued: int = 0
    carried: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class AnswerAck(Ack):
    """The ack of `answer` and `reject`; `resumed` says that the answer made the run go on."""

    hold_id: str = ""
    state: str = "answered"
    resumed: bool = False


class Page(list[T], Generic[T]):
    """A list with `.next`: the cursor of the page after it, or None."""

    def __init__(self, items: Iterable[T] = (), next: str | None = None) -> None:
        super().__init__(items)
        self.next = next
