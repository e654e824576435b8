"""Which of our errors is an error of SQLite, or of the operating system?

The one place that knows their names. A message says what was wrong with which file, that nothing was
changed, and what to do next.
"""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from quiesce.errors import StoreBusy, StoreError, StoreFull, StoreMismatch, StoreReadOnly

__all__ = ["is_busy", "refused_by_sqlite", "refused_by_system"]


def is_busy(error: Exception) -> bool:
    """Somebody else has the lock: the same statement may work later."""
    return _name(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def refused_by_sqlite(error: sqlite3.Error, path: Path, *, waited: float, holder: int | None) -> StoreError:
    """An error of the driver as ours; `holder` is the pid of the process whose turn it is to write."""
    name = _name(error)
    if is_busy(error):
        who = f"process {holder}" if holder else "another program"
        return StoreBusy(
            f"{path} is busy: {who} has kept it locked for more than {waited:g} s; nothing was changed: "
            "try again, or see `flowctl doctor`"
        )
    if name.startswith("SQLITE_FULL"):
        return StoreFull(f"the disk of {path} is full; nothing was changed: make room and repeat")
    if name.startswith("SQLITE_READONLY"):
        return StoreReadOnly(f"{path} can only be read here; nothing was changed")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreReadOnly(f"{path} cannot be opened: {error}; does its folder exist and allow it?")
    if name.startswith("SQLITE_NOTADB"):
        return StoreMismatch(
            f"{path} is no quiesce store: {error}; nothing was changed: name another file with --db"
        )
    if name.startswith("SQLITE_CORRUPT"):
        return StoreMismatch(
            f"{path} is damaged: {error}; nothing was changed: see `flowctl doctor`, or put a copy back"
        )
    return StoreError(f"{path}: {name or type(error).__name__}: {error}; nothing was changed")


def refused_by_system(error: OSError, doing: str) -> StoreError:
    """An error of the operating system as ours; `doing` says what could not be done, with the path."""
    kind: type[StoreError] = StoreError
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        kind = StoreReadOnly
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        kind = StoreFull
    return kind(f"cannot {doing}: {error.strerror}")


def _name(error: Exception) -> str:
    return getattr(error, "sqlite_errorname", None) or ""
