"""What is asked, is it the same question as before, and who may answer it?

A hold is identified by run, execution, place and ordinal. A piece that is evaluated again unanswered and
asks the same (equal type and payload) keeps its hold; a different question withdraws the old one; after
an answer a new question is the next ordinal. A hold is settled once. Source: spec engine, 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from quiesce import codec
from quiesce.errors import AlreadyAnswered, Expired, IllegalTransition, QuiesceError, UnknownHold, Withdrawn
from quiesce.records import HoldRecord, RunRecord
from quiesce.rules.requests import found
from quiesce.runs import Hold
from quiesce.states import ENDED, RunState
from quiesce.store import Reader, Transaction

__all__ = [
    "Question",
    "ask",
    "check_answer",
    "failed_around",
    "history",
    "judge",
    "listed",
    "public",
    "settled_error",
    "tree_holds",
]


PAGE = 500
"""Holds that are read at once."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a piece asks, before it has an id. `payload` and `expects` are JSON values."""

    path: str
    piece: int
    reason: str | None = None
    key: str | None = None
    payload: Any = None
    expects: dict[str, Any] | None = None
    deadline: datetime | None = None
    on_deadline: Any = "hold"


def ask(tx: Transaction, run: RunRecord, question: Question, new_id: str) -> HoldRecord:
    """The open hold for this question: the one that asks it already, or a new one."""
    place = question.path if question.key is None else f"{question.path}/{question.key}"
    last = tx.last_hold(run.id, run.execution, place)
    if last is not None and last.state == "open":
        if last.expects == question.expects and last.payload == question.payload:
            return last
        last.state, last.answered_at = "withdrawn", tx.now
        tx.settle_hold(last)
        tx.log(
            run, "withdrawn", None, None, {"hold": last.id, "because": "the place asks something else now"}
        )
    hold = HoldRecord(
        id=new_id,
        run_id=run.id,
        execution=run.execution,
        path=place,
        key=question.key,
        ordinal=last.ordinal + 1 if last is not None else 1,
        piece=question.piece,
        reason=question.reason,
        opened_at=tx.now,
        payload=question.payload,
        expects=question.expects,
        deadline=question.deadline,
        on_deadline=question.on_deadline,
    )
    tx.insert_hold(hold)
    tx.log(run, "asked", None, None, {"hold": hold.id, "path": place, "reason": question.reason})
    return hold


def judge(tx: Reader, hold_id: str) -> tuple[HoldRecord, RunRecord]:
    """The open hold of this id and its run.

    Raises:
        UnknownHold: there is none; lists the open ones.
        AlreadyAnswered, Expired, Withdrawn: it is settled.
        IllegalTransition: its run, or one around it, failed; retry first.
    """
    hold = tx.hold(hold_id)
    if hold is None:
        open_ids = [item.id for item in tx.holds(None, "open", 20, 0)]
        shown = ", ".join(open_ids) or "none"
        raise UnknownHold(f"there is no hold {hold_id!r}; open are: {shown}", open_holds=open_ids)
    run = found(tx, hold.run_id)
    if hold.state != "open":
        raise settled_error(hold)
    if (failed := failed_around(tx, run)) is not None:
        raise IllegalTransition(
            failed.id,
            failed.state,
            "answer",
            f"hold {hold.id!r} cannot be answered: run {failed.id!r} has failed; retry it first",
        )
    return hold, run


def failed_around(tx: Reader, run: RunRecord) -> RunRecord | None:
    """The run itself, or the innermost one around it, that has failed: what it holds is out of the inbox."""
    around: RunRecord | None = run
    while around is not None and around.state is not RunState.FAILED:
        around = tx.run(around.parent_id) if around.parent_id is not None else None
    return around


def settled_error(hold: HoldRecord) -> QuiesceError:
    """Why a hold that is not open takes no answer."""
    when = hold.answered_at.isoformat(timespec="seconds") if hold.answered_at else "?"
    by = hold.answered_by or "?"
    if hold.state in ("answered", "rejected"):
        return AlreadyAnswered(
            f"hold {hold.id!r} was {hold.state} by {by} at {when} with {hold.answer!r}; nothing was changed",
            by=by,
            at=when,
            value=hold.answer,
        )
    if hold.state == "expired":
        return Expired(f"hold {hold.id!r} expired at {when}, so it takes no answer any more")
    return Withdrawn(f"hold {hold.id!r} was {hold.state} at {when}: nobody asks it any more")


def check_answer(hold: HoldRecord, value: Any) -> None:
    """Refuse an answer that does not fit what the hold declared.

    Raises:
        AnswerRejected: with the validator's message; nothing was changed.
    """
    if hold.expects is not None:
        codec.check_schema(value, hold.expects)


def tree_holds(tx: Reader, run: RunRecord) -> list[tuple[HoldRecord, str]]:
    """Every open hold of a run and of the runs inside it, with the path that leads to each."""
    inside: dict[str, list[RunRecord]] = {}
    asking = [found(tx, run_id) for run_id in tx.asking(run.id)]
    for one in asking:
        if one.parent_id is not None:
            inside.setdefault(one.parent_id, []).append(one)
    return _tree_holds(tx, run, inside, "") if asking else []


def _tree_holds(
    tx: Reader, run: RunRecord, inside: dict[str, list[RunRecord]], prefix: str
) -> list[tuple[HoldRecord, str]]:
    found_holds = [(hold, prefix + hold.path) for hold in tx.open_holds(run.id)]
    for child in inside.get(run.id, ()):
        found_holds += _tree_holds(tx, child, inside, f"{prefix}{_inside(tx, run, child)}/")
    return found_holds


def history(tx: Reader, run: RunRecord, state: str | None) -> tuple[Hold, ...]:
    """The holds that a run and the runs inside it ever had (of one state, or of all), oldest first."""
    rows = _history(tx, run, state, "")
    rows.sort(key=lambda row: row[0].opened_at)
    return tuple(public(hold, tx.now, path) for hold, path in rows)


def _history(tx: Reader, run: RunRecord, state: str | None, prefix: str) -> list[tuple[HoldRecord, str]]:
    found_holds: list[tuple[HoldRecord, str]] = []
    while page := tx.holds(run.id, state, PAGE, len(found_holds)):
        found_holds += [(hold, prefix + hold.path) for hold in page]
    for child in tx.children(run.id):
        found_holds += _history(tx, child, state, f"{prefix}{_inside(tx, run, child)}/")
    return found_holds


def _inside(tx: Reader, run: RunRecord, child: RunRecord) -> str:
    """What the place of a child run is called in the run around it."""
    return child.entry if child.parent_piece is None else _piece_name(tx, run, child)


def _piece_name(tx: Reader, run: RunRecord, child: RunRecord) -> str:
    if run.kind == "team" and child.parent_piece is not None:
        turn = tx.turn(run.id, child.parent_piece)
        return f"{turn.participant}#{turn.number}" if turn is not None else child.entry
    names = (row.name for row in tx.pieces(run.id) if row.piece == child.parent_piece)
    name = next(names, child.entry)  # the place it was started from may be done by now
    return name if child.parent_piece == 1 else f"{name}#{child.parent_piece}"


def public(hold: HoldRecord, now: datetime, path: str | None = None) -> Hold:
    """The value that a reader gets."""
    return Hold(
        id=hold.id,
        run_id=hold.run_id,
        path=path or hold.path,
        key=hold.key,
        reason=hold.reason,
        payload=hold.payload,
        expects=hold.expects,
        opened_at=hold.opened_at,
        deadline=hold.deadline,
        late=hold.state == "open" and hold.deadline is not None and hold.deadline < now,
        state=hold.state,  # type: ignore[arg-type]  # the schema's check holds it
        answer=hold.answer,
        answered_by=hold.answered_by,
        answered_at=hold.answered_at,
    )


def listed(tx: Reader, run: RunRecord) -> tuple[Hold, ...]:
    """The open holds that a reader of this run sees, inner ones included."""
    if run.state in ENDED:
        return ()
    return tuple(replace(public(hold, tx.now), path=path) for hold, path in tree_holds(tx, run))
