"""Which place in a body's journal does a trap have, and does the body still follow it?

The seam between a body and its durability. Pure: nothing here waits, reads or writes.

How a durable agent works, and who does what:

- A body speaks to the world by traps only (`traps.py`): steps (`Begin`, `Finish`), draws (`now`, `uuid4`,
  `random`), `Ask`, `Receive`, `Send`, `Spawn`, `Wait`, `Act`, `Sleep`. Each of those has a *position*: they
  are numbered from 1 in the order in which the body made them. The steps of a `gather` take consecutive
  positions before any of them begins, so their order in the journal does not depend on which is faster.
- The driver gives every trap to `Journal.next`, before it serves it. What is recorded comes back as an
  entry that is `done`: the driver returns its value (or raises its error) without any effect. A fresh
  place comes back as an entry that is `new`: the driver serves the trap, and writes the entry in the
  *same transaction* as the effect that it has on the store (the hold that is opened, the message that is
  taken, the child that is started). Only after that commit does the body go on; so a record is committed
  before the next statement runs.
- An effect outside the store, a step, has two records: `started` (with its attempt) is committed before
  the effect, `done` after it. An entry that a new process finds `started` is *unknown*: what happens then
  is the step's `verify` and `on_unknown`. An action has a hold before that, and the states of its own.
- What the body cancels itself (a time-out around a step, a `gather` in which another one failed) is
  recorded as `cancelled`: executed again, it waits there until the body cancels it once more.
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

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from quiesce import codec
from quiesce.errors import NonDeterminism
from quiesce.records import JournalEntry

__all__ = ["Cancelled", "Journal", "Permit", "Recorded"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step that is done already: its value, or the error that it ended with."""

    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A step that the body itself cancelled, by a time-out or since another one of its group failed."""


@dataclass(frozen=True, slots=True)
class Permit:
    """A step may run. `key` is the same for every attempt at it, in every process."""

    entry: JournalEntry
    key: str

    @property
    def asks(self) -> bool:
        """Whether a person must approve it, or has."""
        return self.entry.state in ("prepared", "waiting") or self.entry.hold is not None

    @property
    def unknown(self) -> bool:
        """Whether an attempt began in a process that died, so that nobody knows how it ended."""
        return self.entry.state in ("started", "committing")

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return max(self.entry.attempt, 1)


class Journal:
    """The entries of one execution, and how far the body has followed them.

    Args:
        scope: what tells this execution from every other one, for the keys.
    """

    def __init__(self, entries: Iterable[JournalEntry] = (), scope: str = "") -> None:
        self._unread = {entry.position: entry for entry in entries}
        self._scope = scope
        self._position = 0
        self._calls: Counter[tuple[str, str]] = Counter()

    @property
    def live(self) -> bool:
        """Whether the body has been given back everything that is recorded."""
        return not self._unread

    @property
    def position(self) -> int:
        """How many places the body has come by."""
        return self._position

    def next(self, kind: str, name: str, digest: str) -> JournalEntry:
        """The entry of the trap that the body makes now; a new one where nothing is recorded.

        Raises:
            NonDeterminism: another trap is recorded at this position, which stays the next one.
        """
        position = self._position + 1
        known = self._unread.get(position)
        if known is None:
            known = JournalEntry(position, kind, name, digest, last=position)
        elif (known.kind, known.name, known.digest) != (kind, name, digest):
            same = (known.kind, known.name) == (kind, name)
            got = f"{kind} {name!r}" + (" with other arguments" if same else "")
            raise _differs(position, f"{known.kind} {known.name!r}", got)
        self._unread.pop(position, None)
        self._position = position
        return known

    def end(self, error: BaseException | None = None) -> None:
        """The body has come to its end, with this error.

        Raises:
            NonDeterminism: more is recorded.
        """
        if self._unread:
            known = self._unread[min(self._unread)]
            raise _differs(known.position, f"{known.kind} {known.name!r}", _told_end(error))

    def give_up(self) -> None:
        """Forget what is recorded and not read yet: it was set aside."""
        self._unread.clear()

    def key(self, entry: JournalEntry) -> str:
        """The idempotency key of a call, asked once for each, in order: the n-th with these arguments.

        It does not contain the position, so that a call which code before it moved keeps its key.
        """
        call = (entry.name, entry.digest)
        self._calls[call] += 1
        told = "\0".join([self._scope, *call, str(self._calls[call])])
        return "step-" + codec.digest(told.encode())


def _told_end(error: BaseException | None) -> str:
    return "the end of the body" + (f", which raised {type(error).__name__}: {error}" if error else "")


def _differs(position: int, expected: str, got: str) -> NonDeterminism:
    return NonDeterminism(
        f"position {position} of the journal: expected {expected}, got {got}; bring the old code back and "
        "resume, reset the run, or go on from the last record that fits by retry(accept_changes=True) "
        "(flowctl retry --accept-changes)",
        position=position,
        expected=expected,
        got=got,
    )
