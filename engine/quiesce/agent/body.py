"""Which body is running here, and may it be suspended here?

The driver puts the body into a context variable of the body's own context, so a helper that was declared
anywhere finds the body that called it (dynamically, not lexically: B1), and this file imports no mechanism.
Tasks and threads that a body starts inherit the variable but not the call stack; they are refused at once
(B2, B3, B4), since nothing that they do could suspend the body.

Source: spec agent, "Body and lifecycle"; cases agent B1 to B4.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from quiesce.agent.traps import Safepoint, Trap
from quiesce.clock import Clock
from quiesce.errors import PauseOutsideBody

__all__ = ["CURRENT", "STEP", "Body", "StepInfo", "Unwind", "await_", "checkpoint", "this_body"]

T = TypeVar("T")


class Unwind(BaseException):
    """Raised where a body stands that must end: it was cancelled or reset, or another process goes on.

    Clean up in `finally` blocks, and let it through. A body that catches it is not switched to again.
    """


class Body(Protocol):
    """The body that runs here, as its driver lends it to the functions of this package."""

    run_id: str
    execution: int
    clock: Clock
    journal: bool
    """Whether steps, draws and the like must be asked for, since they are recorded."""
    fenced: bool
    """Whether the run is paused, so that the next safe point must stop."""
    gathers: bool
    """Whether it waits for the tasks of a `gather`, so that only these may stop."""
    tasks: int
    """How many tasks of a `gather` have not come to their end."""
    idle: int
    """How many of these wait: for an answer, or at a fence."""

    def check(self, verb: str) -> None:
        """Refuse a caller that is not on the body's call stack.

        Raises:
            WrongThread: it is in another thread. PauseOutsideBody: it is in another task, or too late.
        """
        ...

    def suspend(self, trap: Trap) -> Any:
        """Stop here until the driver has served the trap; returns its value or raises its error."""
        ...

    def await_(self, awaitable: Awaitable[T]) -> T:
        """Suspend until this is done."""
        ...

    async def serve(self, trap: Trap) -> Any:
        """The same as `suspend`, for a task that the body started and that may use this trap (`gather`)."""
        ...


CURRENT: ContextVar[Body] = ContextVar("quiesce_body")
"""Set by the driver in the body's own context."""


@dataclass(frozen=True, slots=True)
class StepInfo:
    """The step that runs here. `key` is the same for every attempt at it, in every process."""

    name: str
    key: str
    attempt: int


STEP: ContextVar[StepInfo | None] = ContextVar("quiesce_step", default=None)


def this_body(verb: str, *, in_step: bool = False) -> Body:
    """The body that calls.

    Args:
        in_step: whether it may be called inside a step, which is recorded as a whole.

    Raises:
        PauseOutsideBody, WrongThread: there is none here that could be suspended.
    """
    body = CURRENT.get(None)
    if not in_step and body is not None and (step := STEP.get()) is not None:
        raise PauseOutsideBody(
            f"{verb} was called inside the step {step.name!r}, which is recorded as a whole, so that nothing "
            "could be continued in the middle of it; call it in the body, before or after the step"
        )
    if body is None:
        raise PauseOutsideBody(
            f"{verb} was called outside an agent's body; call it in an @agent function that a Runtime runs, "
            "or in a function that this calls in the same task and thread"
        )
    body.check(verb)
    return body


def checkpoint() -> None:
    """A safe point: here a paused run stops. For long stretches without a step, a pause or an await.

    Raises:
        PauseOutsideBody, WrongThread
    """
    body = this_body("checkpoint()")
    if body.fenced:
        body.suspend(Safepoint())


def await_(awaitable: Awaitable[T]) -> T:
    """Await something from plain code: only this body is suspended until it is done.

    Raises:
        PauseOutsideBody, WrongThread; TypeError: it cannot be awaited.
    """
    body = this_body("await_()", in_step=True)
    if not inspect.isawaitable(awaitable):
        raise TypeError(f"await_() takes an awaitable, as a call of an async function is, not {awaitable!r}")
    if body.fenced:
        body.suspend(Safepoint())
    return body.await_(awaitable)
