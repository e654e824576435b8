"""The fair queue of writers: who wants to begin a write transaction passes here first.

Theory of operation. SQLite lets one connection write; the others sleep and try again, without a queue,
so a busy writer gets its lock again and again (beside ten of them an outsider waits 3.3 s at P90). Here
the writers queue in the kernel instead (`turn.py`). Only fairness depends on that. SQLite's own lock
still keeps the file right, so a program that does not know the queue can be rude, never wrong.

Waiting blocks in the kernel, and `flock` has no timeout, so a daemon thread of our own does it: one per
connection that ever had to wait. Not `anyio.to_thread`: its 40 threads are shared with bodies, which
may all be waiting for a write; a call that is cancelled there must either wait for the lock after all or
abandon it, with the lock taken; and its threads are joined at exit, which a stuck lock would hold up.

No turn is lost. The thread offers its turn to the first task in line, and the task claims it; `_state`
makes each step one. A task that gives up (time is up, or cancelled) leaves the line, or hands the offer
back. The thread is in the kernel then, with its place in the queue: it serves the next task that comes,
or ends the turn as soon as it has it. A task is woken through a pipe, which needs no event loop to be
alive, so it serves asyncio and trio, and tasks of several loops, alike.

An event loop that is busy with something else (a body that computes) must not keep the turn from every
process: an offer ends after `_PATIENCE`, and the task queues again when its loop comes to it.

`_ours` and `_blocked` keep `try_enter` and the thread from sharing one turn by accident: the kernel would
give it to both, as they use one open file.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Self

import anyio

from quiesce.clock import Clock
from quiesce.errors import StoreBusy, StoreError

from .forks import ForkGuard
from .turn import Turn

__all__ = ["FairQueue"]

_PATIENCE = 0.02  # seconds


class FairQueue:
    """The place of one store connection in the queue. Its tasks and threads may share it."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._turn = Turn(folder, clock)
        self._guard = ForkGuard(clock, str(self._turn.path), self._turn.close)
        self._state = threading.Condition()  # guards everything below; never held while blocked
        self._open = True
        self._line: deque[_Waiter] = deque()  # tasks that wait, without the one that has an offer
        self._ours = False  # this connection has the turn: a task is inside, or has an offer
        self._inside = False
        self._blocked = False  # the thread is in the kernel
        self._thread: threading.Thread | None = None

    @classmethod
    def open(cls, folder: Path, clock: Clock) -> Self:
        """Join the writers of the store whose folder this is. Raises: StoreError."""
        return cls(folder, clock)

    def try_enter(self) -> bool:
        """Enter if one may at once; never blocks. Whoever is in must `leave`. Raises: StoreError."""
        self._guard.check()
        with self._state:
            self._refuse_if_closed()
            if self._ours or self._blocked or self._line or not self._turn.try_take():
                return False
            self._ours = self._inside = True
            return True

    async def enter(self, timeout: float) -> None:
        """Enter when it is this task's turn, within `timeout` seconds. It does not yield if that is now.

        Raises: StoreBusy when the time is up, and this task is in no queue then; StoreError.
        """
        if self.try_enter():
            return
        with _Waiter() as waiter:
            try:
                with anyio.move_on_after(timeout):
                    self._join(waiter)
                    while not self._claim(waiter):
                        await anyio.wait_readable(waiter.ear)
                        waiter.hush()
                    return
                if waiter.offered and self._claim(waiter):  # it came in the last moment
                    return
            finally:
                self._give_up(waiter)
        holder = self.holder()
        who = "another writer" if holder is None else f"process {holder}"
        raise StoreBusy(
            f"it was not this writer's turn within {timeout:g} s, {who} has {self._turn.path}; "
            "try again, or see what keeps that process"
        )

    def leave(self) -> None:
        """Let the next one in. It does nothing if nobody is inside."""
        self._guard.check()
        with self._state:
            if self._inside:
                self._end()

    def holder(self) -> int | None:
        """The pid of the process whose turn it is, where the system tells it (Linux), else None."""
        return self._turn.holder()

    def close(self) -> None:
        """Leave, and refuse whoever waits through this object. Twice is once."""
        self._guard.check()
        with self._state:
            if not self._open:
                return
            self._open = False
            self._wake_all()
            self._end()
            if not self._blocked:  # else the thread does it, when the kernel lets it go
                self._turn.close()

    # --- the task that waits -------------------------------------------------------------------------

    def _join(self, waiter: _Waiter) -> None:
        with self._state:
            self._refuse_if_closed()
            self._line.append(waiter)
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="quiesce-queue", daemon=True)
                thread.start()
                self._thread = thread
            self._state.notify_all()

    def _claim(self, waiter: _Waiter) -> bool:
        with self._state:
            self._refuse_if_closed()
            if waiter.failure is not None:
                why = waiter.failure.strerror
                raise StoreError(f"cannot lock {self._turn.path}: {why}") from waiter.failure
            if waiter.offered:
                waiter.offered = False
                self._inside = True
                self._state.notify_all()
                return True
            if waiter not in self._line:  # its offer has ended
                self._line.append(waiter)
                self._state.notify_all()
            return False

    def _give_up(self, waiter: _Waiter) -> None:
        with self._state:
            if waiter.offered:
                waiter.offered = False
                self._end()
            elif waiter in self._line:
                self._line.remove(waiter)

    # --- the thread that waits -----------------------------------------------------------------------

    def _serve(self) -> None:
        while self._is_wanted():
            failure: OSError | None = None
            try:
                self._turn.wait()
            except OSError as error:
                failure = error
            with self._state:
                self._blocked = False
                if not self._open:
                    self._turn.close()
                elif failure is not None:
                    self._wake_all(failure)
                else:
                    self._ours = True
                    self._offer()

    def _is_wanted(self) -> bool:
        with self._state:
            self._state.wait_for(lambda: not self._open or (self._line and not self._ours))
            self._blocked = self._open
            return self._open

    def _offer(self) -> None:
        if self._line:  # else they have all given up
            waiter = self._line.popleft()
            waiter.offered = True
            waiter.wake()
            if self._state.wait_for(lambda: not waiter.offered, _PATIENCE):
                return
            waiter.offered = False
        self._end()

    # --- both ----------------------------------------------------------------------------------------

    def _end(self) -> None:
        if self._ours:
            self._turn.end()
            self._ours = self._inside = False
        self._state.notify_all()

    def _wake_all(self, failure: OSError | None = None) -> None:
        for waiter in self._line:
            waiter.failure = failure
            waiter.wake()
        self._line.clear()

    def _refuse_if_closed(self) -> None:
        if not self._open:
            raise StoreError(f"{self._turn.path} was closed by this runtime")


class _Waiter:
    """A task in line, and the pipe that wakes it in whatever event loop it runs."""

    def __init__(self) -> None:
        self.ear, self._mouth = os.pipe()
        os.set_blocking(self.ear, False)
        self.offered = False
        self.failure: OSError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.ear)
        os.close(self._mouth)

    def wake(self) -> None:
        os.write(self._mouth, b"!")

    def hush(self) -> None:
        with suppress(BlockingIOError):  # woken for nothing
            os.read(self.ear, 1)
