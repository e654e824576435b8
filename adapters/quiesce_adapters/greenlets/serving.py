"""What does the driver do for a body that stopped with a trap?

One method for each trap of `quiesce.agent.traps`. What it raises is raised in the body, where it stands.
Every trap is a safe point: with a fence on, nothing is served before the run goes on, except what only
ends something that had begun (`Finish`) and what stops by itself (`Ask`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from quiesce import codec
from quiesce.agent.recorded import draw
from quiesce.agent.traps import (
    Act,
    Approve,
    Ask,
    Attempt,
    Begin,
    Command,
    ContinueAsNew,
    Dismiss,
    Doubt,
    Draw,
    Finish,
    Launch,
    Look,
    Receive,
    Safepoint,
    Send,
    Settle,
    Sleep,
    Spawn,
    Trap,
    Wait,
)
from quiesce.backend import Asked
from quiesce.errors import (
    Deadlock,
    Expired,
    Fenced,
    IllegalTransition,
    PauseOutsideBody,
    Rejected,
    RunCancelled,
    StaleLease,
    StoreError,
)
from quiesce.records import JournalEntry, RunRecord
from quiesce.rules import fence, starting, team_status, waits
from quiesce.rules.orders import By
from quiesce.rules.requests import Request, found
from quiesce.runs import Ack, AnswerAck, PauseAck, ResumeAck, RunStatus
from quiesce.states import ENDED, RunState
from quiesce.store import Transaction
from quiesce.team.values import Message, Task

from .body import Anew
from .piece import PIECE
from .recorder import Recorder
from .stepping import Stepping

if TYPE_CHECKING:
    from .driver import GreenletDriver

__all__ = ["ACKS", "GIVES", "Serving"]

ACKS = {
    "status": RunStatus,
    "pause": PauseAck,
    "resume": ResumeAck,
    "answer": AnswerAck,
    "reject": AnswerAck,
    "cancel": Ack,
}
"""What each verb gives, by which it is kept."""

GIVES: dict[str | None, Any] = {
    "task": Task,
    "messages": list[Message],
    "tasks": list[Task],
    None: type(None),
}
"""What an order or a look at a team gives, by which it is kept."""


class Serving:
    """Serves the traps of one body."""

    __slots__ = ("_driver", "_host", "_run_id", "_stepping")

    def __init__(self, driver: GreenletDriver) -> None:
        self._driver = driver
        self._host = driver.host
        self._run_id = driver.run.id
        self._stepping = Stepping(driver)

    async def serve(self, trap: Trap) -> Any:
        """The value of a trap; what it raises is for the body. Raises Over, StaleLease, StoreError too."""
        match trap:
            case Safepoint():
                return await self._driver.stand()
            case Settle():
                return await self._driver.asking.rest()
            case Finish():
                return await self._stepping.finish(trap)
            case Approve():
                return await self._stepping.approve(trap)
            case Doubt():
                return await self._stepping.doubt(trap)
            case Attempt():
                return await self._stepping.attempt(trap)
            case Begin():
                await self._stand_if_fenced()
                return await self._stepping.begin(trap)
            case ContinueAsNew(value):
                await self._stand_if_fenced()
                raise Anew(self._input_of(value))
        if self._driver.recorder is None or trap.kind is None:
            return await self._effect(trap, None)
        return await self._recorded(trap, self._driver.recorder)

    def _input_of(self, value: Any) -> Any:
        """An input as the store keeps it. Raises InputRejected, NotSerializable."""
        agent = self._driver.agent
        checked = agent.check_input(value)
        if self._driver.recorder is None:
            return checked
        return codec.encode(checked, agent.input_type, place=f"input of {agent.name!r}")

    async def _stand_if_fenced(self) -> None:
        if self._driver.look().state is RunState.PAUSED or self._driver.draining:
            await self._driver.stand()

    async def _recorded(self, trap: Trap, recorder: Recorder) -> Any:
        """What the journal has of a trap; else its effect, which is written there."""
        entry = await recorder.place(trap)
        if entry.state == "done":
            return self._given(trap, entry, recorder)
        if entry.state in ("failed", "fatal") and entry.value is not None:
            raise recorder.error(entry)
        if entry.state == "cancelled":
            await anyio.sleep_forever()
        try:
            return await self._effect(trap, entry)
        except (StaleLease, StoreError):
            raise
        except (Rejected, Expired) as error:
            if not isinstance(trap, Ask):
                raise await recorder.failed(entry, error) from None
            raise recorder.gave(error, entry) from None
        except Exception as error:
            raise await recorder.failed(entry, error) from None
        except anyio.get_cancelled_exc_class():
            if self._driver.over is None:  # a time-out of the body's own
                await self._driver.write(lambda tx: recorder.note(tx, entry, "cancelled"))
            raise

    def _given(self, trap: Trap, entry: JournalEntry, recorder: Recorder) -> Any:
        match trap:
            case Wait(run_id, "end"):
                return self._host.value_of(self._host.read(lambda tx: found(tx, run_id)))
            case Wait():
                return recorder.value(entry, RunStatus)
            case Act(verb):
                return recorder.value(entry, ACKS[verb])
            case Command(_, gives) | Look(gives):
                return recorder.value(entry, GIVES[gives])
        return recorder.value(entry)

    async def _effect(self, trap: Trap, entry: JournalEntry | None) -> Any:
        if isinstance(trap, Ask):
            return await self._driver.asking.ask(trap, entry)
        await self._stand_if_fenced()
        match trap:
            case Receive():
                return await self._receive(trap, entry)
            case Send():
                await self._host.verbs.send(trap.run_id, trap.message, self._asked(entry))
                await self._keep(entry, None)
                return None
            case Sleep():
                return await self._sleep(trap, entry)
            case Spawn():
                return await self._spawn(trap, entry)
            case Wait(run_id, "end"):
                value = await self._result(run_id)
                await self._keep(entry, None)
                return value
            case Wait(run_id):
                seen = await self._settled(run_id)
                await self._keep(entry, codec.encode(seen, RunStatus) if entry is not None else None)
                return seen
            case Act(verb):
                ack = await self._act(trap, entry)
                await self._keep(entry, codec.encode(ack, ACKS[verb]) if entry is not None else None)
                return ack
            case Command():
                given = await self._order(trap, entry)
                kept = codec.encode(given, GIVES[trap.gives]) if entry is not None else None
                await self._keep(entry, kept)
                return given
            case Look():
                team, _ = self._team(trap)
                tasks = self._host.verbs.tasks(team)
                await self._keep(entry, codec.encode(tasks, list[Task]) if entry is not None else None)
                return tasks
            case Launch(job):
                recorder = self._driver.recorder
                return await self._driver.jobs.add(job, now=recorder is None or recorder.journal.live)
            case Dismiss(job):
                return await self._driver.jobs.remove(job)
            case Draw(what):
                drawn = draw(self._host.clock, what)
                await self._keep(entry, codec.encode(drawn) if entry is not None else None)
                return drawn
        raise AssertionError(f"nothing serves {type(trap).__name__}")

    async def _keep(self, entry: JournalEntry | None, value: bytes | None) -> None:
        """Write that an entry is done, in a transaction of its own; its effect may be asked for again."""
        if entry is not None:
            assert self._driver.recorder is not None
            await self._driver.recorder.done(entry, value)

    def _asked(self, entry: JournalEntry | None) -> Asked:
        """Who asks; from a durable body under an id that is the same when it is executed again."""
        recorder = self._driver.recorder
        request_id = None if entry is None or recorder is None else recorder.journal.key(entry)
        return Asked(request_id=request_id, actor=f"run {self._run_id}")

    # --- time and messages -----------------------------------------------------------------------------

    async def _sleep(self, trap: Sleep, entry: JournalEntry | None) -> None:
        clock = self._host.clock
        until = await self._instant(trap.until or clock.now() + timedelta(seconds=trap.seconds), entry)
        self._host.alarm(until, self._driver.notify)
        await self._driver.until(lambda: clock.now() >= until)

    async def _instant(self, fresh: datetime, entry: JournalEntry | None) -> datetime:
        """An instant that is waited for: the one that was kept when the wait began."""
        recorder = self._driver.recorder
        if entry is None or recorder is None:
            return fresh
        if entry.value is not None:
            kept: datetime = recorder.value(entry)
            return kept

        def work(tx: Transaction) -> None:
            self._driver.current(tx)
            recorder.note(tx, entry, "started", codec.encode(fresh))

        await self._driver.write(work)
        return fresh

    async def _receive(self, trap: Receive, entry: JournalEntry | None) -> Any:
        clock, deadline = self._host.clock, trap.deadline
        if deadline is not None:
            deadline = await self._instant(deadline, entry)
        if deadline is not None:
            self._host.alarm(deadline, self._driver.notify)

        def late() -> bool:
            return deadline is not None and clock.now() >= deadline

        def arrived() -> bool:
            return self._host.read(lambda tx: tx.messages(self._run_id)) > 0

        def take(tx: Transaction) -> tuple[Any] | None:
            self._driver.current(tx)
            found = tx.take_message(self._run_id)
            if found is not None and entry is not None and self._driver.recorder is not None:
                self._driver.recorder.note(tx, entry, "done", found[0])
            return found

        await self._driver.until(lambda: arrived() or late())
        taken = await self._driver.write(take)
        if taken is None:
            raise TimeoutError("no message came in time")
        return codec.decode(taken[0]) if self._host.store.durable else taken[0]

    # --- other runs ------------------------------------------------------------------------------------

    async def _spawn(self, trap: Spawn, entry: JournalEntry | None) -> str:
        what, value = self._host.describe(trap.flow, trap.input)
        request = Request("start", "", "", f"run {self._run_id}", remember=False)

        def work(tx: Transaction) -> str | None:
            if self._driver.current(tx).state is RunState.PAUSED:
                return None
            child_id = f"{self._run_id}.{len(tx.children(self._run_id)) + 1}"
            starting.start(tx, request, child_id, what, value, parent=(self._run_id, PIECE))
            if entry is not None and self._driver.recorder is not None:
                self._driver.recorder.note(tx, entry, "done", codec.encode(child_id))
            return child_id

        while (child_id := await self._driver.write(work)) is None:
            await self._driver.stand()
        return child_id

    async def _result(self, run_id: str) -> Any:
        piece = self._driver.piece

        def ended() -> bool:
            run = self._host.read(lambda tx: tx.run(run_id))
            return run is None or run.state in ENDED

        def work(tx: Transaction) -> None:
            run, target = self._driver.current(tx), found(tx, run_id)
            self._refuse_deadlock(tx, run_id)
            if target.state in ENDED:
                return
            piece.child = run_id
            if target.parent_id == self._run_id:
                piece.state = "waiting"
            self._driver.yields(tx)
            fence.rest(tx, run)

        self._host.watch(run_id, self._run_id)
        try:
            await self._driver.jobs.end()
            await self._driver.write(work)
            await self._driver.until(ended)
        finally:
            self._host.unwatch(run_id, self._run_id)
            piece.child = None
        run = self._host.read(lambda tx: found(tx, run_id))
        self._raise_end(run)
        return self._host.value_of(run)

    async def _settled(self, run_id: str) -> RunStatus:
        status = self._host.verbs.status(run_id)

        def settled() -> bool:
            nonlocal status
            status = self._host.verbs.status(run_id)
            if status.state is RunState.PAUSED:
                return status.phase == "quiescent" or status.draining == 0
            return status.state is not RunState.RUNNING

        def work(tx: Transaction) -> None:
            self._driver.current(tx)
            self._refuse_deadlock(tx, run_id)
            self._driver.piece.child = run_id
            self._driver.keep(tx)

        self._host.watch(run_id, self._run_id)
        try:
            if not settled():
                await self._driver.write(work)
            await self._driver.until(settled)
        finally:
            self._host.unwatch(run_id, self._run_id)
            self._driver.piece.child = None
        if status.state is RunState.CREATED:
            raise IllegalTransition(
                run_id, status.state, "wait for", f"run {run_id!r} is created; start it first"
            )
        self._raise_end(self._host.read(lambda tx: found(tx, run_id)))
        return status

    # --- the team around it ----------------------------------------------------------------------------

    def _team(self, trap: Trap) -> tuple[str, str]:
        """The team whose turn this body belongs to, and the run that is the body of that turn."""
        run = self._host.read(lambda tx: found(tx, self._run_id))
        while run.parent_id is not None:
            outer = self._host.read(lambda tx, run=run: found(tx, run.parent_id or ""))  # type: ignore[misc]
            if outer.kind == "team":
                return outer.id, run.id
            run = outer
        raise PauseOutsideBody(
            f"run {self._run_id!r} is no body of a team's turn, so there is no team to give an order to"
        )

    async def _order(self, trap: Command, entry: JournalEntry | None) -> Any:
        """Have an order carried out under this turn; while its team is paused, stand until that goes on."""
        verbs = self._host.verbs
        team, body = self._team(trap)
        by = By(body, self._run_id, self._host.worker, self._driver.run.lease_epoch)
        while True:
            try:
                ack = await verbs.order(team, trap.order, self._asked(entry), by)
                break
            except Fenced:
                if self._driver.look().state is not RunState.PAUSED:
                    raise
                await self._driver.stand()
        if trap.gives == "messages":
            return verbs.messages(team, ack.messages)
        if trap.gives == "task":
            assert ack.task is not None
            return self._host.read(partial(team_status.one_task, run_id=team, number=ack.task))
        return None

    def _raise_end(self, run: RunRecord) -> None:
        if run.state is RunState.FAILED:
            raise self._host.error_of(run)
        if run.state is RunState.CANCELLED:
            raise RunCancelled(run.id)

    def _refuse_deadlock(self, tx: Any, run_id: str) -> None:
        circle = waits.circle(tx, self._run_id, run_id)
        if circle is not None:
            raise Deadlock(
                f"run {self._run_id!r} would wait for itself: " + " waits for ".join(map(repr, circle))
            )

    async def _act(self, trap: Act, entry: JournalEntry | None) -> Any:
        verbs, run_id = self._host.verbs, trap.run_id
        asked = self._asked(entry)
        match trap.verb, trap.arguments:
            case "status", ():
                return verbs.status(run_id)
            case "pause", (reason,):
                return await verbs.pause(run_id, replace(asked, reason=reason), self._host.drain_timeout)
            case "resume", (answer, hold):
                return await verbs.resume(run_id, asked, answer, hold)
            case ("answer" | "reject") as verb, (value, hold):
                target = hold if hold is not None else verbs.sole_hold(run_id)
                return await verbs.answer(target, value, asked, rejected=verb == "reject")
            case "cancel", (reason,):
                return await verbs.cancel(run_id, replace(asked, reason=reason))
        raise AssertionError(f"no verb {trap.verb!r} for a body")
