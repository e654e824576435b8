"""How is one run of a team driven, in the process that holds its lease?

Theory of operation. What a team does next is a question to its rows (`quiesce.rules.scheduling`), asked in
one transaction after every change of them; this driver only says when. It runs no body: a body is a run of
its own, driven by whichever process serves it, and its end, its questions and its yielding are written to
the team's rows by the transactions in which they happen. So nothing is lost when this process dies, and
another one goes on from the same rows. While the team is paused or idle it reads only when it is told of a
change, and writes only where a user-directed turn may begin.

Source: spec team, "Model" (scheduling) and "restart".
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from quiesce import codec
from quiesce.backend import Host
from quiesce.errors import StaleLease, StoreBusy
from quiesce.frames import Frame
from quiesce.records import HoldRecord, RunRecord, TurnRow
from quiesce.rules import claims, team_status, turns
from quiesce.rules.requests import found
from quiesce.rules.scheduling import advance_team, is_due
from quiesce.rules.starting import Definition
from quiesce.signals import Signal
from quiesce.states import ENDED, RunState
from quiesce.store import Reader, Transaction
from quiesce.team.definition import Team
from quiesce.team.turn import Turn

__all__ = ["ReceiptsDriver"]


class ReceiptsDriver:
    """Drives one run of a team until it ends or its lease is lost."""

    def __init__(self, host: Host, run: RunRecord, team: Team) -> None:
        self._host = host
        self._run = run
        self._team = team
        self._signal = Signal()

    async def drive(self) -> None:
        """Have the team go on after every change, until the run has ended or the lease is lost."""
        self._host.know_parts(self._run.flow, self._team)  # so that bodies are taken up here, too
        try:
            while not await self._look():
                await self._signal.wait()
        except StaleLease:
            pass  # replaced, reset or cancelled: whoever did that has said so

    def notify(self) -> None:
        """The run's rows changed: look again."""
        self._signal.set()

    def check_answer(self, hold: HoldRecord, value: Any) -> None:
        """A team asks nothing itself; its bodies' runs do."""

    def frames(self) -> list[Frame]:
        """A team has no stack of its own; its bodies' runs have."""
        return []

    async def _look(self) -> bool:
        """Begin what may begin; whether the run has ended."""
        if not self._host.read(lambda tx: is_due(tx, self._current(tx))):
            return self._host.read(lambda tx: found(tx, self._run.id)).state in ENDED
        while True:
            began = False

            def work(tx: Transaction) -> RunRecord:
                nonlocal began
                began = True
                drain_until = tx.now + timedelta(seconds=self._host.drain_timeout)
                advance_team(tx, self._current(tx), self._opening, drain_until)
                return found(tx, self._run.id)

            try:
                run = await self._host.write(work)
                break
            except StoreBusy:
                if began:
                    raise
        self._host.deadline_changed()  # of what a body that goes on again brings back
        if run.state is RunState.FAILED:
            self._tell_failure(run)
        return run.state in ENDED

    def _current(self, tx: Reader) -> RunRecord:
        run = found(tx, self._run.id)
        return (
            run
            if run.state in ENDED
            else claims.current(tx, run.id, self._host.worker, self._run.lease_epoch)
        )

    def _tell_failure(self, run: RunRecord) -> None:
        """Keep the error itself of the body that failed the run, for whoever waits here."""
        failed = self._host.read(lambda tx: turns.facts(tx, run)).get("failed", {})
        turn = self._host.read(lambda tx: tx.turn(run.id, failed.get("turn", 0)))
        body = turn.child if turn is not None else None
        child = self._host.read(lambda tx: tx.run(body)) if body is not None else None
        if child is not None and child.state is RunState.FAILED:
            self._host.failed(run.id, self._host.error_of(child))

    def _prompt(self, turn: TurnRow, stored: object) -> object:
        if not isinstance(stored, bytes) or not self._host.store.durable:
            return stored
        return codec.decode(stored, self._team.input_type if turn.generation is not None else None)

    def _opening(self, tx: Transaction, run: RunRecord, turn: TurnRow) -> tuple[Definition, object]:
        """What the run of a body is started of: the participant's flow, and the turn as that sees it."""
        task = tx.task(run.id, turn.task) if turn.task is not None else None
        prompt = tx.value(run.id, turn.prompt) if turn.prompt is not None else None
        value = Turn(
            participant=turn.participant,
            kind=turn.kind,  # type: ignore[arg-type]  # the schema's check holds it
            task=None if task is None else team_status.task_value(tx, run.id, task),
            prompt=self._prompt(turn, prompt),
        )
        reference = f"{run.flow}.{turn.participant}"
        return self._host.describe(self._team.participants[turn.participant], value, reference)
