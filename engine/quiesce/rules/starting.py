"""How does a run come to be: create, start, and the child of a piece.

`start` commits `running` at once, whether anybody drives it yet or not, so that a queued run can be
paused. Source: spec engine, 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quiesce.errors import Fenced
from quiesce.records import ParticipantRow, PieceRow, RunRecord
from quiesce.rules import turns
from quiesce.rules.requests import Request, finish, replay
from quiesce.runs import Ack
from quiesce.states import RunEvent, RunState, advance
from quiesce.store import Reader, Transaction

__all__ = ["Definition", "accept", "begin", "create", "enclosing_fence", "first_piece", "fork", "start"]

PIECE_KINDS = {"graph": "branch", "agent": "body", "team": "turn"}


@dataclass(frozen=True, slots=True)
class Definition:
    """What the store keeps of a flow: where it is found, and what it looked like at the start."""

    flow: str
    version: str
    kind: str
    entry: str
    signature: Any
    participants: tuple[ParticipantRow, ...] = ()
    """Of a team."""
    max_lost: int = 3
    """How many processes a piece may lose before its run is paused as poison."""


def first_piece(run: RunRecord) -> PieceRow:
    """Where a run of any kind begins."""
    return PieceRow(
        piece=1, kind=PIECE_KINDS[run.kind], state="queued", name=run.entry, position=1, value=run.input
    )


def begin(tx: Transaction, run: RunRecord) -> None:
    """Put down where a run that has its input begins."""
    if run.kind == "team":
        turns.begin(tx, run)
    else:
        tx.put_pieces(run.id, [first_piece(run)])


def accept(tx: Transaction, run: RunRecord, what: Definition) -> None:
    """Somebody goes on with changed code: the record of the run says so, and is written by the caller."""
    run.version = what.version
    run.signature = tx.put_value(run.id, what.signature)
    if what.participants:
        turns.renew(tx, run, what.participants)


def enclosing_fence(tx: Reader, run: RunRecord) -> str | None:
    """The id of the enclosing run whose pause or failure keeps this one from going, or None."""
    parent_id, inner = run.parent_id, run
    while parent_id is not None:
        parent = tx.run(parent_id)
        if parent is None or turns.is_directed(tx, parent, inner):
            return None
        if parent.state is RunState.FAILED or not parent.locks.keys() <= {"holds", "child"}:
            return parent.id
        episode = tx.episode(parent.episode_id) if parent.episode_id is not None else None
        if episode is not None and episode.cause == "pause":  # its own, which stops siblings too
            return parent.id
        parent_id, inner = parent.parent_id, parent
    return None


def create(tx: Transaction, request: Request, run_id: str, what: Definition) -> Ack:
    """Make a run without an input. Asked for an id that a run of the same request has: its ack."""
    if (known := replay(tx, request, Ack)) is not None:
        return known
    run = _insert(tx, run_id, what)
    tx.log(run, "created", request.actor, request.id, {"reason": request.reason})
    return finish(tx, request, Ack(request.id, run.id, True, run.generation))


def start(
    tx: Transaction,
    request: Request,
    run_id: str,
    what: Definition,
    value: Any,
    *,
    parent: tuple[str, int] | None = None,
) -> Ack:
    """Commit a running run with its input and its first piece; of a created run, make it running.

    Raises:
        RunActive, IllegalTransition: a run of this id is under way or ended.
        Fenced: an enclosing run is paused or failed.
    """
    if (known := replay(tx, request, Ack)) is not None:
        return known
    run = tx.run(run_id)
    if run is None:
        run = _insert(tx, run_id, what, parent)
    state = advance(run.id, run.state, RunEvent.START, has_input=run.has_input)
    if (outer := enclosing_fence(tx, run)) is not None:
        raise Fenced(f"run {run.id!r} cannot start: the enclosing run {outer!r} is paused; resume that first")
    run.state, run.updated_at = state, tx.now
    run.input = tx.put_value(run.id, value)
    tx.save_run(run, generation=run.generation)
    begin(tx, run)
    tx.log(run, "started", request.actor, request.id, {"reason": request.reason})
    return finish(tx, request, Ack(request.id, run.id, True, run.generation))


def fork(
    tx: Transaction,
    request: Request,
    old: RunRecord,
    new_id: str,
    at: int,
    copy_frontier: Callable[[], None],
) -> Ack:
    """Make a new running run that goes on from an earlier point of `old`, which stays as it is.

    Raises:
        RunActive: the new id is taken. What `copy_frontier` raises: there is no such point.
    """
    if (known := replay(tx, request, Ack)) is not None:
        return known
    run = RunRecord(
        max_lost=old.max_lost,
        id=new_id,
        flow=old.flow,
        version=old.version,
        kind=old.kind,
        entry=old.entry,
        state=RunState.CREATED,
        created_at=tx.now,
        updated_at=tx.now,
    )
    tx.insert_run(run)
    run.state = advance(run.id, run.state, RunEvent.START, has_input=False)
    if old.input is not None:
        run.input = tx.put_value(run.id, tx.value(old.id, old.input))
    if old.signature is not None:
        run.signature = tx.put_value(run.id, tx.value(old.id, old.signature))
    tx.save_run(run, generation=run.generation)
    copy_frontier()
    facts = {"from": old.id, "execution": old.execution, "at": at, "reason": request.reason}
    tx.log(run, "forked", request.actor, request.id, facts)
    return finish(tx, request, Ack(request.id, run.id, True, run.generation))


def _insert(
    tx: Transaction, run_id: str, what: Definition, parent: tuple[str, int] | None = None
) -> RunRecord:
    run = RunRecord(
        id=run_id,
        flow=what.flow,
        version=what.version,
        kind=what.kind,
        entry=what.entry,
        state=RunState.CREATED,
        created_at=tx.now,
        updated_at=tx.now,
        parent_id=parent[0] if parent else None,
        parent_piece=parent[1] if parent else None,
        max_lost=what.max_lost,
    )
    tx.insert_run(run)
    if what.participants:
        tx.put_participants(run_id, what.participants)
    if what.signature is not None:
        run.signature = tx.put_value(run_id, what.signature)
        tx.save_run(run, generation=run.generation)
    return run
