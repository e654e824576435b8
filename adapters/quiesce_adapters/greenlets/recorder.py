"""How does a durable body follow its journal: which place has a trap, what is kept of it, what is given back?

`quiesce.agent.journal` says what the rules are; this reads and writes the rows. An entry is written in the
transaction of the effect that it has on the store, by the driver that holds the lease, and by nobody else.

Source: spec agent, "Steps and the journal".
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from quiesce import codec
from quiesce.agent import raised
from quiesce.agent.journal import Journal
from quiesce.agent.places import digest_of, name_of
from quiesce.agent.traps import Trap
from quiesce.errors import NonDeterminism, NotSerializable
from quiesce.records import JournalEntry
from quiesce.rules import journals
from quiesce.store import Transaction

if TYPE_CHECKING:
    from .driver import GreenletDriver

__all__ = ["Diverged", "Recorder"]

_REMEMBERED = 100


class Diverged(BaseException):
    """The body does not follow its journal, so it must not go on."""

    def __init__(self, error: NonDeterminism) -> None:
        self.error = error
        super().__init__(str(error))


class Recorder:
    """The journal of one execution, for its driver."""

    __slots__ = ("_accepts", "_driver", "_raised", "_run_id", "_store", "journal")

    def __init__(self, driver: GreenletDriver) -> None:
        self._driver = driver
        self._run_id = driver.run.id
        host = driver.host

        def load(tx: Any) -> tuple[list[JournalEntry], Any]:
            return tx.journal(self._run_id), tx.counters(self._run_id) or {}

        entries, counters = host.read(load)
        scope = f"{self._run_id}:{driver.run.execution}:{counters.get('round', 1)}"
        self.journal = Journal(entries, scope)
        self._accepts = bool(counters.get("accept"))
        self._raised: deque[tuple[BaseException, JournalEntry]] = deque(maxlen=_REMEMBERED)

    # --- places ----------------------------------------------------------------------------------------

    async def place(self, trap: Trap) -> JournalEntry:
        """The entry of a trap that the body makes now.

        Raises:
            NotSerializable: what it hands over cannot be stored; it has no place. Diverged.
        """
        assert trap.kind is not None
        return await self.next(trap.kind, name_of(trap), digest_of(trap))

    async def next(self, kind: str, name: str, digest: str) -> JournalEntry:
        """The entry at the next position. Raises Diverged."""
        try:
            entry = self.journal.next(kind, name, digest)
        except NonDeterminism as error:
            await self._diverge(error)
            entry = self.journal.next(kind, name, digest)
        if entry.state == "new" and self._driver.body is not None:
            entry.place = self._driver.body.place()
        if self._accepts and self.journal.live:
            await self._accepted()
        return entry

    async def end(self, error: BaseException | None) -> None:
        """The body came to its end. Raises Diverged: more is recorded."""
        try:
            self.journal.end(error)
        except NonDeterminism as different:
            await self._diverge(different)
        if self._accepts:
            await self._accepted()

    async def _diverge(self, error: NonDeterminism) -> None:
        """Put the rest of the journal aside, where somebody said so; else refuse to go on."""
        if not self._accepts:
            raise Diverged(error)
        await self._driver.write(
            lambda tx: journals.set_aside(tx, self._driver.current(tx), error.position, str(error))
        )
        self.journal.give_up()

    async def _accepted(self) -> None:
        self._accepts = False
        await self._driver.write(lambda tx: journals.settle_acceptance(tx, self._run_id))

    # --- writing ---------------------------------------------------------------------------------------

    def note(
        self,
        tx: Transaction,
        entry: JournalEntry,
        state: str,
        value: bytes | None = None,
        hold: str | None = None,
        was: str | None = None,
    ) -> None:
        """Write an entry, in the transaction of its effect; with `was`, if it still is in that state."""
        entry.state = state
        if value is not None:
            entry.value = tx.put_value(self._run_id, value)
        if hold is not None:
            entry.hold = hold
        tx.put_entry(self._run_id, entry, was=was)
        piece = self._driver.piece
        if piece.lost and state not in ("started", "committing"):  # it came further than the last process
            piece.lost = 0
            self._driver.keep(tx)

    async def done(self, entry: JournalEntry, value: bytes | None) -> None:
        """Write that an entry is done, by itself."""

        def work(tx: Transaction) -> None:
            self._driver.current(tx)
            self.note(tx, entry, "done", value)

        await self._driver.write(work)

    async def failed(self, entry: JournalEntry, error: Exception) -> Exception:
        """Write that an entry ended in an error; returns the one that the body gets."""
        error, kept = raised.keep(error, f"{entry.kind} {entry.name!r}")

        def work(tx: Transaction) -> None:
            self._driver.current(tx)
            self.note(tx, entry, "failed", kept)

        await self._driver.write(work)
        return self.gave(error, entry)

    # --- giving back -----------------------------------------------------------------------------------

    def gave(self, error: Exception, entry: JournalEntry) -> Exception:
        """Remember that the body got this error at this place: it may be the one that ends the run."""
        self._raised.append((error, entry))
        return error

    def value(self, entry: JournalEntry, declared: Any = None) -> Any:
        """The value of an entry that is done; None where none was kept. Raises Diverged."""
        ref = entry.value
        if ref is None:
            return None
        kept = self._driver.host.read(lambda tx: tx.value(self._run_id, ref))
        try:
            return codec.decode(kept, declared, place=f"{entry.kind} {entry.name!r}")
        except NotSerializable as error:
            raise Diverged(
                NonDeterminism(
                    f"position {entry.position} of the journal: {error}; bring the old code back and resume, "
                    "or go on from there by retry(accept_changes=True)",
                    position=entry.position,
                )
            ) from error

    def error(self, entry: JournalEntry) -> Exception:
        """The error of an entry that failed. Raises Diverged: its type is not known here."""
        ref = entry.value
        assert ref is not None
        kept = self._driver.host.read(lambda tx: tx.value(self._run_id, ref))
        try:
            return self.gave(raised.restore(kept, f"{entry.kind} {entry.name!r}"), entry)
        except NonDeterminism as error:
            raise Diverged(error) from None

    def culprit(self, error: BaseException | None) -> JournalEntry | None:
        """The place whose error this is, or was made from."""
        seen: set[int] = set()
        pending = [error]
        while pending:
            one = pending.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            for known, entry in self._raised:
                if known is one:
                    return entry
            pending += [one.__context__, one.__cause__]
            if isinstance(one, BaseExceptionGroup):
                pending += one.exceptions
        return None
