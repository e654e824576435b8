"""Where do runs live that nobody needs to find again after the process?

Everything is in dictionaries of this process (`rows.py`). What would grow without bound is bounded: of
the events the newest 10,000 are kept, of a run's closed episodes the last.

A transaction is a call on one thread without a wait inside, so it is atomic as long as rules check before
they write, which they do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import anyio

from quiesce.clock import Clock
from quiesce.store import Reader, Transaction

from .rows import MemoryTransaction

__all__ = ["MemoryStore", "open_store"]

T = TypeVar("T")


def open_store(url: str | None, *, clock: Clock, durability: str = "full") -> MemoryStore:
    """The entry point `memory` of `quiesce.stores`; there is nothing to open, so `url` is not used."""
    return MemoryStore(clock)


class MemoryStore:
    """A store that ends with its process."""

    durable = False
    shared = False
    label = "memory"
    folder = None

    def __init__(self, clock: Clock) -> None:
        self._tx = MemoryTransaction(clock)

    async def write(
        self,
        work: Callable[[Transaction], T],
        *,
        urgent: bool = False,
        committed: Callable[[T], None] | None = None,
    ) -> T:
        """Run `work` now; there is nobody to wait for."""
        self._tx.open()
        result = work(self._tx)
        if committed is not None:
            committed(result)
        return result

    def read(self, work: Callable[[Reader], T]) -> T:
        """Run `work` over what is there."""
        if self._tx.reading:
            return work(self._tx)
        self._tx.reading, self._tx.now = True, self._tx.clock.now()
        try:
            return work(self._tx)
        finally:
            self._tx.reading = False

    def hold_life(self, incarnation: int) -> None:
        self._tx.living.add(incarnation)

    def drop_life(self, incarnation: int) -> None:
        self._tx.living.discard(incarnation)

    def listen(self, incarnation: int) -> None:
        pass

    async def rung(self, incarnation: int) -> None:
        """Nobody else has this store, so nobody ever rings."""
        await anyio.sleep_forever()

    def ring(self, incarnations: Collection[int] | None = None) -> None:
        pass

    def close(self) -> None:
        pass
