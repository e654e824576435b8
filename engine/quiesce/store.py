"""The store port: what the rules need from a place that keeps runs.

The rules (`quiesce.rules`) are plain functions over one `Transaction`; a store lends it, and everything
done with it commits together or not at all. Methods are at the level of facts ("capture the pieces of
this run"), so that each is one set-based statement in SQL and one loop in memory; none decides anything.

Two differences are declared, not discovered: `durable` (rows outlive the process, so values must
round-trip and the frontier is kept in rows) and `shared` (other processes use it at the same time).

All instants are aware datetimes in UTC. One `now` per transaction.

Source: spec engine, 6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from quiesce.records import (
    ArrivalRow,
    EpisodeRecord,
    GroupRow,
    HoldRecord,
    JournalEntry,
    PieceRow,
    ReceiptRecord,
    RequestRecord,
    RunFilter,
    RunRecord,
    WorkerRecord,
)
from quiesce.runs import Lock
from quiesce.team.rows import TeamReader, TeamTransaction

__all__ = ["Pieces", "Reader", "Store", "Transaction"]

T = TypeVar("T")


class Pieces(Protocol):
    """The live frontier of a run whose store keeps no rows for it."""

    def rows(self) -> Iterable[PieceRow]:
        """Every piece that is not done, by piece id."""
        ...

    def counts(self) -> Mapping[str, int]:
        """How many pieces are in each state."""
        ...

    def wake(self, pieces: Collection[int] | None, *, child: str | None = None) -> int:
        """Queue held or waiting pieces again (None: every held one); returns how many.

        With `child`, only those that wait for that run.
        """
        ...

    def requeue(self) -> int:
        """Queue again what ran or failed; returns how many."""
        ...


class Reader(TeamReader, Protocol):
    """One consistent view of the store."""

    now: datetime

    def alive(self, incarnation: int | None) -> bool:
        """Whether the process of this incarnation lives (a stopped one does)."""
        ...

    # runs
    def run(self, run_id: str) -> RunRecord | None: ...
    def those(self, run_ids: Collection[str]) -> list[RunRecord]:
        """The runs of these ids that there are, in their order; in one statement, however many."""
        ...

    def children(self, run_id: str) -> list[RunRecord]: ...
    def runs(self, which: RunFilter, limit: int, after: str | None) -> tuple[list[RunRecord], str | None]: ...
    def run_counts(self) -> Mapping[str, int]: ...
    def unquiet(self) -> list[str]:
        """Ids of paused runs whose episode is not known to be quiescent."""
        ...

    def claimable(self, flows: Collection[str]) -> list[str]:
        """Ids of runs of these flows that want to be driven, and whose lease nobody living holds.

        Those are the running ones, and teams that do not run where a user-directed turn is queued.
        """
        ...

    def value(self, run_id: str, ref: int) -> Any:
        """What `put_value` stored: bytes in a durable store, the object itself in memory."""
        ...

    # pieces
    def pieces(self, run_id: str) -> list[PieceRow]: ...
    def piece_counts(self, run_id: str) -> Mapping[str, int]: ...
    def woken(self, run_id: str) -> list[int]: ...
    def frontier(self, run_id: str) -> Pieces | None:
        """What `attach` was given, in a store that keeps no rows for it."""
        ...

    def groups(self, run_id: str) -> list[GroupRow]: ...
    def arrivals(self, run_id: str) -> list[ArrivalRow]: ...
    def counters(self, run_id: str) -> Any: ...

    def journal(self, run_id: str, *, aside: bool = False) -> list[JournalEntry]:
        """What the body of this run follows, by position; with `aside`, what was set aside instead."""
        ...

    # episodes, receipts, holds
    def episode(self, episode_id: str) -> EpisodeRecord | None: ...
    def receipts(self, episode_id: str) -> list[ReceiptRecord]: ...
    def drain_counts(self, episode_id: str) -> Mapping[str, int]: ...
    def draining(self, run_ids: Collection[str]) -> list[tuple[str, datetime]]:
        """The episodes, with their bounds, of those of these runs that are paused and still drain."""
        ...

    def hold(self, hold_id: str) -> HoldRecord | None: ...
    def last_hold(self, run_id: str, execution: int, path: str) -> HoldRecord | None:
        """The newest hold of this place, by ordinal."""
        ...

    def open_holds(self, run_id: str) -> list[HoldRecord]:
        """The open holds of this run alone, in the order they were opened."""
        ...

    def asking(self, run_id: str) -> list[str]:
        """Of a run and those inside it that have not ended: who has an open hold, or somebody inside who has.

        By creation, so a run comes before those inside it.
        """
        ...

    def holds(self, run_id: str | None, state: str | None, limit: int, after: int) -> list[HoldRecord]: ...
    def open_hold_count(self) -> int: ...
    def due_holds(self, before: datetime, flows: Collection[str]) -> list[HoldRecord]:
        """Open holds of runs of these flows whose deadline does something and has passed by `before`."""
        ...

    def next_deadline(self, flows: Collection[str]) -> datetime | None: ...

    # messages, requests, events, workers
    def messages(self, run_id: str) -> int:
        """How many messages are in the box of this run."""
        ...

    def request(self, run_id: str, request_id: str) -> RequestRecord | None: ...
    def events(self, run_id: str | None, after: int, limit: int) -> list[tuple[Any, ...]]:
        """Rows (seq, at, run_id, execution, generation, kind, actor, request_id, data)."""
        ...

    def last_event(self) -> int: ...
    def ids_from(self, what: Literal["runs", "holds"], prefix: str, limit: int) -> list[str]: ...
    def workers(self) -> list[WorkerRecord]: ...


class Transaction(TeamTransaction, Reader, Protocol):
    """A `Reader` that may write. What it did commits together, or not at all.

    `touched` lists the runs that `log` was called for: those whose drivers and waiters must look again.
    `quiet` says that nothing but visits was logged, which no other process needs to hear of.
    """

    touched: list[str]
    quiet: bool

    # runs
    def insert_run(self, run: RunRecord) -> None: ...
    def save_run(self, run: RunRecord, *, generation: int) -> None:
        """Write the record back if its stored generation is still `generation`.

        Raises:
            StaleGeneration: it is not; nothing was written.
        """
        ...

    def fence_descendants(self, run_id: str, lock: Lock, drain_until: datetime) -> list[str]:
        """Pause every descendant that is running, with an episode and receipts; add the lock to paused ones.

        Returns the ids of those that this call paused.
        """
        ...

    def put_value(self, run_id: str, value: Any) -> int: ...
    def forget_run(self, run_id: str) -> None:
        """Delete a run and all that belongs to it; its request ids leave a tombstone."""
        ...

    # pieces
    def attach(self, run_id: str, pieces: Pieces | None) -> None:
        """Tell a store that keeps no rows where the live frontier of a run is."""
        ...

    def put_pieces(self, run_id: str, rows: Sequence[PieceRow]) -> None: ...
    def move_pieces(self, run_id: str, rows: Sequence[PieceRow]) -> None:
        """Change everything but kind, value and detail of pieces that are there already."""
        ...

    def drop_pieces(self, run_id: str, pieces: Sequence[int] | None) -> None: ...
    def put_groups(self, run_id: str, rows: Sequence[GroupRow]) -> None: ...
    def drop_groups(self, run_id: str, groups: Sequence[int] | None) -> None: ...
    def put_arrivals(self, run_id: str, rows: Sequence[ArrivalRow]) -> None: ...
    def put_counters(self, run_id: str, counters: Any) -> None: ...
    def wake(self, run_id: str, pieces: Collection[int] | None, *, child: str | None = None) -> int:
        """Queue held or waiting pieces again (None: every held one); returns how many.

        With `child`, only those that wait for that run.
        """
        ...

    def seen_woken(self, run_id: str) -> None:
        """The driver has taken over what `woken` listed."""
        ...

    def requeue(self, run_id: str, *, lost: bool) -> int:
        """Queue again what ran or failed; with `lost` count that its process died."""
        ...

    # the journal of an agent
    def put_entry(self, run_id: str, entry: JournalEntry, *, was: str | None = None) -> None:
        """Write an entry at its position, new or changed; with `was`, only if it is in that state.

        Raises:
            StaleLease: it is in another state; nothing was written.
        """
        ...

    def set_aside(self, run_id: str, position: int) -> int:
        """Put the entries from this position on aside, where they can be seen; returns how many."""
        ...

    def forget_journal(self, run_id: str) -> None:
        """Delete the journal of a run, and the values that only it referred to."""
        ...

    # episodes and receipts
    def open_episode(self, episode: EpisodeRecord) -> None: ...
    def save_episode(self, episode: EpisodeRecord) -> None: ...
    def capture(self, run: RunRecord, episode_id: str) -> tuple[int, int]:
        """A receipt for each piece of the run; returns (captured, still running)."""
        ...

    def drain(self, episode_id: str, drain: str, *, only: Sequence[str]) -> int:
        """Move receipts of an episode that are in one of `only` to `drain`; returns how many."""
        ...

    def resolve(self, run_id: str, drain: str, *, pieces: Collection[int] | None = None) -> int:
        """Move what is unresolved of a run, or of these pieces of it, in any episode; returns how many."""
        ...

    def decide(self, episode_id: str, outcome: str, *, held: bool = False) -> int:
        """Set the outcome of receipts that have none yet; returns how many.

        With `held`, only of those whose piece asks at this moment.
        """
        ...

    # holds
    def insert_hold(self, hold: HoldRecord) -> None: ...
    def settle_hold(self, hold: HoldRecord) -> None:
        """Write an open hold's new state.

        Raises:
            AlreadyAnswered: it is not open any more; nothing was written.
        """
        ...

    def withdraw_holds(self, run_id: str) -> int: ...

    # messages, requests, events, workers
    def put_message(self, run_id: str, value: Any) -> None:
        """Put a message (as `put_value` takes it) into the box of this run."""
        ...

    def take_message(self, run_id: str) -> tuple[Any] | None:
        """Take the oldest message out of the box; None if it is empty."""
        ...

    def record_request(self, request: RequestRecord) -> None: ...
    def log(
        self, run: RunRecord, kind: str, actor: str | None, request_id: str | None, data: Mapping[str, Any]
    ) -> None: ...
    def enlist(self, pid: int, host: str, flows: Sequence[tuple[str, str]]) -> int: ...
    def announce(self, incarnation: int, flows: Sequence[tuple[str, str]]) -> None:
        """Change what a worker says it serves."""
        ...

    def discharge(self, incarnation: int) -> None: ...


class Store(Protocol):
    """A place that keeps runs. Opened by `quiesce.stores` entry points from a path or URL."""

    durable: bool
    shared: bool
    label: str

    @property
    def folder(self) -> Path | None:
        """Where it keeps files that only the operating system reads, as locks; None: it has no place."""
        ...

    async def write(
        self,
        work: Callable[[Transaction], T],
        *,
        urgent: bool = False,
        committed: Callable[[T], None] | None = None,
    ) -> T:
        """Run `work` in one transaction and commit it; concurrent writes may share one commit.

        `urgent` work (a fence) goes first. `work` must not wait. `committed` is called with its result
        right after the commit, also if the caller was cancelled meanwhile: what must follow from a commit
        (driving what it claimed) is done there.

        Raises:
            StoreBusy, StoreFull, StoreReadOnly, StoreMismatch: nothing was kept.
        """
        ...

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` over one consistent view. Records that it reads are to be looked at, never changed.

        A `read` within `work` is of the same view, so that a question of several steps costs one.
        """
        ...

    def hold_life(self, incarnation: int) -> None:
        """Let the operating system prove, from now until the process dies, that this incarnation lives."""
        ...

    def drop_life(self, incarnation: int) -> None: ...

    def listen(self, incarnation: int) -> None:
        """Hang up a doorbell for this incarnation."""
        ...

    async def rung(self, incarnation: int) -> None:
        """Wait until somebody rings."""
        ...

    def ring(self, incarnations: Collection[int] | None = None) -> None:
        """Ring these bells, or all of them but our own. Never waits."""
        ...

    def close(self) -> None: ...
