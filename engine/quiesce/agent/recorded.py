"""What does a body take from the world without a step: time, ids, randomness, and waiting for a moment.

Each is recorded where the run has a journal, so a re-executed body sees what it saw before.

Source: spec agent, "Steps and the journal", "Concurrency" (sleep).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from quiesce.agent.body import CURRENT, STEP, this_body
from quiesce.agent.traps import Draw, Sleep

__all__ = ["draw", "now", "random", "sleep", "uuid4"]


def draw(clock: Any, what: Literal["now", "uuid4", "random"]) -> Any:
    """One of them, fresh from the clock."""
    return {"now": clock.now, "uuid4": clock.uuid, "random": clock.random}[what]()


def _draw(what: Literal["now", "uuid4", "random"]) -> Any:
    body = CURRENT.get(None)
    if body is not None and STEP.get() is not None:  # recorded with the step
        return draw(body.clock, what)
    body = this_body(f"{what}()")
    return body.suspend(Draw(what)) if body.journal else draw(body.clock, what)


def now() -> datetime:
    """The instant, aware and in UTC. Raises PauseOutsideBody, WrongThread."""
    found: datetime = _draw("now")
    return found


def uuid4() -> UUID:
    """A random UUID. Raises PauseOutsideBody, WrongThread."""
    found: UUID = _draw("uuid4")
    return found


def random() -> float:
    """A float in [0, 1). Raises PauseOutsideBody, WrongThread."""
    found: float = _draw("random")
    return found


def sleep(until: float | timedelta | datetime) -> None:
    """Wait for so many seconds, or until an aware instant; other bodies run meanwhile.

    Raises:
        ValueError: the instant has no time zone. PauseOutsideBody, WrongThread.
    """
    body = this_body("sleep()")
    if isinstance(until, datetime):
        if until.utcoffset() is None:
            raise ValueError(
                f"sleep({until.isoformat()}): the instant has no time zone; give an aware datetime"
            )
        body.suspend(Sleep(until))
        return
    seconds = until.total_seconds() if isinstance(until, timedelta) else float(until)
    if not seconds >= 0 or seconds == float("inf"):
        raise ValueError(f"sleep({until!r}): seconds from now, not below 0")
    body.suspend(Sleep(None, seconds))
