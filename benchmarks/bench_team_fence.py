"""How long does the fence of a team at work take, and how long its drain, beside the least that they could?

A coordinator and nine members work in one process, each body with a safe point every 50 ms. The team is
paused at a random phase of that, and resumed, again and again.

- Fence: from the call of `Run.pause` to its ack. Beside it, in turns, one bare transaction on a bare
  sqlite3 connection with the same pragmas that writes the same rows: those in which a copy of the store
  from before a fence and one from behind it differ.
- Drain: from the ack to the moment at which `Run.settled` returns; beside the 50 ms that a body may take.

`python benchmarks/bench_team_fence.py` prints them for 200 pauses. Nothing is asserted about time.
Source: spec team, "Numbers"; cases team 84, 85.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_benchmark.fixture import BenchmarkFixture

from quiesce import Runtime, Team, Turn

MEMBERS = 9
SAFE_POINT = 0.05  # seconds
PAUSES = (3, 200)

Rows = dict[str, dict[int, tuple[Any, ...]]]
"""The rows of each table by rowid."""


async def work(turn: Turn) -> None:
    """A body that is at work until its run is cancelled."""
    if turn.kind == "coordinator":
        for number in range(MEMBERS):
            turn.create_task(f"task {number}", owner=f"member{number}")
    while True:
        await asyncio.sleep(SAFE_POINT)
        turn.checkpoint()


TEAM = Team("busy", coordinator=work, members={f"member{number}": work for number in range(MEMBERS)})


@dataclass
class Times:
    """Seconds of each pause."""

    fence: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    drain: list[float] = field(default_factory=list)
    rows: int = 0

    def told(self) -> dict[str, float]:
        """What is worth knowing of them, in milliseconds, and the ratios."""

        def at(samples: list[float], percent: int) -> float:
            ordered = sorted(samples)
            return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1e3, 3)

        ratios = [ours / bare for ours, bare in zip(self.fence, self.bare, strict=True)]
        return {
            "pauses": len(self.fence),
            "rows of a fence": self.rows,
            "fence, ms, P50": at(self.fence, 50),
            "fence, ms, P90": at(self.fence, 90),
            "fence, ms, max": at(self.fence, 100),
            "bare transaction, ms, P50": at(self.bare, 50),
            "bare transaction, ms, P90": at(self.bare, 90),
            "times the bare transaction": round(statistics.median(ratios), 2),
            "drain, ms, P50": at(self.drain, 50),
            "drain, ms, P90": at(self.drain, 90),
            "drain, ms, max": at(self.drain, 100),
            "times the 50 ms of a body, at most": round(max(self.drain) / SAFE_POINT, 2),
        }


class BareFence:
    """The rows of one fence, written by nobody but sqlite3."""

    def __init__(self, store: Path, path: Path) -> None:
        """A copy of the store from before the fence."""
        self._store = store
        with sqlite3.connect(store) as source:
            self._connection = sqlite3.connect(path, isolation_level=None)
            source.backup(self._connection)
        source.close()
        triggers = self._connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            self._connection.execute(f'DROP TRIGGER "{name}"')
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._before = _rows(self._connection)
        self._there: list[tuple[str, list[tuple[Any, ...]]]] = []
        self._undo: list[tuple[str, list[tuple[Any, ...]]]] = []

    def see(self) -> int:
        """The store from behind the fence: how many rows are different."""
        with sqlite3.connect(self._store) as source:
            after = _rows(source)
        source.close()
        for table, rows in after.items():
            before = self._before[table]
            there = [(rowid, *row) for rowid, row in rows.items() if before.get(rowid) != row]
            if there:
                places = ", ".join("?" * len(there[0]))
                columns = self._connection.execute(f'SELECT name FROM pragma_table_info("{table}")')
                names = ", ".join(f'"{name}"' for (name,) in columns.fetchall())
                statement = f'REPLACE INTO "{table}" (rowid, {names}) VALUES ({places})'
                self._there.append((statement, there))
                new = [(rowid,) for rowid, *_ in there if rowid not in before]
                old = [(rowid, *before[rowid]) for rowid, *_ in there if rowid in before]
                self._undo.append((f'DELETE FROM "{table}" WHERE rowid = ?', new))
                self._undo.append((statement, old))
        return sum(len(rows) for _, rows in self._there)

    def write(self) -> float:
        """Write them once, in one transaction; its seconds."""
        started = time.perf_counter()
        self._transaction(self._there)
        seconds = time.perf_counter() - started
        self._transaction(self._undo)
        return seconds

    def _transaction(self, statements: list[tuple[str, list[tuple[Any, ...]]]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for statement, rows in statements:
            self._connection.executemany(statement, rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


def _rows(connection: sqlite3.Connection) -> Rows:
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%WITHOUT%'"
    )
    return {
        name: {row[0]: row[1:] for row in connection.execute(f'SELECT rowid, * FROM "{name}"')}
        for (name,) in tables.fetchall()
    }


async def pauses(folder: Path, count: int) -> Times:
    """Pause the team so often."""
    times, path = Times(), folder / "flows.db"
    async with Runtime(path) as rt:
        run = await rt.start(TEAM, run_id="busy")
        while sum(turn.state == "running" for turn in await run.turns()) <= MEMBERS:  # noqa: ASYNC110
            await asyncio.sleep(SAFE_POINT / 10)
        bare = BareFence(path, folder / "bare.db")
        await run.pause()
        times.rows = bare.see()
        for _ in range(20):
            bare.write()  # a log that grows costs more
        await run.settled()
        for _ in range(count):
            await run.resume()
            await asyncio.sleep(random.uniform(1, 2) * SAFE_POINT)
            started = time.perf_counter()
            await run.pause()
            fenced = time.perf_counter()
            await run.settled()
            times.drain.append(time.perf_counter() - fenced)
            times.fence.append(fenced - started)
            times.bare.append(bare.write())
        bare.close()
        await run.cancel()
    return times


def test_fence_and_drain_of_a_team(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Ten bodies with a safe point every 50 ms."""
    count = PAUSES[benchmark.enabled]
    times = benchmark.pedantic(lambda: asyncio.run(pauses(tmp_path, count)), rounds=1)
    benchmark.extra_info.update(times.told())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as where:
        for what, figure in asyncio.run(pauses(Path(where), PAUSES[True])).told().items():
            print(f"{what:36} {figure:>9}")
