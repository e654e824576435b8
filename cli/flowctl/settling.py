"""What does a command that made a run go do then? It waits until the run settles, tells, and exits so.

0 completed, 1 failed or cancelled, 75 paused: somebody has to answer or resume. On a terminal the visits
are told as they happen, and `run` and `resume` ask what is held in place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import click

from flowctl import describe, exits, prompts, render, wiring
from flowctl.options import Settings
from quiesce.errors import (
    AlreadyAnswered,
    AnswerRejected,
    Expired,
    IllegalTransition,
    UnknownHold,
    Withdrawn,
)
from quiesce.rules.turns import DIRECTED
from quiesce.runs import Ack, Event, Hold, RunStatus
from quiesce.states import ENDED, RunState

if TYPE_CHECKING:
    from quiesce.runtime import Runtime
    from quiesce.store import Reader

__all__ = ["after", "can_ask", "next_event", "outermost", "quiet", "recorded", "settle"]

GONE = (AlreadyAnswered, Expired, Withdrawn, UnknownHold)
"""What an answer meets whose question somebody else has settled meanwhile."""


def can_ask(settings: Settings) -> bool:
    """Whether a person sits at both ends and wants to be asked."""
    return not settings.json and sys.stdin.isatty() and sys.stderr.isatty()


async def outermost(rt: Runtime, run_id: str) -> str:
    """The run that encloses this one and is in no other: what a person started."""
    while (parent := (await rt.status(run_id)).parent_id) is not None:
        run_id = parent
    return run_id


async def recorded(rt: Runtime, settings: Settings, ack: Ack, told: str) -> int:
    """Say what was recorded, without waiting for anything."""
    if settings.json:
        status = await rt.status(ack.run_id)
        render.say_json({"ack": ack.model_dump(mode="json"), "status": status.model_dump(mode="json")})
    else:
        again = " (again: this request was served before)" if ack.replayed else ""
        render.say(render.safe(told) + again)
    return exits.DONE


async def after(
    rt: Runtime, settings: Settings, ack: Ack, drives: bool, told: str, *, asks: bool = False
) -> int:
    """After a verb that may make a run go: wait for what becomes of it, unless nothing is driven here."""
    if not drives:
        return await recorded(rt, settings, ack, told)
    return await settle(rt, settings, ack, await outermost(rt, ack.run_id), asks=asks)


async def quiet(rt: Runtime, run_id: str) -> RunStatus:
    """The run, once nothing of it runs, or only what is overdue."""
    return await _settled(rt, run_id)


async def settle(rt: Runtime, settings: Settings, ack: Ack | None, run_id: str, *, asks: bool = False) -> int:
    """Wait until the run settles, tell how it stands, and give the exit code for that.

    Args:
        asks: ask what is held in place, where a person can answer.
    """
    try:
        while True:
            status = await _settled(rt, run_id)
            if status.state is not RunState.PAUSED or not (asks and can_ask(settings) and status.holds):
                break
            if not await _answer_in_place(rt, settings, status.holds[0]):
                return exits.PAUSED
    except anyio.get_cancelled_exc_class():
        status = rt.backend.status(run_id)
        render.note(f"\n{run_id} is {status.state.value} and handed back; {_go_on(status, settings)}")
        raise
    if settings.json:
        render.say_json(
            {"ack": ack and ack.model_dump(mode="json"), "status": status.model_dump(mode="json")}
        )
    return _tell(status, settings, ack is not None and ack.replayed)


async def _settled(rt: Runtime, run_id: str) -> RunStatus:
    """The run, once it is settled; its own failure is told by its status.

    Whoever drives a run stays while a piece of it is overdue, or a user-directed turn of it is to be done:
    leaving would cut it off in the middle.
    """
    run = await rt.get(run_id)
    error: Exception | None = None
    told = False
    async with anyio.create_task_group() as tasks:
        if render.is_terminal(err=True):
            tasks.start_soon(_narrate, rt, run_id)
        while True:
            newest = rt.backend.host.read(lambda tx: tx.last_event())
            try:
                await run.settled()
            except Exception as raised:
                error = raised
            status = await rt.status(run_id)
            stays = "what is overdue of it" if status.overdue else _directed_here(rt, status)
            if stays is None or run_id not in rt.backend.host.drivers:
                break
            if not told:
                render.note(f"{run_id} is {status.state.value}; waiting for {stays}, Ctrl-C leaves it")
            told = True
            await next_event(rt, run_id, newest)
        tasks.cancel_scope.cancel()
    status = await rt.status(run_id)
    if error is not None and status.state not in (RunState.FAILED, RunState.CANCELLED):
        raise error
    return status


def _directed_here(rt: Runtime, status: RunStatus) -> str | None:
    """The user-directed turns of a team that this process does while the team itself is settled."""
    if status.kind != "team" or status.state in ENDED:
        return None
    host = rt.backend.host

    def work(tx: Reader) -> list[int]:
        found = []
        for row in tx.heads(status.id):
            child = tx.run(row.child) if row.child is not None else None
            ours = child is None or child.lease_holder in (None, host.worker)
            if row.kind == DIRECTED and row.state in ("queued", "running") and ours:
                found.append(row.piece)
        return found

    turns = ", ".join(map(str, host.read(work)))
    return f"user-directed turn {turns}" if turns else None


async def next_event(rt: Runtime, run_id: str, after: int) -> Event:
    events = rt.events(run_id, after)
    try:
        return await anext(events)
    finally:
        await events.aclose()  # type: ignore[attr-defined]  # every backend's is a generator


def _go_on(status: RunStatus, settings: Settings) -> str:
    """How a run that nobody here waits for any more is continued."""
    lines = [f"go on: {settings.command('resume', status.id)}"]
    if status.state is RunState.PAUSED and status.holds:
        lines = [f"go on: {describe.answer_command(hold, settings)}" for hold in status.holds]
    return "\n".join(lines)


async def _narrate(rt: Runtime, run_id: str) -> None:
    """Tell the visits as they happen."""
    newest = rt.backend.host.read(lambda tx: tx.last_event())
    async for event in rt.events(run_id, newest):
        if event.kind == "visit":
            to = ", ".join(str(node) for node, _ in event.data.get("to", ()))
            render.note(f"  {event.data['node']}: {event.data['did']}{f' {to}' if to else ''}")


def _tell(status: RunStatus, settings: Settings, replayed: bool) -> int:
    if status.state is RunState.FAILED:
        retry = settings.command("retry", status.id)
        render.error(f"run {status.id} failed: {status.error}; mend the cause, then: {retry}")
        return exits.FAILED
    if status.state is RunState.CANCELLED:
        render.error(
            f"run {status.id} was cancelled; `{settings.command('reset', status.id)}` begins it anew"
        )
        return exits.FAILED
    if not settings.json:
        again = " (this request was served before)" if replayed else ""
        render.say(describe.headline(status) + again)
        if status.state is RunState.COMPLETED:
            render.say(render.as_json(status.result))
        if status.state is RunState.PAUSED:
            _tell_what_is_held(status, settings)
    return exits.PAUSED if status.state is RunState.PAUSED else exits.DONE


def _tell_what_is_held(status: RunStatus, settings: Settings) -> None:
    now = wiring.clock().now()
    for lock in status.locks:
        if lock.kind != "holds":
            render.say(describe.lock_text(lock, now))
    for hold in status.holds:
        for line in describe.hold_lines(hold, settings, now):
            render.say(line)
    if not status.holds or any(lock.kind == "operator" for lock in status.locks):
        verb = "explain" if any(lock.kind == "fault" for lock in status.locks) else "resume"
        render.say(f"go on:  {settings.command(verb, status.id)}")


# --- asking --------------------------------------------------------------------------------------------


async def _answer_in_place(rt: Runtime, settings: Settings, hold: Hold) -> bool:
    """Ask a person for one answer, until somebody has settled it; False if the person went away."""
    for line in describe.question_lines(hold, settings, wiring.clock().now()):
        render.say(line, err=True)
    newest = rt.backend.host.read(lambda tx: tx.last_event())
    filled: list[Any] | _No | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_until_settled_elsewhere, rt, hold, newest, tasks.cancel_scope.cancel)
        filled = await _fill_in(prompts.ask(hold.expects))
        tasks.cancel_scope.cancel()
    if filled is None:  # settled elsewhere
        return True
    if not filled:
        status = rt.backend.status(await outermost(rt, hold.run_id))
        render.note(f"\n{status.id} stays paused; {_go_on(status, settings)}")
        return False
    try:
        said: dict[str, Any] = {"actor": settings.actor, "reason": settings.reason}
        if isinstance(filled, _No):
            await rt.reject(hold.id, filled.message, **said)
        else:
            await rt.answer(hold.id, filled[0], **said)
    except (*GONE, IllegalTransition, AnswerRejected) as refused:
        render.note(str(refused))
    return True


async def _until_settled_elsewhere(rt: Runtime, hold: Hold, newest: int, stop: Callable[[], None]) -> None:
    while (event := await next_event(rt, hold.run_id, newest)).data.get("hold") != hold.id:
        newest = event.seq
    by = f" by {event.actor}" if event.actor else ""
    render.note(f"\n{hold.id} was {event.kind}{by} meanwhile")
    stop()


@dataclass(frozen=True)
class _No:
    """A person refused."""

    message: str


async def _fill_in(form: prompts.Form) -> list[Any] | _No:
    """What a person answered, in a list; an empty one if they ended the input instead."""
    lines = _Lines()
    prompt = next(form)
    try:
        while True:
            click.echo(render.safe(prompt, lines=True), nl=False, err=True)
            line = await lines.read()
            if line is None:
                return []
            prompt = form.send(line)
    except StopIteration as done:
        return [done.value]
    except prompts.Declined:
        click.echo("refused; why? (the run is told): ", nl=False, err=True)
        message = await lines.read()
        return [] if message is None else _No(message)


class _Lines:
    """Lines from the terminal, without blocking what runs beside; the terminal does the editing."""

    _kept = b""  # typed ahead; one terminal, so one for all forms

    async def read(self) -> str | None:
        """The next line, or None at the end of the input (Ctrl-D)."""
        descriptor = sys.stdin.fileno()
        while b"\n" not in _Lines._kept:
            await anyio.wait_readable(descriptor)
            if not (read := os.read(descriptor, 4096)):
                return None
            _Lines._kept += read
        line, _, _Lines._kept = _Lines._kept.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")
