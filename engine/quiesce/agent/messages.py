"""How do runs speak to one another: `send` and `receive`, first in first out, kept while paused.

Source: spec agent, "Concurrency"; cases agent S46, B12.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from quiesce.agent.body import this_body
from quiesce.agent.recorded import seconds
from quiesce.agent.traps import Receive, Send

__all__ = ["receive", "send"]


def send(run: Any, message: Any) -> None:
    """Put a message into the box of a run (its id, or a handle such as `spawn` gives).

    Raises:
        RunNotFound, IllegalTransition: there is no such run, or it has ended.
        PauseOutsideBody, WrongThread: outside a body use `Run.send`.
    """
    this_body("send()").suspend(Send(run if isinstance(run, str) else run.id, message))


def receive(timeout: float | timedelta | None = None) -> Any:
    """Take the oldest message of this run; wait for one, for ever or for so many seconds.

    Raises:
        TimeoutError: none came in time. PauseOutsideBody, WrongThread.
        TypeError, ValueError: this is no time to wait.
    """
    body = this_body("receive()")
    if timeout is None:
        return body.suspend(Receive(None))
    return body.suspend(Receive(body.clock.now() + seconds("receive", timeout)))
