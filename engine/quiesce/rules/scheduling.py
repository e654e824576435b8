"""What does a team begin next?

The driver of a team asks this after every change of its rows. Work that is ready gets a turn (admission);
a turn at the head of its queue gets a body (promotion) if nothing of its participant runs. Admission is no
permission to run: that the run is running, that the generation is the turn's, and that the task is open and
still the participant's is asked in the transaction that promotes. What begins nothing and waits for nothing
is idle.

Source: spec team, "Model" (scheduling); W14; N5, N7, N10, N11.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from quiesce.errors import QuiesceError
from quiesce.records import PieceRow, RunRecord, TaskRow, TurnRow
from quiesce.rules import continuing, ending, fence, starting, turns
from quiesce.rules.claims import forget_lease
from quiesce.rules.release import lift_parent_lock
from quiesce.rules.requests import Request, found
from quiesce.rules.standing import still_waits
from quiesce.rules.turns import DIRECTED, FORMAL
from quiesce.states import ENDED, RunEvent, RunState, advance
from quiesce.store import Reader, Transaction
from quiesce.team.values import OPEN_TASKS

__all__ = ["Opening", "advance_team", "is_due"]

Opening = Callable[[Transaction, RunRecord, TurnRow], tuple[starting.Definition, Any]]
"""What the run of a turn's body is started of: its flow and its input. Raises as a start does."""


def advance_team(tx: Transaction, run: RunRecord, opening: Opening, drain_until: datetime) -> None:
    """Begin what may begin; at the end of all work complete, fail or become idle."""
    continuing.reconcile(tx, run)
    run = found(tx, run.id)
    if run.state is RunState.RUNNING:
        _end_orphans(tx, run)
        noted = turns.facts(tx, run)
        if "failed" in noted:
            ending.fail(tx, run, str(noted["failed"]["error"]), drain_until)
            return
        if "finish" in noted:
            _wind_up(tx, run)
        else:
            _admit_ready(tx, run)
    _promote(tx, run, opening)
    run = found(tx, run.id)
    if run.state is RunState.RUNNING and not _finish(tx, run) and not _settle_idle(tx, run):
        fence.rest(tx, run)


def is_due(tx: Reader, run: RunRecord) -> bool:
    """Whether `advance_team` may have something to do; of a run that does not run, hardly ever."""
    if run.state is RunState.RUNNING:
        return True
    if run.state in ENDED:
        return False
    if any(not tx.alive(row.holder) for row in tx.unresolved(run.id)):
        return True
    return any(row.kind == DIRECTED and row.state in ("queued", "waiting") for row in tx.heads(run.id))


def _end_orphans(tx: Transaction, run: RunRecord) -> None:
    """Bodies that a resume skipped: nobody goes on with them."""
    for child_id in turns.facts(tx, run).get("orphans", []):
        child = tx.run(child_id)
        if child is not None and child.state not in (RunState.COMPLETED, RunState.CANCELLED):
            ending.end_body(tx, child, f"its turn in run {run.id} was skipped")
    turns.note(tx, run, orphans=None)


# --- admission -------------------------------------------------------------------------------------------


def _admit_ready(tx: Transaction, run: RunRecord) -> None:
    for task in tx.ready_tasks(run.id, run.execution):
        who = turns.participant(tx, run, task.owner or "")
        if who is not None:
            turns.admit(tx, run, who, "task", "task", task=task.number)
    told = turns.coordinator(tx, run)
    busy = {(name, state) for name, kind, state in tx.queue_lengths(run.id) if kind == FORMAL}
    for name in turns.fresh_mail(tx, run):
        who = turns.participant(tx, run, name)
        if who is not None and name != told.name and not _has_inbox_turn(tx, run, name):
            turns.admit(tx, run, who, "inbox", "inbox")
    if turns.facts(tx, run).get("news") and not any(name == told.name for name, _ in busy):
        turns.admit(tx, run, told, "coordinator", "batch")


def _has_inbox_turn(tx: Transaction, run: RunRecord, name: str) -> bool:
    return any(
        turn is not None and turn.kind == "inbox"
        for row in tx.pieces(run.id)
        if row.name == name
        for turn in [tx.turn(run.id, row.piece)]
    )


# --- promotion -------------------------------------------------------------------------------------------


def _promote(tx: Transaction, run: RunRecord, opening: Opening) -> None:
    """Give a body to what is at the head of a queue in which nothing runs or waits: the coordinator first."""
    again = True
    first = turns.coordinator(tx, run).name
    unwinding = tx.unwinding(run.id)
    while again:
        again = False
        lanes = tx.queue_lengths(run.id)
        for head in sorted(tx.heads(run.id), key=lambda row: (row.name != first, row.position)):
            if head.state == "waiting":
                _drop_poison(tx, run, head)
                continue
            taken = head.name in unwinding or any(
                lanes.get((head.name, kind, state))
                for kind in (FORMAL, DIRECTED)
                for state in ("running", "waiting")
            )
            if head.state != "queued" or taken:
                continue
            if head.kind == FORMAL and run.state is not RunState.RUNNING:
                continue
            turn = tx.turn(run.id, head.piece)
            if turn is not None:
                again |= _begin(tx, run, turn, head, opening)


def _begin(tx: Transaction, run: RunRecord, turn: TurnRow, piece: PieceRow, opening: Opening) -> bool:
    """Promote a turn, or end it where it must not begin; whether the head of its queue is another now."""
    task = tx.task(run.id, turn.task) if turn.task is not None else None
    if (reason := _refusal(tx, run, turn, task)) is not None:
        turns.end(tx, run, turn, "stale", reason)
        if turn.child is not None:
            turns.note(tx, run, orphans=[*turns.facts(tx, run).get("orphans", []), turn.child])
            _end_orphans(tx, run)
        return True
    child = tx.run(turn.child) if turn.child is not None else None
    if child is None:
        return _open(tx, run, turn, piece, task, opening)
    if turn.source == "retry" and child.state is RunState.FAILED:
        _mark(tx, run, turn, piece, "running")
        _count(tx, run, task)
        ending.go_on_with_body(tx, child, f"another attempt of turn {turn.number} in run {run.id}")
        return False
    if child.state in ENDED:
        _mark(tx, run, turn, piece, "running")
        turns.settle(tx, run, turn, child)
        return True
    if not _has_yielded(tx, child):
        return False
    request = Request("resume", child.id, f"turn {turn.number} of {run.id}", run.id, remember=False)
    lift_parent_lock(tx, found(tx, child.id), request)
    _mark(tx, run, turn, piece, "waiting" if still_waits(tx, found(tx, child.id)) else "running")
    return False


def _refusal(tx: Transaction, run: RunRecord, turn: TurnRow, task: TaskRow | None) -> str | None:
    """Why a turn that was admitted must not begin: what it was admitted for is not so any more (W14)."""
    if turn.generation is None:
        return None
    if turn.generation != run.generation:
        return f"it was admitted in generation {turn.generation}, and this is {run.generation}"
    if turn.task is not None:
        if task is None or task.state not in OPEN_TASKS:
            return f"its task is {task.state if task else 'missing'}"
        if task.owner != turn.participant:
            return f"its task is {task.owner}'s now"
    if turn.kind == "inbox" and turn.child is None and not tx.unread(run.id).get(turn.participant):
        return "what it was to read has been read"
    return None


def _has_yielded(tx: Transaction, child: RunRecord) -> bool:
    if child.state is not RunState.PAUSED:
        return True
    if child.lease_holder is not None and not tx.alive(child.lease_holder):
        forget_lease(tx, child)
        return True
    episode = tx.episode(child.episode_id) if child.episode_id is not None else None
    return episode is None or episode.quiescent_at is not None


def _open(
    tx: Transaction, run: RunRecord, turn: TurnRow, piece: PieceRow, task: TaskRow | None, opening: Opening
) -> bool:
    """Install a body: a run of the participant's flow, inside the team's."""
    turn.child = piece.child = f"{run.id}.{turn.number}"
    if turn.kind == "coordinator":
        turns.note(tx, run, news=None)
    elif turn.kind == "inbox":
        newest = tx.unread(run.id).get(turn.participant, 0)
        offered = {**turns.facts(tx, run).get("offered", {}), turn.participant: newest}
        turns.note(tx, run, offered=offered)
    _mark(tx, run, turn, piece, "running")
    _count(tx, run, task)
    try:
        what, value = opening(tx, run, turn)
    except QuiesceError as refused:
        turns.fail(tx, run, turn, tx.task(run.id, turn.task) if turn.task else None, str(refused), None)
        return True
    request = Request("start", "", "", run.id, remember=False)
    starting.start(tx, request, turn.child, what, value, parent=(run.id, turn.number))
    return False


def _mark(tx: Transaction, run: RunRecord, turn: TurnRow, piece: PieceRow, state: str) -> None:
    turn.started_at = turn.started_at or tx.now
    tx.save_turn(run.id, turn)
    piece.state = state
    tx.move_pieces(run.id, [piece])
    facts = {"turn": turn.number, "participant": turn.participant, "child": turn.child, "task": turn.task}
    tx.log(run, f"turn-{state}", None, None, facts)


def _count(tx: Transaction, run: RunRecord, task: TaskRow | None) -> None:
    """Attempts are counted before the body begins."""
    if task is not None:
        was, task.state = task.state, "in_progress"
        task.attempts += 1
        tx.save_task(run.id, task, was=was)


def _drop_poison(tx: Transaction, run: RunRecord, head: PieceRow) -> None:
    """A body that loses its process again and again is not tried any more: its task fails with that."""
    child = tx.run(head.child) if head.child is not None else None
    reason = turns.poison(tx, child)
    turn = tx.turn(run.id, head.piece)
    if child is None or turn is None or reason is None:
        return
    task = tx.task(run.id, turn.task) if turn.task is not None else None
    opened = task if task is not None and task.state in OPEN_TASKS else None
    turns.fail(tx, run, turn, opened, f"poison: {reason}", None)
    ending.end_body(tx, child, f"poison: {reason}")


# --- the end ---------------------------------------------------------------------------------------------


def _wind_up(tx: Transaction, run: RunRecord) -> None:
    """`finish` was called: what has not begun is cancelled, what runs is waited for."""
    for row in tx.pieces(run.id):
        turn = tx.turn(run.id, row.piece) if row.state == "queued" else None
        if turn is not None:
            turns.end(tx, run, turn, "cancelled", "the team finished before it began")
            if (
                turn.child is not None
                and (child := tx.run(turn.child)) is not None
                and child.state not in ENDED
            ):
                ending.end_body(tx, child, f"run {run.id} finished")


def _finish(tx: Transaction, run: RunRecord) -> bool:
    noted = turns.facts(tx, run)
    if "finish" not in noted or tx.queue_lengths(run.id):
        return False
    ending.complete(tx, run, tx.value(run.id, noted["finish"]))
    return True


def _settle_idle(tx: Transaction, run: RunRecord) -> bool:
    """Nothing is under way and nothing will begin: the team has nothing to do for now."""
    noted = turns.facts(tx, run)
    if noted.get("news") or "failed" in noted or "finish" in noted:
        return False
    if any(kind == FORMAL for _, kind, _ in tx.queue_lengths(run.id)) or tx.ready_tasks(
        run.id, run.execution
    ):
        return False
    run.state = advance(run.id, run.state, RunEvent.SETTLE_IDLE)
    run.updated_at = tx.now
    tx.save_run(run, generation=run.generation)
    tx.log(run, "idle", None, None, {})
    return True
