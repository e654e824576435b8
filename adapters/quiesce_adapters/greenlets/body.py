"""How does one body run: its continuation, and what the functions of `quiesce.agent` find in its context.

`go` runs the body until it makes a trap or ends. Whatever it awaits on the way is yielded to the event loop
by the driver's task, which is therefore the task that the body is in: its cancel scopes, its identity.
A body that came back from an await while its run is paused stands still right there, unless a step is under
way, which began before the fence and comes to its end.

Ending a body early is raising `Unwind` where it stands. Its `finally` blocks may await; a trap in them
raises `Unwind` again, and one that is made although nothing unwinds any more comes from a body that has
swallowed it: it is not switched to again.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Generator
from contextvars import copy_context
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from quiesce.agent.body import CURRENT, STEP, Unwind
from quiesce.agent.definition import Agent
from quiesce.agent.traps import Safepoint, Trap
from quiesce.clock import Clock
from quiesce.errors import PauseOutsideBody, WrongThread
from quiesce.frames import Frame, innermost, stack

from .cancelling import is_cancellation
from .continuation import Continuation, Ended

if TYPE_CHECKING:
    from .driver import GreenletDriver

__all__ = ["Anew", "Ended", "LiveBody", "Over"]

T = TypeVar("T")

_HIDDEN = (os.path.dirname(os.path.abspath(__file__)) + os.sep,)
_PATIENCE = 100
"""How often a body that must end, and whose time for that is over, may await once more."""


class Over(BaseException):
    """The driver must not go on with this run; `why` says what became of it."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class Anew(BaseException):
    """The run begins again, with this input as the store keeps it."""

    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__("continued as a new one")


class LiveBody:
    """One body, from its start to its end."""

    __slots__ = (
        "__weakref__",
        "_agent",
        "_continuation",
        "_driver",
        "_input",
        "awaiting",
        "clock",
        "effects",
        "execution",
        "fenced",
        "gathers",
        "idle",
        "journal",
        "run_id",
        "started",
        "swallowed",
        "tasks",
        "unwinding",
    )

    def __init__(self, driver: GreenletDriver, run_id: str, execution: int, agent: Agent[..., Any]) -> None:
        self.run_id = run_id
        self.execution = execution
        self.clock: Clock = driver.host.clock
        self.journal = False
        self.fenced = False
        self.gathers = False
        self.tasks = self.idle = 0
        self.awaiting = False
        self.started = False
        self.unwinding = False
        self.effects = True
        self.swallowed = False
        self._driver = driver
        self._agent = agent
        self._input: Any = None
        self._continuation = Continuation(self._run, copy_context())

    def give(self, value: Any) -> None:
        """The input, before the body starts."""
        self._input = value

    def _run(self) -> Any:
        CURRENT.set(self)  # in the body's own context
        value, self._input = self._input, None
        returned = self._agent.call(value)
        return self._continuation.await_(returned) if self._agent.is_async else returned

    # --- for the driver ------------------------------------------------------------------------------

    @coroutine
    def go(self, value: Any = None, error: BaseException | None = None) -> Generator[Any, Any, Trap | Ended]:
        """Go on with a value, or with an error raised where it stands, until the next trap or the end.

        Raises:
            Over: it stood in an await when its run ended, was taken away, or was reset.
        """
        self.started = True
        watch, late = self._driver.watchdog, 0
        while True:
            watch.enter(self.run_id)
            try:
                out = self._continuation.switch(value) if error is None else self._continuation.throw(error)
            finally:
                watch.leave()
            if isinstance(out, Trap | Ended):
                return out
            value = error = None
            self.awaiting = True
            try:
                value = yield out
            except GeneratorExit:
                self._continuation.abandon()
                raise
            except BaseException as raised:
                error = raised
            finally:
                self.awaiting = False
            if self.unwinding:
                late += self._driver.out_of_patience
                if late > _PATIENCE:
                    self.swallowed = True
                    self._continuation.abandon()
                    return Ended()
                continue
            if self._driver.over is not None and is_cancellation(value, error):
                raise Over(self._driver.over)
            if self.fenced and not self.gathers and self._continuation.context.get(STEP) is None:
                try:
                    yield from self._driver.stand().__await__()
                except anyio.get_cancelled_exc_class():
                    if self._driver.over is not None:
                        raise Over(self._driver.over) from None
                    # By a scope of the body's own: what it awaited is done, and it hears at the next await.

    async def unwind(self, why: str, *, effects: bool) -> Ended:
        """Raise `Unwind` where it stands, and see it to its end.

        Args:
            effects: whether steps in its `finally` blocks are carried out (unrecorded), or refused.
        """
        self.unwinding = self.fenced = True
        self.journal = False
        self.effects = effects
        out = await self.go(error=Unwind(why))
        if not isinstance(out, Ended):
            self.swallowed = True
            self._continuation.abandon()
            return Ended()
        self.swallowed = self.swallowed or out.error is None
        return out

    @property
    def ended(self) -> bool:
        """Whether it has come to its end, so that there is nothing to unwind."""
        return self._continuation.ended

    def frames(self) -> list[Frame]:
        """Where it stands."""
        return stack(self._continuation.frame(), self._continuation.awaited(), _HIDDEN)

    def place(self) -> str | None:
        """The line of user code where it stands, as `file:line`."""
        return innermost(self._continuation.frame(), self._continuation.awaited(), _HIDDEN)

    # --- for the functions of quiesce.agent ------------------------------------------------------------

    def check(self, verb: str) -> None:
        if self._continuation.is_current:
            return
        if threading.get_ident() != self._continuation.thread:
            raise WrongThread(
                f"{verb} was called in thread {threading.current_thread().name!r}, but the body of run "
                f"{self.run_id!r} belongs to another one; return to the body, and call it there"
            )
        if self._continuation.ended:
            raise PauseOutsideBody(f"{verb} was called after the end of run {self.run_id!r}'s body")
        raise PauseOutsideBody(
            f"{verb} was called in a task that the body of run {self.run_id!r} started, which cannot suspend "
            "the body; call it in the body itself, and use gather() for several steps at once"
        )

    def suspend(self, trap: Trap) -> Any:
        if self.unwinding:
            if isinstance(trap, Safepoint) and self.effects:
                return None
            if _unwinds():
                raise Unwind(f"run {self.run_id!r} is over")
        return self._continuation.suspend(trap)

    def await_(self, awaitable: Awaitable[T]) -> T:
        return self._continuation.await_(awaitable)

    async def serve(self, trap: Trap) -> Any:
        if self._continuation.is_current:
            return self.suspend(trap)
        return await self._driver.serve_task(trap)


def _unwinds() -> bool:
    """Whether the caller is in an `except` or `finally` block that an `Unwind` passes through."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, Unwind):
            return True
        error = error.__context__
    return False
