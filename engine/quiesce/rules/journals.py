"""What becomes of an agent's journal when its run is retried, or leaves it?

What is recorded is never done twice by itself. A retry of a failed run does again what failed, and nothing
before it; changed code follows the journal as far as it fits, and the rest is set aside, where it can be
seen. Source: spec agent, "Steps and the journal".
"""

from __future__ import annotations

from typing import Any

from quiesce import codec
from quiesce.errors import QuiesceError
from quiesce.records import JournalEntry, RunRecord
from quiesce.store import Reader, Transaction

__all__ = ["accept", "doubt", "reopen", "set_aside", "settle_acceptance"]


def reopen(tx: Transaction, run: RunRecord) -> str | None:
    """A failed run goes on: the place whose error ended it is open again.

    Returns the run that it waited for there, which may have failed before it.

    A step is attempted again, with the others of its group that were cancelled; an action keeps its
    approval. A question that was rejected or expired is asked again.
    """
    entries = tx.journal(run.id)
    fatal = next((entry for entry in entries if entry.state == "fatal"), None)
    if fatal is None:
        return None
    if fatal.kind not in ("step", "action") or fatal.attempt == 0:
        tx.set_aside(run.id, fatal.position)
        return fatal.name if fatal.kind == "wait" else None
    tx.set_aside(run.id, fatal.last + 1)
    for entry in entries:
        if entry.last != fatal.last:
            continue
        if entry.state in ("fatal", "failed"):
            entry.state, entry.value, entry.attempt = "failed-once", None, 0
        elif entry.state == "cancelled":
            entry.state, entry.value = "started" if entry.kind == "step" else "committing", None
        else:
            continue
        tx.put_entry(run.id, entry)
    return None


def doubt(tx: Reader, run_id: str, entry: JournalEntry) -> str | None:
    """The hold that asks a person, or did, whether a step of which nobody knows has happened."""
    if entry.kind not in ("step", "action") or entry.state not in ("started", "committing"):
        return None
    if entry.value is None:
        return None
    hold = tx.hold(codec.decode(tx.value(run_id, entry.value)))
    return hold.id if hold is not None and hold.state != "withdrawn" else None


def accept(tx: Transaction, run: RunRecord) -> None:
    """Somebody said that the body may leave its journal: its driver sets aside what does not fit."""
    tx.put_counters(run.id, {**(tx.counters(run.id) or {}), "accept": True})


def settle_acceptance(tx: Transaction, run_id: str) -> None:
    """The body has left its journal, or come to its end: from now on it must follow it again."""
    counters: dict[str, Any] = dict(tx.counters(run_id) or {})
    counters.pop("accept", None)
    tx.put_counters(run_id, counters)


def set_aside(tx: Transaction, run: RunRecord, position: int, why: str) -> list[str]:
    """Put the journal from this position on aside; what it asked is not asked any more.

    Returns the runs that it started there.

    Raises:
        QuiesceError: there is no such position.
    """
    rest = [entry for entry in tx.journal(run.id) if entry.position >= position]
    if not rest or position < 1:
        raise QuiesceError(
            f"the journal of run {run.id!r} has no position {position}; `flowctl show {run.id}` lists it"
        )
    children = []
    for entry in rest:
        if entry.kind == "spawn" and entry.value is not None:
            children.append(codec.decode(tx.value(run.id, entry.value)))
        asked = doubt(tx, run.id, entry) or entry.hold
        hold = tx.hold(asked) if asked is not None else None
        if hold is not None and hold.state == "open":
            hold.state, hold.answered_at = "withdrawn", tx.now
            tx.settle_hold(hold)
    count = tx.set_aside(run.id, position)
    tx.log(run, "set-aside", None, None, {"from": position, "count": count, "because": why})
    return children
