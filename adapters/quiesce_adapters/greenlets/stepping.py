"""What does the driver do for a step or an action: its place, its approval, its attempts, its outcome?

`quiesce.agent.attempts` asks, in this order. Every move of an action compares the state that it was in, so
that an approval is spent once.

Source: spec agent, "Steps and the journal", "Actions that need approval"; cases agent S37 to S39, B7.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from quiesce import codec
from quiesce.agent import raised
from quiesce.agent.journal import Cancelled, Permit, Recorded
from quiesce.agent.traps import Approve, Attempt, Begin, Doubt, Finish
from quiesce.errors import NotSerializable
from quiesce.records import HoldRecord, JournalEntry
from quiesce.rules import holds, journals
from quiesce.states import RunState
from quiesce.store import Transaction

from .asking import refusal
from .piece import PIECE

if TYPE_CHECKING:
    from .driver import GreenletDriver

__all__ = ["Stepping"]

_OVER = ("done", "committed")
_BROKEN = ("failed", "fatal", "rejected")


class Stepping:
    """The steps of one run's body."""

    __slots__ = ("_asked", "_driver", "_host")

    def __init__(self, driver: GreenletDriver) -> None:
        self._driver = driver
        self._host = driver.host
        self._asked = itertools.count(1)

    async def begin(self, trap: Begin) -> list[Permit | Recorded | Cancelled]:
        """What the journal says of these calls, which get their places now. Raises NotSerializable."""
        recorder = self._driver.recorder
        assert recorder is not None
        digests = [call.digest() for call in trap.calls]
        entries = []
        for call, digest in zip(trap.calls, digests, strict=True):
            entry = await recorder.next(call.step.kind, call.step.name, digest)
            entries.append((call, entry, recorder.journal.key(entry)))
        begun: list[Permit | Recorded | Cancelled] = []
        for call, entry, key in entries:
            if entry.state == "new":
                entry.last = entries[-1][1].position
                entry.state = "prepared" if call.step.needs_approval(call) else "approved"
            if entry.state in _OVER:
                begun.append(Recorded(recorder.value(entry, call.step.parameters.returns)))
            elif entry.state in _BROKEN:
                begun.append(Recorded(error=recorder.error(entry)))
            elif entry.state == "cancelled":
                begun.append(Cancelled())
            else:
                begun.append(Permit(entry, key))
        return begun

    # --- approval ----------------------------------------------------------------------------------------

    async def approve(self, trap: Approve) -> dict[str, Any]:
        """The arguments by name that were approved. Raises Rejected, Expired."""
        action, permit = trap.call.step, trap.permit
        entry: JournalEntry | None = permit.entry if permit is not None else None
        asked = action.question(trap.call)
        number = entry.position if entry is not None else next(self._asked)
        question = holds.Question(
            path=self._driver.piece.name,
            piece=PIECE,
            reason=asked.reason,
            key=f"{action.name}#{number}",
            payload=asked.payload,
            expects=action.answers(),
            deadline=None if action.deadline is None else self._host.clock.now() + action.deadline,
            on_deadline=asked.on_deadline,
        )
        check = partial(action.approved, asked.payload)
        named: dict[str, Any]
        asking, known = self._driver.asking, None if entry is None else entry.hold
        hold, named = await asking.answered(question, known, asking.noting(entry, "waiting"), check)
        error = refusal(hold)
        if error is not None:
            raise await self._refused(entry, error)
        if entry is None or entry.state == "waiting":
            await self._driver.write(lambda tx: self._approved(tx, trap, entry, hold, named))
        return named

    def _approved(
        self,
        tx: Transaction,
        trap: Approve,
        entry: JournalEntry | None,
        hold: HoldRecord,
        named: dict[str, Any],
    ) -> None:
        run = self._driver.current(tx)
        args, kwargs = trap.call.step.parameters.call(named)
        shown = trap.call.step.parameters.shown(args, kwargs, f"action {trap.call.step.name!r}")
        if entry is not None:
            assert self._driver.recorder is not None
            self._driver.recorder.note(tx, entry, "approved", was="waiting")
        facts = {
            "hold": hold.id,
            "action": trap.call.step.name,
            "arguments": shown,
            "edited": shown != hold.payload["arguments"],
            "at": hold.answered_at.isoformat() if hold.answered_at else None,
            "digest": trap.call.step.parameters.digest(args, kwargs, f"action {trap.call.step.name!r}"),
        }
        tx.log(run, "approved", hold.answered_by, None, facts)

    async def _refused(self, entry: JournalEntry | None, error: Exception) -> Exception:
        if entry is None:
            return error
        recorder = self._driver.recorder
        assert recorder is not None
        error, kept = raised.keep(error, f"action {entry.name!r}")

        def work(tx: Transaction) -> None:
            self._driver.current(tx)
            recorder.note(tx, entry, "rejected", kept, was="waiting")

        await self._driver.write(work)
        return recorder.gave(error, entry)

    async def doubt(self, trap: Doubt) -> Recorded | None:
        """What a step gave of which nobody knew whether it happened; None if it did not. Raises Rejected."""
        call, entry = trap.call, trap.permit.entry
        returns = call.step.parameters.returns
        what = f"{entry.kind} {entry.name!r}"
        question = holds.Question(
            path=self._driver.piece.name,
            piece=PIECE,
            reason=f"did {what} happen? Its process died before it said so"
            + (f"; {trap.problem}" if trap.problem else ""),
            key=f"{entry.name}#{entry.position}?{entry.attempt}",
            payload={
                "step": entry.name,
                "position": entry.position,
                "arguments": call.step.parameters.shown(call.args, call.kwargs, what),
                "key": trap.permit.key,
                "attempt": entry.attempt,
            },
            expects={
                "type": "object",
                "properties": {"happened": {"type": "boolean"}, "result": codec.schema(returns) or {}},
                "required": ["happened"],
                "additionalProperties": False,
            },
        )
        recorder = self._driver.recorder
        assert recorder is not None
        known = self._host.read(lambda tx: journals.doubt(tx, self._driver.run.id, entry))

        def link(tx: Transaction, hold: str) -> None:
            recorder.note(tx, entry, entry.state, codec.encode(hold))

        given: Recorded | None
        hold, given = await self._driver.asking.answered(question, known, link, partial(_outcome, returns))
        error = refusal(hold)
        if error is None:
            return given
        raise await recorder.failed(entry, error)

    # --- attempts ----------------------------------------------------------------------------------------

    async def attempt(self, trap: Attempt) -> None:
        """Write that the effect may happen from now on, unless the run is fenced; then wait for it to go."""
        recorder, entry = self._driver.recorder, trap.permit.entry
        assert recorder is not None

        def work(tx: Transaction) -> bool:
            if self._driver.current(tx).state is RunState.PAUSED:
                return False
            was = entry.state
            entry.attempt += 1
            entry.value = None  # what was asked about the attempt before
            if entry.kind == "step":
                recorder.note(tx, entry, "started")
            else:
                recorder.note(tx, entry, "committing", was=None if entry.hold is None else was)
            return True

        await self._driver.jobs.start()
        while not await self._driver.write(work):
            if self._driver.tasks:
                await self._driver.asking.wait(lambda: True)
            else:
                await self._driver.stand()

    async def finish(self, trap: Finish) -> Exception | None:
        """Write the outcome of an attempt; returns the error that the body gets, if it gets one."""
        recorder, entry = self._driver.recorder, trap.permit.entry
        assert recorder is not None
        state, kept, error = trap.outcome, None, trap.error
        if state == "done":
            try:
                kept = codec.encode(trap.value, trap.returns, place=f"result of {entry.kind} {entry.name!r}")
            except NotSerializable as refused:
                state, error = "failed", refused
        if error is not None:
            assert isinstance(error, Exception)
            error, kept = raised.keep(error, f"{entry.kind} {entry.name!r}")
        if state == "failed-once":
            kept = None
        named = {"done": "committed"}.get(state, state) if entry.kind == "action" else state

        def work(tx: Transaction) -> None:
            self._driver.current(tx)
            recorder.note(tx, entry, named, kept)

        await self._driver.write(work)
        if error is None:
            return None
        return recorder.gave(error, entry)


def _outcome(returns: Any, answer: Mapping[str, Any]) -> Recorded | None:
    """What a person said that a step gave; None if it did not happen. Raises InputRejected."""
    if not answer["happened"]:
        return None
    value = answer.get("result")
    return Recorded(value if returns is None else codec.validate_json(value, returns, place="result"))
