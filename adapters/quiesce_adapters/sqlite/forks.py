"""What happens to the descriptors of a store when its process forks: the child lets go, and is refused.

Theory of operation. A forked child shares its parent's open files, and that is never harmless here:

- a `flock` belongs to the open file, so a child that keeps it open keeps its parent's lock alive after
  the parent died, and a child that unlocks it unlocks it for the parent;
- record locks are not inherited: the child believes that it is alive under a number that is not its own;
- a named pipe with a forgotten reader in a child still rings, and nobody hears it;
- SQLite itself forbids a connection to be carried across a fork.

So each object that owns descriptors has a `ForkGuard`. In the child, right after the fork, the guard
runs `let_go`, which closes them (closing gives up the child's share alone and never unlocks anything of
the parent), and from then on `check()` refuses every use. The refusal compares process ids, so it also
works for a fork that Python did not see, such as one made by a C library; only the closing is lost then.

`let_go` runs in a child that has one thread and may have inherited locks that were taken in the
middle of something: it must not take a lock, only close.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

from quiesce.clock import Clock
from quiesce.errors import StoreMismatch

__all__ = ["ForkGuard"]


class ForkGuard:
    """Knows the process that opened something; refuses any other."""

    def __init__(self, clock: Clock, what: str, let_go: Callable[[], None]) -> None:
        self._clock = clock
        self._what = what
        self._let_go = let_go
        self.pid = clock.pid()
        _GUARDS.add(self)

    def check(self) -> None:
        """Raises: StoreMismatch, if this is not the process that opened it."""
        pid = self._clock.pid()
        if pid != self.pid:
            raise StoreMismatch(
                f"{self._what} was opened before a fork, by process {self.pid}, "
                f"and this is process {pid}; open the store in the child"
            )


_GUARDS: weakref.WeakSet[ForkGuard] = weakref.WeakSet()


def _let_go_in_child() -> None:
    for guard in list(_GUARDS):
        guard._let_go()
    _GUARDS.clear()


os.register_at_fork(after_in_child=_let_go_in_child)
