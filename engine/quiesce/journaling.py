"""What has an agent done so far, and where does its body stand? The journal, for a person to read.

Source: spec engine, 7 (`show`: journal, file and line of each paused body; `explain`).
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from datetime import datetime

from quiesce.records import JournalEntry, RunRecord
from quiesce.runs import Value
from quiesce.states import ENDED, RunState
from quiesce.store import Reader

__all__ = ["Line", "Place", "done", "lines", "stands_at", "unknown"]

UNKNOWN = ("started", "committing")
"""States of a step that began and has not said how it ended."""


@dataclass(frozen=True, slots=True)
class Place(Value):
    """A line of code, and its text, if that can be read here."""

    file: str
    line: int
    source: str | None


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


def lines(tx: Reader, run: RunRecord) -> tuple[Line, ...]:
    """The journal, what was set aside last."""
    return tuple(_line(tx, entry) for aside in (False, True) for entry in tx.journal(run.id, aside=aside))


def stands_at(tx: Reader, run: RunRecord) -> Place | None:
    """The line where a body stands; of one that runs, where it stood last."""
    if run.kind != "agent" or run.state in ENDED:
        return None
    kept = next((piece.detail for piece in tx.pieces(run.id)), None)
    if run.state is not RunState.PAUSED:
        kept = next((entry.place for entry in reversed(tx.journal(run.id)) if entry.place), kept)
    return None if kept is None else _place(kept)


def _place(kept: str) -> Place:
    file, _, number = kept.rpartition(":")
    return Place(file, int(number), linecache.getline(file, int(number)).strip() or None)


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
    place = None if entry.place is None else _place(entry.place)
    return Line(
        position=entry.position,
        kind=entry.kind,
        name=entry.name,
        state=entry.state if hold is None else hold.state,
        attempt=entry.attempt,
        hold=entry.hold,
        aside=entry.aside,
        at=entry.at,
        file=None if place is None else place.file,
        line=None if place is None else place.line,
        source=None if place is None else place.source,
    )
