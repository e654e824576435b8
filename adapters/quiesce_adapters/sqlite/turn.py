"""Whose turn it is to write, between processes: two file locks, and who may pass whom.

Theory of operation. Whoever holds `flock` on the file `queue` may begin a write transaction. Its waiters
stand in the kernel, which also takes away the turn of a process that dies.

The kernel wakes all of them when the lock is free, but the process that has just let go is still running
and takes it again before one of them has run: with two hot processes a third waited 69 ms at P90, 200 at
most. So whoever waits holds a shared lock on a second file, `waiting`, and whoever comes tries an
exclusive one first: that fails while somebody waits, and the newcomer waits too. With this the third
waits 1.5 ms at P90. But a hand-over costs more than a commit, and one after each commit nearly halves
what two hot processes write; so a connection that was served may pass those who wait for `_BURST` more.
Then the third waits 3 ms, and half of the loss is back.

Rejected: a gate that the waiters take one after the other. It is as fair, but a waiter that is stopped
(Ctrl-Z) behind the gate would stop every writer of the store. A waiter that is stopped here costs the
others their short cut, no more. (Whoever is stopped when it is its turn does stop them, as it would
with SQLite's lock alone; `holder` says who that is.)

`flock` belongs to the open file: each connection opens its own, and a second lock of one that is locked
succeeds. So this object must be used by one thread at a time; `queue.py` sees to that.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from quiesce.clock import Clock

from .refusals import refused_by_system

__all__ = ["Turn"]

_BURST = 0.002  # seconds


class Turn:
    """One connection's hold of the two locks."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Open both files, make what is missing. Raises: StoreError."""
        self.path = folder / "queue"
        self._clock = clock
        self._fds: list[int] = []  # of `queue` and of `waiting`
        self._burst_end = 0.0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in (self.path, folder / "waiting"):
                self._fds.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
        except OSError as error:
            self.close()
            raise refused_by_system(error, f"open the write queue {self.path}") from error

    def try_take(self) -> bool:
        """Take the turn if it is free, and nobody waits or this connection may pass. Never blocks."""
        queue, waiting = self._fds
        now = self._clock.monotonic()
        if not _try_flock(waiting):
            return now < self._burst_end and _try_flock(queue)
        try:
            self._burst_end = now + _BURST
            return _try_flock(queue)
        finally:
            fcntl.flock(waiting, fcntl.LOCK_UN)

    def wait(self) -> None:
        """Block until it is this connection's turn. Raises: OSError."""
        queue, waiting = self._fds
        fcntl.flock(waiting, fcntl.LOCK_SH)  # held up by a `try_take` alone, for microseconds
        try:
            fcntl.flock(queue, fcntl.LOCK_EX)
        finally:
            fcntl.flock(waiting, fcntl.LOCK_UN)
        self._burst_end = self._clock.monotonic() + _BURST

    def end(self) -> None:
        """Let the next one have it."""
        # Not left to close(): a child in the middle of a fork shares the open file, and keeps the lock.
        fcntl.flock(self._fds[0], fcntl.LOCK_UN)

    def holder(self) -> int | None:
        """The pid of the process whose turn it is, where the system tells it (Linux), else None."""
        try:
            found = self.path.stat()
            locks = Path("/proc/locks").read_text()
        except OSError:
            return None
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        for line in locks.splitlines():
            match line.split():
                case [_, "FLOCK", _, _, pid, where, *_] if where == place:  # a waiter's has "->" first
                    return int(pid)
        return None

    def close(self) -> None:
        """Close the files; twice is once."""
        while self._fds:
            os.close(self._fds.pop())


def _try_flock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
