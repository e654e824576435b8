"""Which incarnations of a store are alive: the kernel knows, no clock is asked.

Theory of operation. Each runtime that opens a store gets a number of its own from it, its incarnation.
It proves its life by a POSIX record lock on one byte of the file `live`, at the offset of that number
(the file stays empty; locks may lie beyond its end). The kernel drops the lock when the process ends,
however it ends, and names the holder's pid to whoever asks. A stopped process (SIGSTOP, a debugger, a
laptop's lid) still holds its locks: it lives, and nobody may take over what it drives. Rejected:
heartbeats (a clock decides, and a slow process is declared dead); pid files (pids are used again); and
`flock`, which has no bytes and does not tell who holds it.

Record locks have traps, and this file is where all of them are handled:

1. They belong to the process and the file. Closing ANY descriptor of the file in this process drops ALL
   of its locks, those of another store object included. So there is one descriptor per file in the
   process (`_File`, found by device and inode: two paths can lead to one file), it is counted, and it is
   closed when its last user leaves; by then no lock is left. A descriptor that was opened by mistake is
   kept with it, not closed.
2. For the same reason code that we do not know (a backup that copies the folder from inside this
   process) can drop the locks silently. `verify()` takes them again, which costs nothing if they stand.
3. A process never conflicts with itself: F_GETLK does not show own locks, and F_SETLK takes a byte
   twice. Both questions are answered from the registry `_File.held` first.
4. They are not inherited by a fork: see `forks.py`.
5. A lock is on the inode, not on the name. If the file was deleted or replaced, new processes look at
   another one and think that we are dead; `verify()` detects that.
6. `struct flock` has another order on Linux than on the BSDs and macOS. Only F_GETLK needs it here.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading
from pathlib import Path
from typing import Self

from quiesce.clock import Clock
from quiesce.errors import StoreError, StoreMismatch, StoreReadOnly

from .forks import ForkGuard
from .refusals import refused_by_system

__all__ = ["Liveness", "lock_holder"]

_HIGHEST = 2**63 - 1  # the last offset of a file


class Liveness:
    """One runtime's view of who is alive on a store, and its own proof of life. Threads may share it."""

    def __init__(self, file: _File, clock: Clock) -> None:
        self._file = file
        self._guard = ForkGuard(clock, str(file.path), file.let_go)
        self._open = True

    @classmethod
    def open(cls, folder: Path, clock: Clock) -> Self:
        """Open `folder`/live; folder and file are made if they are missing.

        Where they cannot be written, others can still be seen; `hold` is then refused.
        """
        with _MUTEX:
            file = _File.of(folder / "live")
            file.users += 1
            return cls(file, clock)

    def hold(self, incarnation: int) -> None:
        """Be alive under this number until `release`, `close` or the end of the process.

        Raises: StoreMismatch if somebody lives under it, StoreReadOnly, StoreError.
        """
        with _MUTEX:
            self._check(incarnation)
            owner = self._file.held.get(incarnation)
            if owner is self:
                return
            if owner is not None:
                raise StoreMismatch(f"incarnation {incarnation} is alive already, in this process")
            self._file.lock(incarnation)
            self._file.held[incarnation] = self

    def release(self, incarnation: int) -> None:
        """Be dead under this number. It does nothing if this object does not hold it."""
        with _MUTEX:
            self._check(incarnation)
            if self._file.held.get(incarnation) is self:
                self._file.unlock(incarnation)

    def holder(self, incarnation: int) -> int | None:
        """The pid of the process that lives under this number; None if nobody does.

        It is 0 if the holder lives where its pid cannot be seen from here (another container).
        """
        with _MUTEX:
            self._check(incarnation)
            owner = self._file.held.get(incarnation)
            return self._file.query(incarnation) if owner is None else owner._guard.pid

    def alive(self, incarnation: int) -> bool:
        """Whether a process, running or stopped, lives under this number."""
        return self.holder(incarnation) is not None

    def verify(self) -> None:
        """Check that others see what this object holds, and take again what a stray close dropped.

        Raises: StoreMismatch if the file was deleted or replaced, or if a lock went to somebody else.
        """
        with _MUTEX:
            self._check(0)
            if _identity(self._file.path) != self._file.key:
                raise StoreMismatch(
                    f"{self._file.path} was deleted or replaced while this process used it, so others "
                    "cannot see that it is alive; stop this process and open the store again"
                )
            for incarnation, owner in self._file.held.items():
                if owner is self:
                    self._file.lock(incarnation)

    def close(self) -> None:
        """Release what this object holds; others of this process keep theirs. Twice is once."""
        with _MUTEX:
            if not self._open:
                return
            self._guard.check()
            self._open = False
            for incarnation in [number for number, owner in self._file.held.items() if owner is self]:
                self._file.unlock(incarnation)
            self._file.users -= 1
            if self._file.users == 0:
                self._file.close()

    def _check(self, incarnation: int) -> None:
        self._guard.check()
        if not self._open:
            raise StoreError(f"{self._file.path} was closed by this runtime")
        if not 0 <= incarnation <= _HIGHEST:
            raise ValueError(f"an incarnation is a number from 0 to 2**63 - 1, not {incarnation}")


class _File:
    """The only descriptor of one file in this process, and who in it holds which byte. Needs _MUTEX."""

    def __init__(self, path: Path, key: tuple[int, int], fd: int, writable: bool) -> None:
        self.path = path
        self.key = key
        self.users = 0
        self.held: dict[int, Liveness] = {}
        self._fds = [fd]  # the second and later ones came by trap 1
        self._writable = writable

    @classmethod
    def of(cls, path: Path) -> _File:
        key = _identity(path)
        if key in _FILES:
            return _FILES[key]
        writable = True
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise refused_by_system(error, f"open {path}") from error
            writable = False
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                raise StoreReadOnly(f"cannot make or open {path}: {error.strerror}") from error
        found = os.fstat(fd)
        key = (found.st_dev, found.st_ino)
        if key in _FILES:  # another process put a file that we have open under this name, just now
            _FILES[key]._fds.append(fd)
        else:
            _FILES[key] = cls(path, key, fd, writable)
        return _FILES[key]

    def lock(self, incarnation: int) -> None:
        if not self._writable:
            raise StoreReadOnly(f"{self.path} cannot be written, so no runtime can live on this store")
        try:
            fcntl.lockf(self._fds[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, incarnation, os.SEEK_SET)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise StoreError(f"cannot lock {self.path}: {error.strerror}") from error
            who = f"in process {self.query(incarnation)}"
            raise StoreMismatch(f"incarnation {incarnation} is alive already, {who}: {self.path}") from error

    def unlock(self, incarnation: int) -> None:
        del self.held[incarnation]
        fcntl.lockf(self._fds[0], fcntl.LOCK_UN, 1, incarnation, os.SEEK_SET)

    def query(self, incarnation: int) -> int | None:
        return lock_holder(self._fds[0], incarnation)

    def close(self) -> None:
        del _FILES[self.key]
        self.let_go()

    def let_go(self) -> None:
        while self._fds:
            os.close(self._fds.pop())
        _FILES.pop(self.key, None)


def lock_holder(descriptor: int, offset: int) -> int | None:
    """The pid of the other process that has a record lock on this byte of a file; None if none has."""
    answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _pack(fcntl.F_WRLCK, offset))
    kind, pid = _unpack(answer)
    return None if kind == fcntl.F_UNLCK else pid


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode, found without opening the file (trap 1)."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


if sys.platform.startswith("linux"):
    _FLOCK = struct.Struct("@hhqqi4x")  # type, whence, start, len, pid; native alignment pads it

    def _pack(kind: int, start: int) -> bytes:
        return _FLOCK.pack(kind, os.SEEK_SET, start, 1, 0)

    def _unpack(answer: bytes) -> tuple[int, int]:
        kind, _, _, _, pid = _FLOCK.unpack(answer)
        return kind, pid

else:
    _FLOCK = struct.Struct("@qqihh8x")  # start, len, pid, type, whence; FreeBSD has a sysid behind them

    def _pack(kind: int, start: int) -> bytes:
        return _FLOCK.pack(start, 1, 0, kind, os.SEEK_SET)

    def _unpack(answer: bytes) -> tuple[int, int]:
        _, _, pid, kind, _ = _FLOCK.unpack(answer)
        return kind, pid


_FILES: dict[tuple[int, int] | None, _File] = {}
_MUTEX = threading.Lock()  # held over a fork, so that the child finds the registry whole
os.register_at_fork(before=_MUTEX.acquire, after_in_parent=_MUTEX.release, after_in_child=_MUTEX.release)
