"""Is a SQLite store well, and who is writing to it? What `flowctl doctor` tells.

Looks and changes nothing: the file is opened read-only, locks are asked for and never taken.

Source: spec engine, 7 (`doctor`); cases failures-durable-engines 64 (a wedged store must name who holds it).
"""

from __future__ import annotations

import os
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path

from quiesce.clock import Clock
from quiesce.errors import StoreMismatch
from quiesce.runs import Value

from .checks import violations
from .filesystem import NETWORK, file_system
from .liveness import Liveness, lock_holder
from .migrations import APPLICATION_ID, VERSION
from .queue import FairQueue

__all__ = ["Health", "examine"]

WAL_WRITE_LOCK = 120
"""The byte of `-shm` that the writer of a WAL locks: part of SQLite's file format (walformat.html)."""


@dataclass(frozen=True, slots=True)
class Health(Value):
    """What there is to know of a store's file. `problems` are sentences; a store that is well has none.

    `in_turn` is the process whose turn in the queue of writers it is, where the system tells it (Linux);
    `writes` is the one that has a write transaction open at this moment, also if it passed no queue.
    """

    path: str
    bytes: int
    wal_bytes: int
    file_system: str | None
    journal_mode: str
    store_version: int
    known_version: int
    sqlite_version: str
    python_version: str
    in_turn: int | None
    writes: int | None
    living: tuple[tuple[int, int], ...]
    """Incarnation and pid of each process that drives runs; its pid is 0 if it cannot be seen from here."""
    dead: tuple[int, ...]
    problems: tuple[str, ...]


def examine(path: Path, clock: Clock) -> Health:
    """Look at the store in this file.

    Raises:
        StoreMismatch: it is no SQLite file, or no store of quiesce.
    """
    folder = path.with_name(path.name + "-quiesce")
    connection = sqlite3.connect(path.absolute().as_uri() + "?mode=ro", uri=True, isolation_level=None)
    try:
        application, version, mode = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "journal_mode")
        )
        if application != APPLICATION_ID:
            raise StoreMismatch(f"{path} is no store of quiesce; name another file with --db")
        connection.execute("BEGIN")  # one view for all of it
        problems = violations(connection) if version == VERSION else []
        workers = connection.execute("SELECT incarnation FROM workers ORDER BY incarnation").fetchall()
    except sqlite3.DatabaseError as error:
        raise StoreMismatch(f"{path} is damaged or no SQLite file: {error}; put a copy back") from error
    finally:
        connection.close()
    if version != VERSION:
        problems.append(f"the store has version {version}, and this quiesce knows version {VERSION}")
    if (kind := file_system(path.parent)) in NETWORK:
        problems.append(f"it is on a network file system ({kind}), where locks cannot be trusted")
    if mode != "wal":
        problems.append(f"its journal mode is {mode}, not wal")
    life, queue = Liveness.open(folder, clock), FairQueue.open(folder, clock)
    try:
        holders = {number: life.holder(number) for (number,) in workers}
        in_turn = queue.holder()
    finally:
        life.close()
        queue.close()
    return Health(
        path=str(path),
        bytes=path.stat().st_size,
        wal_bytes=_size(path.with_name(path.name + "-wal")),
        file_system=kind,
        journal_mode=mode,
        store_version=version,
        known_version=VERSION,
        sqlite_version=sqlite3.sqlite_version,
        python_version=sys.version.split()[0],
        in_turn=in_turn,
        writes=_writes_now(path),
        living=tuple((number, pid) for number, pid in holders.items() if pid is not None),
        dead=tuple(number for number, pid in holders.items() if pid is None),
        problems=tuple(problems),
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _writes_now(path: Path) -> int | None:
    """The process that has a write transaction open, whether it passed the queue or not.

    It has SQLite's record lock on a byte of the shared-memory file. Only for a process that has the store
    not open: closing the file drops the locks of this process on it (trap 1 of `liveness.py`).
    """
    try:
        descriptor = os.open(path.with_name(path.name + "-shm"), os.O_RDONLY)
    except OSError:
        return None  # nobody has the store open
    try:
        return lock_holder(descriptor, WAL_WRITE_LOCK)
    finally:
        os.close(descriptor)
