"""Where do blocking functions run, so that the event loop does not wait for them, nor the process at its end?

In daemon threads. Those of the event loops would do but for one thing: the interpreter waits for them at
its exit, so a blocking call that was abandoned (its run was cancelled, the runtime is closed) would keep
the process. A thread that is done waits for the next call for a while, since starting one costs more than
handing over a call.

Source: spec agent, "Body and lifecycle" (process exit is never held up).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from quiesce.signals import Signal

__all__ = ["run_blocking"]

T = TypeVar("T")

IDLE_SECONDS = 10.0
"""How long a thread waits for its next call."""


class _Call:
    """One function on its way through a thread, and its outcome."""

    __slots__ = ("_context", "_done", "_function", "_token", "error", "value")

    def __init__(self, function: Callable[[], Any], done: Signal) -> None:
        self._function = function
        self._context = copy_context()
        self._token = anyio.lowlevel.current_token()
        self._done = done
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self._context.run(self._function)
        except BaseException as error:
            self.error = error

    def tell(self) -> None:
        try:
            anyio.from_thread.run_sync(self._done.set, token=self._token)
        except (RuntimeError, anyio.RunFinishedError):
            pass  # the loop is closed: nobody waits any more


class _Thread:
    """A daemon thread that runs one call after the other."""

    idle: list[_Thread] = []  # noqa: RUF012 - the process's pool; list operations are atomic

    def __init__(self) -> None:
        self.calls: SimpleQueue[_Call] = SimpleQueue()
        threading.Thread(target=self._work, name="quiesce step", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                call = self.calls.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    _Thread.idle.remove(self)
                except ValueError:  # taken just now; its call comes
                    continue
                return
            call.run()
            _Thread.idle.append(self)
            call.tell()
            del call


if hasattr(os, "register_at_fork"):  # a child of a fork has none of these threads
    os.register_at_fork(after_in_child=_Thread.idle.clear)


async def run_blocking(function: Callable[[], T]) -> T:
    """Run a blocking function in a thread, with a copy of this context.

    At most as many at a time as anyio's default limiter says. Cancelled, it does not wait any longer: the
    function goes on in its thread, and its outcome is dropped.
    """
    done = Signal()
    async with anyio.to_thread.current_default_thread_limiter():
        call = _Call(function, done)
        try:
            thread = _Thread.idle.pop()
        except IndexError:
            thread = _Thread()
        thread.calls.put(call)
        await done.wait()
    if call.error is not None:
        try:
            raise call.error
        finally:
            call.error = None
    value: T = call.value
    return value
