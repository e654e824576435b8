"""What a reader of a team gets: its tasks, its turns, and what its members were sent.

Frozen values, as those of `quiesce.runs`. Instants are aware and in UTC; results and messages are shown
in their JSON form, since what a reader has need not know the types of the bodies.

Source: spec team, "Model".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from quiesce.runs import Ack, Value

__all__ = ["OPEN_TASKS", "Message", "OrderAck", "Task", "TurnKind", "TurnStatus", "task_ids"]

TurnKind = Literal["coordinator", "task", "inbox", "user_directed"]

OPEN_TASKS = frozenset({"pending", "in_progress"})
"""States of a task in which something may still come of it; every other one is final."""


@dataclass(frozen=True, slots=True)
class Task(Value):
    """One piece of work of a team. `id` counts from 1 within the run; `after` are ids of other tasks.

    `state`: `pending`, `in_progress`, `completed`, `failed` or `cancelled`. `attempts` counts the turns
    that began work on it. `reason` says why it failed or was cancelled.
    """

    id: int
    title: str
    goal: str | None
    owner: str | None
    state: Literal["pending", "in_progress", "completed", "failed", "cancelled"]
    after: tuple[int, ...] = ()
    result: Any = None
    reason: str | None = None
    attempts: int = 0


def task_ids(tasks: Iterable[int | Task]) -> tuple[int, ...]:
    """The ids of tasks that are named by their ids, or by themselves."""
    return tuple(item.id if isinstance(item, Task) else item for item in tasks)


@dataclass(frozen=True, slots=True)
class TurnStatus(Value):
    """One execution of one participant of a team. `id` counts from 1 within the run.

    `kind`: `coordinator`, `task`, `inbox` (these are formal) or `user_directed`. `state`: `queued`,
    `running`, `waiting` (its body asks a question), `completed`, `failed`, `cancelled` or `stale`
    (a pause took it out of its queue, or it was not to begin any more; `reason` says which).
    `generation` is the one it was admitted in, None where it is user-directed. `sequence` is its place in
    the one queue of its participant. `original` is the turn that it continues, `child` the run of its body.
    """

    id: int
    participant: str
    kind: TurnKind
    state: Literal["queued", "running", "waiting", "completed", "failed", "cancelled", "stale"]
    sequence: int
    generation: int | None
    task: int | None
    source: str
    original: int | None
    child: str | None
    reason: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Message(Value):
    """What a participant was sent, and by whom."""

    id: int
    sender: str
    value: Any
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class OrderAck(Ack):
    """The ack of an order: the task and the turn that it made or changed, the messages that it took."""

    task: int | None = None
    turn: int | None = None
    messages: tuple[int, ...] = ()
