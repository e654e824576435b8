"""What does a pause capture, and when is a fenced run quiescent?

The fence is one transaction: the run is paused under a lock, its generation rises, an episode opens, and
every piece that is queued, running or held gets a receipt; every descendant likewise, under the lock
`parent`. After its commit nothing new of the run starts. What still runs then drains: its receipt moves
from `pending` to `released` when it yields, or to `overdue` at the bound, and may be released later.
The fence is never undone by how the drain goes.

Source: spec engine, 3 and 4 (pause); seed "durable handoff" (durable fence first, bounded teardown second).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from quiesce.errors import StoreError
from quiesce.records import EpisodeRecord, RunRecord
from quiesce.rules import standing, turns
from quiesce.rules.requests import Request, finish, found, replay
from quiesce.runs import Lock, PauseAck
from quiesce.states import RunEvent, RunState, advance
from quiesce.store import Reader, Transaction

__all__ = [
    "active_episode",
    "fence",
    "fence_below",
    "mark_overdue",
    "pause",
    "release_pieces",
    "rest",
    "rest_around",
    "settle_drain",
]


def pause(tx: Transaction, request: Request, run_id: str, drain_until: datetime) -> PauseAck:
    """Fence a run and its descendants under the lock `operator`; of a paused run, add that lock.

    Raises:
        IllegalTransition: the run is not running or paused.
    """
    if (known := replay(tx, request, PauseAck)) is not None:
        return known
    run = found(tx, run_id)
    advance(run.id, run.state, RunEvent.PAUSE, has_input=run.has_input)
    lock = Lock("operator", request.reason, request.actor, tx.now)
    if run.state is RunState.PAUSED:
        active_episode(tx, run)
        locked = "operator" not in run.locks
        if locked:
            run.locks["operator"] = lock
            run.updated_at = tx.now
            tx.save_run(run, generation=run.generation)
            # A hold alone stops only its piece, so children of a run paused by holds may still run.
            fence_below(tx, run, _parent_lock(run, lock), drain_until)
        counts = tx.drain_counts(run.episode_id or "")
        tx.log(
            run, "pause-requested", request.actor, request.id, {"reason": request.reason, "locked": locked}
        )
        return finish(
            tx,
            request,
            PauseAck(
                request.id,
                run.id,
                False,
                run.generation,
                episode_id=run.episode_id,
                locked=locked,
                captured=sum(counts.values()),
                draining=counts.get("pending", 0),
                overdue=counts.get("overdue", 0),
            ),
        )
    captured, draining = fence(tx, run, lock, drain_until=drain_until, cause="operator", request=request)
    rest_around(tx, run)
    return finish(
        tx,
        request,
        PauseAck(
            request.id,
            run.id,
            True,
            run.generation,
            episode_id=run.episode_id,
            locked=True,
            captured=captured,
            draining=draining,
        ),
    )


def active_episode(tx: Reader, run: RunRecord) -> EpisodeRecord:
    """The episode of a paused run.

    Raises:
        StoreError: the store has none, or one of another generation, so nobody can say what the pause holds.
    """
    episode = tx.episode(run.episode_id) if run.episode_id is not None else None
    if episode is None or episode.closed_at is not None or episode.generation != run.generation:
        said = (
            "is not in the store" if episode is None else f"is of generation {episode.generation} or closed"
        )
        raise StoreError(
            f"run {run.id!r} is paused at generation {run.generation}, but its episode {run.episode_id!r} "
            f"{said}; nothing was changed; run `flowctl doctor`"
        )
    return episode


def fence(
    tx: Transaction,
    run: RunRecord,
    lock: Lock,
    *,
    drain_until: datetime,
    cause: str,
    tree: bool = True,
    request: Request | None = None,
) -> tuple[int, int]:
    """Commit the fence of a running run; returns how many pieces it captured and how many still run.

    `tree` is off where the run only waits: its children are held by their own locks then, and an answer
    to one of them must not find it locked from above.
    """
    seen = run.generation
    run.state = advance(run.id, run.state, RunEvent.PAUSE, has_input=run.has_input)
    run.generation += 1
    run.locks[lock.kind] = lock
    run.episode_id = f"{run.id}:{run.generation}"
    run.updated_at = tx.now
    tx.save_run(run, generation=seen)
    team = run.kind == "team"
    if team and tree:  # first: whether a turn still runs is what the fence of its body's run found
        fence_below(tx, run, _parent_lock(run, lock), drain_until)
    captured, draining = (tx.capture_turns if team else tx.capture)(run, run.episode_id)
    tx.open_episode(
        EpisodeRecord(
            id=run.episode_id,
            run_id=run.id,
            generation=run.generation,
            cause=cause,
            requested_at=tx.now,
            opened_at=tx.now,
            drain_until=drain_until,
            quiescent_at=None if draining else tx.now,
        )
    )
    if tree and not team:
        fence_below(tx, run, _parent_lock(run, lock), drain_until)
    tx.log(
        run,
        "paused",
        request.actor if request else lock.actor,
        request.id if request else None,
        {"lock": lock.kind, "reason": lock.reason, "captured": captured, "draining": draining},
    )
    return captured, draining


def rest(tx: Transaction, run: RunRecord) -> None:
    """Fence a running run in which nothing can run: all of its pieces ask, or wait for children that do.

    Climbs to the enclosing runs, which may have waited for just this one. Changes nothing where
    something is queued or in flight.
    """
    if run.state is RunState.RUNNING:
        counts = tx.piece_counts(run.id)
        if run.kind != "team" and (counts.get("queued") or counts.get("running")):
            return
        held, waiting = counts.get("held", 0), counts.get("waiting", 0)
        if not held and not waiting:
            return
        children = standing.waited_for(tx, run)
        if children is None:
            return
        asks = held or any("holds" in child.locks for child in children)
        asked = [hold.reason for hold in tx.open_holds(run.id)] if held else []
        asked += [child.locks["holds"].reason for child in children if "holds" in child.locks]
        reason = next(iter(asked), None)
        kind = "holds" if asks else "child"
        if kind == "child":
            reason = f"waits for {', '.join(child.id for child in children)}, which is stopped"
        until = _drained(tx, children)
        fence(tx, run, Lock(kind, reason, None, tx.now), drain_until=until, cause=kind, tree=False)
    rest_around(tx, run)


def _drained(tx: Transaction, children: list[RunRecord]) -> datetime:
    """When what still drains of these runs is overdue: of a team's turn that stands still its body may."""
    episodes = [tx.episode(child.episode_id) for child in children if child.episode_id is not None]
    draining = [item.drain_until for item in episodes if item is not None and item.quiescent_at is None]
    return max([tx.now, *draining])


def rest_around(tx: Transaction, run: RunRecord) -> None:
    """The run is held: so is the enclosing one, if it waits for nothing else."""
    if run.parent_id is not None and (parent := tx.run(run.parent_id)) is not None:
        if parent.kind == "team":
            turns.child_rests(tx, parent, run)
        rest(tx, parent)


def release_pieces(tx: Transaction, run: RunRecord, pieces: Collection[int]) -> None:
    """Pieces have yielded, if only when their episode is closed; the last makes a paused run quiescent."""
    if tx.resolve(run.id, "released", pieces=pieces):
        settle_drain(tx, run)


def settle_drain(tx: Transaction, run: RunRecord) -> None:
    """Record that nothing of a paused run runs any more, once that is so."""
    if run.episode_id is None:
        return
    counts = tx.drain_counts(run.episode_id)
    if counts.get("pending") or counts.get("overdue"):
        return
    episode = tx.episode(run.episode_id)
    if episode is not None and episode.quiescent_at is None:
        episode.quiescent_at = tx.now
        tx.save_episode(episode)
        tx.log(run, "quiescent", None, None, {})
        _tell_team(tx, run, "released" if counts.get("released") else "absent")
        rest_around(tx, run)


def _tell_team(tx: Transaction, run: RunRecord, drain: str) -> None:
    """The body of a team's turn has yielded: so has the turn."""
    team = tx.run(run.parent_id) if run.parent_id is not None else None
    if team is not None and team.kind == "team":
        turns.yielded(tx, team, run, drain)
        if team.state is RunState.PAUSED:
            settle_drain(tx, team)


def fence_below(tx: Transaction, run: RunRecord, lock: Lock, drain_until: datetime) -> None:
    """Fence the descendants of a run; of a team among them what its turns are is captured here."""
    for below in tx.those(tx.fence_descendants(run.id, lock, drain_until)):
        if below.kind != "team" or below.episode_id is None:
            continue
        _, draining = tx.capture_turns(below, below.episode_id)
        episode = tx.episode(below.episode_id)
        if draining and episode is not None:
            episode.quiescent_at = None
            tx.save_episode(episode)


def mark_overdue(tx: Transaction, episode_id: str) -> int:
    """At the bound of the drain: what still runs is overdue. Returns how many pieces are."""
    episode = tx.episode(episode_id)
    if episode is None or episode.closed_at is not None or tx.now < episode.drain_until:
        return 0
    count = tx.drain(episode_id, "overdue", only=("pending",))
    if count and (run := tx.run(episode.run_id)) is not None:
        tx.log(run, "overdue", None, None, {"pieces": count})
    return count


def _parent_lock(run: RunRecord, lock: Lock) -> Lock:
    return Lock("parent", f"the enclosing run {run.id} is paused", lock.actor, lock.since)
