"""How are the facts of the store port about teams written in SQL?

As `reading.py` and `rows.py`: one method per fact, each a named statement of `queries.sql`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quiesce.errors import StaleGeneration, StoreError
from quiesce.records import (
    MailRow,
    ParticipantRow,
    PieceRow,
    ReceiptRecord,
    RunRecord,
    TaskRow,
    TurnRow,
)

from .reading import SqliteReader
from .records import compact, instant, maybe_instant, micros, parsed, piece_row, receipt_record

__all__ = ["SqliteTeams"]


class SqliteTeams(SqliteReader):
    """The statements about participants, tasks, turns and mail over one connection."""

    def _change(self, label: str, parameters: Any) -> int:
        return self._run(label, parameters).rowcount

    def _expect(self, label: str, parameters: Any, count: int = 1) -> None:
        changed = self._change(label, parameters)
        if changed != count:
            raise StoreError(
                f"{label} changed {changed} rows where {count} was expected; nothing was kept; "
                "run `flowctl doctor`"
            )

    # --- participants ------------------------------------------------------------------------------

    def participants(self, run_id: str) -> list[ParticipantRow]:
        rows = self._run("participant.list", (run_id,))
        return [_participant(row) for row in rows]

    def put_participants(self, run_id: str, rows: Sequence[ParticipantRow]) -> None:
        for row in rows:
            self._expect(
                "participant.put",
                (
                    run_id,
                    row.name,
                    row.place,
                    row.digest,
                    row.retries,
                    row.sequence,
                    row.incarnation,
                    int(row.gone),
                ),
            )

    def next_sequence(self, run_id: str, participant: str) -> int:
        rows = self._run("participant.next", (run_id, participant)).fetchall()
        if len(rows) != 1:
            raise StoreError(
                f"participant {participant!r} of run {run_id!r} has no queue; nothing was kept; "
                "run `flowctl doctor`"
            )
        return int(rows[0][0])

    # --- tasks -------------------------------------------------------------------------------------

    def tasks(self, run_id: str) -> list[TaskRow]:
        return [_task(row) for row in self._run("task.list", (run_id,))]

    def task(self, run_id: str, number: int) -> TaskRow | None:
        row = self._run("task.get", (run_id, number)).fetchone()
        return None if row is None else _task(row)

    def ready_tasks(self, run_id: str, execution: int) -> list[TaskRow]:
        return [_task(row) for row in self._run("task.ready", (run_id, execution))]

    def next_task(self, run_id: str) -> int:
        return int(self._run("task.next", (run_id,)).fetchone()[0])

    def put_task(self, run_id: str, row: TaskRow) -> None:
        self._expect(
            "task.put",
            (
                run_id,
                row.number,
                row.execution,
                row.title,
                row.goal,
                row.owner,
                row.state,
                row.result,
                row.reason,
                row.attempts,
            ),
        )
        self._needs(run_id, row)

    def save_task(self, run_id: str, row: TaskRow, *, was: str) -> None:
        values = (row.owner, row.state, row.result, row.reason, row.attempts, run_id, row.number, was)
        if self._change("task.save", values) != 1:
            raise StaleGeneration(f"task {row.number} of run {run_id!r} is not {was} any more", expected=was)
        self._needs(run_id, row)

    def _needs(self, run_id: str, row: TaskRow) -> None:
        self._run("task.needs_drop", (run_id, row.number))
        if row.after:
            self._expect("task.needs_put", (run_id, row.number, compact(list(row.after))), len(row.after))

    def end_tasks(self, run_id: str, state: str, reason: str) -> int:
        return self._change("task.end_all", (state, reason, run_id))

    # --- turns -------------------------------------------------------------------------------------

    def turns(self, run_id: str) -> list[TurnRow]:
        return [_turn(row) for row in self._run("turn.list", (run_id,))]

    def turn(self, run_id: str, number: int) -> TurnRow | None:
        return self._one("turn.get", (run_id, number))

    def live_turn(self, run_id: str, task: int) -> TurnRow | None:
        return self._one("turn.of_task", (run_id, task))

    def continuation(self, run_id: str, original: int) -> TurnRow | None:
        return self._one("turn.continuing", (run_id, original))

    def _one(self, label: str, parameters: tuple[Any, ...]) -> TurnRow | None:
        row = self._run(label, parameters).fetchone()
        return None if row is None else _turn(row)

    def next_turn(self, run_id: str) -> int:
        return int(self._run("turn.next", (run_id,)).fetchone()[0])

    def put_turn(self, run_id: str, row: TurnRow) -> None:
        self._expect(
            "turn.put",
            (
                run_id,
                row.number,
                row.execution,
                row.participant,
                row.incarnation,
                row.kind,
                row.sequence,
                row.generation,
                row.source,
                micros(row.created_at),
                row.task,
                row.original,
                row.child,
                row.prompt,
                row.attempt,
                row.ended_as,
                row.reason,
                micros(row.started_at),
                micros(row.ended_at),
            ),
        )

    def save_turn(self, run_id: str, row: TurnRow) -> None:
        values = (
            row.generation,
            row.child,
            row.attempt,
            row.ended_as,
            row.reason,
            micros(row.started_at),
            micros(row.ended_at),
            run_id,
            row.number,
        )
        if self._change("turn.save", values) != 1:
            raise StaleGeneration(f"turn {row.number} of run {run_id!r} has ended; nothing was changed")

    def end_turns(self, run_id: str, ended_as: str, reason: str) -> int:
        ended = self._change("turn.end_all", (ended_as, reason, micros(self.now), run_id))
        self._run("piece.drop_all", (run_id,))
        return ended

    def restamp(self, run_id: str, generation: int) -> int:
        return self._change("turn.restamp", (generation, run_id))

    def rebind(self, child_id: str, turn: int) -> None:
        self._expect("turn.rebind", (turn, child_id))

    def heads(self, run_id: str) -> list[PieceRow]:
        return [piece_row(row) for row in self._run("turn.heads", (run_id,))]

    def piece(self, run_id: str, number: int) -> PieceRow | None:
        row = self._run("turn.piece", (run_id, number)).fetchone()
        return None if row is None else piece_row(row)

    def queue_lengths(self, run_id: str) -> dict[tuple[str, str, str], int]:
        return {
            (name, kind, state): count for name, kind, state, count in self._run("turn.queues", (run_id,))
        }

    def unwinding(self, run_id: str) -> set[str]:
        return {name for name, holder in self._run("turn.unwinding", (run_id,)) if self.alive(holder)}

    # --- the fence and its receipts ------------------------------------------------------------------

    def capture_turns(self, run: RunRecord, episode_id: str) -> tuple[int, int]:
        facts = {"episode": episode_id, "run": run.id, "now": micros(self.now)}
        which = {"episode": episode_id, "run": run.id}
        captured = self._change("turn.receipts", facts)
        if captured:
            stale = self._change("turn.stale", facts | {"reason": f"captured by episode {episode_id}"})
            self._expect("turn.leave_queue", which, stale)
        draining, missed = self._run("turn.captured", which).fetchone()
        if missed:
            raise StoreError(
                f"{missed} turns of run {run.id!r} got no receipt in episode {episode_id}; nothing was kept; "
                "run `flowctl doctor`"
            )
        return captured, int(draining)

    def unresolved(self, run_id: str) -> list[ReceiptRecord]:
        return [receipt_record(row) for row in self._run("receipt.unresolved", (run_id,))]

    def release_receipts(self, run_id: str, child: RunRecord, drain: str) -> list[int]:
        rows = self._run(
            "receipt.release",
            {
                "drain": drain,
                "now": micros(self.now),
                "run": run_id,
                "epoch": child.lease_epoch,
                "holder": child.lease_holder,
                "child": child.id,
            },
        ).fetchall()
        return sorted({piece for (piece,) in rows})

    def decide_turn(self, receipt: int, outcome: str, reason: str | None) -> None:
        self._expect("receipt.decide_turn", (outcome, reason, receipt))

    # --- mail --------------------------------------------------------------------------------------

    def unread(self, run_id: str) -> dict[str, int]:
        return dict(self._run("mail.unread", (run_id,)).fetchall())

    def mail(self, run_id: str, recipient: str | None, *, unread: bool) -> list[MailRow]:
        rows = self._run("mail.list_unread" if unread else "mail.list", (run_id,))
        found = [MailRow(row[0], row[1], row[2], row[3], instant(row[4]), row[5]) for row in rows]
        return [row for row in found if recipient is None or row.recipient == recipient]

    def put_mail(self, run_id: str, recipient: str, sender: str, body: object) -> int:
        number = self._run("mail.put", (run_id, recipient, sender, body, micros(self.now))).lastrowid
        assert number is not None
        return number

    def read_mail(self, run_id: str, recipient: str, turn: int) -> list[int]:
        rows = self._run("mail.read", (turn, run_id, recipient)).fetchall()
        return sorted(number for (number,) in rows)


def _participant(row: tuple[Any, ...]) -> ParticipantRow:
    name, place, digest, retries, sequence, incarnation, gone = row
    return ParticipantRow(name, place, digest, retries, sequence, incarnation, bool(gone))


def _task(row: tuple[Any, ...]) -> TaskRow:
    number, execution, title, goal, owner, state, needs, result, reason, attempts = row
    after = tuple(parsed(needs, "needs", f"task {number}"))
    return TaskRow(number, execution, title, goal, owner, state, after, result, reason, attempts)


def _turn(row: tuple[Any, ...]) -> TurnRow:
    turn = TurnRow(*row)
    turn.created_at = instant(row[8])
    turn.started_at, turn.ended_at = maybe_instant(row[16]), maybe_instant(row[17])
    return turn
