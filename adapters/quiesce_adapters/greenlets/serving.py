"""What does the driver do for a body that stopped with a trap?

One method for each trap of `quiesce.agent.traps`. What it raises is raised in the body, where it stands.
Every trap is a safe point: with a fence on, nothing is served before the run goes on, except what only
ends something that had begun (`Finish`) and what stops by itself (`Ask`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from quiesce import codec
from quiesce.agent.recorded import draw
from quiesce.agent.traps import (
    Act,
    Ask,
    Draw,
    Receive,
    Safepoint,
    Send,
    Sleep,
    Spawn,
    Trap,
    Wait,
)
from quiesce.backend import Asked
from quiesce.errors import Deadlock, Expired, IllegalTransition, Rejected, RunCancelled
from quiesce.rules import fence, holds, starting, waits
from quiesce.rules.requests import Request, found
from quiesce.runs import Lock, RunStatus
from quiesce.states import ENDED, RunState
from quiesce.store import RunRecord, Transaction

from .piece import PIECE

if TYPE_CHECKING:
    from .driver import GreenletDriver

__all__ = ["Serving"]


class Serving:
    """Serves the traps of one body."""

    __slots__ = ("_driver", "_host", "_run_id")

    def __init__(self, driver: GreenletDriver) -> None:
        self._driver = driver
        self._host = driver.host
        self._run_id = driver.run.id

    async def serve(self, trap: Trap) -> Any:
        """The value of a trap; what it raises is for the body. Raises Over, StaleLease, StoreError too."""
        match trap:
            case Ask():
                return await self._ask(trap)
            case Safepoint():
                return await self._driver.stand()
        if self._driver.look().state is RunState.PAUSED:
            await self._driver.stand()
        match trap:
            case Receive():
                return await self._receive(trap)
            case Send():
                await self._host.verbs.send(trap.run_id, trap.message, self._asked())
                return None
            case Sleep():
                return await self._sleep(trap)
            case Spawn():
                return await self._spawn(trap)
            case Wait(run_id, "end"):
                return await self._result(run_id)
            case Wait(run_id):
                return await self._settled(run_id)
            case Act():
                return await self._act(trap)
            case Draw(what):
                return draw(self._host.clock, what)
        raise AssertionError(f"a run without a journal makes no {type(trap).__name__}")

    def _asked(self, reason: str | None = None) -> Asked:
        return Asked(actor=f"run {self._run_id}", reason=reason)

    # --- questions -------------------------------------------------------------------------------------

    async def _ask(self, trap: Ask) -> Any:
        question = self._question(trap)
        hold_id = self._host.clock.new_id("hold")
        piece = self._driver.piece

        def work(tx: Transaction) -> str:
            run = self._driver.current(tx)
            hold = holds.ask(tx, run, question, hold_id)
            piece.state, piece.hold = "held", hold.id
            self._driver.keep(tx)
            if run.state is RunState.PAUSED:
                fence.release_piece(tx, run, PIECE)
                self._add_lock(tx, run, Lock("holds", trap.reason, None, tx.now))
            fence.rest(tx, run)
            return hold.id

        asked = await self._driver.write(work)
        if trap.deadline is not None:
            self._host.deadline_changed()
        try:
            await self._driver.until(lambda: piece.state == "queued")
        finally:
            piece.hold = None
        hold = self._host.read(lambda tx: tx.hold(asked))
        assert hold is not None
        if hold.state == "rejected":
            raise Rejected(str(hold.answer))
        if hold.state == "expired":
            raise Expired(f"nobody answered {trap.reason or 'the question'!r} before its deadline")
        if hold.state != "answered":
            return None  # let go by a resume without an answer
        if trap.expects is None:
            return hold.answer
        return codec.validate_json(hold.answer, trap.expects, place="answer")

    def _question(self, trap: Ask) -> holds.Question:
        expects = codec.schema(trap.expects)
        on_deadline = trap.on_deadline
        if isinstance(on_deadline, tuple):
            on_deadline = ("answer", codec.jsonable(on_deadline[1], place="on_deadline"))
            if expects is not None:
                codec.check_schema(on_deadline[1], expects)
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

    def _add_lock(self, tx: Transaction, run: RunRecord, lock: Lock) -> None:
        if lock.kind not in run.locks:
            run.locks[lock.kind] = lock
            run.updated_at = tx.now
            tx.save_run(run, generation=run.generation)

    # --- time and messages -----------------------------------------------------------------------------

    async def _sleep(self, trap: Sleep) -> None:
        clock = self._host.clock
        until = trap.until or clock.now() + timedelta(seconds=trap.seconds)
        self._host.alarm(until, self._driver.notify)
        await self._driver.until(lambda: clock.now() >= until)

    async def _receive(self, trap: Receive) -> Any:
        clock, deadline = self._host.clock, trap.deadline
        if deadline is not None:
            self._host.alarm(deadline, self._driver.notify)

        def late() -> bool:
            return deadline is not None and clock.now() >= deadline

        def arrived() -> bool:
            return self._host.read(lambda tx: tx.messages(self._run_id)) > 0

        def take(tx: Transaction) -> tuple[Any] | None:
            self._driver.current(tx)
            return tx.take_message(self._run_id)

        await self._driver.until(lambda: arrived() or late())
        taken = await self._driver.write(take)
        if taken is None:
            raise TimeoutError("no message came in time")
        return codec.decode(taken[0]) if self._host.store.durable else taken[0]

    # --- other runs ------------------------------------------------------------------------------------

    async def _spawn(self, trap: Spawn) -> str:
        what, value = self._host.describe(trap.flow, trap.input)
        child_id = self._host.clock.new_id("run")
        request = Request("start", "", "", f"run {self._run_id}", remember=False)

        def work(tx: Transaction) -> bool:
            if self._driver.current(tx).state is RunState.PAUSED:
                return False
            starting.start(tx, request, child_id, what, value, parent=(self._run_id, PIECE))
            return True

        while not await self._driver.write(work):
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
            self._driver.keep(tx)
            if run.state is RunState.PAUSED:
                fence.release_piece(tx, run, PIECE)
            fence.rest(tx, run)

        self._host.watch(run_id, self._driver)
        try:
            await self._driver.write(work)
            await self._driver.until(ended)
        finally:
            self._host.unwatch(run_id, self._driver)
            piece.child = None
        run = self._host.read(lambda tx: found(tx, run_id))
        self._raise_end(run)
        return self._host.value_of(run)

    async def _settled(self, run_id: str) -> RunStatus:
        self._host.read(lambda tx: self._refuse_deadlock(tx, run_id))
        status = self._host.verbs.status(run_id)

        def settled() -> bool:
            nonlocal status
            status = self._host.verbs.status(run_id)
            if status.state is RunState.PAUSED:
                return status.phase == "quiescent" or status.draining == 0
            return status.state is not RunState.RUNNING

        self._host.watch(run_id, self._driver)
        self._driver.piece.child = run_id
        try:
            await self._driver.until(settled)
        finally:
            self._host.unwatch(run_id, self._driver)
            self._driver.piece.child = None
        if status.state is RunState.CREATED:
            raise IllegalTransition(
                run_id, status.state, "wait for", f"run {run_id!r} is created; start it first"
            )
        self._raise_end(self._host.read(lambda tx: found(tx, run_id)))
        return status

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

    async def _act(self, trap: Act) -> Any:
        verbs, run_id = self._host.verbs, trap.run_id
        match trap.verb, trap.arguments:
            case "status", ():
                return verbs.status(run_id)
            case "pause", (reason,):
                return await verbs.pause(run_id, self._asked(reason), self._host.drain_timeout)
            case "resume", (answer, hold):
                return await verbs.resume(run_id, self._asked(), answer, hold)
            case ("answer" | "reject") as verb, (value, hold):
                target = hold if hold is not None else verbs.sole_hold(run_id)
                return await verbs.answer(target, value, self._asked(), rejected=verb == "reject")
            case "cancel", (reason,):
                return await verbs.cancel(run_id, self._asked(reason))
        raise AssertionError(f"no verb {trap.verb!r} for a body")
