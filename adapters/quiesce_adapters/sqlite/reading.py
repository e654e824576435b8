"""How are the facts of the store port read in SQL?

One method per fact, each a named statement of `queries.sql`, sent through `statement`, the one place that
every statement of the store goes through. Nothing here begins or ends a transaction, or decides anything.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Literal

from quiesce.errors import StoreError
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
from quiesce.store import Pieces

from .records import (
    compact,
    episode_record,
    hold_record,
    instant,
    journal_entry,
    micros,
    parsed,
    piece_row,
    receipt_record,
    run_record,
)
from .statements import statements

__all__ = ["SqliteReader"]


_WRITES_RUNS = frozenset(
    label
    for label, sql in statements().items()
    if re.search(r"\b(INSERT INTO|UPDATE|DELETE FROM)\s+runs\b", sql, re.IGNORECASE)
)
"""Statements behind which a run is to be read again."""


class SqliteReader:
    """The reading statements over one connection."""

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
        self._runs: dict[str, RunRecord | None] = {}
        """Runs that were read in this unit of work, and not written since."""
        self.now = instant(0)
        self.touched: list[str] = []
        self.quiet = True

    def open(self, now: datetime) -> None:
        """Begin a unit of work: one instant, nothing touched yet."""
        self.now = now
        self.touched = []
        self.quiet = True
        self._runs.clear()

    def statement(self, label: str, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Send a statement; the one place that every statement of the store goes through."""
        if self._on_statement is not None:
            self._on_statement(label)
        return self._connection.execute(sql, parameters)

    def _run(self, label: str, parameters: Any = ()) -> sqlite3.Cursor:
        if label in _WRITES_RUNS:
            self._runs.clear()
        return self.statement(label, self._sql[label], parameters)

    def alive(self, incarnation: int | None) -> bool:
        return incarnation is not None and self._alive(incarnation)

    def run(self, run_id: str) -> RunRecord | None:
        if run_id in self._runs:
            known = self._runs[run_id]
        else:
            row = self._run("run.get", (run_id,)).fetchone()
            known = self._runs[run_id] = None if row is None else run_record(row)
        return None if known is None else known.copied()

    def those(self, run_ids: Collection[str]) -> list[RunRecord]:
        asked = list(dict.fromkeys(run_ids))
        unknown = [run_id for run_id in asked if run_id not in self._runs]
        if len(unknown) > 1:
            found = (run_record(row) for row in self._run("run.those", (compact(unknown),)))
            self._runs |= dict.fromkeys(unknown) | {run.id: run for run in found}
        return [run for run_id in asked if (run := self.run(run_id)) is not None]

    def children(self, run_id: str) -> list[RunRecord]:
        return [run_record(row) for row in self._run("run.children", (run_id,))]

    def runs(self, which: RunFilter, limit: int, after: str | None) -> tuple[list[RunRecord], str | None]:
        number = None
        if after is not None:
            found = self._run("run.number", (after,)).fetchone()
            number = found[0] if found else 0
        parameters = {
            "states": None if which.states is None else compact(which.states),
            "kind": which.kind,
            "flow": which.flow,
            "parent": which.parent,
            "after": number,
            "limit": limit + 1,
        }
        rows = self._run("run.page", parameters).fetchall()
        page = [run_record(row) for row in rows[:limit]]
        return page, (page[-1].id if len(rows) > limit else None)

    def run_counts(self) -> Mapping[str, int]:
        return dict(self._run("run.counts").fetchall())

    def unquiet(self) -> list[str]:
        return [run_id for (run_id,) in self._run("episode.unquiet")]

    def claimable(self, flows: Collection[str]) -> list[str]:
        rows = self._run("run.claimable", (compact(list(flows)),)).fetchall()
        return [run_id for run_id, holder, _ in rows if not self.alive(holder)]

    def value(self, run_id: str, ref: int) -> Any:
        row = self._run("blob.get", (ref, run_id)).fetchone()
        if row is None:
            raise StoreError(f"value {ref} of run {run_id!r} is missing; run `flowctl doctor`")
        return row[0]

    def frontier(self, run_id: str) -> Pieces | None:
        return None

    def pieces(self, run_id: str) -> list[PieceRow]:
        return [piece_row(row) for row in self._run("piece.list", (run_id,))]

    def piece_counts(self, run_id: str) -> Mapping[str, int]:
        return dict(self._run("piece.counts", (run_id,)).fetchall())

    def woken(self, run_id: str) -> list[int]:
        return [piece for (piece,) in self._run("piece.woken", (run_id,))]

    def journal(self, run_id: str, *, aside: bool = False) -> list[JournalEntry]:
        rows = self._run("journal.list_aside" if aside else "journal.list", (run_id,))
        return [journal_entry(row) for row in rows]

    def groups(self, run_id: str) -> list[GroupRow]:
        rows = self._run("group.list", (run_id,))
        return [
            GroupRow(row[0], row[1], row[2], parsed(row[3], "detail", f"group {row[0]} of {run_id}"))
            for row in rows
        ]

    def arrivals(self, run_id: str) -> list[ArrivalRow]:
        return [ArrivalRow(*row) for row in self._run("arrival.list", (run_id,))]

    def counters(self, run_id: str) -> Any:
        row = self._run("run.counters", (run_id,)).fetchone()
        return None if row is None or row[0] is None else parsed(row[0], "counters", run_id)

    def episode(self, episode_id: str) -> EpisodeRecord | None:
        row = self._run("episode.get", (episode_id,)).fetchone()
        return None if row is None else episode_record(row)

    def receipts(self, episode_id: str) -> list[ReceiptRecord]:
        return [receipt_record(row) for row in self._run("receipt.list", (episode_id,))]

    def drain_counts(self, episode_id: str) -> Mapping[str, int]:
        return dict(self._run("receipt.drain_counts", (episode_id,)).fetchall())

    def draining(self, run_ids: Collection[str]) -> list[tuple[str, datetime]]:
        rows = self._run("episode.draining", (compact(list(run_ids)),))
        return [(episode_id, instant(until)) for episode_id, until in rows]

    def hold(self, hold_id: str) -> HoldRecord | None:
        row = self._run("hold.get", (hold_id,)).fetchone()
        return None if row is None else hold_record(row)

    def last_hold(self, run_id: str, execution: int, path: str) -> HoldRecord | None:
        row = self._run("hold.last", (run_id, execution, path)).fetchone()
        return None if row is None else hold_record(row)

    def open_holds(self, run_id: str) -> list[HoldRecord]:
        return [hold_record(row) for row in self._run("hold.open", (run_id,))]

    def asking(self, run_id: str) -> list[str]:
        return [id for (id,) in self._run("hold.asking", (run_id,))]

    def holds(self, run_id: str | None, state: str | None, limit: int, after: int) -> list[HoldRecord]:
        parameters: dict[str, Any] = {"run": run_id, "limit": limit, "after": after}
        if state == "open":
            return [hold_record(row) for row in self._run("hold.inbox", parameters)]
        label = "hold.page" if run_id is None else "hold.page_of_run"
        return [hold_record(row) for row in self._run(label, parameters | {"state": state})]

    def open_hold_count(self) -> int:
        return int(self._run("hold.open_count").fetchone()[0])

    def due_holds(self, before: datetime, flows: Collection[str]) -> list[HoldRecord]:
        return [hold_record(row) for row in self._run("hold.due", (micros(before), compact(list(flows))))]

    def next_deadline(self, flows: Collection[str]) -> datetime | None:
        row = self._run("hold.next_deadline", (compact(list(flows)),)).fetchone()
        return None if row is None else instant(row[0])

    def messages(self, run_id: str) -> int:
        count: int = self._run("message.count", (run_id,)).fetchone()[0]
        return count

    def request(self, run_id: str, request_id: str) -> RequestRecord | None:
        row = self._run("request.get", (run_id, request_id)).fetchone()
        return (
            None
            if row is None
            else RequestRecord(run_id, request_id, row[0], row[1], parsed(row[2], "ack", request_id))
        )

    def events(self, run_id: str | None, after: int, limit: int) -> list[tuple[Any, ...]]:
        if run_id is None:
            rows = self._run("event.page", (after, limit))
        else:
            rows = self._run("event.page_of_run", (run_id, after, limit))
        return [
            (row[0], instant(row[1]), *row[2:8], parsed(row[8], "data", f"event {row[0]}")) for row in rows
        ]

    def last_event(self) -> int:
        return int(self._run("event.last").fetchone()[0])

    def ids_from(self, what: Literal["runs", "holds"], prefix: str, limit: int) -> list[str]:
        return [found for (found,) in self._run(f"{what}.ids_from", (prefix, limit))]

    def workers(self) -> list[WorkerRecord]:
        return [
            WorkerRecord(
                row[0],
                row[1],
                row[2],
                instant(row[3]),
                [tuple(flow) for flow in parsed(row[4], "flows", f"worker {row[0]}")],
            )
            for row in self._run("worker.list")
        ]
