"""How the processes of one store wake one another: a named pipe each, one byte, no polling.

Theory of operation. A runtime owns the pipe `bells/<incarnation>` and waits until it can be read. Who
has committed something that others should see rings: opens the pipe, writes one byte, closes it. The
byte says nothing, the store says everything: a bell that rang ten times before its owner looked is one
ring, and `wait()` takes all of them at once. No ring is lost between two waits, because the pipe keeps
it; a ring that falls between `wait()` and the owner's read of the store was committed before that read.

A pipe without a reader cannot be opened for writing without blocking (ENXIO): that is how a ringer
learns at once that nobody is there, even if the owner was killed and its pipe is still in the folder.
A full pipe (EAGAIN) was rung 65,536 times and not answered; it needs no further byte. All of this is
quick and never blocks, so `ring` is called right after a commit, on the event loop. It never raises
for what it finds: the commit stands whether or not somebody hears of it, and a safety read of the
store, seconds later, covers a bell that was lost together with its ringer.

The owner keeps a writing descriptor of its own pipe. Without one, the pipe would be "at its end", and
so readable, as soon as the first ringer has closed it. It is a second descriptor, rather than one that
is opened for both (O_RDWR), because POSIX leaves that undefined for pipes.

Order matters at the start and at the end. Prove life first (`liveness.py`), then hang up the bell, then
read the store: whoever commits after that read finds the bell. `sweep` takes away only the bells of
incarnations that are dead, which a newcomer is not. A network file system has no pipes between
machines; the store refuses those.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Self

import anyio

from quiesce.clock import Clock
from quiesce.errors import StoreError

from .forks import ForkGuard
from .refusals import refused_by_system

__all__ = ["Doorbell"]

_MANY = 1 << 16  # bytes: what a pipe holds


class Doorbell:
    """One runtime's bell, and its finger for the bells of the others."""

    def __init__(self, folder: Path, incarnation: int | None, clock: Clock) -> None:
        self._folder = folder
        self._incarnation = incarnation
        self._fds: list[int] = []  # reading end, writing end; empty without a bell of one's own
        self._guard = ForkGuard(clock, str(folder), self._let_go)

    @classmethod
    def open(cls, folder: Path, incarnation: int | None, clock: Clock) -> Self:
        """Hang up the bell of this incarnation in `folder`/bells; with None, only ring others.

        Raises: StoreError.
        """
        bell = cls(folder / "bells", incarnation, clock)
        if incarnation is None:
            return bell
        path = bell._path(incarnation)
        try:
            bell._folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                os.unlink(path)  # of a former life: the store was put back from a copy
            os.mkfifo(path, 0o666)
            for end in (os.O_RDONLY, os.O_WRONLY):  # in this order: a writer needs a reader
                bell._fds.append(os.open(path, end | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            bell._let_go()
            raise refused_by_system(error, f"make the doorbell {path}") from error
        return bell

    async def wait(self) -> None:
        """Wait until somebody rings, or return at once if somebody has since the last wait.

        One task waits at a time, and is cancelled before `close`. It may return for nothing.
        """
        self._guard.check()
        if not self._fds:
            raise StoreError("this runtime has no doorbell of its own that it could wait for")
        await anyio.wait_readable(self._fds[0])
        with suppress(BlockingIOError):
            os.read(self._fds[0], _MANY)

    def ring(self, incarnation: int) -> bool:
        """Ring one bell. False if nobody is there to hear it, or it cannot be rung. Never blocks."""
        self._guard.check()
        try:
            fd = os.open(self._path(incarnation), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            if not stat.S_ISFIFO(os.fstat(fd).st_mode):
                return False
            os.write(fd, b"!")
        except BlockingIOError:
            return True
        except OSError:  # EPIPE: it died while we rang
            return False
        finally:
            os.close(fd)
        return True

    def ring_all(self, *, except_: Collection[int] = ()) -> int:
        """Ring every bell in the folder, this runtime's too unless excepted; how many were heard."""
        return sum(self.ring(incarnation) for incarnation in self.bells() if incarnation not in except_)

    def bells(self) -> list[int]:
        """The incarnations that have a bell here, in order; some of them may be dead."""
        self._guard.check()
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def sweep(self, dead: Callable[[int], bool]) -> list[int]:
        """Take away each bell whose incarnation is `dead`, never one's own; those that were taken."""
        swept = []
        for incarnation in self.bells():
            if incarnation != self._incarnation and dead(incarnation):
                try:
                    os.unlink(self._path(incarnation))
                except OSError:  # another process sweeps too, or the folder is not ours
                    continue
                swept.append(incarnation)
        return swept

    def close(self) -> None:
        """Take one's own bell away. Others can still be rung. Twice is once."""
        self._guard.check()
        if self._incarnation is not None and self._fds:
            path = self._path(self._incarnation)
            with suppress(OSError):
                if os.path.samestat(os.stat(path), os.fstat(self._fds[0])):  # not one that replaced it
                    os.unlink(path)
        self._let_go()

    def _path(self, incarnation: int) -> str:
        return f"{self._folder}/{incarnation}"  # text: a commit rings every bell, and `/` costs a tenth

    def _let_go(self) -> None:
        while self._fds:
            os.close(self._fds.pop())
