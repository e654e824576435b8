"""What is a turn, from its admission to its end?

A turn is one execution of one participant of a team. Admitted, it has a place in the one queue of its
participant; what is at the head of a queue may be promoted (`scheduling.py`), which gives it a body: a run
inside the team's. The turn is `running` while that run is, and `waiting` while that run asks or is held.
When the run of the body ends, so does the turn, in the same transaction, and with it its task.

A turn of an older generation changes nothing: its body's outcome stays in the run of that body, and the
turn that continues it takes it from there. User-directed turns have no generation: no fence concerns them.

Source: spec team, "Model" and "drain"; N5, N6, N7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from quiesce.records import ParticipantRow, PieceRow, RunRecord, TaskRow, TurnRow
from quiesce.states import ENDED, RunState
from quiesce.store import Reader, Transaction
from quiesce.team.values import OPEN_TASKS

__all__ = [
    "COORDINATOR",
    "DIRECTED",
    "FORMAL",
    "admit",
    "begin",
    "body_ended",
    "child_goes",
    "child_rests",
    "coordinator",
    "end",
    "end_task",
    "facts",
    "fail",
    "fresh_mail",
    "go_on",
    "is_directed",
    "note",
    "participant",
    "poison",
    "renew",
    "settle",
    "tell",
    "yielded",
]

FORMAL, DIRECTED = "turn", "directed"
"""Kinds of pieces: what a fence captures, and what it does not concern."""

COORDINATOR = 0
"""The place of the coordinator among the participants."""


# --- what a run of a team notes beside its rows ---------------------------------------------------------


def facts(tx: Reader, run: RunRecord) -> dict[str, Any]:
    """`news`: what the coordinator has not been told; `finish`: the result it gave; `failed`: its error;
    `offered`: of each participant the newest message that an inbox turn was begun for."""
    return dict(tx.counters(run.id) or {})


def note(tx: Transaction, run: RunRecord, **changes: Any) -> None:
    """Change what is noted; None takes a note away."""
    noted = {**facts(tx, run), **changes}
    tx.put_counters(run.id, {name: value for name, value in noted.items() if value is not None})


def tell(tx: Transaction, run: RunRecord) -> None:
    """There is something for the coordinator; turns that have not begun are told together."""
    note(tx, run, news=facts(tx, run).get("news", 0) + 1)


def fresh_mail(tx: Reader, run: RunRecord) -> dict[str, int]:
    """Who has messages that no inbox turn was begun for; a body that leaves them is not asked again."""
    offered = facts(tx, run).get("offered", {})
    return {name: newest for name, newest in tx.unread(run.id).items() if newest > offered.get(name, 0)}


def coordinator(tx: Reader, run: RunRecord) -> ParticipantRow:
    """The participant whose turns change the structure of the work."""
    return tx.participants(run.id)[COORDINATOR]


def participant(tx: Reader, run: RunRecord, name: str) -> ParticipantRow | None:
    """The participant of this name."""
    return next((row for row in tx.participants(run.id) if row.name == name and not row.gone), None)


def is_directed(tx: Reader, run: RunRecord, child: RunRecord) -> bool:
    """Whether this run is the body of a user-directed turn of that team."""
    if run.kind != "team" or child.parent_piece is None:
        return False
    turn = tx.turn(run.id, child.parent_piece)
    return turn is not None and turn.generation is None


def renew(tx: Transaction, run: RunRecord, now: Sequence[ParticipantRow]) -> None:
    """The run goes on with another definition: who is in it no more is gone, whose code changed is anew."""
    known = {row.name: row for row in tx.participants(run.id)}
    rows = []
    for row in now:
        old = known.pop(row.name, None)
        incarnation = 1 if old is None else old.incarnation + (old.digest != row.digest or old.gone)
        rows.append(replace(row, incarnation=incarnation))
    after = len(rows)
    rows += [replace(row, gone=True, place=after + at) for at, row in enumerate(known.values())]
    tx.put_participants(run.id, rows)


# --- admission and end -----------------------------------------------------------------------------------


def begin(tx: Transaction, run: RunRecord) -> None:
    """The first turn of an execution is the coordinator's; its prompt is the input of the run."""
    note(tx, run, news=None, finish=None, failed=None, orphans=None)
    admit(tx, run, coordinator(tx, run), "coordinator", "start", prompt=run.input)


def admit(
    tx: Transaction,
    run: RunRecord,
    who: ParticipantRow,
    kind: str,
    source: str,
    *,
    task: int | None = None,
    prompt: int | None = None,
    continues: TurnRow | None = None,
    state: str = "queued",
    same_place: bool = False,
) -> TurnRow:
    """Put a turn into the queue of its participant; `continues` hands over the body of another one."""
    turn = TurnRow(
        number=tx.next_turn(run.id),
        execution=run.execution,
        participant=who.name,
        incarnation=who.incarnation,
        kind=kind,
        sequence=continues.sequence if continues and same_place else tx.next_sequence(run.id, who.name),
        generation=None if kind == "user_directed" else run.generation,
        source=source,
        created_at=tx.now,
        task=task,
        prompt=prompt,
    )
    if continues is not None:
        turn.original, turn.child, turn.attempt = continues.number, continues.child, continues.attempt
    if state != "queued":
        turn.started_at = tx.now
    tx.put_turn(run.id, turn)
    if turn.child is not None:
        tx.rebind(turn.child, turn.number)
    row = PieceRow(
        piece=turn.number,
        kind=DIRECTED if turn.generation is None else FORMAL,
        state=state,
        name=turn.participant,
        position=turn.sequence,
        value=None,
        child=turn.child,
    )
    tx.put_pieces(run.id, [row])
    tx.log(run, "turn-queued", None, None, _told(turn, source=source, continues=turn.original))
    return turn


def end(tx: Transaction, run: RunRecord, turn: TurnRow, ended_as: str, reason: str | None = None) -> None:
    """The turn is over; its place in the queue is free."""
    turn.ended_as, turn.reason, turn.ended_at = ended_as, reason, tx.now
    tx.save_turn(run.id, turn)
    tx.drop_pieces(run.id, [turn.number])
    tx.log(run, "turn-ended", None, None, _told(turn, ended_as=ended_as, reason=reason))


def end_task(
    tx: Transaction,
    run: RunRecord,
    task: TaskRow,
    state: str,
    *,
    result: int | None = None,
    reason: str | None = None,
) -> None:
    """A task has come to its end, and the coordinator is told."""
    was = task.state
    task.state, task.result, task.reason = state, result, reason
    tx.save_task(run.id, task, was=was)
    tx.log(run, f"task-{state}", None, None, {"task": task.number, "title": task.title, "reason": reason})
    tell(tx, run)


def _told(turn: TurnRow, **more: Any) -> dict[str, Any]:
    return {
        "turn": turn.number,
        "participant": turn.participant,
        "kind": turn.kind,
        "task": turn.task,
        **more,
    }


# --- the run of a body -------------------------------------------------------------------------------------


def body_ended(tx: Transaction, run: RunRecord, child: RunRecord) -> None:
    """The run of a body has ended: so does its turn, if that is current.

    What comes back after a fence is kept in that run; the turn that continues this one takes it from there,
    without running the body again.
    """
    if child.state is not RunState.CANCELLED or not tx.alive(child.lease_holder):
        yielded(tx, run, child, "released")  # a cancelled one unwinds first (`claims.hand_back`)
    turn = tx.turn(run.id, child.parent_piece) if child.parent_piece is not None else None
    if turn is None or turn.ended_as is not None:
        return
    piece = tx.piece(run.id, turn.number)
    if piece is None or piece.state == "queued":
        tx.log(run, "body-ended", None, None, _told(turn, child=child.id, state=child.state.value))
    elif turn.generation is None or (run.state is RunState.RUNNING and turn.generation == run.generation):
        settle(tx, run, turn, child)


def settle(tx: Transaction, run: RunRecord, turn: TurnRow, child: RunRecord) -> None:
    """Apply the outcome of a body to its turn and its task."""
    task = tx.task(run.id, turn.task) if turn.task is not None else None
    opened = task if task is not None and task.state in OPEN_TASKS else None
    if child.state is RunState.COMPLETED:
        end(tx, run, turn, "completed")
        if opened is not None and child.result is not None:
            result = tx.put_value(run.id, tx.value(child.id, child.result))
            end_task(tx, run, opened, "completed", result=result)
        return
    if child.state is RunState.CANCELLED:
        end(tx, run, turn, "cancelled", "the run of its body was cancelled")
        if opened is not None:
            end_task(tx, run, opened, "failed", reason="its turn was cancelled")
        return
    fail(tx, run, turn, opened, child.error or "its body failed", child)


def fail(
    tx: Transaction,
    run: RunRecord,
    turn: TurnRow,
    task: TaskRow | None,
    reason: str,
    child: RunRecord | None,
) -> None:
    """A body raised: its turn failed. Its work is gone on with, as often as `retries` says, or failed too."""
    end(tx, run, turn, "failed", reason)
    who = participant(tx, run, turn.participant)
    if child is not None and who is not None and turn.attempt <= who.retries and turn.generation is not None:
        again = admit(tx, run, who, turn.kind, "retry", task=turn.task, prompt=turn.prompt, continues=turn)
        again.attempt = turn.attempt + 1
        tx.save_turn(run.id, again)
    elif task is not None:
        end_task(tx, run, task, "failed", reason=reason)
    elif turn.kind == "coordinator":
        note(tx, run, failed={"error": reason, "turn": turn.number})
    else:
        tell(tx, run)


def go_on(tx: Transaction, run: RunRecord) -> None:
    """A failed run is retried, in its new generation: what failed it, its coordinator's body, goes on."""
    tx.restamp(run.id, run.generation)
    failed = facts(tx, run).get("failed")
    turn = tx.turn(run.id, failed["turn"]) if failed is not None else None
    who = participant(tx, run, turn.participant) if turn is not None else None
    if turn is not None and who is not None:
        admit(tx, run, who, turn.kind, "retry", prompt=turn.prompt, continues=turn)
    note(tx, run, failed=None)


def yielded(tx: Transaction, run: RunRecord, child: RunRecord, drain: str) -> None:
    """Nothing of the run of a body runs any more: what its turns owed to a drain is resolved.

    A turn that was captured while it ran is stale from here on; its place in the queue is free.
    """
    for number in tx.release_receipts(run.id, child, drain):
        turn = tx.turn(run.id, number)
        if turn is not None and turn.ended_as is None:
            end(tx, run, turn, "stale", "a pause took it off; its work is continued by another turn")
        else:
            tx.log(run, "turn-yielded", None, None, {"turn": number, "drain": drain})


def child_rests(tx: Transaction, run: RunRecord, child: RunRecord) -> None:
    """The run of a body stands still: it asks, or somebody paused it. Its turn waits."""
    piece = tx.piece(run.id, child.parent_piece) if child.parent_piece is not None else None
    asked = "holds" in child.locks and "holds" not in run.locks
    if run.state is RunState.PAUSED and asked and not is_directed(tx, run, child):  # after the fence
        run.locks["holds"] = child.locks["holds"]
        tx.save_run(run, generation=run.generation)
    if piece is None or piece.state != "running" or child.state is not RunState.PAUSED:
        return
    if run.state is not RunState.PAUSED or piece.kind == DIRECTED:
        piece.state = "waiting"
        tx.move_pieces(run.id, [piece])
        tx.log(run, "turn-waiting", None, None, {"turn": piece.piece, "child": child.id})


def child_goes(tx: Transaction, run: RunRecord, child: RunRecord) -> None:
    """The run of a body goes on: so does its turn. Of a paused team, its continuation does (`continuing`)."""
    piece = tx.piece(run.id, child.parent_piece) if child.parent_piece is not None else None
    if piece is None or piece.state != "waiting" or child.state is not RunState.RUNNING:
        return
    if run.state is not RunState.PAUSED or piece.kind == DIRECTED:
        piece.state = "running"
        tx.move_pieces(run.id, [piece])
        tx.log(run, "turn-running", None, None, {"turn": piece.piece, "child": child.id})


def poison(tx: Reader, child: RunRecord | None) -> str | None:
    """Why the run of a body must not be tried again: it has lost its process too often."""
    if child is None or child.state in ENDED or "fault" not in child.locks:
        return None
    lost = max((row.lost for row in tx.pieces(child.id)), default=0)
    times = "once" if lost == 1 else f"{lost} times"
    return f"its process died {times} while it ran" if lost >= child.max_lost else None
