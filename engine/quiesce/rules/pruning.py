"""Which runs may a store forget?

Whole trees: a run that is in no other, and every run inside it, if all of them have ended and nothing has
happened to any of them since a given instant. Their request ids stay, so that a verb which is repeated
years later still gets the reply that it got. Source: spec engine, 6 (`flowctl prune`).
"""

from __future__ import annotations

from datetime import datetime

from quiesce.records import RunFilter, RunRecord
from quiesce.states import ENDED
from quiesce.store import Reader, Transaction

__all__ = ["forget", "forgettable"]

PAGE = 500


def forgettable(tx: Reader, before: datetime) -> list[str]:
    """Ids of runs whose tree may be forgotten, newest first."""
    ended = RunFilter(states=tuple(state.value for state in ENDED))
    ids: list[str] = []
    after: str | None = None
    while True:
        runs, after = tx.runs(ended, PAGE, after)
        ids += [run.id for run in runs if run.parent_id is None and _tree(tx, run, before)]
        if after is None:
            return ids


def forget(tx: Transaction, run_id: str, before: datetime) -> list[str]:
    """Forget a run and the runs inside it, if that is still allowed; returns the ids that are gone."""
    run = tx.run(run_id)
    gone = [] if run is None or run.parent_id is not None else _tree(tx, run, before)
    for inner in reversed(gone):  # what is inside goes first
        tx.forget_run(inner)
    return gone


def _tree(tx: Reader, run: RunRecord, before: datetime) -> list[str]:
    """The ids of a run and those inside it, each after what encloses it; none if one must stay."""
    if run.state not in ENDED or run.updated_at >= before:
        return []
    ids = [run.id]
    for child in tx.children(run.id):
        inner = _tree(tx, child, before)
        if not inner:
            return []
        ids += inner
    return ids
