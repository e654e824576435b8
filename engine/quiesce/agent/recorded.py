"""What does a body take from the world without a step: time, ids, randomness, and waiting for a moment.

Each is recorded where the run has a journal, so a re-executed body sees what it saw before.

Source: spec agent, "Steps and the journal", "Concurrency" (sleep).
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from quiesce.agent.body import CURRENT, STEP, this_body
from quiesce.agent.traps import Draw, Sleep

__all__ = ["draw", "now", "random", "seconds", "sleep", "uuid4"]


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
        TypeError, ValueError: this is no time to wait; the instant has no time zone.
        PauseOutsideBody, WrongThread.
    """
    body = this_body("sleep()")
    if isinstance(until, datetime):
        if until.utcoffset() is None:
            raise ValueError(
                f"sleep({until.isoformat()}): the instant has no time zone; give an aware datetime"
            )
        body.suspend(Sleep(until))
        return
    body.suspend(Sleep(None, seconds("sleep", until).total_seconds()))


def seconds(verb: str, given: float | timedelta) -> timedelta:
    """How long a body is to wait, at most.

    Raises:
        TypeError: it is no number of seconds. ValueError: it is below 0, or no end.
    """
    number = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"{verb}({given!r}): seconds are a number or a timedelta, not {type(given).__name__}")
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{verb}({given!r}): seconds from now, not below 0")
    return timedelta(seconds=number)
