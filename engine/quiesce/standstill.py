"""Why does a team not move, and what would a resume go on with? Its queues and tasks, for a person to read.

What a resume makes of each captured turn is asked of the rule that a resume follows (`rules/continuing.py`),
so that the two cannot differ. What is idle has nothing to do; nothing is wrong with it.

Source: spec engine, 7 (`explain`); spec team, "resume".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from quiesce.records import HoldRecord, PieceRow, RunRecord, TurnRow
from quiesce.rules import continuing, turns
from quiesce.rules.standing import WAITING_LOCKS, can_run
from quiesce.runs import Value
from quiesce.states import ENDED, RunState
from quiesce.store import Reader

__all__ = ["Blocked", "Head", "Next", "Standing", "standing"]

Outcome = Literal["continued", "carried", "let_go", "skipped", "kept"]
How = Literal["begins", "stands", "again", "applied"]


@dataclass(frozen=True, slots=True)
class Head(Value):
    """What is first in the queue of a participant, and how many turns are `behind` it.

    `state`: `queued`, `running` or `waiting`. It waits for the answers to `holds`, or because its body, the
    run `child`, has these `locks`. `alive`: whether the process of that run lives; None if it has none.
    `drains` is an earlier turn, whose body is to yield before this one continues it.
    """

    turn: int
    participant: str
    kind: str
    task: int | None
    state: str
    behind: int
    child: str | None
    holds: tuple[str, ...]
    locks: tuple[str, ...]
    alive: bool | None
    drains: int | None


@dataclass(frozen=True, slots=True)
class Blocked(Value):
    """A task that waits for others, `opened` still or `lost` without a result, or for an owner."""

    task: int
    title: str
    owner: str | None
    opened: tuple[int, ...]
    lost: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Next(Value):
    """What becomes of a turn when its team is let go on.

    `outcome`: `continued` (by another turn), `carried` (it keeps its question), `let_go` (its question has no
    type, so that its body goes on without an answer), `skipped` with a `reason`, or `kept` (the same turn
    goes on). `how`: its body `begins`, goes on where it `stands` in its process, is run
    `again` as its journal or its nodes say, or has ended, so that what it gave is `applied`. `drains`: not
    before what runs of it has yielded.
    """

    turn: int
    participant: str
    kind: str
    task: int | None
    outcome: Outcome
    reason: str | None
    how: How
    drains: bool


@dataclass(frozen=True, slots=True)
class Standing(Value):
    """How a team stands: its queues, the tasks that wait, and what it goes on with."""

    heads: tuple[Head, ...]
    blocked: tuple[Blocked, ...]
    next: tuple[Next, ...]


def standing(tx: Reader, run: RunRecord) -> Standing:
    """How this team stands."""
    if run.state in (RunState.COMPLETED, RunState.CANCELLED, RunState.CREATED):
        return Standing((), (), ())
    return Standing(tuple(_heads(tx, run)), tuple(_blocked(tx, run)), tuple(_next(tx, run)))


def _heads(tx: Reader, run: RunRecord) -> Iterator[Head]:
    lengths: Counter[str] = Counter(row.name for row in tx.pieces(run.id))
    for row in tx.heads(run.id):
        turn = tx.turn(run.id, row.piece)
        if turn is not None:
            yield _head(tx, run, row, turn, lengths[row.name] - 1)


def _head(tx: Reader, run: RunRecord, row: PieceRow, turn: TurnRow, behind: int) -> Head:
    child = tx.run(turn.child) if turn.child is not None else None
    drains = row.state == "queued" and child is not None and _drains(tx, child)
    return Head(
        turn.number,
        turn.participant,
        turn.kind,
        turn.task,
        row.state,
        behind,
        turn.child,
        tuple(hold.id for hold in _asked(tx, child)) if child is not None and row.state == "waiting" else (),
        tuple(sorted(child.locks)) if child is not None else (),
        None if child is None or child.lease_holder is None else tx.alive(child.lease_holder),
        turn.original if drains else None,
    )


def _asked(tx: Reader, run: RunRecord) -> Iterator[HoldRecord]:
    """The open questions of a run and of those inside it."""
    yield from tx.open_holds(run.id)
    for child in tx.children(run.id):
        if child.state not in ENDED:
            yield from _asked(tx, child)


def _drains(tx: Reader, child: RunRecord) -> bool:
    """Whether a body at a fence has not yielded yet, in a process that lives."""
    if child.state is not RunState.PAUSED or child.lease_holder is None or not tx.alive(child.lease_holder):
        return False
    episode = tx.episode(child.episode_id) if child.episode_id is not None else None
    return episode is not None and episode.quiescent_at is None


def _blocked(tx: Reader, run: RunRecord) -> Iterator[Blocked]:
    tasks = {row.number: row for row in tx.tasks(run.id) if row.execution == run.execution}
    for row in tasks.values():
        if row.state != "pending":
            continue
        needed = {number: tasks[number].state for number in row.after if number in tasks}
        opened = tuple(number for number, state in needed.items() if state in ("pending", "in_progress"))
        lost = tuple(number for number, state in needed.items() if state in ("failed", "cancelled"))
        if opened or lost or row.owner is None:
            yield Blocked(row.number, row.title, row.owner, opened, lost)


def _next(tx: Reader, run: RunRecord) -> Iterator[Next]:
    if run.state is RunState.PAUSED and run.episode_id is not None:
        yield from _after_pause(tx, run, run.episode_id)
        yield from _taken_up(tx, run, (turns.DIRECTED,))
    elif run.state is RunState.RUNNING:
        yield from _taken_up(tx, run, (turns.FORMAL, turns.DIRECTED))
    elif run.state is RunState.FAILED:
        failed = turns.facts(tx, run).get("failed")
        turn = tx.turn(run.id, failed["turn"]) if failed is not None else None
        if turn is not None:
            yield _of(tx, turn, "continued", None)


def _after_pause(tx: Reader, run: RunRecord, episode_id: str) -> Iterator[Next]:
    """Of each captured turn; where all of them wait for answers, of those alone."""
    who = {row.name: row for row in tx.participants(run.id)}
    goes, only_holds = can_run(tx, run), run.locks.keys() <= WAITING_LOCKS
    for receipt in tx.receipts(episode_id):
        turn = tx.turn(run.id, receipt.piece)
        if receipt.outcome is not None or turn is None:
            continue
        seen = continuing.decide(tx, run, turn, who)
        if seen.waits and seen.child is not None:
            untyped = any(hold.expects is None for hold in _asked(tx, seen.child))
            yield _of(tx, turn, "let_go" if only_holds and untyped else "carried", None)
        elif goes:
            yield _of(tx, turn, seen.outcome, seen.reason)


def _taken_up(tx: Reader, run: RunRecord, kinds: tuple[str, ...]) -> Iterator[Next]:
    """Of what no pause holds: what is queued, and what has no process."""
    for row in tx.pieces(run.id):
        if row.kind not in kinds:
            continue
        turn = tx.turn(run.id, row.piece)
        child = tx.run(turn.child) if turn is not None and turn.child is not None else None
        lives = child is not None and child.lease_holder is not None and tx.alive(child.lease_holder)
        if turn is not None and (row.state == "queued" or (row.state == "running" and not lives)):
            yield _of(tx, turn, "kept", None)


def _of(tx: Reader, turn: TurnRow, outcome: Outcome, reason: str | None) -> Next:
    child = tx.run(turn.child) if turn.child is not None else None
    how: How = "again"
    if child is None:
        how = "begins"
    elif child.state is RunState.COMPLETED:
        how = "applied"
    elif child.kind == "agent" and child.lease_holder is not None and tx.alive(child.lease_holder):
        how = "stands"
    drains = child is not None and _drains(tx, child)
    return Next(turn.number, turn.participant, turn.kind, turn.task, outcome, reason, how, drains)
