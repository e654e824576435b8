"""Which verb is legal in which state: the one lifecycle, as data.

Two rules of this file:

1. Everything that decides whether a verb is legal lives here. No other file compares states for that.
2. This file does not know what kind of run it speaks of. Graphs, agents and teams share the table;
   only teams are ever `idle`.

Theory of operation. A run is in one of seven states. `created` has two rows, since what a run without
an input can do differs from what a reset run, whose last input is queued, can do. Each row maps an
event to the states that it may lead to. Where a cell has two targets, the first is where the event
leads and the second is where the run stays while other locks (an operator's, a hold, an enclosing run)
keep it; the caller says which by `held`. A row for every state and no default: terminal rows list the
only ways out. An event that a row does not list is refused and changes nothing.

Draining, quiescent, overdue and cancelling are not states. They are derived from receipts
(`status.py`), so that a fence that was committed is never undone by how its teardown goes.

Source: spec engine, 3. The diagram in README.md is drawn from this table, by a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from quiesce.errors import IllegalTransition, NotResumable, RunActive

__all__ = [
    "ACTIVE",
    "ENDED",
    "TRANSITIONS",
    "Row",
    "RunEvent",
    "RunState",
    "advance",
    "legal_events",
    "row_of",
]


class RunState(StrEnum):
    """What a run is, as a reader sees it."""

    CREATED = "created"
    RUNNING = "running"
    IDLE = "idle"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunEvent(StrEnum):
    """What can happen to a run."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    ANSWER = "answer"
    SETTLE_IDLE = "settle_idle"
    WORK = "work"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    RESET = "reset"
    RETRY = "retry"


class Row(StrEnum):
    """A row of the table: a state, and for `created` whether an input is queued."""

    CREATED = "created"
    QUEUED = "created, input queued"
    RUNNING = "running"
    IDLE = "idle"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


_S, _E = RunState, RunEvent


def _row(**cells: tuple[RunState, ...]) -> Mapping[RunEvent, tuple[RunState, ...]]:
    return MappingProxyType({RunEvent(name): targets for name, targets in cells.items()})


TRANSITIONS: Mapping[Row, Mapping[RunEvent, tuple[RunState, ...]]] = MappingProxyType(
    {
        Row.CREATED: _row(start=(_S.RUNNING,), cancel=(_S.CANCELLED,), reset=(_S.CREATED,)),
        Row.QUEUED: _row(resume=(_S.RUNNING,), cancel=(_S.CANCELLED,), reset=(_S.CREATED,)),
        Row.RUNNING: _row(
            pause=(_S.PAUSED,),
            resume=(_S.RUNNING,),  # a take-over: only from a holder that is gone (spec engine, 4)
            answer=(_S.RUNNING,),
            settle_idle=(_S.IDLE,),
            complete=(_S.COMPLETED,),
            fail=(_S.FAILED,),
            cancel=(_S.CANCELLED,),
            reset=(_S.CREATED,),
        ),
        Row.IDLE: _row(
            answer=(_S.IDLE,),
            work=(_S.RUNNING,),
            complete=(_S.COMPLETED,),
            fail=(_S.FAILED,),
            cancel=(_S.CANCELLED,),
        ),
        Row.PAUSED: _row(
            pause=(_S.PAUSED,),
            resume=(_S.RUNNING, _S.PAUSED),
            answer=(_S.RUNNING, _S.PAUSED),
            complete=(_S.COMPLETED,),
            fail=(_S.FAILED,),
            cancel=(_S.CANCELLED,),
            reset=(_S.CREATED,),
            retry=(_S.RUNNING, _S.PAUSED),  # under the lock `fault` only
        ),
        Row.COMPLETED: _row(reset=(_S.CREATED,)),
        Row.FAILED: _row(cancel=(_S.CANCELLED,), reset=(_S.CREATED,), retry=(_S.RUNNING,)),
        Row.CANCELLED: _row(reset=(_S.CREATED,)),
    }
)

ENDED = frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLED})
ACTIVE = frozenset({_S.RUNNING, _S.IDLE, _S.PAUSED})

_WHY: Mapping[tuple[Row, RunEvent], str] = MappingProxyType(
    {
        (Row.IDLE, _E.PAUSE): "it is idle, so there is nothing to pause",
        (Row.CREATED, _E.PAUSE): "it is created and has not been started",
        (Row.QUEUED, _E.PAUSE): "it is created: it was reset and has not been resumed",
        (Row.CREATED, _E.RESUME): "it is created, never started, so there is nothing to continue; start it",
    }
)


def row_of(state: RunState, has_input: bool) -> Row:
    """The row of the table for a run in `state`; `has_input` matters only while it is created."""
    if state is _S.CREATED:
        return Row.QUEUED if has_input else Row.CREATED
    return Row(state.value)


def legal_events(row: Row) -> list[str]:
    """What can be done in this row, in the table's order of verbs."""
    return [event.value for event in RunEvent if event in TRANSITIONS[row]]


def advance(
    run_id: str, state: RunState, event: RunEvent, *, has_input: bool = True, held: bool = False
) -> RunState:
    """The state that `event` leads to; the only reader of the table.

    Args:
        held: other locks keep the run, so that it stays where the second target of the cell says.

    Raises:
        IllegalTransition: the cell is empty. `RunActive` for a start of an active run, `NotResumable`
            for every resume that has nothing to continue. Nothing is changed.
    """
    row = row_of(state, has_input)
    targets = TRANSITIONS[row].get(event)
    if targets is not None:
        return targets[-1] if held else targets[0]
    why = _WHY.get((row, event), f"it is {row.value}")
    legal = ", ".join(verb for verb in legal_events(row) if verb in _VERBS) or "nothing"
    message = f"cannot {event.value} run {run_id!r}: {why}; legal here: {legal}"
    if event is _E.START and (row is Row.QUEUED or state in ACTIVE):
        raise RunActive(run_id, state.value, event.value, f"{message}; another input is another run")
    if event is _E.RESUME:
        raise NotResumable(run_id, state.value, event.value, message)
    raise IllegalTransition(run_id, state.value, event.value, message)


_VERBS = frozenset({"start", "pause", "resume", "answer", "cancel", "reset", "retry"})
