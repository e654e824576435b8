"""What has an agent done so far, and where does its body stand? The journal, for a person to read.

Source: spec engine, 7 (`show`: journal, file and line of each paused body; `explain`).
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from datetime import datetime

from quiesce.records import JournalEntry, RunRecord
from quiesce.runs import Value
from quiesce.states import ENDED
from quiesce.store import Reader

__all__ = ["Line", "done", "lines", "unknown"]

UNKNOWN = ("started", "committing")
"""States of a step that began and has not said how it ended."""


@dataclass(frozen=True, slots=True)
class Line(Value):
    """One place in the journal of an agent: what the body did there, and where that stands in its code.

    `state` is as the journal has it, of a question that of its hold. `aside` is 0, or which rest that was
    set aside it belongs to. `file`, `line` and `source` are None where nobody knows them.
    """

    position: int
    kind: str
    name: str
    state: str
    attempt: int
    hold: str | None
    aside: int
    at: datetime | None
    file: str | None
    line: int | None
    source: str | None


def lines(tx: Reader, run: RunRecord) -> tuple[tuple[Line, ...], Line | None]:
    """The journal, what was set aside last; and the line of it where the body stands, if it does."""
    followed = [_line(tx, entry) for entry in tx.journal(run.id)]
    aside = [_line(tx, entry) for entry in tx.journal(run.id, aside=True)]
    return (*followed, *aside), (followed[-1] if followed and run.state not in ENDED else None)


def done(tx: Reader, run: RunRecord) -> int:
    """How many places are given back to a body that is executed again."""
    return sum(1 for entry in tx.journal(run.id) if not _is_open(tx, entry))


def unknown(tx: Reader, run: RunRecord) -> tuple[str, ...]:
    """The steps that began in a process which is gone, so that nobody knows whether they happened."""
    if run.lease_holder is not None and tx.alive(run.lease_holder):
        return ()
    return tuple(
        f"{entry.kind} {entry.name} (position {entry.position})"
        for entry in tx.journal(run.id)
        if entry.kind in ("step", "action") and entry.state in UNKNOWN
    )


def _is_open(tx: Reader, entry: JournalEntry) -> bool:
    if entry.kind == "ask" and entry.hold is not None:
        hold = tx.hold(entry.hold)
        return hold is None or hold.state == "open"
    return entry.state in (*UNKNOWN, "failed-once", "prepared", "waiting", "approved")


def _line(tx: Reader, entry: JournalEntry) -> Line:
    hold = tx.hold(entry.hold) if entry.kind == "ask" and entry.hold is not None else None
    file, _, number = (entry.place or "").rpartition(":")
    return Line(
        position=entry.position,
        kind=entry.kind,
        name=entry.name,
        state=entry.state if hold is None else hold.state,
        attempt=entry.attempt,
        hold=entry.hold,
        aside=entry.aside,
        at=entry.at,
        file=file or None,
        line=int(number) if file else None,
        source=(linecache.getline(file, int(number)).strip() or None) if file else None,
    )
