"""What does a reader of a team see: its tasks, its turns, its messages?

One read of stored rows, ordered by number, never by time (W15). What bodies gave and were sent is shown in
its JSON form, since the types of the bodies may not be at hand. Source: spec team, "Model".
"""

from __future__ import annotations

from typing import Any

from quiesce import codec
from quiesce.records import MailRow, TaskRow, TurnRow
from quiesce.store import Reader
from quiesce.team.values import Message, Task, TurnStatus

__all__ = ["message_values", "one_task", "shown", "task_value", "task_values", "turn_values"]


def shown(value: Any) -> Any:
    """A value of a run as a reader gets it; in memory it is the value itself."""
    return codec.plain(value) if isinstance(value, bytes) else value


def task_value(tx: Reader, run_id: str, row: TaskRow) -> Task:
    """The public value of a task."""
    return Task(
        id=row.number,
        title=row.title,
        goal=row.goal,
        owner=row.owner,
        state=row.state,  # type: ignore[arg-type]  # the schema's check holds it
        after=row.after,
        result=None if row.result is None else shown(tx.value(run_id, row.result)),
        reason=row.reason,
        attempts=row.attempts,
    )


def one_task(tx: Reader, run_id: str, number: int) -> Task:
    """One task, which there is."""
    row = tx.task(run_id, number)
    assert row is not None
    return task_value(tx, run_id, row)


def task_values(tx: Reader, run_id: str, execution: int) -> list[Task]:
    """The tasks of an execution."""
    return [task_value(tx, run_id, row) for row in tx.tasks(run_id) if row.execution == execution]


def turn_values(tx: Reader, run_id: str, execution: int) -> list[TurnStatus]:
    """The turns of an execution; whether one that lives runs is what its piece says."""
    states = {row.piece: row.state for row in tx.pieces(run_id)}
    return [
        _turn_value(row, states.get(row.number)) for row in tx.turns(run_id) if row.execution == execution
    ]


def _turn_value(row: TurnRow, state: str | None) -> TurnStatus:
    return TurnStatus(
        id=row.number,
        participant=row.participant,
        kind=row.kind,  # type: ignore[arg-type]  # the schema's check holds it
        state=row.ended_as or state or "stale",  # type: ignore[arg-type]
        sequence=row.sequence,
        generation=row.generation,
        task=row.task,
        source=row.source,
        original=row.original,
        child=row.child,
        reason=row.reason,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def message_values(rows: list[MailRow]) -> list[Message]:
    """The public values of messages."""
    return [Message(row.number, row.sender, shown(row.body), row.sent_at) for row in rows]
