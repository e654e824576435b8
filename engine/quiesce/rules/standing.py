"""What of a run could run, if nothing kept it?

Asked before a paused run is let go, and before a running one is held because all of it waits. Of a graph or
an agent the pieces say so; of a team its queues: what is behind a turn that waits cannot run before that.

Source: spec engine, 3 (holds) and 4 (nesting); spec team, "Model" and "resume".
"""

from __future__ import annotations

from collections.abc import Set

from quiesce.records import RunRecord
from quiesce.rules import turns
from quiesce.states import ENDED, RunState
from quiesce.store import Reader

__all__ = ["WAITING_LOCKS", "can_run", "could_run", "still_waits", "team_moves", "waited_for"]

WAITING_LOCKS = frozenset({"holds", "child"})
"""Locks that an answer lifts by itself; every other one needs a verb."""


def can_run(tx: Reader, run: RunRecord) -> bool:
    """Whether a piece of the run could begin, or runs, if the locks of the run were gone."""
    if run.kind == "team":
        return _team_can_continue(tx, run)
    counts = tx.piece_counts(run.id)
    if counts.get("queued") or counts.get("running"):
        return True
    if not counts.get("waiting"):
        return not counts.get("held")
    return any(could_run(tx, child) for child in tx.children(run.id))


def could_run(tx: Reader, child: RunRecord) -> bool:
    """Whether a run inside another one goes on when that does."""
    if child.state is RunState.PAUSED and "parent" in child.locks:
        return child.locks.keys() <= WAITING_LOCKS | {"parent"} and can_run(tx, child)
    return child.state is RunState.RUNNING


def still_waits(tx: Reader, child: RunRecord | None) -> bool:
    """Whether the run of a body stands still for a reason of its own, not for the pause around it."""
    return (
        child is not None
        and child.state not in ENDED
        and child.state is not RunState.IDLE
        and not could_run(tx, child)
    )


def _team_can_continue(tx: Reader, run: RunRecord) -> bool:
    receipts = tx.receipts(run.episode_id) if run.episode_id is not None else []
    stopped: set[str] = set()
    for receipt in receipts:
        turn = tx.turn(run.id, receipt.piece)
        child = tx.run(turn.child) if turn is not None and turn.child is not None else None
        if still_waits(tx, child):
            stopped.add(receipt.name)
        elif receipt.name not in stopped:
            return True
    return not receipts or _has_more(tx, run, stopped)


def _has_more(tx: Reader, run: RunRecord, stopped: Set[str] = frozenset()) -> bool:
    """Whether there is work that has no turn yet, and is not of those whose queue is stopped."""
    noted = turns.facts(tx, run)
    lanes = tx.queue_lengths(run.id)
    told = turns.coordinator(tx, run).name
    if "failed" in noted or ("finish" in noted and not lanes):
        return True
    if "finish" in noted:
        return False
    if any(task.owner not in stopped for task in tx.ready_tasks(run.id, run.execution)):
        return True
    busy = {name for name, kind, _ in lanes if kind == turns.FORMAL} | stopped
    return (noted.get("news", 0) > 0 and told not in busy) or any(
        name not in busy for name in turns.fresh_mail(tx, run) if name != told
    )


def team_moves(tx: Reader, run: RunRecord) -> bool:
    """Whether something of a running team is under way, or will begin without anybody's help."""
    lanes = tx.queue_lengths(run.id)
    for head in tx.heads(run.id):
        if head.state in ("queued", "running"):
            if head.kind == turns.FORMAL or lanes.get((head.name, turns.FORMAL, "queued")):
                return True
        elif turns.poison(tx, tx.run(head.child) if head.child else None) is not None:
            return True
    return _has_more(tx, run)


def waited_for(tx: Reader, run: RunRecord) -> list[RunRecord] | None:
    """The runs that a run waits for whose own pieces do not run; None if one of them will go on by itself."""
    if run.kind == "team":
        if team_moves(tx, run):
            return None
        held = [row for row in tx.heads(run.id) if row.state == "waiting" and row.kind == turns.FORMAL]
        found = [tx.run(row.child) for row in held if row.child is not None]
        return [child for child in found if child is not None and child.state not in ENDED]
    children = [child for child in tx.children(run.id) if child.state not in ENDED]
    if any(child.state not in (RunState.PAUSED, RunState.CREATED) for child in children):
        return None
    return children
