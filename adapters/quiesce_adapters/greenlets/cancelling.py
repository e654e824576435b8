"""What does a cancellation mean that arrives in the driver's task: who asked for it?

A body shares the task of its driver. A time-out of the body's own is the body's; the cancellation of
everything around the runtime, or of the task itself by an event loop that is torn down, is the task's.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Any

import anyio
import anyio.lowlevel

from quiesce.agent.body import Unwind

__all__ = ["WHY", "by_a_scope", "is_cancellation", "is_unwind", "pass_on", "report"]

log = logging.getLogger("quiesce")

WHY = {"closing": "handed back, since the runtime closes", "lost": "driven by another process now"}
"""What a run is whose body must end, where the reason alone does not say so."""


def is_cancellation(value: Any, error: BaseException | None) -> bool:
    """Whether an await was cancelled; Trio hands outcomes in as values, so an error may come as one."""
    cancelled = anyio.get_cancelled_exc_class()
    return isinstance(error, cancelled) or isinstance(getattr(value, "error", None), cancelled)


def by_a_scope() -> bool:
    """Whether a cancel scope around the caller is cancelled, so that what arrived is due to that."""
    return anyio.current_effective_deadline() == -math.inf


async def pass_on(error: BaseException | None) -> None:
    """Raise the cancellation that a body has ended with, if it was meant for this task.

    All scopes of the body are closed by then, so what is still cancelled is around it. Otherwise the body
    itself awaited something that others cancelled, and that is a failure like any other.
    """
    if not isinstance(error, anyio.get_cancelled_exc_class()):
        return
    await anyio.lowlevel.checkpoint_if_cancelled()
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another event loop, which has scopes only
        return
    if task is not None and task.cancelling():
        raise error


def is_unwind(error: BaseException) -> bool:
    """Whether a body that had to end has ended by that, and by nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_unwind(inner) for inner in error.exceptions)
    return isinstance(error, Unwind | anyio.get_cancelled_exc_class())


def report(run_id: str, why: str, error: BaseException | None, *, swallowed: bool) -> None:
    """Say what went wrong while a body was ended: it took no notice, or its clean-up failed."""
    if swallowed:
        log.error(
            "run %s is %s, but its body swallowed what ends it (an `except BaseException` without a raise?); "
            "it is not run any further",
            run_id,
            why,
        )
    elif error is not None and not is_unwind(error):
        log.error("run %s: the clean-up of its body failed: %r", run_id, error, exc_info=error)
