"""The store port, for teams: what the rules need of a place that keeps participants, tasks and turns.

As `quiesce.store`, which these protocols are part of: methods are facts, each one set-based statement in
SQL and one loop in memory. The live turns of a run are its pieces; a piece of kind `directed` is a
user-directed turn, which no fence captures and no count of a run's pieces includes.

Source: spec team; spec engine, 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quiesce.records import MailRow, ParticipantRow, PieceRow, ReceiptRecord, RunRecord, TaskRow, TurnRow

__all__ = ["TeamReader", "TeamTransaction"]


class TeamReader(Protocol):
    """One consistent view of what a store keeps of teams."""

    def participants(self, run_id: str) -> list[ParticipantRow]:
        """By place: the coordinator first."""
        ...

    def tasks(self, run_id: str) -> list[TaskRow]:
        """The tasks of every execution of a run, by number."""
        ...

    def task(self, run_id: str, number: int) -> TaskRow | None: ...
    def ready_tasks(self, run_id: str, execution: int) -> list[TaskRow]:
        """Pending tasks that are owned, whose dependencies are completed, and that have no live turn."""
        ...

    def turns(self, run_id: str) -> list[TurnRow]:
        """The turns of every execution of a run, by number."""
        ...

    def turn(self, run_id: str, number: int) -> TurnRow | None: ...
    def live_turn(self, run_id: str, task: int) -> TurnRow | None:
        """The newest turn of this task that has not ended, if there is one."""
        ...

    def continuation(self, run_id: str, original: int) -> TurnRow | None:
        """The turn that continues this one, if there is one."""
        ...

    def heads(self, run_id: str) -> list[PieceRow]:
        """Of each participant's queue the live turn with the lowest sequence, by participant."""
        ...

    def piece(self, run_id: str, number: int) -> PieceRow | None: ...
    def queue_lengths(self, run_id: str) -> dict[tuple[str, str, str], int]:
        """How many live turns there are, by participant, kind of piece and state."""
        ...

    def unwinding(self, run_id: str) -> set[str]:
        """Participants of whom a cancelled body has not unwound yet, in a process that lives."""
        ...

    def unread(self, run_id: str) -> dict[str, int]:
        """Of each participant that has not read everything the number of the newest unread message."""
        ...

    def mail(self, run_id: str, recipient: str | None, *, unread: bool) -> list[MailRow]:
        """Messages by number: to one participant or to all."""
        ...

    def unresolved(self, run_id: str) -> list[ReceiptRecord]:
        """Receipts of any episode of a run whose piece is not known to have yielded."""
        ...


class TeamTransaction(TeamReader, Protocol):
    """A `TeamReader` that may write."""

    def put_participants(self, run_id: str, rows: Sequence[ParticipantRow]) -> None:
        """Write these, new or changed; the next sequence of those that are there stays."""
        ...

    def next_sequence(self, run_id: str, participant: str) -> int:
        """Take the next place of a participant's queue, in one statement."""
        ...

    def next_turn(self, run_id: str) -> int:
        """The number of the next turn."""
        ...

    def next_task(self, run_id: str) -> int:
        """The number of the next task."""
        ...

    def put_task(self, run_id: str, row: TaskRow) -> None: ...
    def save_task(self, run_id: str, row: TaskRow, *, was: str) -> None:
        """Write a task back, with its dependencies, if it is still in the state `was`.

        Raises:
            StaleGeneration: it is not; nothing was written.
        """
        ...

    def end_tasks(self, run_id: str, state: str, reason: str) -> int:
        """End every open task; returns how many."""
        ...

    def put_turn(self, run_id: str, row: TurnRow) -> None: ...
    def save_turn(self, run_id: str, row: TurnRow) -> None:
        """Write back a turn that has not ended.

        Raises:
            StaleGeneration: it has ended; nothing was written.
        """
        ...

    def end_turns(self, run_id: str, ended_as: str, reason: str) -> int:
        """End every live turn, user-directed ones included, and drop their pieces; returns how many."""
        ...

    def restamp(self, run_id: str, generation: int) -> int:
        """Give every live formal turn this generation; returns how many."""
        ...

    def capture_turns(self, run: RunRecord, episode_id: str) -> tuple[int, int]:
        """A receipt for each live formal turn; those that do not run are stale from now on.

        A receipt is `pending` while the episode of the body's run is not quiescent, with the lease of that
        run. Returns (captured, still running).
        """
        ...

    def rebind(self, child_id: str, turn: int) -> None:
        """The run of a body belongs to another turn from now on."""
        ...

    def release_receipts(self, run_id: str, child: RunRecord, drain: str) -> list[int]:
        """Resolve what is unresolved of the turns that this run is the body of.

        Only where the lease on the receipt is the lease of that run: a release that is not current
        changes nothing. Returns their turns.
        """
        ...

    def decide_turn(self, receipt: int, outcome: str, reason: str | None) -> None:
        """Say what became of a receipt that has no outcome yet."""
        ...

    def put_mail(self, run_id: str, recipient: str, sender: str, body: object) -> int:
        """Put a message into an inbox; returns its number."""
        ...

    def read_mail(self, run_id: str, recipient: str, turn: int) -> list[int]:
        """Mark what this participant has not read as read by this turn; returns the numbers."""
        ...
