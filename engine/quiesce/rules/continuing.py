"""What does a team go on with after a pause, and what does it leave?

Each receipt of the episode, in the order of capture, gets at most one turn that continues it: the same
member, task and body, at the next place of its queue. A turn whose body still waits for an answer is
carried: it stays the same turn, of the new generation. What is no longer valid is skipped with a reason,
and one bad receipt never blocks the team. Tasks are not touched.

A continuation of a body that still drains stands behind it in the queue, so a second one never opens.

Source: spec team, "resume"; W1, W13; N4, N8, N10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from quiesce.records import ParticipantRow, ReceiptRecord, RunRecord, TurnRow
from quiesce.rules import turns
from quiesce.rules.claims import bodies_of, forget_lease, lose
from quiesce.rules.standing import still_waits
from quiesce.states import ENDED, RunState
from quiesce.store import Reader, Transaction

__all__ = ["Decision", "continue_turns", "decide", "lift_from_waiting", "reconcile"]

CONTINUED_BEFORE = "continued_before"
"""It drains still; the turn that continues it is held by itself."""


Lift = Callable[[RunRecord], None]
"""Takes the lock of the enclosing pause from a run that stands still for a reason of its own."""


def continue_turns(tx: Transaction, run: RunRecord, episode_id: str, lift: Lift) -> dict[str, int]:
    """Decide every receipt of the episode that the run, of the new generation already, leaves.

    Returns how many were continued, carried and skipped.
    """
    counts = {"continued": 0, "carried": 0, "skipped": 0}
    who = {row.name: row for row in tx.participants(run.id)}
    for receipt in tx.receipts(episode_id):
        if receipt.outcome is None:
            outcome, reason = _continue(tx, run, receipt, who, lift)
            tx.decide_turn(receipt.id, outcome, reason)
            counts[outcome] += 1
    return counts


@dataclass(frozen=True, slots=True)
class Decision:
    """What a resume makes of a captured turn; `child` is the run of its body.

    `outcome`: `continued`, `carried` or `skipped`, with a reason. `asked`: the turn stood waiting when it
    was captured. `waits`: its body still stands still for a reason of its own.
    """

    outcome: Literal["continued", "carried", "skipped"]
    reason: str | None = None
    child: RunRecord | None = None
    asked: bool = False
    waits: bool = False


def decide(tx: Reader, run: RunRecord, turn: TurnRow | None, who: Mapping[str, ParticipantRow]) -> Decision:
    """What becomes of a captured turn if its team is resumed now; nothing is changed."""
    if turn is None:
        return Decision("skipped", "turn_missing")
    if tx.continuation(run.id, turn.number) is not None:
        return Decision("skipped", CONTINUED_BEFORE)
    if (reason := _why_not(tx, run, turn, who)) is not None:
        return Decision("skipped", reason)
    child = tx.run(turn.child) if turn.child is not None else None
    waits = still_waits(tx, child)
    piece = tx.piece(run.id, turn.number)
    asked = piece is not None and piece.state == "waiting"
    return Decision("carried" if asked and waits else "continued", None, child, asked, waits)


def _continue(
    tx: Transaction, run: RunRecord, receipt: ReceiptRecord, who: dict[str, ParticipantRow], lift: Lift
) -> tuple[str, str | None]:
    turn = tx.turn(run.id, receipt.piece)
    seen = decide(tx, run, turn, who)
    child, waits = seen.child, seen.waits
    if turn is None or seen.outcome == "skipped":
        if turn is not None and seen.reason is not None and seen.reason != CONTINUED_BEFORE:
            _leave(tx, run, turn, seen.reason)
        return seen.outcome, seen.reason
    if seen.outcome == "carried":
        turn.generation = run.generation
        tx.save_turn(run.id, turn)
        if child is not None:
            lift(child)
        return "carried", None
    if seen.asked:
        turns.end(tx, run, turn, "stale", "its question is settled; another turn continues it")
    state = "waiting" if waits else "queued"
    if child is not None and child.state is RunState.RUNNING and seen.asked:
        state = "running"
    fresh = turn.source == "retry" and turn.started_at is None
    turns.admit(
        tx,
        run,
        who[turn.participant],
        turn.kind,
        "retry" if fresh else "resume",
        task=turn.task,
        prompt=turn.prompt,
        continues=turn,
        state=state,
        same_place=state != "queued",
    )
    if waits and child is not None:
        lift(child)
    return "continued", None


def _why_not(tx: Reader, run: RunRecord, turn: TurnRow, who: Mapping[str, ParticipantRow]) -> str | None:
    """Why the work of a captured turn is not gone on with; None if it is."""
    name = "coordinator" if turn.kind == "coordinator" else "participant"
    now = who.get(turn.participant)
    if now is None or now.gone:
        return f"{name}_gone"
    if now.incarnation != turn.incarnation:
        return f"{name}_changed"
    if turn.task is None:
        return None
    task = tx.task(run.id, turn.task)
    if task is None:
        return "task_missing"
    if task.state in ("completed", "failed", "cancelled"):
        return f"task_{task.state}"
    return None if task.owner == turn.participant else "task_owner_changed"


def _leave(tx: Transaction, run: RunRecord, turn: TurnRow, reason: str) -> None:
    """Nobody goes on with this turn: its body is ended by the team's driver, and what it gave is dropped."""
    piece = tx.piece(run.id, turn.number) if turn.ended_as is None else None
    if piece is not None and piece.state != "running":  # what still drains keeps its place until it yielded
        turns.end(tx, run, turn, "stale", reason)
    if turn.child is not None:
        turns.note(tx, run, orphans=[*turns.facts(tx, run).get("orphans", []), turn.child])
    turns.tell(tx, run)


def lift_from_waiting(tx: Transaction, run: RunRecord, lift: Lift) -> None:
    """The operator's lock of a team is gone, and all of it waits for answers: these let it go on."""
    for receipt in tx.receipts(run.episode_id) if run.episode_id is not None else []:
        turn = tx.turn(run.id, receipt.piece)
        child = tx.run(turn.child) if turn is not None and turn.child is not None else None
        if child is not None and still_waits(tx, child):
            lift(child)


def reconcile(tx: Transaction, run: RunRecord) -> int:
    """Bodies whose process died drain no more: their receipts become absent; what ran is queued again.

    Returns how many that concerns.

    Done twice, the second time changes nothing; the work of a process that lives is not touched.
    """
    changed = 0
    for body in bodies_of(tx, run):
        lost = body.lease_holder is not None and not tx.alive(body.lease_holder)
        if body.state is RunState.RUNNING and lost and not lose(tx, body):
            tx.log(body, "orphaned", None, None, {"team": run.id})  # whoever serves it takes it up
            changed += 1
    for receipt in tx.unresolved(run.id):
        turn = tx.turn(run.id, receipt.piece)
        child = tx.run(turn.child) if turn is not None and turn.child is not None else None
        if child is None or child.state in ENDED:
            continue
        if child.lease_holder is not None and not tx.alive(child.lease_holder):
            forget_lease(tx, child)
            changed += 1
    return changed
