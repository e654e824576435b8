"""How is one run of an agent driven, in the process that holds its lease?

Theory of operation. One task drives a body for its whole life. It runs the body until that makes a trap,
serves the trap (`serving.py`), and goes on with the value. Between the two the body is a suspended call
stack and the run's rows say why: `held` by a question, `waiting` for a run, `queued` because it stands at
a safe point of a paused run. The driver only ever waits for one thing: a change of the rows. Whoever
changes them calls `notify`.

The body's cancel scopes are open in the driver's task while it waits. A time-out of the body's own that
passes meanwhile must not disturb the driver: it is put aside, and raised in the body when that goes on.
What is meant for the driver (the run was cancelled, reset or taken over, the runtime is closing) is told
by `notify` first, which interrupts what the body awaits.

Source: spec agent; spec engine, 4 (pause, cancel, reset).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import anyio

from quiesce import codec
from quiesce.agent.body import Unwind
from quiesce.agent.definition import Agent
from quiesce.agent.traps import Trap
from quiesce.backend import Host
from quiesce.errors import QuiesceError, RunFailed, StaleLease, StoreBusy, StoreError
from quiesce.frames import Frame
from quiesce.rules import claims, ending, fence
from quiesce.signals import Signal
from quiesce.states import RunState
from quiesce.store import RunRecord, Transaction

from .body import Ended, LiveBody, Over
from .piece import PIECE, BodyPiece
from .serving import Serving
from .watchdog import Watchdog

__all__ = ["GreenletDriver"]

T = TypeVar("T")

log = logging.getLogger("quiesce")

_UNDER_WAY = (RunState.RUNNING, RunState.PAUSED)


class GreenletDriver:
    """Drives one run of an agent until it ends or its lease is lost."""

    __slots__ = (
        "_agent",
        "_body",
        "_guard",
        "_late",
        "_released",
        "_serving",
        "_signal",
        "host",
        "over",
        "piece",
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
        self._agent = agent
        self._body: LiveBody | None = None
        self._guard: anyio.CancelScope | None = None
        self._signal = Signal()
        self._late: BaseException | None = None
        self._released: str | None = None
        self._serving = Serving(self)

    # --- the loop ------------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Run the body until it has ended, or the run is not to be driven here any further."""
        with anyio.CancelScope() as self._guard:
            await self._load()
            body = LiveBody(self, self.run.id, self.run.execution, self._agent)
            try:
                await self.until(lambda: True)
                body.give(self._input())
                self._body = body
                out = await body.go()
                while not isinstance(out, Ended):
                    out = await self._answer(body, out)
                await self._end(out)
            except (Over, StaleLease) as reason:
                await self._unwind(body, reason)
            except StoreError:
                await self._unwind(body, Over("broken"))
                raise
            finally:
                self._body = None

    async def _load(self) -> None:
        live = self.host.read(lambda tx: tx.frontier(self.run.id))
        if isinstance(live, BodyPiece):
            self.piece = live
        elif not self.host.store.durable:
            await self.host.write(lambda tx: tx.attach(self.run.id, self.piece))

    def _input(self) -> Any:
        ref = self.run.input
        if ref is None:
            return None
        stored = self.host.read(lambda tx: tx.value(self.run.id, ref))
        return codec.decode(stored, self._agent.input_type) if self.host.store.durable else stored

    async def _answer(self, body: LiveBody, trap: Trap) -> Trap | Ended:
        """Serve a trap, and go on until the next one."""
        try:
            value = await self._serving.serve(trap)
        except (Over, StoreError, StaleLease, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # meant for the body: a refusal, or a time-out of its own
            if self.over is not None:
                raise Over(self.over) from None
            return await body.go(error=error)
        if self.over is not None:
            raise Over(self.over)
        return await body.go(value)

    async def serve_task(self, trap: Trap) -> Any:
        """Serve a trap of a task that the body started."""
        return await self._serving.serve(trap)

    def notify(self) -> None:
        """The run's rows changed, or the host is closing: look again."""
        self._signal.set()
        body = self._body
        if self.over is None:
            run = self.host.read(lambda tx: tx.run(self.run.id))
            self.over = self._why_over(run)
            if body is not None and run is not None and not body.unwinding:
                body.fenced = run.state is RunState.PAUSED
        if self.over is not None and body is not None and body.awaiting and not body.unwinding:
            self.host.interrupt(self.run.id)

    def frames(self) -> list[Frame]:
        """Where the body stands."""
        return [] if self._body is None else self._body.frames()

    # --- standing still --------------------------------------------------------------------------------

    def look(self) -> RunRecord:
        """The run as it is now; hears whether a verb let the body go on. Raises Over."""
        run = self.host.read(lambda tx: tx.run(self.run.id))
        stands = self.host.store.durable and self.piece.state in ("held", "waiting")
        if stands and self.host.read(lambda tx: tx.woken(self.run.id)):
            self.piece.state = "queued"
        if self.over is None:
            self.over = self._why_over(run)
        if self.over is not None or run is None:
            raise Over(self.over or "lost")
        return run

    def _why_over(self, run: RunRecord | None) -> str | None:
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
            if run.state is RunState.RUNNING and ready():
                break
            if run.state is RunState.PAUSED and self.piece.state == "running":
                await self._release(run)
            await self._wait()
        self.piece.state = "running"
        if self._body is not None:
            self._body.fenced = False
        if self._late is not None:
            late, self._late = self._late, None
            raise late

    async def stand(self) -> None:
        """A safe point of a run that is, or was, paused: wait until it runs."""

        def work(tx: Transaction) -> None:
            run = self.current(tx)
            if run.state is RunState.PAUSED:
                self.piece.state = "queued"
                self.keep(tx)
                fence.release_piece(tx, run, PIECE)

        await self.write(work)
        await self.until(lambda: True)

    async def _release(self, run: RunRecord) -> None:
        if self._released == run.episode_id:
            return

        def work(tx: Transaction) -> None:
            now = self.current(tx)
            if now.state is RunState.PAUSED:
                fence.release_piece(tx, now, PIECE)

        self._released = run.episode_id
        await self.write(work)

    async def _wait(self) -> None:
        if self._late is None:
            try:
                await self._signal.wait()
            except anyio.get_cancelled_exc_class() as late:
                if self.over is not None:
                    raise Over(self.over) from None
                self._late = late
            else:
                return
        with anyio.CancelScope(shield=True):
            await self._signal.wait()

    # --- transactions ----------------------------------------------------------------------------------

    def current(self, tx: Transaction) -> RunRecord:
        """The run, for a write of this driver. Raises StaleLease, Over."""
        run = claims.current(tx, self.run.id, self.host.worker, self.run.lease_epoch)
        if run.state not in _UNDER_WAY:
            raise Over(self._why_over(run) or "ended")
        return run

    def keep(self, tx: Transaction) -> None:
        """Write the body's row, where the store keeps it."""
        if self.host.store.durable:
            tx.move_pieces(self.run.id, [self.piece.row()])

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
        error = out.error
        value = out.value
        if error is None and self.host.store.durable:
            try:
                value = codec.encode(value, self._agent.output_type, place=f"result of {self._agent.name!r}")
            except QuiesceError as refused:
                error = refused
        if error is not None and not isinstance(error, Exception):
            failed = RunFailed(self.run.id, f"the body raised {type(error).__name__}: {error}")
            failed.__cause__ = error
            error = failed

        def work(tx: Transaction) -> None:
            run = self.current(tx)
            if error is None:
                ending.complete(tx, run, value)
                return
            self.piece.state = "failed"
            self.keep(tx)
            ending.fail(tx, run, _told(error), tx.now + timedelta(seconds=self.host.drain_timeout))

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
        if not body.started:
            return
        assert self._guard is not None
        self._guard.shield = True  # what cancels this task has been heard; the clean-up may await
        self._guard.deadline = anyio.current_time() + self.host.drain_timeout
        effects = why in ("cancelled", "reset", "ended") or not self.host.store.durable
        out = await body.unwind(f"run {self.run.id!r} is {_WHY.get(why, why)}", effects=effects)
        if body.swallowed:
            log.error(
                "run %s is %s, but its body swallowed what ends it (an `except BaseException` without a "
                "raise?); it is not run any further",
                self.run.id,
                _WHY.get(why, why),
            )
        elif out.error is not None and not _is_unwind(out.error):
            log.error(
                "run %s: the clean-up of its body failed: %r", self.run.id, out.error, exc_info=out.error
            )


_WHY = {"closing": "handed back, since the runtime closes", "lost": "driven by another process now"}


def _is_unwind(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_unwind(inner) for inner in error.exceptions)
    return isinstance(error, Unwind | anyio.get_cancelled_exc_class())


def _told(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if isinstance(error, QuiesceError) else f"{type(error).__name__}: {text}"
