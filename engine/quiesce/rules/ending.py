"""What do completion, failure, cancel, reset and retry leave behind?

Terminal is terminal: a late completion, timer or driver never changes it. A completion or failure that
arrives while a graph or agent is paused is applied, and the episode closes as `ended`. A failing run
suspends its descendants; its holds stay open but leave the inbox until a retry brings them back.

Source: spec engine, 3 and 4; cases failures-durable-engines 9, 12, 35.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from quiesce.errors import Fenced, IllegalTransition
from quiesce.records import RunRecord
from quiesce.rules import journals, turns
from quiesce.rules.claims import forget_lease
from quiesce.rules.fence import fence_below, rest, rest_around, settle_drain
from quiesce.rules.release import go, go_around, leave_or_wait, lift_parent_lock, lift_parent_locks
from quiesce.rules.requests import Request, finish, found, replay
from quiesce.rules.standing import WAITING_LOCKS
from quiesce.rules.starting import Definition, accept, begin, enclosing_fence
from quiesce.runs import Ack, Lock
from quiesce.states import ENDED, RunEvent, RunState, advance
from quiesce.store import Transaction

__all__ = [
    "abandon_children",
    "cancel",
    "complete",
    "continue_as_new",
    "end_body",
    "fail",
    "go_on_with_body",
    "reset",
    "restart_from",
    "retry",
]


def complete(tx: Transaction, run: RunRecord, value: Any) -> None:
    """The run has its value: nothing of it is held, asked or driven any more.

    Raises:
        IllegalTransition: the run ended otherwise before.
    """
    run.state = advance(run.id, run.state, RunEvent.COMPLETE)
    run.result = tx.put_value(run.id, value)
    _close_episode(tx, run, "ended")
    run.lease_holder = None
    run.locks.clear()
    run.updated_at = tx.now
    tx.save_run(run, generation=run.generation)
    tx.withdraw_holds(run.id)
    _cancel_descendants(tx, run, "its enclosing run completed")
    _clear_frontier(tx, run)
    tx.log(run, "completed", None, None, {})
    _tell_parent(tx, run)


def fail(tx: Transaction, run: RunRecord, error: str, drain_until: datetime) -> None:
    """The run failed: descendants are suspended, locks go, holds stay open for a retry.

    Raises:
        IllegalTransition: the run ended otherwise before.
    """
    run.state = advance(run.id, run.state, RunEvent.FAIL)
    run.error = error
    _close_episode(tx, run, "ended")
    run.lease_holder = None
    run.locks.clear()
    run.updated_at = tx.now
    tx.save_run(run, generation=run.generation)
    fence_below(tx, run, Lock("parent", f"the enclosing run {run.id} failed", None, tx.now), drain_until)
    tx.log(run, "failed", None, None, {"error": error})
    _tell_parent(tx, run)


def _tell_parent(tx: Transaction, run: RunRecord) -> None:
    """The piece that waited for this run goes on with its outcome."""
    if run.parent_id is None or run.parent_piece is None:
        return
    parent = tx.run(run.parent_id)
    if parent is None or parent.state in ENDED:
        return
    if run.execution > 1 and not any(
        row.child == run.id and row.state == "waiting" for row in tx.pieces(parent.id)
    ):
        return  # it was reset after its end had been heard
    if parent.kind == "team":
        turns.body_ended(tx, parent, run)
        settle_drain(tx, parent)
    tx.wake(parent.id, [run.parent_piece], child=run.id)
    tx.log(parent, "child-ended", None, None, {"child": run.id, "state": run.state.value})
    episode = tx.episode(parent.episode_id) if parent.episode_id else None
    if episode is not None and episode.cause == "pause":
        return  # it paused itself, and an end that arrives late is no answer
    go(tx, parent, Request("resume", parent.id, f"end of {run.id}", run.id, remember=False))
    rest(tx, found(tx, parent.id))  # it may have been all that still ran in there


def continue_as_new(tx: Transaction, run: RunRecord, value: Any) -> None:
    """The same run of an agent begins again with another input and a fresh journal; its children end."""
    run.input = tx.put_value(run.id, value)
    run.updated_at = tx.now
    tx.save_run(run, generation=run.generation)
    tx.withdraw_holds(run.id)
    _cancel_descendants(tx, run, f"run {run.id} continued as a new one")
    number = dict(tx.counters(run.id) or {}).get("round", 1) + 1
    tx.put_counters(run.id, {"round": number})
    tx.forget_journal(run.id)
    tx.log(run, "continued-as-new", None, None, {"round": number})


def cancel(tx: Transaction, request: Request, run_id: str) -> Ack:
    """End a run and its descendants; bodies that live are unwound by their driver afterwards.

    Raises:
        IllegalTransition: the run has completed or was cancelled.
    """
    if (known := replay(tx, request, Ack)) is not None:
        return known
    run = found(tx, run_id)
    advance(run.id, run.state, RunEvent.CANCEL, has_input=run.has_input)
    _cancel(tx, run, request)
    _tell_parent(tx, run)
    return finish(tx, request, Ack(request.id, run.id, True, run.generation))


def _cancel(tx: Transaction, run: RunRecord, request: Request) -> None:
    seen = run.generation
    run.state = advance(run.id, run.state, RunEvent.CANCEL, has_input=run.has_input)
    run.generation += 1
    _close_episode(tx, run, "ended")
    if run.lease_holder is not None and not tx.alive(run.lease_holder):
        run.lease_holder = None
    run.locks.clear()
    run.updated_at = tx.now
    tx.save_run(run, generation=seen)
    tx.withdraw_holds(run.id)
    _cancel_descendants(tx, run, f"run {run.id} was cancelled", request)
    _clear_frontier(tx, run)
    tx.log(run, "cancelled", request.actor, request.id, {"reason": request.reason})


def end_body(tx: Transaction, child: RunRecord, why: str) -> None:
    """Cancel the run of a turn's body, which is over for another reason than its own end."""
    _cancel(tx, child, Request("cancel", child.id, why, child.parent_id or "", why, remember=False))
    child = found(tx, child.id)
    if child.lease_holder is None and child.parent_id is not None:  # else it unwinds first
        team = found(tx, child.parent_id)
        turns.yielded(tx, team, child, "absent")
        settle_drain(tx, team)


def go_on_with_body(tx: Transaction, child: RunRecord, why: str) -> None:
    """Another attempt of a turn whose body failed: what that recorded is not done again."""
    _go_on(tx, child, Request("retry", child.id, why, child.parent_id or "", why, remember=False))


def abandon_children(tx: Transaction, run: RunRecord) -> None:
    """A body that keeps no journal begins again: what it started before is not its any more."""
    _cancel_descendants(tx, run, f"the body of run {run.id} begins again")


def _cancel_descendants(tx: Transaction, run: RunRecord, why: str, request: Request | None = None) -> None:
    for child in tx.children(run.id):
        if child.state in (RunState.COMPLETED, RunState.CANCELLED):
            continue
        actor = request.actor if request else run.id
        _cancel(tx, child, Request("cancel", child.id, f"end of {run.id}", actor, why, remember=False))


def reset(tx: Transaction, request: Request, run_id: str) -> Ack:
    """Back to `created` with the last input queued, as the next execution; a resume runs it.

    Raises:
        IllegalTransition: the run is idle.
    """
    if (known := replay(tx, request, Ack)) is not None:
        return known
    run = found(tx, run_id)
    state = advance(run.id, run.state, RunEvent.RESET, has_input=run.has_input)
    _refuse_body(tx, run, "reset")
    transitioned = run.state is not RunState.CREATED
    if transitioned:
        seen = run.generation
        run.state = state
        run.generation += 1
        run.execution += 1
        run.result, run.error = None, None
        _close_episode(tx, run, "ended")
        run.lease_holder = None
        run.lease_epoch += 1  # whatever still drives the old execution may not write any more
        run.locks.clear()
        run.updated_at = tx.now
        tx.save_run(run, generation=seen)
        tx.withdraw_holds(run.id)
        _cancel_descendants(tx, run, f"run {run.id} was reset", request)
        _clear_frontier(tx, run)
        tx.forget_journal(run.id)
        rest_around(tx, run)
    tx.log(run, "reset", request.actor, request.id, {"reason": request.reason})
    return finish(tx, request, Ack(request.id, run.id, transitioned, run.generation))


def retry(
    tx: Transaction,
    request: Request,
    run_id: str,
    *,
    accepted: Definition | None = None,
    leave_journal: bool = False,
) -> Ack:
    """Continue a failed run from the point that failed, or a paused one in spite of its fault.

    What finished is not run again; what failed or was in flight is queued again with its input; open
    holds are open again. `accepted` is the definition in changed code to go on with;
    `leave_journal` lets an agent's body leave its journal where that does not fit any more.

    Raises:
        IllegalTransition: the run neither failed nor is paused by a fault.
        Fenced: an enclosing run is paused or failed.
    """
    if (known := replay(tx, request, Ack)) is not None:
        return known
    run = found(tx, run_id)
    advance(run.id, run.state, RunEvent.RETRY, has_input=run.has_input)
    if run.state is RunState.FAILED:
        _refuse_body(tx, run, "retry")
    if (outer := enclosing_fence(tx, run)) is not None:
        raise Fenced(f"run {run.id!r} cannot be retried: the enclosing run {outer!r} is paused or failed")
    if run.state is RunState.PAUSED and "fault" not in run.locks and accepted is None:
        raise IllegalTransition(
            run.id,
            run.state,
            "retry",
            f"cannot retry run {run.id!r}: it did not fail, it is paused by "
            f"{', '.join(sorted(run.locks))}; resume or answer it",
        )
    if accepted is not None:
        accept(tx, run, accepted)
    if leave_journal and run.kind == "agent":
        journals.accept(tx, run)
    if run.state is RunState.FAILED:
        _go_on(tx, run, request)
        return finish(tx, request, Ack(request.id, run.id, True, run.generation))
    if run.lease_holder is not None and not tx.alive(run.lease_holder):
        forget_lease(tx, run)
    for row in tx.pieces(run.id):
        if row.lost:
            row.lost = 0
            tx.move_pieces(run.id, [row])
    accepts = {"reason": request.reason, "accepted": accepted is not None}
    tx.log(run, "retried", request.actor, request.id, accepts)
    run.locks.pop("fault", None)
    if run.locks.keys() <= WAITING_LOCKS:
        lift_parent_locks(tx, run, request)
    moved = leave_or_wait(tx, run, request)
    go_around(tx, run, request)
    return finish(tx, request, Ack(request.id, run.id, moved, found(tx, run.id).generation))


def restart_from(tx: Transaction, request: Request, run_id: str, position: int) -> Ack:
    """An agent that stands is executed again up to this position of its journal, and is live from there.

    The journal from there on is set aside; what it asked is withdrawn, what it started is cancelled. A body
    that lives is ended without effects.

    Raises:
        IllegalTransition: the run is neither paused nor failed. QuiesceError: it has no such position.
        Fenced: an enclosing run is paused or failed.
    """
    if (known := replay(tx, request, Ack)) is not None:
        return known
    run = found(tx, run_id)
    if run.state not in (RunState.PAUSED, RunState.FAILED):
        raise IllegalTransition(
            run.id,
            run.state,
            "restart",
            f"cannot restart run {run.id!r} from position {position}: it is {run.state}; pause it first",
        )
    if (outer := enclosing_fence(tx, run)) is not None:
        raise Fenced(f"run {run.id!r} cannot be restarted: the enclosing run {outer!r} is paused or failed")
    for child_id in journals.set_aside(tx, run, position, request.reason or "restarted from there"):
        child = tx.run(child_id)
        if child is not None and child.state not in (RunState.COMPLETED, RunState.CANCELLED):
            _cancel(tx, child, request)
    if run.state is RunState.FAILED:
        _go_on(tx, run, request)
        return finish(tx, request, Ack(request.id, run.id, True, found(tx, run.id).generation))
    forget_lease(tx, run)
    for row in tx.pieces(run.id):
        row.state, row.lost, row.child, row.hold = "queued", 0, None, None
        tx.move_pieces(run.id, [row])
    run.locks.pop("fault", None)
    tx.log(run, "restarted", request.actor, request.id, {"from": position, "reason": request.reason})
    moved = leave_or_wait(tx, run, request)
    go_around(tx, run, request)
    return finish(tx, request, Ack(request.id, run.id, moved, found(tx, run.id).generation))


def _run_anew(tx: Transaction, run: RunRecord, request: Request) -> None:
    """A cancelled run that a body waits for, and whose handle it has, begins again as its next execution."""
    seen = run.generation
    run.state = advance(run.id, run.state, RunEvent.RESET, has_input=run.has_input)
    run.generation += 1
    run.execution += 1
    run.lease_holder = None
    run.lease_epoch += 1
    run.state = advance(run.id, run.state, RunEvent.RESUME, has_input=run.has_input)
    run.updated_at = tx.now
    tx.save_run(run, generation=seen)
    tx.forget_journal(run.id)
    begin(tx, run)
    tx.log(run, "started", request.actor, request.id, {"reason": request.reason, "anew": True})


def _refuse_body(tx: Transaction, run: RunRecord, verb: str) -> None:
    """The run of a turn's body goes on with its team alone, which tries again by its own rules."""
    team = tx.run(run.parent_id) if run.parent_id is not None else None
    if team is not None and team.kind == "team":
        raise IllegalTransition(
            run.id,
            run.state,
            verb,
            f"cannot {verb} run {run.id!r}: it is the body of turn {run.parent_piece} of team run "
            f"{team.id!r}; {verb} that run, or give it a new task",
        )


def _go_on(tx: Transaction, run: RunRecord, request: Request) -> None:
    """A failed run goes on; so do the runs inside it that it failed with, each at its own point."""
    seen = run.generation
    run.state = advance(run.id, run.state, RunEvent.RETRY)
    run.generation += 1
    run.error = None
    run.lease_holder = None
    run.lease_epoch += 1
    run.updated_at = tx.now
    tx.save_run(run, generation=seen)
    if run.kind == "team":
        turns.go_on(tx, run)
    else:
        tx.requeue(run.id, lost=False)
    tx.log(run, "retried", request.actor, request.id, {"reason": request.reason})
    if run.kind == "team":
        _go_on_with_turns(tx, run, request)
        rest(tx, run)
        return
    waited_for = journals.reopen(tx, run)
    for child_id in [*(row.child for row in tx.pieces(run.id)), waited_for]:
        child = tx.run(child_id) if child_id is not None else None
        if child is not None and child.state is RunState.FAILED:
            _go_on(tx, child, request)
        elif child is not None and child.state is RunState.CANCELLED and child.id == waited_for:
            _run_anew(tx, child, request)
    lift_parent_locks(tx, run, request)
    rest(tx, run)


def _go_on_with_turns(tx: Transaction, run: RunRecord, request: Request) -> None:
    """The bodies that were under way go on, and what came back since is applied.

    A turn that is queued gets its body, be it for another attempt, when it is promoted, and never before.
    """
    for row in tx.pieces(run.id):
        body = tx.run(row.child) if row.child is not None and row.state != "queued" else None
        turn = tx.turn(run.id, row.piece)
        if body is None or turn is None:
            continue
        if body.state in ENDED:
            turns.settle(tx, run, turn, body)
        else:
            lift_parent_lock(tx, body, request)


def _close_episode(tx: Transaction, run: RunRecord, ended_as: str) -> None:
    if run.kind != "team":  # whose bodies tell when they are unwound
        tx.resolve(run.id, "released")
    if run.episode_id is None:
        return
    episode = tx.episode(run.episode_id)
    if episode is not None:
        tx.decide(run.episode_id, "ended")
        if run.kind == "team":
            tx.drain(run.episode_id, "released", only=("pending", "overdue"))
        episode.closed_at, episode.ended_as = tx.now, ended_as
        tx.save_episode(episode)
    run.episode_id = None


def _clear_frontier(tx: Transaction, run: RunRecord) -> None:
    if run.kind == "team":
        tx.end_turns(run.id, "cancelled", f"the run is {run.state}")
        tx.end_tasks(run.id, "cancelled", f"the run is {run.state}")
    tx.drop_pieces(run.id, None)
    tx.drop_groups(run.id, None)
    tx.put_counters(run.id, None)
