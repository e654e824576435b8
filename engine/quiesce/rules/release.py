"""What does an answer or a resume let go on, and what does it carry?

An answer settles one hold, once. If nothing else keeps the run and something can go on now, it is also
the resume. A resume lifts locks and consumes the episode. A piece whose question is still open is
*carried*: same hold, not evaluated again. Everything else of the episode is *continued*.

Deadlines are answers by the actor `deadline`, by the same rules.

Source: spec engine, 4 (answer, resume, hold identity); cases failures-agent-frameworks 15, 16, 29.
"""

from __future__ import annotations

from typing import Any

from quiesce.errors import (
    AmbiguousAnswer,
    AnswerRequired,
    Expired,
    Fenced,
    NotResumable,
    StaleGeneration,
    UnknownHold,
)
from quiesce.records import HoldRecord, RunRecord
from quiesce.rules import continuing, turns
from quiesce.rules.claims import lose
from quiesce.rules.fence import active_episode
from quiesce.rules.holds import check_answer, failed_around, judge, tree_holds
from quiesce.rules.requests import UNSET, Request, finish, found, replay
from quiesce.rules.standing import WAITING_LOCKS, can_run
from quiesce.rules.starting import begin, enclosing_fence
from quiesce.runs import AnswerAck, Lock, ResumeAck
from quiesce.states import RunEvent, RunState, advance
from quiesce.store import Reader, Transaction

__all__ = [
    "answer",
    "expire",
    "go",
    "go_around",
    "leave_or_wait",
    "lift_parent_lock",
    "lift_parent_locks",
    "resume",
    "sole_hold",
]

LIFTED_BY_RESUME = frozenset({"operator", "fault"})


def answer(
    tx: Transaction, request: Request, hold_id: str, value: Any, *, verdict: str = "answered"
) -> AnswerAck | Expired:
    """Settle an open hold as `answered` or `rejected`, and let go on what waited for it.

    An answer that comes after the deadline of a hold that must not stay open settles the hold as the
    deadline says; the refusal is returned, not raised, so that this is kept.

    Raises:
        UnknownHold, AlreadyAnswered, Expired, Withdrawn, AnswerRejected, IllegalTransition
    """
    if (known := replay(tx, request, AnswerAck)) is not None:
        return known
    hold, run = judge(tx, hold_id)
    if (late := _late(tx, hold, run)) is not None:
        return late
    if verdict == "answered":
        check_answer(hold, value)
    resumed = _settle(tx, request, hold, run, value, verdict)
    run = found(tx, run.id)
    return finish(
        tx,
        request,
        AnswerAck(
            request.id, run.id, resumed, run.generation, hold_id=hold.id, state=verdict, resumed=resumed
        ),
    )


def _late(tx: Transaction, hold: HoldRecord, run: RunRecord) -> Expired | None:
    """Whether an answer comes after the deadline, which then acts first."""
    if hold.on_deadline == "hold" or hold.deadline is None or hold.deadline > tx.now:
        return None
    expire(tx, hold, run)
    at = hold.deadline.isoformat(timespec="seconds")
    return Expired(f"hold {hold.id!r} expired at {at}, before this answer; nothing more was changed")


def _settle(
    tx: Transaction, request: Request, hold: HoldRecord, run: RunRecord, value: Any, verdict: str
) -> bool:
    hold.state, hold.answer = verdict, value
    hold.answered_by, hold.answered_at = request.actor, tx.now
    tx.settle_hold(hold)
    tx.log(run, verdict, request.actor, request.id, {"hold": hold.id, "path": hold.path, "value": value})
    tx.wake(run.id, [hold.piece])
    return go(tx, run, request)


def expire(tx: Transaction, hold: HoldRecord, run: RunRecord) -> bool:
    """Do what a hold says should happen at its deadline; returns whether its run goes on."""
    if hold.state != "open" or hold.on_deadline == "hold" or failed_around(tx, run):
        return False
    request = Request("answer", run.id, f"deadline of {hold.id}", "deadline", remember=False)
    if hold.on_deadline == "fail":
        return _settle(tx, request, hold, run, None, "expired")
    return _settle(tx, request, hold, run, hold.on_deadline[1], "answered")


def resume(
    tx: Transaction,
    request: Request,
    run_id: str,
    *,
    answer: Any = UNSET,
    hold: str | None = None,
    episode: str | None = None,
    fault: str | None = None,
) -> ResumeAck | Expired:
    """Lift what keeps a run, settle a hold if an answer is given, and let go on what can.

    An answer that comes after the deadline is refused as by `answer`: returned, not raised.

    Args:
        fault: what is still wrong with a run under the lock `fault`, as the caller just checked.

    Raises:
        NotResumable, Fenced, StaleGeneration, AnswerRequired, AmbiguousAnswer, UnknownHold and what
        `judge` and `check_answer` raise.
    """
    if (known := replay(tx, request, ResumeAck)) is not None:
        return known
    run = found(tx, run_id)
    if hold is not None:
        named, owner = judge(tx, hold)
        _inside(tx, named, owner, run)
    if episode is not None and run.episode_id != episode:
        raise StaleGeneration(
            f"run {run.id!r} has moved on: episode {episode!r} is over, "
            f"now it is {run.state} (generation {run.generation}); look at it again before you resume it",
            expected=episode,
            actual=run.episode_id,
        )
    state = advance(run.id, run.state, RunEvent.RESUME, has_input=run.has_input)
    if run.state is not RunState.PAUSED:
        if answer is not UNSET:
            sole_hold(tx, run, hold)  # names what is open, or that nothing is
        return finish(tx, request, _restart(tx, request, run, state))
    ack = _resume_paused(tx, request, run, answer, hold, fault)
    return ack if isinstance(ack, Expired) else finish(tx, request, ack)


def _restart(tx: Transaction, request: Request, run: RunRecord, state: RunState) -> ResumeAck:
    """Resume what is not paused: a reset run, or a running one whose holder is gone."""
    if (outer := enclosing_fence(tx, run)) is not None:
        raise Fenced(f"run {run.id!r} cannot go: the enclosing run {outer!r} is paused; resume that first")
    if run.state is RunState.CREATED:
        run.state, run.updated_at = state, tx.now
        tx.save_run(run, generation=run.generation)
        begin(tx, run)
        tx.log(run, "started", request.actor, request.id, {"reason": request.reason})
        go_around(tx, run, request)
        return ResumeAck(request.id, run.id, True, run.generation)
    if run.lease_holder is not None and tx.alive(run.lease_holder):
        raise NotResumable(
            run.id,
            run.state,
            "resume",
            f"cannot resume run {run.id!r}: it is running, driven by worker {run.lease_holder}, which lives; "
            "pause it first, or take it over if that worker hangs (flowctl takeover)",
        )
    lose(tx, run)
    tx.log(run, "resumed", request.actor, request.id, {"take_over": True})
    return ResumeAck(request.id, run.id, False, run.generation)


def _resume_paused(
    tx: Transaction, request: Request, run: RunRecord, answer: Any, hold: str | None, fault: str | None
) -> ResumeAck | Expired:
    if "parent" in run.locks:
        raise Fenced(
            f"run {run.id!r} cannot be resumed by itself: {run.locks['parent'].reason}; resume that run"
        )
    if run.kind == "team":
        continuing.reconcile(tx, run)
        run = found(tx, run.id)
    episode_id, seen = run.episode_id, run.generation
    if "fault" in run.locks and fault is not None:
        tx.log(run, "resume-requested", request.actor, request.id, {"fault": fault})
        return ResumeAck(request.id, run.id, False, run.generation, episode_id=episode_id)
    lifted = run.locks.keys() & LIFTED_BY_RESUME
    if answer is not UNSET:
        target, owner = sole_hold(tx, run, hold)
        if (late := _late(tx, target, owner)) is not None:
            return late
        check_answer(target, answer)
        _settle(tx, request, target, owner, answer, "answered")
    elif not lifted:
        _let_go(tx, request, run)
    run = found(tx, run.id)
    if run.state is RunState.PAUSED:
        for kind in lifted:
            del run.locks[kind]
        lift_parent_locks(tx, run, request)
        leave_or_wait(tx, run, request)
        go_around(tx, run, request)
    run = found(tx, run.id)
    moved = run.generation != seen
    if not moved:
        tx.log(run, "resume-requested", request.actor, request.id, {"locks": sorted(run.locks)})
        return ResumeAck(request.id, run.id, False, run.generation, episode_id=episode_id)
    receipts = tx.receipts(episode_id) if episode_id else []
    counts = {"continued": 0, "carried": 0, "skipped": 0}
    for receipt in receipts:
        if receipt.outcome in counts:
            counts[receipt.outcome] += 1
    return ResumeAck(
        request.id,
        run.id,
        True,
        run.generation,
        episode_id=episode_id,
        continued=counts["continued"],
        carried=counts["carried"],
        skipped=counts["skipped"],
    )


def _inside(tx: Reader, hold: HoldRecord, owner: RunRecord, run: RunRecord) -> None:
    inner: RunRecord | None = owner
    while inner is not None:
        if inner.id == run.id:
            return
        inner = tx.run(inner.parent_id) if inner.parent_id else None
    ids = [item.id for item, _ in tree_holds(tx, run)]
    raise UnknownHold(
        f"hold {hold.id!r} belongs to run {owner.id!r}, not to {run.id!r}; "
        f"open there are: {', '.join(ids) or 'none'}",
        open_holds=ids,
    )


def sole_hold(tx: Reader, run: RunRecord, hold: str | None) -> tuple[HoldRecord, RunRecord]:
    """The hold that an answer without a name is for: the only open one, at any depth."""
    if hold is not None:
        return judge(tx, hold)
    open_holds = [item for item, _ in tree_holds(tx, run)]
    ids = [item.id for item in open_holds]
    if not ids:
        raise UnknownHold(f"run {run.id!r} asks nothing, so there is nothing to answer; it is {run.state}")
    if len(ids) > 1:
        raise AmbiguousAnswer(
            f"run {run.id!r} has {len(ids)} open holds, so an answer must name one: {', '.join(ids)}",
            open_holds=ids,
        )
    return judge(tx, ids[0])


def _let_go(tx: Transaction, request: Request, run: RunRecord) -> None:
    """A resume without an answer: holds that declared no type are let go, typed ones are carried."""
    asked = tree_holds(tx, run)
    untyped = [hold for hold, _ in asked if hold.expects is None]
    if asked and not untyped:
        ids = [hold.id for hold, _ in asked]
        raise AnswerRequired(
            f"run {run.id!r} waits for {len(ids)} answer(s) that a resume cannot make up; "
            f"answer {', '.join(ids)}",
            open_holds=ids,
        )
    for hold in untyped:
        owner = found(tx, hold.run_id)
        if owner.kind == "agent":  # a graph is evaluated again and may ask the same; a body goes on
            hold.state, hold.answered_by, hold.answered_at = "dropped", request.actor, tx.now
            tx.settle_hold(hold)
            tx.log(owner, "dropped", request.actor, request.id, {"hold": hold.id})
    for owner_id in dict.fromkeys(hold.run_id for hold in untyped):
        tx.wake(owner_id, sorted(hold.piece for hold in untyped if hold.run_id == owner_id))
    for owner_id in dict.fromkeys(hold.run_id for hold in untyped):
        if owner_id != run.id:
            go(tx, found(tx, owner_id), request)


def go(tx: Transaction, run: RunRecord, request: Request) -> bool:
    """Leave `paused` if nothing keeps the run; enclosing runs that only waited for it follow.

    Returns whether this run went on.
    """
    moved = _leave(tx, run, request)
    if not moved:
        _forget_holds_lock(tx, run)
    go_around(tx, run, request)
    return moved


def go_around(tx: Transaction, run: RunRecord, request: Request) -> None:
    """Let the run around this one go on, if that only waited for it."""
    if run.parent_id is None or (parent := tx.run(run.parent_id)) is None:
        return
    if parent.kind == "team":
        turns.child_goes(tx, parent, found(tx, run.id))
    go(tx, parent, request)


def _forget_holds_lock(tx: Transaction, run: RunRecord) -> None:
    """The lock `holds` goes when no hold is open; a run that is still paused waits for a child then."""
    if "holds" not in run.locks or tree_holds(tx, run):
        return
    del run.locks["holds"]
    if not run.locks:
        run.locks["child"] = _child_lock(tx)
    tx.save_run(run, generation=run.generation)


def _child_lock(tx: Reader) -> Lock:
    return Lock("child", "waits for a run inside it that is paused", None, tx.now)


def _leave(tx: Transaction, run: RunRecord, request: Request) -> bool:
    if run.state is not RunState.PAUSED or not run.locks.keys() <= WAITING_LOCKS or not can_run(tx, run):
        return False
    seen, episode = run.generation, active_episode(tx, run)
    run.state = advance(run.id, run.state, RunEvent.RESUME)
    run.generation += 1
    run.locks.clear()
    run.episode_id = None
    run.updated_at = tx.now
    tx.save_run(run, generation=seen)
    counts = {}
    if run.kind == "team":
        counts = continuing.continue_turns(
            tx, run, episode.id, lambda child: lift_parent_lock(tx, child, request)
        )
    else:
        counts["carried"] = tx.decide(episode.id, "carried", held=True)
        counts["continued"] = tx.decide(episode.id, "continued")
    episode.closed_at, episode.ended_as = tx.now, "resumed"
    tx.save_episode(episode)
    tx.log(run, "resumed", request.actor, request.id, {"reason": request.reason, **counts})
    if run.kind != "team":  # whose bodies go on when their turns are promoted
        lift_parent_locks(tx, run, request)
    return True


def lift_parent_locks(tx: Transaction, run: RunRecord, request: Request) -> None:
    """An enclosing run is let go: so are the runs inside it that no lock of their own keeps.

    Of a team only those that wait for answers: the others go on when their turns are promoted.
    """
    if run.kind == "team":
        continuing.lift_from_waiting(tx, run, lambda child: lift_parent_lock(tx, child, request))
        return
    for child in tx.children(run.id):
        lift_parent_lock(tx, child, request)


def lift_parent_lock(tx: Transaction, child: RunRecord, request: Request) -> None:
    """A run is not kept by the one around it any more; it goes on, unless a lock of its own keeps it."""
    if child.locks.pop("parent", None) is None:
        return
    if child.locks.keys() <= WAITING_LOCKS:
        lift_parent_locks(tx, child, request)
        leave_or_wait(tx, child, request)
    else:
        child.updated_at = tx.now
        tx.save_run(child, generation=child.generation)


def leave_or_wait(tx: Transaction, run: RunRecord, request: Request) -> bool:
    """Let a paused run go on, whose record has lost locks; if it cannot, say what it waits for now.

    The record is written either way: between the locks that went and the one that says what it waits
    for there is no moment at which a paused run has none.
    """
    if _leave(tx, run, request):
        return True
    if run.locks.keys() <= WAITING_LOCKS:
        asked = tree_holds(tx, run)
        lock = Lock("holds", asked[0][0].reason, None, tx.now) if asked else _child_lock(tx)
        run.locks = {lock.kind: run.locks.get(lock.kind, lock)}
    run.updated_at = tx.now
    tx.save_run(run, generation=run.generation)
    return False
