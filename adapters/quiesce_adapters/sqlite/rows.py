"""How are the facts of the store port written in SQL?

As `reading.py`: one method per fact, each a named statement. A statement that relies on a row count
checks it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from quiesce.errors import AlreadyAnswered, RunActive, StaleGeneration, StaleLease
from quiesce.records import (
    ArrivalRow,
    EpisodeRecord,
    GroupRow,
    HoldRecord,
    JournalEntry,
    PieceRow,
    RequestRecord,
    RunRecord,
)
from quiesce.runs import Lock
from quiesce.store import Pieces

from .records import compact, lock_facts, locks_text, micros
from .teams import SqliteTeams

__all__ = ["SqliteTransaction"]


class SqliteTransaction(SqliteTeams):
    """The statements over one connection."""

    # --- runs --------------------------------------------------------------------------------------

    def insert_run(self, run: RunRecord) -> None:
        if self._run("run.number", (run.id,)).fetchone() is not None:
            raise RunActive(run.id, "created", "create", f"run id {run.id!r} is taken; choose another")
        self._expect(
            "run.insert",
            (
                run.id,
                run.flow,
                run.version,
                run.kind,
                run.entry,
                run.state.value,
                micros(run.created_at),
                micros(run.updated_at),
                run.parent_id,
                run.parent_piece,
                run.execution,
                run.generation,
                run.input,
                run.result,
                run.error,
                run.signature,
                run.episode_id,
                run.lease_holder,
                run.lease_epoch,
                locks_text(run.locks.values()),
                run.max_lost,
            ),
        )

    def save_run(self, run: RunRecord, *, generation: int) -> None:
        changed = self._change(
            "run.save",
            (
                run.version,
                run.state.value,
                micros(run.updated_at),
                run.execution,
                run.generation,
                run.input,
                run.result,
                run.error,
                run.signature,
                run.episode_id,
                run.lease_holder,
                run.lease_epoch,
                locks_text(run.locks.values()),
                run.id,
                generation,
            ),
        )
        if changed != 1:
            raise StaleGeneration(
                f"run {run.id!r} is not at generation {generation} any more", expected=generation
            )

    def fence_descendants(self, run_id: str, lock: Lock, drain_until: datetime) -> list[str]:
        self._run("tree.table")
        self._run("tree.forget")
        if not self._change("tree.collect", (run_id,)):
            return []
        now, locked = micros(self.now), compact(lock_facts(lock))
        self._run("tree.lock", (locked, now))
        self._run("tree.fence", (locked, now))
        living = [holder for (holder,) in self._run("tree.holders") if self.alive(holder)]
        self._run("tree.receipts", {"now": now, "living": compact(living)})
        self._run("tree.episodes", {"now": now, "until": micros(drain_until)})
        data = compact({"lock": "parent", "reason": lock.reason})
        self._run("tree.events", {"now": now, "actor": lock.actor, "data": data})
        paused = [child for (child,) in self._run("tree.paused")]
        self.touched += paused
        return paused

    def put_value(self, run_id: str, value: Any) -> int:
        digest = hashlib.sha256(value).digest()[:16]
        found = self._run("blob.find", (run_id, digest)).fetchone()
        if found is not None:
            return int(found[0])
        ref = self._run("blob.insert", (run_id, digest, value)).lastrowid
        assert ref is not None
        return ref

    def forget_run(self, run_id: str) -> None:
        self._expect("run.delete", (run_id,))

    # --- pieces ------------------------------------------------------------------------------------

    def attach(self, run_id: str, pieces: Pieces | None) -> None:
        """Rows are the frontier here; there is nothing to attach."""

    def seen_woken(self, run_id: str) -> None:
        self._run("piece.seen_woken", (run_id,))

    def put_pieces(self, run_id: str, rows: Sequence[PieceRow]) -> None:
        for row in rows:
            self._expect(
                "piece.put",
                (
                    run_id,
                    row.piece,
                    row.kind,
                    row.state,
                    row.name,
                    row.position,
                    row.value,
                    None if row.detail is None else compact(row.detail),
                    row.attempt,
                    row.lost,
                    row.child,
                    row.hold,
                    row.woken,
                ),
            )

    def move_pieces(self, run_id: str, rows: Sequence[PieceRow]) -> None:
        for row in rows:
            self._expect(
                "piece.move",
                (
                    row.state,
                    row.position,
                    row.attempt,
                    row.lost,
                    row.child,
                    row.hold,
                    row.woken,
                    run_id,
                    row.piece,
                ),
            )

    def drop_pieces(self, run_id: str, pieces: Sequence[int] | None) -> None:
        if pieces is None:
            self._run("piece.drop_all", (run_id,))
        else:
            for piece in pieces:
                self._run("piece.drop", (run_id, piece))

    def put_groups(self, run_id: str, rows: Sequence[GroupRow]) -> None:
        for row in rows:
            self._run("group.put", (run_id, row.group, row.join, row.size, compact(row.detail)))

    def drop_groups(self, run_id: str, groups: Sequence[int] | None) -> None:
        if groups is None:
            self._run("group.drop_all", (run_id,))
            self._run("arrival.drop_all", (run_id,))
        else:
            for group in groups:
                self._run("group.drop", (run_id, group))
                self._run("arrival.drop", (run_id, group))

    def put_arrivals(self, run_id: str, rows: Sequence[ArrivalRow]) -> None:
        for row in rows:
            self._run("arrival.put", (run_id, row.group, row.index, row.source, row.value))

    def put_counters(self, run_id: str, counters: Any) -> None:
        self._run("run.put_counters", (None if counters is None else compact(counters), run_id))

    def wake(self, run_id: str, pieces: Collection[int] | None, *, child: str | None = None) -> int:
        if pieces is None:
            return self._change("piece.wake_all", (run_id,))
        if child is not None:
            return sum(self._change("piece.wake_waiting", (run_id, piece, child)) for piece in pieces)
        return sum(self._change("piece.wake", (run_id, piece)) for piece in pieces)

    def requeue(self, run_id: str, *, lost: bool) -> int:
        return self._change("piece.requeue", (int(lost), run_id))

    # --- journal -----------------------------------------------------------------------------------

    def put_entry(self, run_id: str, entry: JournalEntry, *, was: str | None = None) -> None:
        if was is not None and not self._change("journal.is_still", (run_id, entry.position, was)):
            raise StaleLease(
                f"position {entry.position} of the journal of run {run_id!r} is not {was} any more, so "
                f"{entry.name!r} is not made {entry.state}; somebody else did, or does"
            )
        self._expect(
            "journal.put",
            (
                run_id,
                entry.position,
                entry.kind,
                entry.name,
                entry.digest,
                entry.state,
                entry.value,
                entry.attempt,
                entry.last or entry.position,
                entry.hold,
                entry.place,
                micros(self.now),
            ),
        )

    def set_aside(self, run_id: str, position: int) -> int:
        return self._change("journal.set_aside", (run_id, position))

    def forget_journal(self, run_id: str) -> None:
        self._run("journal.delete", (run_id,))
        self._run("blob.sweep", (run_id,))

    # --- episodes and receipts ---------------------------------------------------------------------

    def open_episode(self, episode: EpisodeRecord) -> None:
        self._expect(
            "episode.open",
            (
                episode.id,
                episode.run_id,
                episode.generation,
                episode.cause,
                micros(episode.requested_at),
                micros(episode.opened_at),
                micros(episode.drain_until),
                micros(episode.quiescent_at),
            ),
        )

    def save_episode(self, episode: EpisodeRecord) -> None:
        self._expect(
            "episode.save",
            (
                micros(episode.drain_until),
                micros(episode.quiescent_at),
                micros(episode.closed_at),
                episode.ended_as,
                episode.id,
            ),
        )

    def capture(self, run: RunRecord, episode_id: str) -> tuple[int, int]:
        lives = self.alive(run.lease_holder)
        captured = self._change(
            "receipt.capture",
            {
                "episode": episode_id,
                "run": run.id,
                "lives": lives,
                "now": micros(self.now),
                "epoch": run.lease_epoch,
                "holder": run.lease_holder,
            },
        )
        if not lives or not captured:
            return captured, 0
        return captured, self._run("receipt.pending", (episode_id,)).fetchone()[0]

    def drain(self, episode_id: str, drain: str, *, only: Sequence[str]) -> int:
        return self._change(
            "receipt.drain",
            {"drain": drain, "now": micros(self.now), "episode": episode_id, "only": compact(list(only))},
        )

    def resolve(self, run_id: str, drain: str, *, pieces: Collection[int] | None = None) -> int:
        these = None if pieces is None else compact(sorted(pieces))
        return self._change(
            "receipt.resolve", {"drain": drain, "now": micros(self.now), "run": run_id, "pieces": these}
        )

    def decide(self, episode_id: str, outcome: str, *, held: bool = False) -> int:
        return self._change("receipt.decide_held" if held else "receipt.decide", (outcome, episode_id))

    # --- holds -------------------------------------------------------------------------------------

    def insert_hold(self, hold: HoldRecord) -> None:
        self._expect(
            "hold.insert",
            (
                hold.id,
                hold.run_id,
                hold.execution,
                hold.path,
                hold.key,
                hold.ordinal,
                hold.piece,
                hold.reason,
                micros(hold.opened_at),
                compact(hold.payload),
                None if hold.expects is None else compact(hold.expects),
                micros(hold.deadline),
                compact(hold.on_deadline),
            ),
        )

    def settle_hold(self, hold: HoldRecord) -> None:
        parameters = (hold.state, compact(hold.answer), hold.answered_by, micros(hold.answered_at), hold.id)
        if self._change("hold.settle", parameters) != 1:
            raise AlreadyAnswered(f"hold {hold.id!r} is not open any more; nothing was changed")

    def withdraw_holds(self, run_id: str) -> int:
        return self._change("hold.withdraw", (micros(self.now), run_id))

    # --- messages, requests, events, workers --------------------------------------------------------

    def put_message(self, run_id: str, value: Any) -> None:
        self._run("message.put", (run_id, value))

    def take_message(self, run_id: str) -> tuple[Any] | None:
        row = self._run("message.oldest", (run_id,)).fetchone()
        if row is None:
            return None
        self._expect("message.drop", (row[0],))
        return (row[1],)

    def record_request(self, request: RequestRecord) -> None:
        self._expect(
            "request.insert",
            (request.run_id, request.request_id, request.verb, request.digest, compact(request.ack)),
        )

    def log(
        self, run: RunRecord, kind: str, actor: str | None, request_id: str | None, data: Mapping[str, Any]
    ) -> None:
        self.touched.append(run.id)
        self.quiet = self.quiet and kind == "visit"
        self._run(
            "event.insert",
            (
                micros(self.now),
                run.id,
                run.execution,
                run.generation,
                kind,
                actor,
                request_id,
                compact({key: value for key, value in data.items() if value is not None}),
            ),
        )

    def enlist(self, pid: int, host: str, flows: Sequence[tuple[str, str]]) -> int:
        ref = self._run("worker.insert", (pid, host, micros(self.now), compact(list(flows)))).lastrowid
        assert ref is not None
        return ref

    def announce(self, incarnation: int, flows: Sequence[tuple[str, str]]) -> None:
        self._expect("worker.announce", (compact(list(flows)), incarnation))

    def discharge(self, incarnation: int) -> None:
        self._run("worker.delete", (incarnation,))
