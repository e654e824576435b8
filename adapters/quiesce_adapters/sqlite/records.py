"""How does a row become a record of the engine, and back?

Instants are microseconds since 1970 in UTC; JSON columns are compact text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from quiesce.errors import StoreError
from quiesce.records import EpisodeRecord, HoldRecord, JournalEntry, PieceRow, ReceiptRecord, RunRecord
from quiesce.runs import Lock
from quiesce.states import RunState

__all__ = [
    "compact",
    "episode_record",
    "hold_record",
    "instant",
    "journal_entry",
    "lock_facts",
    "locks_text",
    "maybe_instant",
    "micros",
    "parsed",
    "piece_row",
    "receipt_record",
    "run_record",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(at: datetime | None) -> int | None:
    """An instant as the schema keeps it."""
    return None if at is None else (at - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """An instant as the engine has it."""
    return _EPOCH + timedelta(microseconds=value)


def maybe_instant(value: int | None) -> datetime | None:
    """An instant, or None."""
    return None if value is None else _EPOCH + timedelta(microseconds=value)


def compact(value: Any) -> str:
    """A value as the JSON text of a column."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def parsed(text: str, column: str, whose: object) -> Any:
    """The JSON text of a column as a value.

    Raises:
        StoreError: it is none, so somebody else wrote it; the message says where.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise StoreError(
            f"the store is damaged: {column} of {whose} is no JSON ({error}); see `flowctl doctor`"
        ) from None


def lock_facts(lock: Lock) -> list[Any]:
    """A lock without its kind."""
    return [lock.reason, lock.actor, micros(lock.since)]


def locks_text(locks: Iterable[Lock]) -> str:
    """The column `locks` of a run."""
    return compact({lock.kind: lock_facts(lock) for lock in locks})


def run_record(row: tuple[Any, ...]) -> RunRecord:
    """A row of `runs`."""
    locks = {}
    if row[19] != "{}":
        for kind, (reason, actor, since) in parsed(row[19], "locks", row[0]).items():
            locks[kind] = Lock(kind, reason, actor, instant(since))
    return RunRecord(
        id=row[0],
        flow=row[1],
        version=row[2],
        kind=row[3],
        entry=row[4],
        state=RunState(row[5]),
        created_at=instant(row[6]),
        updated_at=instant(row[7]),
        parent_id=row[8],
        parent_piece=row[9],
        execution=row[10],
        generation=row[11],
        input=row[12],
        result=row[13],
        error=row[14],
        signature=row[15],
        episode_id=row[16],
        lease_holder=row[17],
        lease_epoch=row[18],
        locks=locks,
        max_lost=row[20],
    )


def hold_record(row: tuple[Any, ...]) -> HoldRecord:
    """A row of `holds`."""
    on_deadline = parsed(row[12], "on_deadline", row[0])
    return HoldRecord(
        id=row[0],
        run_id=row[1],
        execution=row[2],
        path=row[3],
        key=row[4],
        ordinal=row[5],
        piece=row[6],
        reason=row[7],
        opened_at=instant(row[8]),
        payload=parsed(row[9], "payload", row[0]),
        expects=None if row[10] is None else parsed(row[10], "expects", row[0]),
        deadline=maybe_instant(row[11]),
        on_deadline=tuple(on_deadline) if isinstance(on_deadline, list) else on_deadline,
        state=row[13],
        answer=parsed(row[14], "answer", row[0]),
        answered_by=row[15],
        answered_at=maybe_instant(row[16]),
    )


def piece_row(row: tuple[Any, ...]) -> PieceRow:
    """A row of `pieces`."""
    return PieceRow(
        piece=row[0],
        kind=row[1],
        state=row[2],
        name=row[3],
        position=row[4],
        value=row[5],
        detail=None if row[6] is None else parsed(row[6], "detail", f"piece {row[0]} at {row[3]!r}"),
        attempt=row[7],
        lost=row[8],
        child=row[9],
        hold=row[10],
        woken=bool(row[11]),
    )


def episode_record(row: tuple[Any, ...]) -> EpisodeRecord:
    """A row of `episodes`."""
    return EpisodeRecord(
        id=row[0],
        run_id=row[1],
        generation=row[2],
        cause=row[3],
        requested_at=instant(row[4]),
        opened_at=instant(row[5]),
        drain_until=instant(row[6]),
        quiescent_at=maybe_instant(row[7]),
        closed_at=maybe_instant(row[8]),
        ended_as=row[9],
    )


def receipt_record(row: tuple[Any, ...]) -> ReceiptRecord:
    """A row of `receipts`."""
    return ReceiptRecord(
        id=row[0],
        episode_id=row[1],
        run_id=row[2],
        piece=row[3],
        kind=row[4],
        name=row[5],
        was=row[6],
        drain=row[7],
        at=instant(row[8]),
        lease=row[9],
        holder=row[10],
        outcome=row[11],
        reason=row[12],
        overdue_at=maybe_instant(row[13]),
        released_at=maybe_instant(row[14]),
    )


def journal_entry(row: tuple[Any, ...]) -> JournalEntry:
    """A row of `journal`."""
    entry = JournalEntry(*row[:11])
    entry.at = instant(row[11])
    return entry
