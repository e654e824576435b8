"""What does a store keep? The rows behind runs, as records that the rules read and change.

All instants are aware datetimes in UTC. Values (inputs, results, signatures) are references into the
store. What a reader gets is in `runs.py`; how records are read and written is the port in `store.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from quiesce.runs import Lock
from quiesce.states import RunState

__all__ = [
    "ArrivalRow",
    "EpisodeRecord",
    "GroupRow",
    "HoldRecord",
    "JournalEntry",
    "MailRow",
    "ParticipantRow",
    "PieceRow",
    "ReceiptRecord",
    "RequestRecord",
    "RunFilter",
    "RunRecord",
    "TaskRow",
    "TurnRow",
    "WorkerRecord",
]


@dataclass(slots=True)
class RunRecord:
    """One row of `runs`, with its locks. Values (input, result, signature) are references.

    `max_lost` is how many processes a piece of it may lose before it is poison.
    """

    id: str
    flow: str
    version: str
    kind: str
    entry: str
    state: RunState
    created_at: datetime
    updated_at: datetime
    parent_id: str | None = None
    parent_piece: int | None = None
    execution: int = 1
    generation: int = 1
    input: int | None = None
    result: int | None = None
    error: str | None = None
    signature: int | None = None
    episode_id: str | None = None
    lease_holder: int | None = None
    lease_epoch: int = 0
    max_lost: int = 3
    locks: dict[str, Lock] = field(default_factory=dict)

    @property
    def has_input(self) -> bool:
        return self.input is not None

    def copied(self) -> RunRecord:
        """An equal record of its own; by hand, since a memory store does it at every read."""
        return RunRecord(
            self.id,
            self.flow,
            self.version,
            self.kind,
            self.entry,
            self.state,
            self.created_at,
            self.updated_at,
            self.parent_id,
            self.parent_piece,
            self.execution,
            self.generation,
            self.input,
            self.result,
            self.error,
            self.signature,
            self.episode_id,
            self.lease_holder,
            self.lease_epoch,
            self.max_lost,
            self.locks.copy(),
        )


@dataclass(slots=True)
class EpisodeRecord:
    """One row of `episodes`. `drain_until` is when a piece that still runs becomes overdue."""

    id: str
    run_id: str
    generation: int
    cause: str
    requested_at: datetime
    opened_at: datetime
    drain_until: datetime
    quiescent_at: datetime | None = None
    closed_at: datetime | None = None
    ended_as: str | None = None


@dataclass(slots=True)
class ReceiptRecord:
    """One row of `receipts`."""

    id: int
    episode_id: str
    run_id: str
    piece: int
    kind: str
    name: str
    was: str
    drain: str
    at: datetime
    lease: int | None = None
    holder: int | None = None
    outcome: str | None = None
    reason: str | None = None
    overdue_at: datetime | None = None
    released_at: datetime | None = None


@dataclass(slots=True)
class HoldRecord:
    """One row of `holds`. `payload`, `expects` and `answer` are JSON values."""

    id: str
    run_id: str
    execution: int
    path: str
    key: str | None
    ordinal: int
    piece: int
    reason: str | None
    opened_at: datetime
    payload: Any = None
    expects: dict[str, Any] | None = None
    deadline: datetime | None = None
    on_deadline: Any = "hold"
    state: str = "open"
    answer: Any = None
    answered_by: str | None = None
    answered_at: datetime | None = None

    def copied(self) -> HoldRecord:
        """An equal record of its own, by hand."""
        return HoldRecord(
            self.id,
            self.run_id,
            self.execution,
            self.path,
            self.key,
            self.ordinal,
            self.piece,
            self.reason,
            self.opened_at,
            self.payload,
            self.expects,
            self.deadline,
            self.on_deadline,
            self.state,
            self.answer,
            self.answered_by,
            self.answered_at,
        )


@dataclass(slots=True)
class RequestRecord:
    """What a request id was used for, and the ack that it got."""

    run_id: str
    request_id: str
    verb: str
    digest: str
    ack: dict[str, Any]


@dataclass(slots=True)
class WorkerRecord:
    """One incarnation of a process that drives runs; `flows` are (reference, version) that it serves."""

    incarnation: int
    pid: int
    host: str
    started_at: datetime
    flows: list[tuple[str, str]]


@dataclass(slots=True)
class PieceRow:
    """One piece of a run: a branch, a body or a turn (`directed`, where no pause holds it).

    `value` refers to its input. Of a turn `position` is its place in the queue of `name`.
    `state`: `queued`, `running`, `held` (it asks), `waiting` (for the run `child`), `failed`. `hold` is
    the question whose answer its next evaluation sees.
    `woken` says that a verb put a held piece back in the queue and its driver has not seen it yet.
    `lost` counts how often a process died while it ran.
    """

    piece: int
    kind: str
    state: str
    name: str
    position: int
    value: int | None
    detail: Any = None
    attempt: int = 0
    lost: int = 0
    child: str | None = None
    hold: str | None = None
    woken: bool = False


@dataclass(slots=True)
class GroupRow:
    """An open fan-out of a graph."""

    group: int
    join: str | None
    size: int
    detail: Any


@dataclass(slots=True)
class ArrivalRow:
    """A payload that waits at a join."""

    group: int
    index: int
    source: str
    value: int


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs a listing shows; None leaves a field open."""

    states: tuple[str, ...] | None = None
    kind: str | None = None
    flow: str | None = None
    parent: str | None = None


@dataclass(slots=True)
class JournalEntry:
    """One place in the journal of an agent's run. `value` refers to what it gave: a result, an error.

    While nobody knows whether a step happened, its `value` is the hold that asks a person.

    `state`: `new` (not written yet), `started` (its effect may or may not have happened), `failed-once`
    (an attempt failed, another one follows), `done`, `failed` (it gave an error), `fatal` (the error
    that ended the run), `cancelled` (the body's own time-out or group ended it); of an action `prepared`,
    `waiting`, `approved`, `committing`, `committed`, `rejected`, `failed`. `last` is the last place of
    the group (`gather`) that it belongs to; `place` is where the body stood, as `file:line`. `aside` is 0
    for what the body follows, else which rest it was set aside with.
    """

    position: int
    kind: str
    name: str
    digest: str
    state: str = "new"
    value: int | None = None
    attempt: int = 0
    last: int = 0
    hold: str | None = None
    place: str | None = None
    aside: int = 0
    at: datetime | None = None


@dataclass(slots=True)
class ParticipantRow:
    """Who takes part in the run of a team: its coordinator (`place` 0) or a member.

    `sequence` is the next place in its queue, over all kinds of turns. `incarnation` rises when the
    participant is made anew with other code; `digest` is of that code. `gone` says that the definition that
    the run goes on with has it no more. `retries` is how often a body that raised is gone on with.
    """

    name: str
    place: int
    digest: str
    retries: int = 0
    sequence: int = 1
    incarnation: int = 1
    gone: bool = False


@dataclass(slots=True)
class TaskRow:
    """One task of a team, numbered from 1 within its run; `result` refers to a value of that run."""

    number: int
    execution: int
    title: str
    goal: str | None
    owner: str | None
    state: str = "pending"
    after: tuple[int, ...] = ()
    result: int | None = None
    reason: str | None = None
    attempts: int = 0


@dataclass(slots=True)
class TurnRow:
    """One turn of a team, numbered from 1 within its run as the piece that it is while it lives.

    Whether it is queued, running or waiting is the state of that piece; `ended_as` is None until then.
    `generation` is None where it is user-directed. `prompt` refers to a value of the run.
    """

    number: int
    execution: int
    participant: str
    incarnation: int
    kind: str
    sequence: int
    generation: int | None
    source: str
    created_at: datetime
    task: int | None = None
    original: int | None = None
    child: str | None = None
    prompt: int | None = None
    attempt: int = 1
    ended_as: str | None = None
    reason: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(slots=True)
class MailRow:
    """A message to a participant of a team; `turn` is the one that has read it."""

    number: int
    recipient: str
    sender: str
    body: Any
    sent_at: datetime
    turn: int | None = None
