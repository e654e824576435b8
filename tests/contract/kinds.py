"""What a kind of flow supplies to the contract: the same few flows, each written as that kind writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import anyio

from quiesce.errors import Expired, NodeError, NotSerializable, RunCancelled

__all__ = ["FAILURES", "Kind", "Stage", "cause_of"]

FAILURES = (NodeError, ValueError, Expired, NotSerializable, RunCancelled)
"""How a run fails in these tests: a graph says in which node, an agent raises the body's own error."""


def cause_of(error: BaseException) -> BaseException | None:
    """What the body raised."""
    return error.__cause__ if isinstance(error, NodeError) else error


class Stage:
    """Where a body waits until the test lets it go on; it counts who came and who left."""

    def __init__(self, *, open: bool = False) -> None:
        self.came = 0
        self.left = 0
        self.cancelled = 0
        self._open = open
        self._changed = anyio.Event()

    async def act(self) -> None:
        """Called by the body."""
        self.came += 1
        self._tell()
        try:
            while not self._open:
                await self._changed.wait()
        except BaseException:
            self.cancelled += 1
            self._tell()
            raise
        self.left += 1
        self._tell()

    def open(self) -> None:
        """Let everybody go on who is there or will come."""
        self._open = True
        self._tell()

    def close(self) -> None:
        self._open = False

    async def wait_came(self, times: int = 1) -> None:
        """Wait until bodies have come so many times."""
        while self.came < times:
            await self._changed.wait()

    async def wait_cancelled(self, times: int = 1) -> None:
        while self.cancelled < times:
            await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class Kind(Protocol):
    """The flows of one kind. Inputs and values are ints unless something else is said."""

    name: str
    evaluated: list[str]
    """What was evaluated, in order, by the name of the place in its flow."""
    inner: list[Any]
    """Flows that others run inside and that a test does not see."""

    def tree(self, run_id: str) -> list[str]:
        """The ids of a run and of the runs that its own work is in, outermost first; it asks in the last."""
        ...

    def adds(self) -> Any:
        """Gives x + 1 at once. Takes an int, and says so."""
        ...

    def works(self, stage: Stage, *, after: Stage | None = None) -> Any:
        """Comes to the stage, and gives x + 1 in a later piece of work, which comes to `after`."""
        ...

    def works_on(self, stage: Stage) -> Any:
        """Comes to the stage, waits on there when it is cancelled, and gives x + 1 all the same."""
        ...

    def works_then_asks(self, stage: Stage) -> Any:
        """Comes to the stage and asks in the same piece of work; gives the answer."""
        ...

    def works_then_fails(self, stage: Stage, error: Exception) -> Any:
        """Comes to the stage and raises in the same piece of work."""
        ...

    def fails(self, error: Exception, stage: Stage | None = None) -> Any:
        """Raises this error as often as it gets there; `stage` counts what it does before, and keeps."""
        ...

    def mends(self, errors: list[Exception]) -> Any:
        """Raises the errors of this list, one at each try, while there are any; then gives x + 1."""
        ...

    def asks(self, *, timeout: float | None = None, **question: Any) -> Any:
        """Asks once; gives `["answered", value]` or `["rejected", message]`. `question`: see `pause`.

        `timeout` is how long, in seconds, the piece of work that asks may take.
        """
        ...

    def asks_in_turn(self, times: int, **question: Any) -> Any:
        """Asks the same at the same place so many times, and gives the answers as a list."""
        ...

    def asks_each(self, questions: Sequence[dict[str, Any]]) -> Any:
        """Asks all of these at the same time, and gives the answers as a list; tells evaluations apart."""
        ...

    def asks_what(self, words: Sequence[str]) -> Any:
        """At its n-th evaluation it asks with the n-th of these payloads (the last for ever)."""
        ...

    def asks_once(self) -> Any:
        """Asks `"first"` at its first evaluation; at the next it goes on, and asks `"second"` elsewhere."""
        ...

    def asks_beside(self, stage: Stage, inner: Any) -> Any:
        """Runs `inner` beside a piece that comes to the stage; gives both values as a list."""
        ...

    def fails_beside(self, stage: Stage, inner: Any, error: Exception) -> Any:
        """Runs `inner` beside a piece that comes to the stage and raises, the first time."""
        ...

    def encloses(self, inner: Any) -> Any:
        """Runs `inner`, and gives its value."""
        ...

    def echoes(self) -> Any:
        """Gives its input, whatever it is."""
        ...

    def asks_over(self, inner: Any, stage: Stage) -> Any:
        """Runs `inner`, and asks beside it once the stage is open; gives both values as a list."""
        ...

    def gives(self, value: Any) -> Any:
        """Gives this value, whatever it is, from its first piece to the next, which counts it."""
        ...
