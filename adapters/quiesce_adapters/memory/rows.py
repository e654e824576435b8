"""What are the rows of a memory store, and how are the facts of the store port read and written?

Dictionaries of records. Values are the objects themselves; the frontier of a run is its driver's own
(`attach`), not a copy. No record of a run or a hold that is kept here is ever changed, only replaced: a rule
gets copies, so that a refused one leaves none half changed, and a reader the records themselves.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import Any, Literal

from quiesce.clock import Clock
from quiesce.errors import AlreadyAnswered, RunActive, StaleGeneration
from quiesce.records import (
    EpisodeRecord,
    HoldRecord,
    PieceRow,
    ReceiptRecord,
    RunFilter,
    RunRecord,
)
from quiesce.runs import Lock
from quiesce.states import ACTIVE, ENDED, RunState
from quiesce.store import Pieces

from .feed import MemoryFeed
from .teams import MemoryTeams

__all__ = ["MemoryTransaction"]

KEPT_HOLDS = 10_000


class MemoryTransaction(MemoryFeed, MemoryTeams):
    """The rows, and the statements over them."""

    def __init__(self, clock: Clock) -> None:
        MemoryFeed.__init__(self)
        MemoryTeams.__init__(self)
        self.clock = clock
        self.now = clock.now()
        self.reading = False
        self.living: set[int] = set()
        self._runs: dict[str, RunRecord] = {}
        self._children: dict[str, list[str]] = {}
        self._values: dict[str, dict[int, Any]] = {}
        self._pieces: dict[str, dict[int, PieceRow]] = {}
        self._frontiers: dict[str, Pieces] = {}
        self._episodes: dict[str, EpisodeRecord] = {}
        self._last_episode: dict[str, str] = {}
        self._receipts: dict[str, list[ReceiptRecord]] = {}
        self._holds: dict[str, HoldRecord] = {}
        self._holds_of: dict[str, dict[str, HoldRecord]] = {}
        self._open_holds: dict[str, dict[str, HoldRecord]] = {}
        self._settled: deque[HoldRecord] = deque()
        self._ids = itertools.count(1)

    def open(self) -> None:
        """Begin: one instant, nothing touched yet."""
        self.now = self.clock.now()
        self.touched = []
        self.quiet = True

    def alive(self, incarnation: int | None) -> bool:
        return incarnation in self.living

    # --- runs --------------------------------------------------------------------------------------

    def run(self, run_id: str) -> RunRecord | None:
        run = self._runs.get(run_id)
        return run if run is None or self.reading else run.copied()

    def insert_run(self, run: RunRecord) -> None:
        if run.id in self._runs:
            raise RunActive(run.id, self._runs[run.id].state, "create", f"run id {run.id!r} is taken")
        self._runs[run.id] = run.copied()
        if run.parent_id is not None:
            self._children.setdefault(run.parent_id, []).append(run.id)

    def save_run(self, run: RunRecord, *, generation: int) -> None:
        stored = self._runs[run.id]
        if stored.generation != generation:
            raise StaleGeneration(
                f"run {run.id!r} is at generation {stored.generation}, not {generation}",
                expected=generation,
                actual=stored.generation,
            )
        self._runs[run.id] = run.copied()

    def those(self, run_ids: Collection[str]) -> list[RunRecord]:
        return [run for run_id in dict.fromkeys(run_ids) if (run := self.run(run_id)) is not None]

    def children(self, run_id: str) -> list[RunRecord]:
        ids = self._children.get(run_id, ())
        runs = [self._runs[child] for child in ids]
        return runs if self.reading else [run.copied() for run in runs]

    def runs(self, which: RunFilter, limit: int, after: str | None) -> tuple[list[RunRecord], str | None]:
        found: list[RunRecord] = []
        ids: Iterable[str] = reversed(self._runs)
        if after is not None:
            ids = itertools.islice(itertools.dropwhile(lambda item: item != after, ids), 1, None)
        for run_id in ids:
            run = self._runs[run_id]
            if (
                (which.states is None or run.state.value in which.states)
                and (which.kind is None or run.kind == which.kind)
                and (which.flow is None or run.flow == which.flow)
                and (which.parent is None or run.parent_id == which.parent)
            ):
                if len(found) == limit:
                    return found, found[-1].id
                found.append(run.copied())
        return found, None

    def run_counts(self) -> Mapping[str, int]:
        return Counter(run.state.value for run in self._runs.values())

    def unquiet(self) -> list[str]:
        active = (self._episodes[run.episode_id] for run in self._runs.values() if run.episode_id)
        return [episode.run_id for episode in active if episode.quiescent_at is None]

    def claimable(self, flows: Collection[str]) -> list[str]:
        return [
            run.id
            for run in self._runs.values()
            if run.flow in flows and not self.alive(run.lease_holder) and self._wants_a_driver(run)
        ]

    def _wants_a_driver(self, run: RunRecord) -> bool:
        if run.state is not RunState.RUNNING and run.kind == "team" and run.state in ACTIVE:
            rows = self._pieces.get(run.id, {}).values()
            return any(row.kind == "directed" and row.state == "queued" for row in rows)
        return run.state is RunState.RUNNING

    def fence_descendants(self, run_id: str, lock: Lock, drain_until: datetime) -> list[str]:
        paused: list[str] = []
        stack = list(self._children.get(run_id, ()))
        while stack:
            child = self._runs[stack.pop()].copied()
            around = self._pieces.get(child.parent_id or "", {}).get(child.parent_piece or 0)
            if around is not None and around.kind == "directed":
                continue
            stack.extend(self._children.get(child.id, ()))
            self._runs[child.id] = child
            if child.state in (RunState.RUNNING, RunState.IDLE):
                child.state = RunState.PAUSED
                child.generation += 1
                child.locks["parent"] = lock
                child.episode_id = f"{child.id}:{child.generation}"
                child.updated_at = self.now
                _, draining = (0, 0) if child.kind == "team" else self.capture(child, child.episode_id)
                self.open_episode(
                    EpisodeRecord(
                        id=child.episode_id,
                        run_id=child.id,
                        generation=child.generation,
                        cause="parent",
                        requested_at=self.now,
                        opened_at=self.now,
                        drain_until=drain_until,
                        quiescent_at=None if draining else self.now,
                    )
                )
                paused.append(child.id)
                self.log(child, "paused", lock.actor, None, {"lock": "parent", "reason": lock.reason})
            elif child.state is RunState.PAUSED and "parent" not in child.locks:
                child.locks["parent"] = lock
                child.updated_at = self.now
        return paused

    def put_value(self, run_id: str, value: Any) -> int:
        ref = next(self._ids)
        self._values.setdefault(run_id, {})[ref] = value
        return ref

    def value(self, run_id: str, ref: int) -> Any:
        return self._values[run_id][ref]

    def forget_run(self, run_id: str) -> None:
        run = self._runs.pop(run_id)
        if run.parent_id is not None and run.parent_id in self._children:
            self._children[run.parent_id].remove(run_id)
        of_runs = (self._children, self._values, self._pieces, self._frontiers, self._messages)
        for table in (*of_runs, self._open_holds, self._teams):
            table.pop(run_id, None)
        for hold_id in [hold.id for hold in self._holds.values() if hold.run_id == run_id]:
            del self._holds[hold_id]
        self._holds_of.pop(run_id, None)
        for episode_id in [item.id for item in self._episodes.values() if item.run_id == run_id]:
            del self._episodes[episode_id]
            self._receipts.pop(episode_id, None)
        self._last_episode.pop(run_id, None)
        self._events = deque((row for row in self._events if row[2] != run_id), self._events.maxlen)

    # --- pieces ------------------------------------------------------------------------------------

    def attach(self, run_id: str, pieces: Pieces | None) -> None:
        if pieces is None:
            self._frontiers.pop(run_id, None)
        else:
            self._frontiers[run_id] = pieces
            self._pieces.pop(run_id, None)

    def frontier(self, run_id: str) -> Pieces | None:
        return self._frontiers.get(run_id)

    def pieces(self, run_id: str) -> list[PieceRow]:
        live = self._frontiers.get(run_id)
        if live is not None:
            return list(live.rows())
        return [copy(row) for row in self._pieces.get(run_id, {}).values()]

    def piece_counts(self, run_id: str) -> Mapping[str, int]:
        live = self._frontiers.get(run_id)
        if live is not None:
            return live.counts()
        return Counter(row.state for row in self.pieces(run_id) if row.kind != "directed")

    def woken(self, run_id: str) -> list[int]:
        return []  # `wake` told the live frontier itself

    def seen_woken(self, run_id: str) -> None:
        pass

    def put_pieces(self, run_id: str, rows: Sequence[PieceRow]) -> None:
        if run_id not in self._frontiers:
            self._pieces.setdefault(run_id, {}).update({row.piece: copy(row) for row in rows})

    def move_pieces(self, run_id: str, rows: Sequence[PieceRow]) -> None:
        if run_id in self._pieces:
            self.put_pieces(run_id, rows)

    def drop_pieces(self, run_id: str, pieces: Sequence[int] | None) -> None:
        if pieces is None:
            self._pieces.pop(run_id, None)
            self._frontiers.pop(run_id, None)
        for piece in pieces or ():
            self._pieces.get(run_id, {}).pop(piece, None)

    def wake(self, run_id: str, pieces: Collection[int] | None, *, child: str | None = None) -> int:
        live = self._frontiers.get(run_id)
        return live.wake(pieces, child=child) if live is not None else 0

    def requeue(self, run_id: str, *, lost: bool) -> int:
        live = self._frontiers.get(run_id)
        return live.requeue() if live is not None else 0

    # --- episodes and receipts ---------------------------------------------------------------------

    def open_episode(self, episode: EpisodeRecord) -> None:
        before = self._last_episode.get(episode.run_id)
        if before is not None:
            self._episodes.pop(before, None)
            self._receipts.pop(before, None)
        self._last_episode[episode.run_id] = episode.id
        self._episodes[episode.id] = episode

    def save_episode(self, episode: EpisodeRecord) -> None:
        self._episodes[episode.id] = episode

    def episode(self, episode_id: str) -> EpisodeRecord | None:
        return self._episodes.get(episode_id)

    def capture(self, run: RunRecord, episode_id: str) -> tuple[int, int]:
        lives = self.alive(run.lease_holder)
        receipts: list[ReceiptRecord] = []
        draining = 0
        for row in self.pieces(run.id):
            if row.state not in ("queued", "running", "held", "waiting"):
                continue
            runs = lives and row.state == "running"
            draining += runs
            receipts.append(
                ReceiptRecord(
                    id=next(self._ids),
                    episode_id=episode_id,
                    run_id=run.id,
                    piece=row.piece,
                    kind=row.kind,
                    name=row.name,
                    was=row.state,
                    drain="pending" if runs else "absent",
                    at=self.now,
                    lease=run.lease_epoch if runs else None,
                    holder=run.lease_holder if runs else None,
                )
            )
        self._receipts[episode_id] = receipts
        return len(receipts), draining

    def receipts(self, episode_id: str) -> list[ReceiptRecord]:
        return list(self._receipts.get(episode_id, ()))

    def drain_counts(self, episode_id: str) -> Mapping[str, int]:
        return Counter(receipt.drain for receipt in self._receipts.get(episode_id, ()))

    def drain(self, episode_id: str, drain: str, *, only: Sequence[str]) -> int:
        moved = [row for row in self._receipts.get(episode_id, ()) if row.drain in only]
        for receipt in moved:
            receipt.drain = drain
            if drain == "overdue":
                receipt.overdue_at = self.now
            elif drain == "released":
                receipt.released_at = self.now
        return len(moved)

    def decide(self, episode_id: str, outcome: str, *, held: bool = False) -> int:
        receipts = self._receipts.get(episode_id, ())
        only: set[int] | None = None
        if held and receipts:
            only = {row.piece for row in self.pieces(receipts[0].run_id) if row.state == "held"}
        moved = 0
        for receipt in receipts:
            if receipt.outcome is None and (only is None or receipt.piece in only):
                receipt.outcome = outcome
                moved += 1
        return moved

    # --- holds -------------------------------------------------------------------------------------

    def insert_hold(self, hold: HoldRecord) -> None:
        self._holds[hold.id] = hold
        places = self._holds_of.setdefault(hold.run_id, {})
        before = places.get(hold.path)
        if before is not None and before.state != "open":
            self._holds.pop(before.id, None) if before.state in ("withdrawn", "dropped") else None
        places[hold.path] = hold
        self._open_holds.setdefault(hold.run_id, {})[hold.id] = hold

    def settle_hold(self, hold: HoldRecord) -> None:
        stored = self._open_holds.get(hold.run_id, {}).pop(hold.id, None)
        if stored is None:
            raise AlreadyAnswered(f"hold {hold.id!r} is not open any more; nothing was changed")
        self._holds[hold.id] = hold
        self._holds_of[hold.run_id][hold.path] = hold
        self._settled.append(hold)
        if len(self._settled) > KEPT_HOLDS:
            oldest = self._settled.popleft()
            if self._holds_of.get(oldest.run_id, {}).get(oldest.path) is not oldest:
                self._holds.pop(oldest.id, None)

    def withdraw_holds(self, run_id: str) -> int:
        open_holds = self._open_holds.pop(run_id, {})
        for hold in map(HoldRecord.copied, open_holds.values()):
            hold.state, hold.answered_at = "withdrawn", self.now
            self._holds[hold.id] = self._holds_of[hold.run_id][hold.path] = hold
        return len(open_holds)

    def draining(self, run_ids: Collection[str]) -> list[tuple[str, datetime]]:
        paused = (self._runs[run_id] for run_id in run_ids if self._runs[run_id].state is RunState.PAUSED)
        return [
            (run.episode_id, self._episodes[run.episode_id].drain_until)
            for run in paused
            if run.episode_id is not None and self.drain_counts(run.episode_id).get("pending")
        ]

    def hold(self, hold_id: str) -> HoldRecord | None:
        hold = self._holds.get(hold_id)
        return hold if hold is None or self.reading else hold.copied()

    def last_hold(self, run_id: str, execution: int, path: str) -> HoldRecord | None:
        hold = self._holds_of.get(run_id, {}).get(path)
        return hold.copied() if hold is not None and hold.execution == execution else None

    def open_holds(self, run_id: str) -> list[HoldRecord]:
        found = self._open_holds.get(run_id, {}).values()
        return list(found) if self.reading else [hold.copied() for hold in found]

    def asking(self, run_id: str) -> list[str]:
        run = self._runs.get(run_id)
        if run is None or run.state in ENDED:
            return []
        below = [id for child in self._children.get(run_id, ()) for id in self.asking(child)]
        return [run_id, *below] if below or self._open_holds.get(run_id) else []

    def holds(self, run_id: str | None, state: str | None, limit: int, after: int) -> list[HoldRecord]:
        found = (
            hold
            for hold in self._holds.values()
            if (run_id is None or hold.run_id == run_id)
            and (state is None or hold.state == state)
            and not (state == "open" and self._failed_around(hold.run_id))
        )
        return [hold.copied() for hold in itertools.islice(found, after, after + limit)]

    def open_hold_count(self) -> int:
        return len(self.holds(None, "open", len(self._holds), 0))

    def due_holds(self, before: datetime, flows: Collection[str]) -> list[HoldRecord]:
        return [hold.copied() for hold in self._timed(flows) if hold.deadline and hold.deadline <= before]

    def next_deadline(self, flows: Collection[str]) -> datetime | None:
        return min((hold.deadline for hold in self._timed(flows) if hold.deadline), default=None)

    def _failed_around(self, run_id: str | None) -> bool:
        """Whether the run, or one around it, has failed."""
        while run_id is not None:
            run = self._runs[run_id]
            if run.state is RunState.FAILED:
                return True
            run_id = run.parent_id
        return False

    def _timed(self, flows: Collection[str]) -> Iterable[HoldRecord]:
        for run_id, holds in self._open_holds.items():
            if self._runs[run_id].flow in flows and not self._failed_around(run_id):
                yield from (h for h in holds.values() if h.deadline is not None and h.on_deadline != "hold")

    def ids_from(self, what: Literal["runs", "holds"], prefix: str, limit: int) -> list[str]:
        ids = self._runs if what == "runs" else self._holds
        return sorted(found for found in ids if found.startswith(prefix))[:limit]
