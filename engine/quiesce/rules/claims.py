"""Who drives a run, and what became of a driver that died?

A run has one lease: (holder incarnation, epoch). A claim raises the epoch, so a driver that was replaced
finds its writes refused. Whether a holder lives is asked of the operating system, never of a clock. A
process that drives a run keeps the lease while it lives, through pauses.

What ran when its process died is queued again (at least once) and counted; the third loss of one piece
is poison: the run is paused under the lock `fault` instead of looping.

Source: spec engine, 2 (lease), 4 (resume of a running run), 6 (liveness); spec agent (max_lost_attempts).
"""

from __future__ import annotations

from quiesce.errors import Fenced, IllegalTransition, StaleLease
from quiesce.records import RunRecord
from quiesce.rules import turns
from quiesce.rules.fence import fence, rest_around, settle_drain
from quiesce.rules.requests import Request, finish, found, replay
from quiesce.runs import Ack, Lock
from quiesce.states import ENDED, RunState
from quiesce.store import Reader, Transaction

__all__ = [
    "MAX_LOST",
    "bodies_of",
    "claim",
    "current",
    "fault",
    "forget_lease",
    "hand_back",
    "lose",
    "takeover",
]

MAX_LOST = 3
"""How many processes a piece may lose before its run is paused for it, where its flow does not say."""


def current(tx: Reader, run_id: str, holder: int, epoch: int) -> RunRecord:
    """The run, for a write of the driver that holds this lease.

    Raises:
        StaleLease: the run was taken over, reset or handed back since.
    """
    run = found(tx, run_id)
    if run.lease_holder != holder or run.lease_epoch != epoch:
        raise StaleLease(
            f"run {run_id!r} is driven by worker {run.lease_holder} (epoch {run.lease_epoch}) now; "
            f"worker {holder} (epoch {epoch}) may not write to it any more"
        )
    return run


def claim(tx: Transaction, run_id: str, me: int) -> RunRecord | None:
    """Take the lease of a run that nobody living drives; None if somebody does, or nothing is to drive."""
    run = found(tx, run_id)
    if run.state not in (RunState.RUNNING, RunState.PAUSED, RunState.IDLE):
        return None
    if run.lease_holder is not None and run.lease_holder != me:
        if tx.alive(run.lease_holder):
            return None
        if lose(tx, run):
            return None
    run.lease_holder = me
    run.lease_epoch += 1
    run.updated_at = tx.now
    tx.save_run(run, generation=run.generation)
    tx.log(run, "claimed", None, None, {"worker": me, "epoch": run.lease_epoch})
    return run


def lose(tx: Transaction, run: RunRecord) -> bool:
    """The holder of a run that goes on is gone; whether the run is poison, and so paused instead."""
    forget_lease(tx, run)
    poison = _poison(tx, run) if run.state is RunState.RUNNING else None
    if poison is not None:
        fault(tx, run, poison)
    return poison is not None


def forget_lease(tx: Transaction, run: RunRecord) -> None:
    """The holder is gone: what it ran is queued again, what it should have drained is absent."""
    if run.lease_holder is None:
        return
    if run.kind != "team":  # whose turns run under the leases of their bodies' runs
        tx.requeue(run.id, lost=True)
        if tx.resolve(run.id, "absent"):
            settle_drain(tx, run)
    run.lease_holder = None
    run.lease_epoch += 1
    tx.save_run(run, generation=run.generation)


def _poison(tx: Reader, run: RunRecord) -> str | None:
    lost = [row for row in tx.pieces(run.id) if row.lost >= run.max_lost]
    if not lost:
        return None
    names = ", ".join(sorted({row.name for row in lost}))
    steps = [entry for entry in tx.journal(run.id) if entry.state in ("started", "committing")]
    if steps:
        names += ", in " + ", ".join(
            f"{step.kind} {step.name!r} (position {step.position})" for step in steps
        )
    times = "once" if lost[0].lost == 1 else f"{lost[0].lost} times"
    return f"{names}: the process died {times} while it ran; retry it when the cause is mended"


def fault(tx: Transaction, run: RunRecord, reason: str) -> None:
    """Pause a run that must not go on as it is, or say so on one that is paused already."""
    lock = Lock("fault", reason, None, tx.now)
    if run.state is RunState.RUNNING:
        fence(tx, run, lock, drain_until=tx.now, cause="fault")
        rest_around(tx, run)
    elif run.state is RunState.PAUSED and "fault" not in run.locks:
        run.locks["fault"] = lock
        run.updated_at = tx.now
        tx.save_run(run, generation=run.generation)
        tx.log(run, "fault", None, None, {"reason": reason})


def hand_back(tx: Transaction, run_id: str, me: int, epoch: int) -> None:
    """Give the lease up on leaving; what was in flight is queued again and no attempt is counted.

    Changes neither state nor generation. Does nothing if the lease is not current.
    """
    run = tx.run(run_id)
    if run is None or run.lease_holder != me or run.lease_epoch != epoch:
        return
    if run.kind != "team":
        tx.requeue(run.id, lost=False)
        if tx.resolve(run.id, "released"):
            settle_drain(tx, run)
    run.lease_holder = None
    tx.save_run(run, generation=run.generation)
    tx.log(run, "handed-back", None, None, {"worker": me})
    outer = tx.run(run.parent_id) if run.parent_id is not None else None
    if outer is not None and outer.kind == "team" and run.state is RunState.CANCELLED:
        tx.log(outer, "body-unwound", None, None, {"child": run.id})  # its participant is free again
        turns.yielded(tx, outer, run, "released")
        settle_drain(tx, outer)


def bodies_of(tx: Reader, run: RunRecord) -> list[RunRecord]:
    """The runs of the bodies of a team's turns that are under way."""
    rows = tx.pieces(run.id) if run.kind == "team" else []
    found_here = [tx.run(row.child) for row in rows if row.child is not None]
    return [body for body in found_here if body is not None and body.state not in ENDED]


def takeover(tx: Transaction, request: Request, run_id: str) -> Ack:
    """Take a run away from a holder that lives but hangs; from now on its writes are refused.

    Raises:
        IllegalTransition: the run is not under way, or nobody holds it (a resume will do then).
    """
    if (known := replay(tx, request, Ack)) is not None:
        return known
    run = found(tx, run_id)
    if "parent" in run.locks:
        raise Fenced(f"run {run.id!r} cannot be taken over: {run.locks['parent'].reason}; resume that run")
    if run.state not in (RunState.RUNNING, RunState.PAUSED, RunState.IDLE):
        raise IllegalTransition(
            run.id, run.state, "takeover", f"cannot take over run {run.id!r}: it is {run.state}"
        )
    holder = run.lease_holder
    if holder is None:
        raise IllegalTransition(
            run.id,
            run.state,
            "takeover",
            f"nobody holds run {run.id!r}, so there is nothing to take over; resume it",
        )
    lose(tx, run)
    told = {"from": holder, "reason": request.reason}
    tx.log(run, "taken-over", request.actor, request.id, told)
    for body in bodies_of(tx, run):
        if body.lease_holder == holder:  # what hangs holds the bodies of its turns, too
            lose(tx, body)
            tx.log(body, "taken-over", request.actor, request.id, told)
    return finish(tx, request, Ack(request.id, run.id, False, run.generation))
