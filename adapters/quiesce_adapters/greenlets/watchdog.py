"""Which body blocks the event loop, and at which line?

A body that computes for long, or calls something that blocks, stops all others of its loop. A daemon thread
looks twice a second whether the same stretch of one body still runs, and says where it stands. It ends when
no body has run for a while, so an idle process is not woken.

Source: spec agent, "Concurrency" (watchdog).
"""

from __future__ import annotations

import logging
import sys
import sysconfig
import threading
from types import FrameType

__all__ = ["Watchdog"]

log = logging.getLogger("quiesce")

BLOCKED_AFTER = 1.0
"""Seconds that a body may run without giving the loop back, before it is reported."""
_IDLE_LOOKS = 4
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class Watchdog:
    """Watches the bodies of one thread."""

    def __init__(self) -> None:
        self._owner = 0
        self._stretch = 0
        self._running: str | None = None
        self._looks = False

    def enter(self, run_id: str) -> None:
        """A body of this run goes on, now."""
        self._stretch += 1
        self._running = run_id
        if not self._looks:
            self._looks = True
            self._owner = threading.get_ident()
            threading.Thread(target=self._look, name="quiesce watchdog", daemon=True).start()

    def leave(self) -> None:
        """It gave the loop back."""
        self._running = None

    def _look(self) -> None:
        pause = threading.Event()  # never set: a sleep
        seen, looks = self._stretch, 0
        while looks < _IDLE_LOOKS or self._running is not None:
            pause.wait(BLOCKED_AFTER / 2)
            if self._stretch != seen:
                seen, looks = self._stretch, 0
                continue
            looks += 1
            running = self._running
            if looks == 2 and running is not None:
                self._report(running)
        self._looks = False

    def _report(self, run_id: str) -> None:
        frame = sys._current_frames().get(self._owner)
        if frame is not None:
            log.warning(
                "run %s blocks the event loop for more than %g s at %s; every other run waits: make it a "
                "step, or await it",
                run_id,
                BLOCKED_AFTER,
                _place(frame),
            )


def _place(innermost: FrameType) -> str:
    """The innermost line that is not of a library, since that is whose author can change it."""
    frame: FrameType | None = innermost
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    frame = frame or innermost
    return f"{frame.f_code.co_filename}, line {frame.f_lineno}, in {frame.f_code.co_name}"
