"""How does a body wait for a person: one that stands, and the tasks of a `gather` that ask side by side?

A hold is opened, with its entry in the journal, in one transaction. Where nothing else of the body is at
work, the same transaction lets the run rest, which pauses it. While a task still works, the run goes on,
and its open questions are there to be answered; the last one to stop makes it rest.

Source: spec agent, "Body and lifecycle"; spec engine, 3 (nothing runnable and a hold is open); cases
failures-agent-frameworks 1, 38, 39.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from quiesce import codec
from quiesce.agent.traps import Ask
from quiesce.errors import Expired, InputRejected, Rejected
from quiesce.records import HoldRecord, JournalEntry, RunRecord
from quiesce.rules import fence, holds
from quiesce.runs import Lock
from quiesce.signals import Signal
from quiesce.states import RunState
from quiesce.store import Transaction

from .piece import PIECE

if TYPE_CHECKING:
    from .driver import GreenletDriver

__all__ = ["Asking", "Check", "Link", "refusal"]

Check = Callable[[Any], Any]
"""Makes of an answer what the body gets. Raises InputRejected: it does not fit."""
Link = Callable[[Transaction, str], None]
"""Keeps the id of a new hold in the journal, in the transaction that opens it."""


def refusal(hold: HoldRecord) -> Exception | None:
    """What is raised where a hold was asked; None if it was answered, or let go."""
    if hold.state == "rejected":
        return Rejected(str(hold.answer))
    if hold.state == "expired":
        return Expired(f"nobody answered {hold.reason or 'the question'!r} before its deadline")
    return None


class Asking:
    """The questions of one run's body."""

    __slots__ = ("_checks", "_driver", "_host", "signals")

    def __init__(self, driver: GreenletDriver) -> None:
        self._driver = driver
        self._host = driver.host
        self._checks: dict[str, Check] = {}
        self.signals: set[Signal] = set()
        """Of the tasks that wait here."""

    async def ask(self, trap: Ask, entry: JournalEntry | None) -> Any:
        """The answer. Raises Rejected, Expired."""
        check = None if trap.expects is None else partial(codec.validate_json, declared=trap.expects)
        known = None if entry is None else entry.hold
        hold, value = await self.answered(self._question(trap), known, self.noting(entry, "started"), check)
        error = refusal(hold)
        if error is not None:
            raise error
        return value  # None, if it was let go by a resume without an answer

    async def answered(
        self, question: holds.Question, known: str | None, link: Link | None, check: Check | None
    ) -> tuple[HoldRecord, Any]:
        """The hold once it is settled, and what `check` makes of its answer.

        An answer that it refuses came from a process that could not know; it is asked again, with the reason.

        Args:
            known: the hold that asks this already, or did.
        """
        told = question.reason or "the question"
        while True:
            hold = await self._settled(question, known, link, check)
            if hold.state != "answered" or check is None:
                return hold, hold.answer if hold.state == "answered" else None
            try:
                return hold, check(hold.answer)
            except InputRejected as refused:
                question = replace(question, reason=f"{told} (the last one was refused: {refused})")
                known = None

    def check(self, hold_id: str, value: Any) -> None:
        """Hold an answer to an open question against what the body declared. Raises InputRejected."""
        check = self._checks.get(hold_id)
        if check is not None:
            check(value)

    def _question(self, trap: Ask) -> holds.Question:
        expects = codec.schema(trap.expects)
        on_deadline = trap.on_deadline
        if isinstance(on_deadline, tuple):
            on_deadline = ("answer", codec.jsonable(on_deadline[1], place="on_deadline"))
            if expects is not None:
                codec.check_schema(on_deadline[1], expects)
                codec.validate_json(on_deadline[1], trap.expects, place="on_deadline")
        return holds.Question(
            path=self._driver.piece.name,
            piece=PIECE,
            reason=trap.reason,
            key=trap.key,
            payload=codec.jsonable(trap.payload, place="payload of the question"),
            expects=expects,
            deadline=trap.deadline,
            on_deadline=on_deadline,
        )

    def noting(self, entry: JournalEntry | None, state: str) -> Link | None:
        """What keeps a hold in its entry, which has this state while it waits."""
        recorder = self._driver.recorder
        if entry is None:
            return None
        assert recorder is not None
        return lambda tx, hold: recorder.note(tx, entry, state, hold=hold)

    async def _settled(
        self, question: holds.Question, known: str | None, link: Link | None, check: Check | None
    ) -> HoldRecord:
        """Open a hold, or take the known one, and wait until it is settled."""
        if known is not None and (hold := self._hold(known)).state != "open":
            return hold
        if self._driver.idle + 1 >= self._driver.tasks:
            await self._driver.jobs.end()
        opened = await self._driver.write(lambda tx: self._open(tx, question, known, link))
        if question.deadline is not None:
            self._host.deadline_changed()
        run_id, piece, tasks = self._driver.run.id, self._driver.piece, self._driver.tasks
        if check is not None:
            self._checks[opened] = check
        try:
            if tasks:
                await self.wait(lambda: self._hold(opened).state != "open", opened)
            elif self._host.store.durable:
                self._host.joins[run_id] = self._go_on_with
                await self._driver.until(lambda: self._hold(opened).state != "open")
            else:
                await self._driver.until(lambda: piece.state == "queued")
        finally:
            self._host.joins.pop(run_id, None)
            piece.hold = None
            self._checks.pop(opened, None)
        return self._hold(opened)

    def _go_on_with(self, tx: Transaction, run: RunRecord) -> Callable[[], None] | None:
        """The body that asked runs from the commit on that answers it, if that lets its run go on."""
        piece = self._driver.piece
        if run.state is not RunState.RUNNING or self._driver.why_over(run) or piece.state != "held":
            return None
        assert piece.hold is not None
        asked = tx.hold(piece.hold)
        if asked is None or asked.state == "open":
            return None
        tx.put_pieces(run.id, [replace(piece.row(), state="running")])
        return partial(self._driver.goes_on, run.generation)

    def _hold(self, hold_id: str) -> HoldRecord:
        hold = self._host.read(lambda tx: tx.hold(hold_id))
        assert hold is not None
        return hold

    def _open(self, tx: Transaction, question: holds.Question, known: str | None, link: Link | None) -> str:
        run = self._driver.current(tx)
        asked = known or holds.ask(tx, run, question, self._host.clock.new_id("hold")).id
        if link is not None and known is None:
            link(tx, asked)
        if self._driver.idle + 1 >= self._driver.tasks:
            self._rest(tx, run, asked, question.reason)
        return asked

    def _rest(self, tx: Transaction, run: RunRecord, hold: str, reason: str | None) -> None:
        piece = self._driver.piece
        piece.state, piece.hold = "held", hold
        self._driver.yields(tx)
        if run.state is RunState.PAUSED and "holds" not in run.locks:
            run.locks["holds"] = Lock("holds", reason, None, tx.now)
            run.updated_at = tx.now
            tx.save_run(run, generation=run.generation)
        fence.rest(tx, run)

    # --- tasks -------------------------------------------------------------------------------------------

    async def wait(self, ready: Callable[[], bool], hold_id: str | None = None) -> None:
        """Let a task of the body wait until the run runs and `ready` says so.

        A task that is cancelled meanwhile does not ask any more.
        """
        body, signal = self._driver.body, Signal()
        assert body is not None
        self.signals.add(signal)
        body.idle += 1
        try:
            if body.idle == body.tasks:
                await self.rest()
            while not (self._driver.look().state is RunState.RUNNING and ready()):
                await signal.wait()
        except anyio.get_cancelled_exc_class():
            if hold_id is not None and self._driver.over is None:
                await self._driver.write(lambda tx: self._withdraw(tx, hold_id))
            raise
        finally:
            body.idle -= 1
            self.signals.discard(signal)
        await self._driver.go_on()
        await self._driver.jobs.start()

    async def rest(self) -> None:
        """Every task that is left waits: for an answer, which lets the run rest, or at a fence."""

        def work(tx: Transaction) -> None:
            run = self._driver.current(tx)
            open_holds = tx.open_holds(run.id)
            if open_holds:
                self._rest(tx, run, open_holds[-1].id, open_holds[0].reason)
            elif run.state is RunState.PAUSED:
                self._driver.piece.state = "queued"
                self._driver.yields(tx)

        await self._driver.jobs.end()
        await self._driver.write(work)

    def _withdraw(self, tx: Transaction, hold_id: str) -> None:
        run, hold = self._driver.current(tx), tx.hold(hold_id)
        if hold is not None and hold.state == "open":
            hold.state, hold.answered_at = "withdrawn", tx.now
            tx.settle_hold(hold)
            tx.log(run, "withdrawn", None, None, {"hold": hold.id, "because": "its group has failed"})
