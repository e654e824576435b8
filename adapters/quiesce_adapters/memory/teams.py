"""What of a team does a memory store keep? Participants, tasks, turns and mail, as records in dictionaries.

Records are copied on the way in and out, as those of `rows.py`, so that a refused rule leaves none half
changed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from quiesce.errors import StaleGeneration
from quiesce.records import (
    EpisodeRecord,
    MailRow,
    ParticipantRow,
    PieceRow,
    ReceiptRecord,
    RunRecord,
    TaskRow,
    TurnRow,
)
from quiesce.states import RunState
from quiesce.team.values import OPEN_TASKS

from .unkept import Unkept

__all__ = ["MemoryTeams"]


@dataclass(slots=True)
class _Team:
    participants: dict[str, ParticipantRow] = field(default_factory=dict)
    tasks: dict[int, TaskRow] = field(default_factory=dict)
    turns: dict[int, TurnRow] = field(default_factory=dict)
    mail: list[MailRow] = field(default_factory=list)
    noted: Any = None
    episodes: list[str] = field(default_factory=list)


class MemoryTeams(Unkept):
    """The statements about teams. What they need of the other rows is declared here."""

    now: Any
    _runs: dict[str, RunRecord]
    _children: dict[str, list[str]]
    _pieces: dict[str, dict[int, PieceRow]]
    _episodes: dict[str, EpisodeRecord]
    _last_episode: dict[str, str]
    _receipts: dict[str, list[ReceiptRecord]]
    _ids: itertools.count[int]

    def __init__(self) -> None:
        self._teams: dict[str, _Team] = {}

    def alive(self, incarnation: int | None) -> bool:
        raise NotImplementedError

    def _team(self, run_id: str) -> _Team:
        return self._teams.setdefault(run_id, _Team())

    def counters(self, run_id: str) -> Any:
        return copy(self._teams[run_id].noted) if run_id in self._teams else None

    def put_counters(self, run_id: str, counters: Any) -> None:
        if run_id in self._teams:
            self._teams[run_id].noted = copy(counters)

    # --- participants ------------------------------------------------------------------------------

    def participants(self, run_id: str) -> list[ParticipantRow]:
        rows = self._team(run_id).participants.values()
        return [copy(row) for row in sorted(rows, key=lambda row: row.place)]

    def put_participants(self, run_id: str, rows: Sequence[ParticipantRow]) -> None:
        known = self._team(run_id).participants
        for row in rows:
            kept = copy(row)
            if row.name in known:
                kept.sequence = known[row.name].sequence
            known[row.name] = kept

    def next_sequence(self, run_id: str, participant: str) -> int:
        row = self._team(run_id).participants[participant]
        row.sequence += 1
        return row.sequence - 1

    # --- tasks -------------------------------------------------------------------------------------

    def tasks(self, run_id: str) -> list[TaskRow]:
        return [copy(row) for row in self._team(run_id).tasks.values()]

    def task(self, run_id: str, number: int) -> TaskRow | None:
        row = self._team(run_id).tasks.get(number)
        return None if row is None else copy(row)

    def ready_tasks(self, run_id: str, execution: int) -> list[TaskRow]:
        tasks = self._team(run_id).tasks
        return [
            copy(row)
            for row in tasks.values()
            if row.state == "pending"
            and row.execution == execution
            and row.owner is not None
            and all(tasks[needed].state == "completed" for needed in row.after)
            and self.live_turn(run_id, row.number) is None
        ]

    def next_task(self, run_id: str) -> int:
        return len(self._team(run_id).tasks) + 1

    def put_task(self, run_id: str, row: TaskRow) -> None:
        self._team(run_id).tasks[row.number] = copy(row)

    def save_task(self, run_id: str, row: TaskRow, *, was: str) -> None:
        if self._team(run_id).tasks[row.number].state != was:
            raise StaleGeneration(f"task {row.number} of run {run_id!r} is not {was} any more", expected=was)
        self._team(run_id).tasks[row.number] = copy(row)

    def end_tasks(self, run_id: str, state: str, reason: str) -> int:
        opened = [row for row in self._team(run_id).tasks.values() if row.state in OPEN_TASKS]
        for row in opened:
            row.state, row.reason = state, reason
        return len(opened)

    # --- turns -------------------------------------------------------------------------------------

    def turns(self, run_id: str) -> list[TurnRow]:
        return [copy(row) for row in self._team(run_id).turns.values()]

    def turn(self, run_id: str, number: int) -> TurnRow | None:
        row = self._team(run_id).turns.get(number)
        return None if row is None else copy(row)

    def live_turn(self, run_id: str, task: int) -> TurnRow | None:
        turns = self._team(run_id).turns
        live = (turns[piece] for piece in self._pieces.get(run_id, ()) if piece in turns)
        of_task = [row for row in live if row.task == task and row.ended_as is None]
        return copy(max(of_task, key=lambda row: row.number)) if of_task else None

    def continuation(self, run_id: str, original: int) -> TurnRow | None:
        turns = self._team(run_id).turns.values()
        return next((copy(row) for row in turns if row.original == original), None)

    def next_turn(self, run_id: str) -> int:
        return len(self._team(run_id).turns) + 1

    def put_turn(self, run_id: str, row: TurnRow) -> None:
        self._team(run_id).turns[row.number] = copy(row)

    def save_turn(self, run_id: str, row: TurnRow) -> None:
        if self._team(run_id).turns[row.number].ended_as is not None:
            raise StaleGeneration(f"turn {row.number} of run {run_id!r} has ended; nothing was changed")
        self._team(run_id).turns[row.number] = copy(row)

    def _live(self, run_id: str) -> list[TurnRow]:
        return [row for row in self._team(run_id).turns.values() if row.ended_as is None]

    def end_turns(self, run_id: str, ended_as: str, reason: str) -> int:
        live = self._live(run_id)
        for row in live:
            row.ended_as, row.reason, row.ended_at = ended_as, reason, self.now
        self._pieces.pop(run_id, None)
        return len(live)

    def restamp(self, run_id: str, generation: int) -> int:
        formal = [row for row in self._live(run_id) if row.generation is not None]
        for row in formal:
            row.generation = generation
        return len(formal)

    def rebind(self, child_id: str, turn: int) -> None:
        child = self._runs[child_id].copied()
        child.parent_piece = turn
        self._runs[child_id] = child

    def heads(self, run_id: str) -> list[PieceRow]:
        heads: dict[str, PieceRow] = {}
        for row in self._pieces.get(run_id, {}).values():
            if row.name not in heads or row.position < heads[row.name].position:
                heads[row.name] = row
        return [copy(heads[name]) for name in sorted(heads)]

    def piece(self, run_id: str, number: int) -> PieceRow | None:
        row = self._pieces.get(run_id, {}).get(number)
        return None if row is None else copy(row)

    def queue_lengths(self, run_id: str) -> dict[tuple[str, str, str], int]:
        rows = self._pieces.get(run_id, {}).values()
        return dict(Counter((row.name, row.kind, row.state) for row in rows))

    def unwinding(self, run_id: str) -> set[str]:
        cancelled = {
            child
            for child in self._children.get(run_id, ())
            if self._runs[child].state is RunState.CANCELLED and self.alive(self._runs[child].lease_holder)
        }
        return {row.participant for row in self._team(run_id).turns.values() if row.child in cancelled}

    # --- the fence and its receipts ------------------------------------------------------------------

    def capture_turns(self, run: RunRecord, episode_id: str) -> tuple[int, int]:
        receipts, draining = [], 0
        team = self._team(run.id)
        for piece in [row for row in self._pieces.get(run.id, {}).values() if row.kind == "turn"]:
            child = self._runs.get(piece.child or "")
            episode = self._episodes.get(child.episode_id or "") if child is not None else None
            runs = piece.state != "queued" and episode is not None and episode.quiescent_at is None
            draining += runs
            receipts.append(
                ReceiptRecord(
                    id=next(self._ids),
                    episode_id=episode_id,
                    run_id=run.id,
                    piece=piece.piece,
                    kind=piece.kind,
                    name=piece.name,
                    was=piece.state,
                    drain="pending" if runs else "absent",
                    at=self.now,
                    lease=child.lease_epoch if runs and child is not None else None,
                    holder=child.lease_holder if runs and child is not None else None,
                )
            )
            if piece.state == "queued" or (piece.state == "running" and not runs):
                turn = team.turns[piece.piece]
                turn.ended_as, turn.reason = "stale", f"captured by episode {episode_id}"
                turn.ended_at = self.now
                del self._pieces[run.id][piece.piece]
        self._receipts[episode_id] = receipts
        team.episodes.append(episode_id)
        return len(receipts), draining

    def _unresolved(self, run_id: str) -> list[ReceiptRecord]:
        team = self._teams.get(run_id)
        return [
            row
            for episode_id in ([self._last_episode.get(run_id, "")] if team is None else team.episodes)
            for row in self._receipts.get(episode_id, ())
            if row.drain in ("pending", "overdue")
        ]

    def unresolved(self, run_id: str) -> list[ReceiptRecord]:
        return [copy(row) for row in self._unresolved(run_id)]

    def resolve(self, run_id: str, drain: str, *, pieces: Collection[int] | None = None) -> int:
        moved = [row for row in self._unresolved(run_id) if pieces is None or row.piece in pieces]
        for receipt in moved:
            receipt.drain = drain
            receipt.released_at = self.now if drain == "released" else None
        return len(moved)

    def release_receipts(self, run_id: str, child: RunRecord, drain: str) -> list[int]:
        team = self._team(run_id)
        released = set()
        for row in self._unresolved(run_id):
            turn = team.turns.get(row.piece)
            if (
                turn is not None
                and turn.child == child.id
                and row.lease == child.lease_epoch
                and child.lease_holder in (None, row.holder)
            ):
                row.drain = drain
                row.released_at = self.now if drain == "released" else None
                released.add(row.piece)
        return sorted(released)

    def decide_turn(self, receipt: int, outcome: str, reason: str | None) -> None:
        for rows in self._receipts.values():
            for row in rows:
                if row.id == receipt and row.outcome is None:
                    row.outcome, row.reason = outcome, reason

    # --- mail --------------------------------------------------------------------------------------

    def unread(self, run_id: str) -> dict[str, int]:
        return {row.recipient: row.number for row in self._team(run_id).mail if row.turn is None}

    def mail(self, run_id: str, recipient: str | None, *, unread: bool) -> list[MailRow]:
        return [
            copy(row)
            for row in self._team(run_id).mail
            if (recipient is None or row.recipient == recipient) and not (unread and row.turn is not None)
        ]

    def put_mail(self, run_id: str, recipient: str, sender: str, body: object) -> int:
        row = MailRow(next(self._ids), recipient, sender, body, self.now)
        self._team(run_id).mail.append(row)
        return row.number

    def read_mail(self, run_id: str, recipient: str, turn: int) -> list[int]:
        read = [row for row in self._team(run_id).mail if row.recipient == recipient and row.turn is None]
        for row in read:
            row.turn = turn
        return [row.number for row in read]
