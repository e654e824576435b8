"""Where does the code of a body not fit its journal any more? Executed again, dry.

The body runs on a continuation of its own, in one go, and gets what is recorded; at the first place where
an effect would follow, or anything is awaited, it has come as far as its journal, and is ended there. Its
steps are not carried out, also not in `finally` blocks; what plain code prints is not shown. It runs in a
thread of its own, where no event loop is: a task that it starts would be a real one. A body that wants a
loop can be followed up to there.

Source: spec agent, "Steps and the journal" (`flowctl explain` can replay dry).
"""

from __future__ import annotations

import io
import threading
import traceback
import warnings
from collections.abc import Awaitable
from contextlib import redirect_stdout
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from quiesce import codec
from quiesce.agent import raised
from quiesce.agent.body import CURRENT, Unwind
from quiesce.agent.definition import Agent
from quiesce.agent.journal import Journal, Recorded
from quiesce.agent.places import digest_of, name_of
from quiesce.agent.traps import Act, Ask, Begin, Command, Dismiss, Launch, Look, Safepoint, Trap, Wait
from quiesce.backend import Host
from quiesce.clock import Clock
from quiesce.errors import InputRejected, NonDeterminism, NotSerializable, PauseOutsideBody, QuiesceError
from quiesce.records import HoldRecord, JournalEntry, RunRecord
from quiesce.rules.requests import found
from quiesce.runs import RunStatus

from .asking import Check, refusal
from .continuation import Continuation, Ended
from .serving import ACKS, GIVES

__all__ = ["asked", "rehearse"]

T = TypeVar("T")

_PATIENCE = 100
_NO_LOOP = ("event loop", "async context", "unknown async library", "'RunContext'")


class _FarEnough(Exception):
    """What is recorded has been given back."""


class _Rehearsed:
    """The body, as the functions of `quiesce.agent` find it."""

    def __init__(self, run: RunRecord, clock: Clock, agent: Agent[..., Any], value: Any) -> None:
        self.run_id = run.id
        self.execution = run.execution
        self.clock = clock
        self.journal = True
        self.fenced = False
        self.gathers = False
        self.tasks = self.idle = 0
        self._agent = agent
        self._value = value
        self.continuation = Continuation(self._run, copy_context())

    def _run(self) -> Any:
        CURRENT.set(self)
        returned = self._agent.call(self._value)
        return self.continuation.await_(returned) if self._agent.is_async else returned

    def check(self, verb: str) -> None:
        if not self.continuation.is_current:
            raise PauseOutsideBody(f"{verb} was called outside the body of run {self.run_id!r}")

    def suspend(self, trap: Trap) -> Any:
        return self.continuation.suspend(trap)

    def await_(self, awaitable: Awaitable[T]) -> T:
        return self.continuation.await_(awaitable)

    async def serve(self, trap: Trap) -> Any:
        self.check(type(trap).__name__)
        return self.suspend(trap)


def rehearse(host: Host, run: RunRecord, agent: Agent[..., Any]) -> NonDeterminism | None:
    """The first place at which the body leaves its journal; None if it follows it."""
    return _rehearse(host, run, agent, {})


def asked(host: Host, run: RunRecord, agent: Agent[..., Any]) -> dict[str, Check]:
    """What the body makes of an answer to each open question that it comes to, by the ids of the holds."""
    checks: dict[str, Check] = {}
    _rehearse(host, run, agent, checks)
    return checks


def _rehearse(
    host: Host, run: RunRecord, agent: Agent[..., Any], checks: dict[str, Check]
) -> NonDeterminism | None:
    entries = host.read(lambda tx: tx.journal(run.id))
    if not entries:
        return None
    ref = run.input
    value = None if ref is None else host.read(lambda tx: tx.value(run.id, ref))
    try:
        given = None if value is None else codec.decode(value, agent.input_type, place="input")
    except NotSerializable as error:
        return NonDeterminism(str(error))
    found: list[NonDeterminism | BaseException | None] = []

    def work() -> None:
        memory = _Memory(host, run, Journal(entries), checks)
        try:
            found.append(_dry(_Rehearsed(run, host.clock, agent, given).continuation, memory))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work, name=f"rehearsal of {run.id}", daemon=True)
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a coroutine that no loop was there for
        warnings.simplefilter("ignore", ResourceWarning)  # what the body would have closed in that loop
        thread.start()
        thread.join()
    (outcome,) = found
    if isinstance(outcome, NonDeterminism) or outcome is None:
        return outcome
    raise outcome


def _dry(continuation: Continuation, memory: _Memory) -> NonDeterminism | None:
    try:
        return _follow(continuation, memory)
    finally:
        _end(continuation)


def _follow(continuation: Continuation, memory: _Memory) -> NonDeterminism | None:
    out = continuation.switch()
    while isinstance(out, Trap):
        try:
            value = memory.give(out)
        except _FarEnough:
            return None
        except NonDeterminism as different:
            return different
        except Exception as error:
            out = continuation.throw(error)
        else:
            out = continuation.switch(value)
    if not isinstance(out, Ended) or _wants_a_loop(out.error):
        if isinstance(out, Ended) and out.error is not None:
            traceback.clear_frames(out.error.__traceback__)
        return None  # it awaits something that is not recorded
    try:
        memory.journal.end(out.error)
    except NonDeterminism as different:
        return different
    return None


def _wants_a_loop(error: BaseException | None) -> bool:
    """Whether this comes of there being no event loop, as asyncio, Trio and AnyIO say it."""
    pending, seen = [error], set[int]()
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, RuntimeError | AttributeError) and any(said in str(one) for said in _NO_LOOP):
            return True
        pending += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return False


def _end(continuation: Continuation) -> None:
    for _ in range(_PATIENCE):
        if continuation.ended:
            return
        continuation.throw(Unwind("this was a rehearsal"))
    continuation.abandon()


class _Memory:
    """What the journal has, and nothing else."""

    def __init__(self, host: Host, run: RunRecord, journal: Journal, checks: dict[str, Check]) -> None:
        self._host = host
        self._checks = checks
        self._run = run
        self.journal = journal

    def give(self, trap: Trap) -> Any:
        """Its value. Raises its error; NonDeterminism; _FarEnough."""
        match trap:
            case Safepoint() | Launch() | Dismiss():
                return None
            case Begin(calls):
                return self._steps(calls)
        if trap.kind is None:
            raise _FarEnough
        entry = self.journal.next(trap.kind, name_of(trap), digest_of(trap))
        if isinstance(trap, Ask) and entry.hold is not None:
            return self._answer(trap, entry)
        if entry.state in ("failed", "fatal"):
            raise self._error(entry)
        if trap.kind == "sleep" and entry.value is not None and not self.journal.live:
            return None
        if entry.state != "done":
            raise _FarEnough
        match trap:
            case Wait(run_id, "end"):
                return self._host.value_of(self._host.read(lambda tx: found(tx, run_id)))
            case Wait():
                return self._value(entry, RunStatus)
            case Act(verb):
                return self._value(entry, ACKS[verb])
            case Command(_, gives) | Look(gives):
                return self._value(entry, GIVES[gives])
        return self._value(entry)

    def _steps(self, calls: tuple[Any, ...]) -> list[Recorded]:
        given, far_enough = [], False
        for call in calls:
            entry = self.journal.next(call.step.kind, call.step.name, call.digest())
            if entry.state in ("done", "committed"):
                given.append(Recorded(self._value(entry, call.step.parameters.returns)))
            elif entry.state in ("failed", "fatal", "rejected"):
                given.append(Recorded(error=self._error(entry)))
            else:
                hold = self._hold(entry)
                if entry.state == "waiting" and hold is not None:
                    self._checks[hold.id] = partial(call.step.approved, hold.payload)
                far_enough = True
        if far_enough:
            raise _FarEnough
        return given

    def _answer(self, trap: Ask, entry: JournalEntry) -> Any:
        hold = self._hold(entry)
        if hold is None or hold.state == "open":
            if hold is not None and trap.expects is not None:
                self._checks[hold.id] = partial(codec.validate_json, declared=trap.expects)
            raise _FarEnough
        error = refusal(hold)
        if error is not None:
            raise error
        if hold.state != "answered" or trap.expects is None:
            return hold.answer if hold.state == "answered" else None
        try:
            return codec.validate_json(hold.answer, trap.expects)
        except InputRejected:  # it is asked again
            raise _FarEnough from None

    def _hold(self, entry: JournalEntry) -> HoldRecord | None:
        return self._host.read(lambda tx: tx.hold(entry.hold or ""))

    def _value(self, entry: JournalEntry, declared: Any = None) -> Any:
        ref = entry.value
        if ref is None:
            return None
        kept = self._host.read(lambda tx: tx.value(self._run.id, ref))
        try:
            return codec.decode(kept, declared, place=f"{entry.kind} {entry.name!r}")
        except QuiesceError as error:
            raise NonDeterminism(f"position {entry.position} of the journal: {error}") from None

    def _error(self, entry: JournalEntry) -> Exception:
        ref = entry.value
        if ref is None:
            raise _FarEnough
        kept = self._host.read(lambda tx: tx.value(self._run.id, ref))
        return raised.restore(kept, f"{entry.kind} {entry.name!r}")
