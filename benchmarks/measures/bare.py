"""What is the least that a durable pause could cost: the same rows, written by hand in plain sqlite3?

The pragmas are those of our store. The tables have the columns that our fence fills, and no index but the
primary keys and that of what is active. What a fence writes depends on what is paused:

- a graph: its run, an episode, and a receipt for each of its pieces;
- an agent with children: the same for each run of the tree, all of which are paused, one piece each;
- a team: its run, an episode, a receipt for each turn; the turns that are queued go stale; the bodies of
  those that run are runs of a tree.

Left out is what ours also writes: the log, and the ack for whoever repeats the request.

A log that still grows makes each commit cost half as much again (the disk has to note its new length), so
every database is warmed before anything in it is timed.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BareFence", "Commits", "Disk", "Rows", "warm"]

SCHEMA = """
CREATE TABLE runs (id INTEGER PRIMARY KEY, parent INTEGER, state TEXT NOT NULL, generation INTEGER NOT NULL,
                   episode TEXT, lease INTEGER NOT NULL, holder INTEGER NOT NULL, locks TEXT NOT NULL) STRICT;
CREATE INDEX children ON runs (parent) WHERE parent IS NOT NULL;
CREATE TABLE pieces (run INTEGER NOT NULL, piece INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
                     state TEXT NOT NULL, PRIMARY KEY (run, piece)) STRICT, WITHOUT ROWID;
CREATE TABLE episodes (id TEXT PRIMARY KEY, run INTEGER NOT NULL, generation INTEGER NOT NULL,
                       cause TEXT NOT NULL, opened_at INTEGER NOT NULL, drain_until INTEGER NOT NULL,
                       quiescent_at INTEGER, closed_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE receipts (episode TEXT NOT NULL, piece INTEGER NOT NULL, run INTEGER NOT NULL,
                       kind TEXT NOT NULL, name TEXT NOT NULL, was TEXT NOT NULL, drain TEXT NOT NULL,
                       at INTEGER NOT NULL, lease INTEGER, holder INTEGER, released_at INTEGER,
                       PRIMARY KEY (episode, piece)) STRICT, WITHOUT ROWID;
"""
CAPTURE = """
INSERT INTO receipts (episode, piece, run, kind, name, was, drain, at, lease, holder)
SELECT r.episode, p.piece, r.id, p.kind, p.name, p.state,
       CASE p.state WHEN 'running' THEN 'pending' ELSE 'absent' END, ?, r.lease, r.holder
FROM runs AS r JOIN pieces AS p ON p.run = r.id WHERE {which} AND p.state IN ('queued', 'running')
"""
FRAMES = 1100
"""Pages in the log of a warm database: more than the 1000 at which SQLite begins it anew."""


def connect(path: Path, durability: str) -> sqlite3.Connection:
    """A connection with the pragmas of our store."""
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256, timeout=30.0)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA synchronous = {durability.upper()}")
    return connection


def warm(path: Path) -> None:
    """Bring the log of a database to the length that it keeps."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    page = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.execute("CREATE TABLE warm (body BLOB)")
    connection.execute("INSERT INTO warm VALUES (zeroblob(?))", (FRAMES * page,))
    connection.execute("DROP TABLE warm")
    connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    connection.close()


class Disk:
    """A file of a megabyte, of which one page is written again and brought to the disk."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        self._page = b"x" * 4096
        os.pwrite(self._file, self._page * 256, 0)
        os.fsync(self._file)
        self._at = 0

    def sync(self) -> float:
        """Seconds for one page."""
        started = time.perf_counter()
        os.pwrite(self._file, self._page, self._at * 4096)
        os.fsync(self._file)
        seconds = time.perf_counter() - started
        self._at = (self._at + 1) % 256
        return seconds

    def close(self) -> None:
        os.close(self._file)


class Commits:
    """One small row in each transaction."""

    def __init__(self, path: Path, durability: str) -> None:
        self._connection = connect(path, durability)
        self._connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT) STRICT")
        warm(path)

    def commit(self) -> float:
        """Seconds for one."""
        started = time.perf_counter()
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO rows (body) VALUES (?)", ("x" * 200,))
        self._connection.execute("COMMIT")
        return time.perf_counter() - started

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True, slots=True)
class Rows:
    """What is paused: `running` and `queued` pieces of one run, and `children`, runs of one piece each."""

    running: int
    queued: int = 0
    children: int = 0

    def __str__(self) -> str:
        receipts = self.running + self.queued + self.children
        rows = 2 * (1 + self.children) + receipts + self.queued
        return f"{rows} rows, {receipts} of them receipts"


class BareFence:
    """A database with one run, which is paused and resumed by hand."""

    def __init__(self, path: Path, durability: str, rows: Rows) -> None:
        self.rows = rows
        self._connection = connect(path, durability)
        self._connection.executescript(SCHEMA)
        self._fill()
        warm(path)

    def _fill(self) -> None:
        run = "INSERT INTO runs VALUES (?, ?, 'running', 1, NULL, 1, 1, '{}')"
        piece = "INSERT INTO pieces VALUES (?, ?, 'piece', ?, ?)"
        states = ["running"] * self.rows.running + ["queued"] * self.rows.queued
        self._connection.execute("BEGIN")
        self._connection.execute(run, (1, None))
        self._connection.executemany(
            piece, ((1, number, f"piece {number % 50}", state) for number, state in enumerate(states, 1))
        )
        children = range(2, 2 + self.rows.children)
        self._connection.executemany(run, ((child, 1) for child in children))
        self._connection.executemany(piece, ((child, 1, "body", "running") for child in children))
        self._connection.execute("COMMIT")

    def pause(self) -> float:
        """Seconds for the transaction."""
        do = self._connection.execute
        now = time.time_ns() // 1000
        started = time.perf_counter()
        do("BEGIN IMMEDIATE")
        self._open(do, "id = 1 AND state = 'running'", now)
        do(CAPTURE.format(which="r.id = 1"), (now,))
        if self.rows.children:
            self._open(do, "parent = 1 AND state = 'running'", now)
            do(CAPTURE.format(which="r.parent = 1"), (now,))
        if self.rows.queued:
            do("UPDATE pieces SET state = 'stale' WHERE run = 1 AND state = 'queued'")
        do("COMMIT")
        return time.perf_counter() - started

    @staticmethod
    def _open(do: object, which: str, now: int) -> None:
        assert callable(do)
        changed = do(
            "UPDATE runs SET state = 'paused', generation = generation + 1,"
            " episode = id || ':' || (generation + 1),"
            f' locks = \'{{"operator":["because","somebody",0]}}\' WHERE {which}'
        ).rowcount
        opened = do(
            "INSERT INTO episodes SELECT episode, id, generation, 'operator', ?, ?, NULL, NULL FROM runs"
            f" WHERE {which.replace('running', 'paused')}",
            (now, now + 10_000_000),
        ).rowcount
        assert changed == opened > 0

    def release(self) -> None:
        """Write that everything has yielded, in one transaction."""
        do = self._connection.execute
        now = time.time_ns() // 1000
        do("BEGIN IMMEDIATE")
        for which in ("id = 1", "parent = 1")[: 2 if self.rows.children else 1]:
            episodes = f"(SELECT episode FROM runs WHERE {which})"
            do(
                f"UPDATE receipts SET drain = 'released', released_at = ? WHERE episode IN {episodes}"
                " AND drain = 'pending'",
                (now,),
            )
            do(f"UPDATE episodes SET quiescent_at = ? WHERE id IN {episodes}", (now,))
        do("COMMIT")

    def resume(self) -> None:
        """Let all go on, so that it can be paused again."""
        do = self._connection.execute
        do("BEGIN IMMEDIATE")
        do("UPDATE episodes SET closed_at = 1 WHERE id IN (SELECT episode FROM runs)")
        do("UPDATE runs SET state = 'running', generation = generation + 1, episode = NULL, locks = '{}'")
        if self.rows.queued:
            do("UPDATE pieces SET state = 'queued' WHERE state = 'stale'")
        do("COMMIT")

    async def pause_to_quiescent(self) -> float:
        """Seconds for the fence, waking a task for each piece, their ends, and one release of all."""
        loop = asyncio.get_running_loop()
        fenced: list[asyncio.Future[None]] = [loop.create_future() for _ in range(self.rows.running)]
        left = self.rows.running
        yielded = asyncio.Event()

        async def body(paused: asyncio.Future[None]) -> None:
            nonlocal left
            await paused
            left -= 1
            if not left:
                yielded.set()

        bodies = [asyncio.create_task(body(paused)) for paused in fenced]
        await asyncio.sleep(0)
        started = time.perf_counter()
        self.pause()
        for paused in fenced:
            paused.set_result(None)
        await yielded.wait()
        self.release()
        seconds = time.perf_counter() - started
        await asyncio.gather(*bodies)
        return seconds

    def close(self) -> None:
        self._connection.close()
