"""What does a reader see?

One read of stored rows. A phase is derived from receipts, never stored: what a dead process should have
drained does not drain any more, and a receipt past its bound is overdue whether or not somebody has
written that down yet. Source: spec engine, 3, 4 (status) and 5.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from quiesce import codec
from quiesce.records import EpisodeRecord, ReceiptRecord, RunRecord
from quiesce.rules.holds import listed
from quiesce.runs import Episode, Event, Receipt, RunStatus
from quiesce.states import ACTIVE, RunState
from quiesce.store import Reader

__all__ = ["drains", "episode_value", "event_value", "receipt_value", "status"]


def drains(tx: Reader, run: RunRecord) -> bool:
    """Whether something of a paused run still runs, and is not overdue."""
    episode = tx.episode(run.episode_id) if run.episode_id else None
    holder_lives = run.lease_holder is not None and tx.alive(run.lease_holder)
    phase, draining, _ = _phase(tx, run, episode, holder_lives)
    return phase == "draining" and draining > 0


def status(tx: Reader, run: RunRecord, *, durable: bool, brief: bool = False) -> RunStatus:
    """The snapshot of a run. `brief` leaves out holds, children and the result, for long listings."""
    episode = tx.episode(run.episode_id) if run.episode_id else None
    holder_lives = run.lease_holder is not None and tx.alive(run.lease_holder)
    phase, draining, overdue = _phase(tx, run, episode, holder_lives)
    recoverable, lost_reason = _recoverable(run, durable, holder_lives)
    newest = max(run.locks.values(), key=lambda lock: lock.since) if run.locks else None
    return RunStatus(
        id=run.id,
        flow=run.flow,
        version=run.version,
        kind=run.kind,
        parent_id=run.parent_id,
        execution=run.execution,
        state=run.state,
        generation=run.generation,
        locks=tuple(run.locks.values()),
        reason=newest.reason if newest else None,
        actor=newest.actor if newest else None,
        phase=phase,
        draining=draining,
        overdue=overdue,
        recoverable=recoverable,
        lost_reason=lost_reason,
        holds=() if brief else listed(tx, run),
        episode_id=run.episode_id,
        created_at=run.created_at,
        updated_at=run.updated_at,
        requested_at=episode.requested_at if episode else None,
        fenced_at=episode.opened_at if episode else None,
        quiescent_at=episode.quiescent_at if episode else None,
        worker=_worker(tx, run),
        result=None if brief else _shown(tx, run, durable),
        error=run.error,
        children=() if brief else tuple(child.id for child in tx.children(run.id)),
    )


def _phase(
    tx: Reader, run: RunRecord, episode: EpisodeRecord | None, holder_lives: bool
) -> tuple[str | None, int, int]:
    if run.state is RunState.CANCELLED and holder_lives:
        return "cancelling", 0, 0
    if run.state is not RunState.PAUSED or episode is None:
        return None, 0, 0
    if episode.quiescent_at is not None or not (holder_lives or run.kind == "team"):
        return "quiescent", 0, 0
    counts = _of_the_living(tx, run) if run.kind == "team" else tx.drain_counts(episode.id)
    pending, overdue = counts.get("pending", 0), counts.get("overdue", 0)
    if tx.now >= episode.drain_until:
        pending, overdue = 0, pending + overdue
    return ("draining" if pending or overdue else "quiescent"), pending, overdue


def _of_the_living(tx: Reader, run: RunRecord) -> Counter[str]:
    """How the turns of a team drain; a turn whose process died does not drain any more."""
    return Counter(
        row.drain
        for row in tx.unresolved(run.id)
        if row.episode_id == run.episode_id and tx.alive(row.holder)
    )


def _recoverable(
    run: RunRecord, durable: bool, holder_lives: bool
) -> tuple[Literal["live", "stored", "lost"], str | None]:
    if holder_lives and run.state in ACTIVE:
        return "live", None
    if durable:
        return "stored", None
    return "live", None  # a memory store is read by the process that holds everything


def _worker(tx: Reader, run: RunRecord) -> str | None:
    if run.lease_holder is None:
        return None
    for worker in tx.workers():
        if worker.incarnation == run.lease_holder:
            suffix = "" if tx.alive(run.lease_holder) else " (dead)"
            return f"{worker.pid}@{worker.host}{suffix}"
    return f"worker {run.lease_holder}"


def _shown(tx: Reader, run: RunRecord, durable: bool) -> Any:
    if run.result is None:
        return None
    stored = tx.value(run.id, run.result)
    return codec.plain(stored) if durable else stored  # in memory it is the value itself, bytes or not


def episode_value(row: EpisodeRecord) -> Episode:
    """The public value of an episode."""
    return Episode(
        id=row.id,
        run_id=row.run_id,
        generation=row.generation,
        cause=row.cause,
        opened_at=row.opened_at,
        quiescent_at=row.quiescent_at,
        closed_at=row.closed_at,
        ended_as=row.ended_as,
    )


def receipt_value(row: ReceiptRecord) -> Receipt:
    """The public value of a receipt."""
    return Receipt(
        id=row.id,
        episode_id=row.episode_id,
        run_id=row.run_id,
        piece=row.piece,
        kind=row.kind,
        name=row.name,
        was=row.was,
        drain=row.drain,  # type: ignore[arg-type]  # the schema's check holds it
        outcome=row.outcome,
        reason=row.reason,
        lease=row.lease,
        at=row.at,
        overdue_at=row.overdue_at,
        released_at=row.released_at,
    )


def event_value(row: tuple[Any, ...]) -> Event:
    """The public value of an event row."""
    return Event(*row)
