"""How are the facts of the store port read and written in SQL?

One method per fact, each a named statement of `queries.sql`, sent through `_run`, the one place that
every statement of the store goes through. Nothing here begins or ends a transaction, and nothing decides.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from quiesce.errors import AlreadyAnswered, RunActive, StaleGeneration, StoreError
from quiesce.runs import Lock
from quiesce.states import RunState
from quiesce.store import (
    ArrivalRow,
    EpisodeRecord,
    GroupRow,
    HoldRecord,
    PieceRow,
    Pieces,
    ReceiptRecord,
    RequestRecord,
    RunFilter,
    RunRecord,
    WorkerRecord,
)

from .statements import statements

__all__ = ["SqliteTransaction"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(at: datetime | None) -> int | None:
    """An instant as the schema keeps it."""
    return None if at is None else (at - _EPOCH) // _MICROSECOND


def instant(value: int) -> datetime:
    """An instant as the engine has it."""
    return _EPOCH + timedelta(microseconds=value)


def _maybe(value: int | None) -> datetime | None:
    return None if value is None else _EPOCH + timedelta(microseconds=value)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class SqliteTransaction:
    """The statements over one connection."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        alive: Callable[[int], bool],
        on_statement: Callable[[str], None] | None = None,
    ) -> None:
        self._connection = connection
        self._alive = alive
        self._on_statement = on_statement
        self._sql = statements()
        self.now = _EPOCH
        self.touched: list[str] = []
        self.quiet = True
        self._has_tree = False

    def open(self, now: datetime) -> None:
        """Begin a unit of work: one instant, nothing touched yet."""
        self.now = now
        self.touched = []
        self.quiet = True

    def statement(self, label: str, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Send a statement; the one place that every statement of the store goes through."""
        if self._on_statement is not None:
            self._on_statement(label)
        return self._connection.execute(sql, parameters)

    def _run(self, label: str, parameters: Any = ()) -> sqlite3.Cursor:
        return self.statement(label, self._sql[label], parameters)

    def _change(self, label: str, parameters: Any) -> int:
        return self._run(label, parameters).rowcount

    def _expect(self, label: str, parameters: Any, count: int = 1) -> None:
        changed = self._change(label, parameters)
        if changed != count:
            raise StoreError(
                f"{label} changed {changed} rows where {count} was expected; nothing was kept; "
                "run `flowctl doctor`"
            )

    def alive(self, incarnation: int | None) -> bool:
        return incarnation is not None and self._alive(incarnation)

    # --- runs --------------------------------------------------------------------------------------

    def run(self, run_id: str) -> RunRecord | None:
        row = self._run("run.get", (run_id,)).fetchone()
        return None if row is None else _run_record(row)

    def children(self, run_id: str) -> list[RunRecord]:
        return [_run_record(row) for row in self._run("run.children", (run_id,))]

    def runs(self, which: RunFilter, limit: int, after: str | None) -> tuple[list[RunRecord], str | None]:
        number = None
        if after is not None:
            found = self._run("run.number", (after,)).fetchone()
            number = found[0] if found else 0
        parameters = {
            "states": None if which.states is None else _json(which.states),
            "kind": which.kind,
            "flow": which.flow,
            "parent": which.parent,
            "after": number,
            "limit": limit + 1,
        }
        rows = self._run("run.page", parameters).fetchall()
        page = [_run_record(row) for row in rows[:limit]]
        return page, (page[-1].id if len(rows) > limit else None)

    def claimable(self, flows: Collection[str]) -> list[str]:
        rows = self._run("run.claimable", (_json(list(flows)),)).fetchall()
        return [run_id for run_id, holder in rows if not self.alive(holder)]

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
                _locks(run.locks.values()),
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
                _locks(run.locks.values()),
                run.id,
                generation,
            ),
        )
        if changed != 1:
            raise StaleGeneration(
                f"run {run.id!r} is not at generation {generation} any more", expected=generation
            )

    def fence_descendants(self, run_id: str, lock: Lock, drain_until: datetime) -> list[str]:
        if not self._has_tree:
            self.statement("tree.table", "CREATE TEMP TABLE IF NOT EXISTS tree (id TEXT PRIMARY KEY, state TEXT)")
            self._has_tree = True
        self._run("tree.forget")
        if not self._change("tree.collect", (run_id,)):
            return []
        now, locked = micros(self.now), _json(_lock(lock))
        self._run("tree.lock", (locked, now))
        self._run("tree.fence", (locked, now))
        living = [holder for (holder,) in self._run("tree.holders") if self.alive(holder)]
        self._run("tree.receipts", {"now": now, "living": _json(living)})
        self._run("tree.episodes", {"now": now, "until": micros(drain_until)})
        data = _json({"lock": "parent", "reason": lock.reason})
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

    def value(self, run_id: str, ref: int) -> Any:
        row = self._run("blob.get", (ref, run_id)).fetchone()
        if row is None:
            raise StoreError(f"value {ref} of run {run_id!r} is missing; run `flowctl doctor`")
        return row[0]

    def forget_run(self, run_id: str) -> None:
        self._expect("run.delete", (run_id,))

    # --- pieces ------------------------------------------------------------------------------------

    def attach(self, run_id: str, pieces: Pieces | None) -> None:
        """Rows are the frontier here; there is nothing to attach."""

    def frontier(self, run_id: str) -> Pieces | None:
        return None

    def pieces(self, run_id: str) -> list[PieceRow]:
        return [
            PieceRow(
                piece=row[0],
                kind=row[1],
                state=row[2],
                name=row[3],
                position=row[4],
                value=row[5],
                detail=None if row[6] is None else json.loads(row[6]),
                attempt=row[7],
                lost=row[8],
                child=row[9],
                hold=row[10],
                woken=bool(row[11]),
            )
            for row in self._run("piece.list", (run_id,))
        ]

    def piece_counts(self, run_id: str) -> Mapping[str, int]:
        return dict(self._run("piece.counts", (run_id,)).fetchall())

    def woken(self, run_id: str) -> list[int]:
        return [piece for (piece,) in self._run("piece.woken", (run_id,))]

    def seen_woken(self, run_id: str) -> None:
        self._run("piece.seen_woken", (run_id,))

    def put_pieces(self, run_id: str, rows: Sequence[PieceRow]) -> None:
        for row in rows:
            self._run(
                "piece.put",
                (
                    run_id,
                    row.piece,
                    row.kind,
                    row.state,
                    row.name,
                    row.position,
                    row.value,
                    None if row.detail is None else _json(row.detail),
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

    def groups(self, run_id: str) -> list[GroupRow]:
        rows = self._run("group.list", (run_id,))
        return [GroupRow(row[0], row[1], row[2], json.loads(row[3])) for row in rows]

    def arrivals(self, run_id: str) -> list[ArrivalRow]:
        return [ArrivalRow(*row) for row in self._run("arrival.list", (run_id,))]

    def counters(self, run_id: str) -> Any:
        row = self._run("run.counters", (run_id,)).fetchone()
        return None if row is None or row[0] is None else json.loads(row[0])

    def put_groups(self, run_id: str, rows: Sequence[GroupRow]) -> None:
        for row in rows:
            self._run("group.put", (run_id, row.group, row.join, row.size, _json(row.detail)))

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
        self._run("run.put_counters", (None if counters is None else _json(counters), run_id))

    def wake(self, run_id: str, pieces: Collection[int] | None) -> int:
        if pieces is None:
            return self._change("piece.wake_all", (run_id,))
        return sum(self._change("piece.wake", (run_id, piece)) for piece in pieces)

    def requeue(self, run_id: str, *, lost: bool) -> int:
        return self._change("piece.requeue", (int(lost), run_id))

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

    def episode(self, episode_id: str) -> EpisodeRecord | None:
        row = self._run("episode.get", (episode_id,)).fetchone()
        if row is None:
            return None
        return EpisodeRecord(
            *row[:4], instant(row[4]), instant(row[5]), instant(row[6]), _maybe(row[7]), _maybe(row[8]), row[9]
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

    def receipts(self, episode_id: str) -> list[ReceiptRecord]:
        return [
            ReceiptRecord(*row[:8], instant(row[8]), *row[9:13], _maybe(row[13]), _maybe(row[14]))
            for row in self._run("receipt.list", (episode_id,))
        ]

    def drain_counts(self, episode_id: str) -> Mapping[str, int]:
        return dict(self._run("receipt.drain_counts", (episode_id,)).fetchall())

    def drain(
        self, episode_id: str, drain: str, *, piece: int | None = None, only: Sequence[str] = ()
    ) -> int:
        return self._change(
            "receipt.drain",
            {
                "drain": drain,
                "now": micros(self.now),
                "episode": episode_id,
                "only": _json(list(only)),
                "piece": piece,
            },
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
                _json(hold.payload),
                None if hold.expects is None else _json(hold.expects),
                micros(hold.deadline),
                _json(hold.on_deadline),
            ),
        )

    def settle_hold(self, hold: HoldRecord) -> None:
        parameters = (hold.state, _json(hold.answer), hold.answered_by, micros(hold.answered_at), hold.id)
        if self._change("hold.settle", parameters) != 1:
            raise AlreadyAnswered(f"hold {hold.id!r} is not open any more; nothing was changed")

    def withdraw_holds(self, run_id: str) -> int:
        return self._change("hold.withdraw", (micros(self.now), run_id))

    def hold(self, hold_id: str) -> HoldRecord | None:
        row = self._run("hold.get", (hold_id,)).fetchone()
        return None if row is None else _hold_record(row)

    def last_hold(self, run_id: str, execution: int, path: str) -> HoldRecord | None:
        row = self._run("hold.last", (run_id, execution, path)).fetchone()
        return None if row is None else _hold_record(row)

    def open_holds(self, run_id: str) -> list[HoldRecord]:
        return [_hold_record(row) for row in self._run("hold.open", (run_id,))]

    def holds(self, run_id: str | None, state: str | None, limit: int, after: int) -> list[HoldRecord]:
        parameters = {"run": run_id, "state": state, "limit": limit, "after": after}
        return [_hold_record(row) for row in self._run("hold.page", parameters)]

    def due_holds(self, before: datetime, flows: Collection[str]) -> list[HoldRecord]:
        return [_hold_record(row) for row in self._run("hold.due", (micros(before), _json(list(flows))))]

    def next_deadline(self, flows: Collection[str]) -> datetime | None:
        return _maybe(self._run("hold.next_deadline", (_json(list(flows)),)).fetchone()[0])

    # --- requests, events, workers -----------------------------------------------------------------

    def request(self, run_id: str, request_id: str) -> RequestRecord | None:
        row = self._run("request.get", (run_id, request_id)).fetchone()
        return None if row is None else RequestRecord(run_id, request_id, row[0], row[1], json.loads(row[2]))

    def record_request(self, request: RequestRecord) -> None:
        self._expect(
            "request.insert",
            (request.run_id, request.request_id, request.verb, request.digest, _json(request.ack)),
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
                _json({key: value for key, value in data.items() if value is not None}),
            ),
        )

    def events(self, run_id: str | None, after: int, limit: int) -> list[tuple[Any, ...]]:
        if run_id is None:
            rows = self._run("event.page", (after, limit))
        else:
            rows = self._run("event.page_of_run", (run_id, after, limit))
        return [(row[0], instant(row[1]), *row[2:8], json.loads(row[8])) for row in rows]

    def last_event(self) -> int:
        return int(self._run("event.last").fetchone()[0])

    def workers(self) -> list[WorkerRecord]:
        return [
            WorkerRecord(row[0], row[1], row[2], instant(row[3]), [tuple(flow) for flow in json.loads(row[4])])
            for row in self._run("worker.list")
        ]

    def enlist(self, pid: int, host: str, flows: Sequence[tuple[str, str]]) -> int:
        ref = self._run("worker.insert", (pid, host, micros(self.now), _json(list(flows)))).lastrowid
        assert ref is not None
        return ref

    def discharge(self, incarnation: int) -> None:
        self._run("worker.delete", (incarnation,))


def _lock(lock: Lock) -> list[Any]:
    return [lock.reason, lock.actor, micros(lock.since)]


def _locks(locks: Iterable[Lock]) -> str:
    return _json({lock.kind: _lock(lock) for lock in locks})


def _run_record(row: tuple[Any, ...]) -> RunRecord:
    locks = {}
    if row[19] != "{}":
        for kind, (reason, actor, since) in json.loads(row[19]).items():
            locks[kind] = Lock(kind, reason, actor, instant(since))
    return RunRecord(
        id=row[0],
        flow=row[1],
        version=row[2],
        kind=row[3],
        entry=row[4],
        state=RunState(row[5]),
        created_at=instant(row[6]),
        updated_at=instant(row[7]),
        parent_id=row[8],
        parent_piece=row[9],
        execution=row[10],
        generation=row[11],
        input=row[12],
        result=row[13],
        error=row[14],
        signature=row[15],
        episode_id=row[16],
        lease_holder=row[17],
        lease_epoch=row[18],
        locks=locks,
    )


def _hold_record(row: tuple[Any, ...]) -> HoldRecord:
    on_deadline = json.loads(row[12])
    return HoldRecord(
        id=row[0],
        run_id=row[1],
        execution=row[2],
        path=row[3],
        key=row[4],
        ordinal=row[5],
        piece=row[6],
        reason=row[7],
        opened_at=instant(row[8]),
        payload=json.loads(row[9]),
        expects=None if row[10] is None else json.loads(row[10]),
        deadline=_maybe(row[11]),
        on_deadline=tuple(on_deadline) if isinstance(on_deadline, list) else on_deadline,
        state=row[13],
        answer=json.loads(row[14]),
        answered_by=row[15],
        answered_at=_maybe(row[16]),
    )
