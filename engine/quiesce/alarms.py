"""Whom does this process wake at which instant, without a task for each of them?

Thousands of bodies may sleep; one task waits for the earliest of their instants. An alarm that is not needed
any more rings all the same: whoever is woken looks again and waits on.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from datetime import datetime

import anyio

from quiesce.clock import Clock
from quiesce.signals import Signal

__all__ = ["Alarms"]


class Alarms:
    """Instants, and what to call at each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[datetime, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._changed = Signal()

    def set(self, at: datetime, ring: Callable[[], None]) -> None:
        """Call `ring` at this instant, or at once if that is past."""
        heapq.heappush(self._heap, (at, next(self._numbers), ring))
        if self._heap[0][2] is ring:
            self._changed.set()

    async def run(self) -> None:
        """Ring them as their time comes, until cancelled."""
        while True:
            while self._heap and self._heap[0][0] <= self._clock.now():
                heapq.heappop(self._heap)[2]()
            if not self._heap:
                await self._changed.wait()
                continue
            wait = (self._heap[0][0] - self._clock.now()).total_seconds()
            async with anyio.create_task_group() as group:
                group.start_soon(self._sleep_then_stop, max(wait, 0.0), group.cancel_scope)
                await self._changed.wait()
                group.cancel_scope.cancel()

    async def _sleep_then_stop(self, seconds: float, scope: anyio.CancelScope) -> None:
        await self._clock.sleep(seconds)
        scope.cancel()
