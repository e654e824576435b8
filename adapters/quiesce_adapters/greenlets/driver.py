"""How is one run of an agent driven, in the process that holds its lease?

Theory of operation. One task drives a body for its whole life. It runs the body until that makes a trap,
serves the trap (`serving.py`), and goes on with the value. Between the two the body is a suspended call
stack and the run's rows say why: `held` by a question, `waiting` for a run, `queued` because it stands at
a safe point of a paused run. The driver only ever waits for one thing: a change of the rows. Whoever
changes them calls `notify`.

The body's cancel scopes are open in the driver's task while it waits. A time-out of the body's own that
passes meanwhile must not disturb the driver: it is put aside, and raised in the body when that goes on,
which is at once where its run runs and no person is waited for. What is meant for the driver (the run was
cancelled, reset or taken over, the runtime closes) is told by `notify` first, which interrupts an await.

Source: spec agent; spec engine, 4 (pause, cancel, reset).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import anyio

from quiesce import codec
from quiesce.agent import raised
from quiesce.agent.definition import Agent
from quiesce.agent.traps import Finish, Trap
from quiesce.backend import Host
from quiesce.errors import QuiesceError, StaleLease, StoreBusy, StoreError
from quiesce.frames import Frame
from quiesce.records import HoldRecord, RunRecord
from quiesce.rules import claims, ending, fence
from quiesce.signals import Signal
from quiesce.states import RunState
from quiesce.store import Transaction

from .asking import Asking
from .body import Anew, Ended, LiveBody, Over
from .cancelling import WHY, by_a_scope, pass_on, report
from .jobs import Jobs
from .piece import PIECE, BodyPiece
from .recorder import Diverged, Recorder
from .serving import Serving
from .watchdog import Watchdog

__all__ = ["GreenletDriver"]

T = TypeVar("T")

_UNDER_WAY = (RunState.RUNNING, RunState.PAUSED)


class GreenletDriver:
    """Drives one run of an agent until it ends or its lease is lost."""

    __slots__ = (
        "_generation",
        "_guard",
        "_late",
        "_serving",
        "_signal",
        "agent",
        "asking",
        "body",
        "draining",
        "host",
        "jobs",
        "over",
        "piece",
        "recorder",
        "run",
        "watchdog",
    )

    def __init__(self, host: Host, run: RunRecord, agent: Agent[..., Any], watchdog: Watchdog) -> None:
        self.host = host
        self.run = run
        self.watchdog = watchdog
        self.over: str | None = None
        """Why this run is not to be driven any further here; None while it is."""
        self.piece = BodyPiece(run.entry, run.input)
        self.agent = agent
        self.body: LiveBody | None = None
        self.recorder: Recorder | None = None
        """Of a durable run."""
        self.asking = Asking(self)
        self.jobs = Jobs(run.id, host.store.folder, host.clock)
        self._guard: anyio.CancelScope | None = None
        self._signal = Signal()
        self._late: BaseException | None = None
        self._generation = run.generation
        self.draining = False
        """Whether the body ran when the run was paused, and has come by no safe point since."""
        self._serving = Serving(self)

    # --- the loop ------------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Run the body until it has ended, or the run is not to be driven here any further."""
        with anyio.CancelScope() as self._guard:
            await self._load()
            try:
                await self.until(lambda: True)
                await self.jobs.await_others()
            except (Over, StaleLease):
                return
            while await self._drive_body():
                pass

    async def _drive_body(self) -> bool:
        """One body, from its start; whether another one follows, since it was continued as new."""
        body = LiveBody(self, self.run.id, self.run.execution, self.agent)
        try:
            if self.host.store.durable:
                self.recorder = Recorder(self)
                body.journal = True
            body.give(self._input())
            self.body = body
            out = await body.go()
            while not isinstance(out, Ended):
                out = await self._answer(body, out)
            await self.jobs.close()
            await self._end(out)
        except Anew as anew:
            await self._begin_anew(body, anew.value)
            return True
        except Diverged as diverged:
            await self._fault(str(diverged))
            await self._unwind(body, Over("at fault"))
        except (Over, StaleLease) as reason:
            await self._unwind(body, reason)
        except StoreError:
            await self._unwind(body, Over("broken"))
            raise
        finally:
            self.body = None
            await self.jobs.close()
        return False

    async def _load(self) -> None:
        live = self.host.read(lambda tx: tx.frontier(self.run.id))
        if isinstance(live, BodyPiece):
            self.piece = live
            await self.write(lambda tx: ending.abandon_children(tx, self.current(tx)))
        elif not self.host.store.durable:
            await self.host.write(lambda tx: tx.attach(self.run.id, self.piece))
        else:
            for row in self.host.read(lambda tx: tx.pieces(self.run.id)):
                self.piece.lost, self.piece.attempt = row.lost, row.attempt

    def _input(self) -> Any:
        ref = self.run.input
        if ref is None:
            return None
        stored = self.host.read(lambda tx: tx.value(self.run.id, ref))
        return codec.decode(stored, self.agent.input_type) if self.host.store.durable else stored

    async def _begin_anew(self, body: LiveBody, value: Any) -> None:
        """Commit the new input, and end the body that handed it over."""

        def work(tx: Transaction) -> None:
            run = self.current(tx)
            ending.continue_as_new(tx, run, value)
            self.run.input = self.piece.value = run.input
            self.piece.state, self.piece.lost = "running", 0
            if self.host.store.durable:
                tx.put_pieces(self.run.id, [self.piece.row()])

        await self.write(work)
        await self._unwind(body, Over("continued as a new one"))
        assert self._guard is not None
        self._guard.shield, self._guard.deadline = False, math.inf

    async def _fault(self, why: str) -> None:
        """Pause the run, which must not go on as it is."""

        def work(tx: Transaction) -> None:
            run = self.current(tx)
            self.piece.state = "queued"
            self.keep(tx)
            if run.state is RunState.PAUSED:
                fence.release_pieces(tx, run, [PIECE])
            claims.fault(tx, run, why)

        try:
            await self.write(work)
        except (Over, StaleLease):
            pass  # somebody else goes on with it, and will see for themselves

    async def _answer(self, body: LiveBody, trap: Trap) -> Trap | Ended:
        """Serve a trap, and go on until the next one."""
        self._see_where(body)
        try:
            value = await self._serving.serve(trap)
        except (Over, Anew, Diverged, StoreError, StaleLease, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # meant for the body: a refusal, or a time-out of its own
            if self.over is not None:
                raise Over(self.over) from None
            return await body.go(error=error)
        if self.over is not None:
            raise Over(self.over)
        return await body.go(value)

    def _see_where(self, body: LiveBody | None) -> None:
        """Know the line where the body stands, for whoever writes its row next."""
        if self.recorder is not None and body is not None:
            self.piece.place = body.place() or self.piece.place

    async def serve_task(self, trap: Trap) -> Any:
        """Serve a trap of a task that the body started; if the run is over, it is not served any more."""
        self._see_where(self.body)
        try:
            return await self._serving.serve(trap)
        except (Over, StaleLease, StoreError) as reason:
            self.over = self.over or (reason.why if isinstance(reason, Over) else "lost")
            self.host.interrupt(self.run.id)
            if isinstance(trap, Finish) and trap.outcome == "cancelled":
                return None  # its task is on its way out, where nothing reaches it that would end a wait
            await anyio.sleep_forever()

    @property
    def tasks(self) -> int:
        """How many tasks of a `gather` the body waits for."""
        return 0 if self.body is None else self.body.tasks

    @property
    def idle(self) -> int:
        """How many of these wait for an answer, or at a fence."""
        return 0 if self.body is None else self.body.idle

    def notify(self) -> None:
        """The run's rows changed, or the host is closing: look again."""
        self._signal.set()
        for signal in self.asking.signals:
            signal.set()
        body = self.body
        if self.over is None:
            run = self.host.read(lambda tx: tx.run(self.run.id))
            self.over = self.why_over(run)
            if run is not None and run.generation != self._generation:
                self._generation, self.draining = run.generation, self.piece.state == "running"
            if body is not None and run is not None and not body.unwinding:
                body.fenced = run.state is RunState.PAUSED or self.draining
        if self.over is not None and body is not None and body.awaiting and not body.unwinding:
            self.host.interrupt(self.run.id)

    def check_answer(self, hold: HoldRecord, value: Any) -> None:
        """Hold an answer against what the body declared for this question. Raises InputRejected."""
        self.asking.check(hold.id, value)

    def frames(self) -> list[Frame]:
        """Where the body stands."""
        return [] if self.body is None else self.body.frames()

    # --- standing still --------------------------------------------------------------------------------

    def look(self) -> RunRecord:
        """The run as it is now; hears whether a verb let the body go on. Raises Over."""
        stands = self.host.store.durable and self.piece.state in ("held", "waiting")
        run, woken = self.host.read(lambda tx: (tx.run(self.run.id), stands and tx.woken(self.run.id)))
        if woken:
            self.piece.state = "queued"
        if self.over is None:
            self.over = self.why_over(run)
        if self.over is not None or run is None:
            raise Over(self.over or "lost")
        return run

    def why_over(self, run: RunRecord | None) -> str | None:
        """Why a run of this record is not to be driven here any further; None while it is."""
        if run is None or run.execution != self.run.execution:
            return "reset"
        if run.state is RunState.CANCELLED:
            return "cancelled"
        if run.lease_holder != self.host.worker or run.lease_epoch != self.run.lease_epoch:
            return "lost"
        if self.host.closing:
            return "closing"
        return None if run.state in _UNDER_WAY else "ended"

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until the run runs and `ready` says so; a fence meanwhile does not wait for this body.

        Raises:
            Over, StaleLease; a cancellation by a time-out of the body's own that passed meanwhile.
        """
        while True:
            run = self.look()
            if self.draining:
                await self.jobs.end()
                await self.write(self.yields)
                continue
            late = self._late is not None and self.piece.state != "held"  # where a person is waited for
            if run.state is RunState.RUNNING and (late or ready()):
                break
            await self._wait()
        await self.go_on()
        if self.body is not None:
            self.body.fenced = False
            await self.jobs.start()
        if self._late is not None:
            passed, self._late = self._late, None
            raise passed

    async def go_on(self) -> None:
        """The body runs from now on: that is known to everybody before it does."""

        def work(tx: Transaction) -> bool:
            if self.current(tx).state is RunState.PAUSED:
                return False
            self.keep(tx)
            return True

        stood = self.piece.state, self.piece.child
        self.piece.state, self.piece.child = "running", None
        if self.host.store.durable and stood != ("running", None) and not await self.write(work):
            self.piece.state = "queued"
            await self.until(lambda: True)

    async def stand(self) -> None:
        """A safe point of a run that is, or was, paused: wait until it runs."""

        def work(tx: Transaction) -> None:
            if self.current(tx).state is RunState.PAUSED:
                self.piece.state = "queued"
            self.yields(tx)

        self._see_where(self.body)
        await self.jobs.end()
        await self.write(work)
        await self.until(lambda: True)

    def goes_on(self, generation: int) -> None:
        """A verb let the body run, in its own transaction: nothing of it drains."""
        self.piece.state, self._generation = "running", generation

    def yields(self, tx: Transaction) -> None:
        """The body stands, as its row says; that is known from now on, if only after the run was let go."""
        run = self.current(tx)
        if run.state is RunState.PAUSED and self.piece.state == "running":
            self.piece.state = "queued"  # answered, and fenced before it could go on
        self.keep(tx)
        if run.state is RunState.PAUSED or self.draining:
            fence.release_pieces(tx, run, [PIECE])
        self.draining = False

    async def _wait(self) -> None:
        if self._late is None:
            try:
                await self._signal.wait()
            except anyio.get_cancelled_exc_class() as late:
                if self.over is not None or not by_a_scope():
                    raise Over(self.over or "closing") from None
                self._late = late
            return
        with anyio.CancelScope(shield=True):
            await self._signal.wait()

    # --- transactions ----------------------------------------------------------------------------------

    def current(self, tx: Transaction) -> RunRecord:
        """The run, for a write of this driver. Raises StaleLease, Over."""
        run = claims.current(tx, self.run.id, self.host.worker, self.run.lease_epoch)
        if run.state not in _UNDER_WAY:
            raise Over(self.why_over(run) or "ended")
        return run

    def keep(self, tx: Transaction) -> None:
        """Write the body's row, where the store keeps it."""
        if self.host.store.durable:
            tx.put_pieces(self.run.id, [self.piece.row()])

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """One transaction, in spite of the body's own time-outs and of others that hold the write lock."""
        began = False

        def unit(tx: Transaction) -> T:
            nonlocal began
            began = True
            return work(tx)

        while True:
            try:
                if not self.host.store.durable:
                    return await self.host.write(unit)
                with anyio.CancelScope(shield=True):
                    return await self.host.write(unit)
            except StoreBusy:
                if began:
                    raise

    # --- the end ---------------------------------------------------------------------------------------

    async def _end(self, out: Ended) -> None:
        error, value = out.error, out.value
        await pass_on(error)
        if self.recorder is not None:
            await self.recorder.end(error)
        culprit = self.recorder.culprit(error) if self.recorder is not None else None
        if error is None and self.host.store.durable:
            try:
                value = codec.encode(value, self.agent.output_type, place=f"result of {self.agent.name!r}")
            except QuiesceError as refused:
                error = refused
        error = raised.as_failure(self.run.id, error)

        def work(tx: Transaction) -> None:
            run = self.current(tx)
            if error is None:
                ending.complete(tx, run, value)
                return
            self.piece.state = "failed"
            self.keep(tx)
            if culprit is not None:
                culprit.state = "fatal"
                tx.put_entry(run.id, culprit)
            ending.fail(tx, run, raised.told(error), tx.now + timedelta(seconds=self.host.drain_timeout))

        if error is not None:
            self.host.failed(self.run.id, error)
        try:
            await self.write(work)
        except (Over, StaleLease):
            pass  # terminal is terminal: what the body gave comes too late

    @property
    def out_of_patience(self) -> bool:
        """Whether the time for unwinding is over."""
        return self._guard is not None and self._guard.cancel_called

    async def _unwind(self, body: LiveBody, reason: Over | StaleLease) -> None:
        """End the body, as the run goes on without it or not at all."""
        why = reason.why if isinstance(reason, Over) else "lost"
        if not body.started or body.ended:
            return
        assert self._guard is not None
        self._guard.shield = True  # what cancels this task has been heard; the clean-up may await
        self._guard.deadline = anyio.current_time() + self.host.drain_timeout
        effects = why in _DONE_WITH or not self.host.store.durable
        told = WHY.get(why, why)
        out = await body.unwind(f"run {self.run.id!r} is {told}", effects=effects)
        report(self.run.id, told, out.error, swallowed=body.swallowed)


_DONE_WITH = ("cancelled", "reset", "ended", "continued as a new one")
"""Nobody goes on with such a body, so its clean-up is all that follows."""
