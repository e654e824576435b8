"""Which place in a body's journal does a trap have, and does the body still follow it?

The seam between a body and its durability. Pure: nothing here waits, reads or writes.

How a durable agent works, and who does what:

- A body speaks to the world by traps only (`traps.py`): steps (`Begin`, `Finish`), draws (`now`, `uuid4`,
  `random`), `Ask`, `Receive`, `Send`, `Spawn`, `Wait`, `Act`, `Sleep`. Each of those has a *position*: they
  are numbered from 1 in the order in which the body made them. The steps of a `gather` take consecutive
  positions before any of them begins, so their order in the journal does not depend on which is faster.
- The driver gives every trap to `Journal.next`, before it serves it. What is recorded comes back as an
  `Entry` that is `done`: the driver returns its value (or raises its error) without any effect. A fresh
  place comes back as an `Entry` that is `new`: the driver serves the trap, and writes the entry in the
  *same transaction* as the effect that it has on the store (the hold that is opened, the message that is
  taken, the child that is started). Only after that commit does the body go on; so a record is committed
  before the next statement runs.
- An effect outside the store, a step, has two records: `started` (with its attempt) is committed before
  the effect, `done` after it. An entry that a new process finds `started` is *unknown*: what happens then
  is the step's `on_unknown`.
- An `Ask` has one record: `started`, with the hold's id, written with the hold. Its value is the hold's:
  once that is settled, re-execution reads the answer there, and a resume writes nothing of its own.
  `Wait`, `Sleep` and `Receive` are alike: `started` names the child or the instant, `done` the value.
- In a new process the body is executed again on a fresh continuation, from its start, over the entries.
  It is *live* once every entry has been given back: the last one may be open, and there it stands.
- A trap that does not match the entry at its position is `NonDeterminism`: the driver pauses the run under
  the lock `fault`, with position, expected and got, and unwinds the body without effects.

A run in memory has no journal (`Body.journal` is false): steps do not even make a trap, and a draw asks the
clock at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from quiesce.errors import NonDeterminism

__all__ = ["Entry", "Journal", "Permit", "Recorded"]


@dataclass(slots=True)
class Entry:
    """One place in the journal. `value` refers to what is kept: a result, an id of a hold or child."""

    position: int
    kind: str
    name: str
    digest: str
    state: Literal["new", "started", "done", "failed"] = "new"
    value: Any = None
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step that is done already: its value, or the error that it ended with."""

    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Permit:
    """A step may run. `key` is the same for every attempt at it, in every process."""

    position: int
    key: str
    attempt: int = 1
    unknown: bool = False
    """An earlier attempt began and nobody knows how it ended."""


class Journal:
    """The entries of one execution, and how far the body has followed them."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = {entry.position: entry for entry in entries}
        self._position = 0

    @property
    def live(self) -> bool:
        """Whether the body has been given back everything that is recorded."""
        return self._position >= len(self._entries)

    def next(self, kind: str, name: str, digest: str) -> Entry:
        """The entry of the trap that the body makes now; a new one where nothing is recorded.

        Raises:
            NonDeterminism: another trap is recorded at this position.
        """
        self._position += 1
        known = self._entries.get(self._position)
        if known is None:
            return Entry(self._position, kind, name, digest)
        if (known.kind, known.name, known.digest) != (kind, name, digest):
            what = "its arguments differ" if (known.kind, known.name) == (kind, name) else "another call came"
            raise NonDeterminism(
                f"position {self._position} of the journal: expected {known.kind} {known.name!r}, "
                f"got {kind} {name!r}: {what}; bring the old code back, reset the run, or go on from the "
                "last record that fits by retry(accept_changes=True)"
            )
        return known
