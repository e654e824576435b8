"""A flag that one task sets and one task waits for, as light as the event loop allows.

`anyio.Event` costs twice as much as the future that it wraps on asyncio, and drivers wait often. Set
before the wait, it does not wait; a wait takes the flag down. Never for two waiters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import anyio

__all__ = ["Signal"]


class Signal:
    """Set it; whoever waits goes on."""

    __slots__ = ("_event", "_future", "_set")

    def __init__(self) -> None:
        self._set = False
        self._future: asyncio.Future[None] | None = None
        self._event: anyio.Event | None = None

    def set(self) -> None:
        """Wake the waiter, or the next one to come."""
        self._set = True
        if self._future is not None:
            if not self._future.done():
                self._future.set_result(None)
        elif self._event is not None:
            self._event.set()

    def __await__(self) -> Generator[Any, None, None]:
        return self.wait().__await__()

    async def wait(self) -> None:
        """Wait until it is set, and take it down."""
        if not self._set:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self._event = anyio.Event()
                try:
                    await self._event.wait()
                finally:
                    self._event = None
            else:
                self._future = loop.create_future()
                try:
                    await self._future
                finally:
                    self._future = None
        self._set = False
