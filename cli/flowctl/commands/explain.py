"""`flowctl explain`: why does a run not move, and what would a resume do? Nothing is changed by asking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings, run_argument

if TYPE_CHECKING:
    from datetime import datetime

    from quiesce.insight import Explanation

__all__ = ["command"]

ENDED = {"completed", "cancelled"}


@click.command("explain", cls=Plain)
@run_argument()
@click.option("--flow", metavar="FLOW", help="Where the flow is now, if it moved.")
@pass_settings
def command(settings: Settings, run: str, flow: str | None) -> None:
    """Why RUN does not move, and what a resume would do. Nothing is changed."""
    from quiesce.insight import explain

    with wiring.reading(settings) as backend:
        run_id = wiring.known_run(backend, run)
        if flow is not None:
            backend.host.flows.put(backend.status(run_id).flow, wiring.load_flow(flow))
        seen = explain(backend.host, run_id)
        now = backend.host.clock.now()
    if settings.json:
        render.say_json(seen.model_dump(mode="json"))
        return
    from flowctl import describe

    render.say(describe.headline(seen.status))
    for title, lines in (
        ("why it does not move", list(_why(seen, settings, now))),
        ("what a resume would do", list(_resume(seen, settings))),
        ("who drives it", list(_who(seen))),
        ("does the code still fit", list(_code(seen, settings))),
        ("go on", list(_go_on(seen, settings))),
    ):
        if lines:
            render.say(render.paint(title, bold=True))
            for line in lines:
                render.say(f"  {line}")


def _why(seen: Explanation, settings: Settings, now: datetime) -> Iterator[str]:
    from flowctl import describe

    status = seen.status
    state = status.state.value
    if seen.fenced_by is not None:
        yield f"the enclosing run {render.safe(seen.fenced_by)} is paused or failed; resume that one"
    for lock in status.locks:
        yield f"lock {describe.lock_text(lock, now)}"
    for hold in status.holds:
        late = ", late" if hold.late else ""
        yield f"{render.safe(hold.id)} waits for an answer at {render.safe(hold.path)}{late}"
    for place in seen.draining:
        yield f"{render.safe(place)} still runs, until {render.ago(seen.drain_until, now)} it may"
    for place in seen.overdue:
        yield f"{render.safe(place)} still runs, overdue since {render.ago(seen.drain_until, now)}"
    if state == "created":
        queued = status.execution > 1 or bool(seen.fresh)
        yield "it was reset; a resume runs it from its start" if queued else "it has no input yet; start it"
    if state == "failed":
        yield f"it failed: {render.safe(status.error)}"
    if state in ENDED:
        yield f"it is {state}, which is final; only a reset begins it anew"
    if state == "running" and seen.holder is None:
        yield "nobody has claimed it"
        if not seen.served_by:
            version = render.safe(status.version)
            yield f"no living worker serves {render.safe(status.flow)} in version {version}"
    if state == "running" and seen.holder is not None:
        yield "its process has died" if not seen.holder.alive else "it does move: a living process drives it"
    if seen.team is None:
        yield from map(render.safe, seen.waiting)
    else:
        from flowctl import standstill

        yield from standstill.why_lines(seen.team, state)


def _resume(seen: Explanation, settings: Settings) -> Iterator[str]:
    if seen.status.state.value in ENDED:
        return
    lives = seen.status.kind == "agent" and seen.status.recoverable == "live"
    how = "is executed again, over its journal" if seen.done else "is evaluated again, from its start"
    if lives:
        how = "goes on where it stands, in its process"
    if seen.team is None:
        yield from (f"{render.safe(place)} {how}" for place in seen.again)
        yield from (f"{render.safe(place)} is queued and begins" for place in seen.fresh)
    if seen.done and not lives:
        many = "1 recorded place is" if seen.done == 1 else f"{seen.done} recorded places are"
        yield f"{many} given back from the journal, and not done again"
    for step in seen.unknown:
        yield f"{render.safe(step)} began, and nobody knows whether it happened: verify, ask, or run again"
    keeps = "keeps its question; only an answer moves it"
    if seen.team is None:
        yield from (f"{render.safe(place)} {keeps}" for place in seen.carried)
        goes = bool(seen.again or seen.fresh)
    else:
        from flowctl import standstill

        yield from standstill.next_lines(seen.team)
        goes = any(item.outcome in ("continued", "kept") for item in seen.team.next)
    operator = any(lock.kind == "operator" for lock in seen.status.locks)
    if operator and seen.status.holds and not goes:
        yield "the operator's lock is lifted, and it stays paused until its questions are answered"


def _who(seen: Explanation) -> Iterator[str]:
    if seen.status.state.value in ENDED | {"failed", "created"} and seen.holder is None:
        return
    if seen.holder is None:
        yield "nobody holds it"
    else:
        life = "alive" if seen.holder.alive else "dead, so any process may take the run"
        yield f"process {seen.holder.pid} on {render.safe(seen.holder.host)}: {life}"
    for worker in seen.served_by:
        yield f"process {worker.pid} on {render.safe(worker.host)} serves its flow"


def _code(seen: Explanation, settings: Settings) -> Iterator[str]:
    if seen.status.state.value in ENDED:
        return
    if seen.code.fits:
        yield "yes"
    elif seen.code.fits is None:
        yield f"unknown: {render.safe(seen.code.problem)}"
        moved = settings.command("explain", seen.status.id, "--flow", "FLOW")
        yield f"name the place where it is now: {moved}"
    else:
        yield from (f"no: {render.safe(change)}" for change in seen.code.changes)


def _go_on(seen: Explanation, settings: Settings) -> Iterator[str]:
    from flowctl import describe

    status = seen.status
    state = status.state.value
    changed = ["--accept-changes"] if seen.code.fits is False else []
    if seen.fenced_by is not None:
        yield settings.command("explain", seen.fenced_by)
    elif state == "failed" or any(lock.kind == "fault" for lock in status.locks):
        yield settings.command("retry", status.id, *changed)
    elif state == "paused":
        if any(lock.kind == "operator" for lock in status.locks) or not status.holds:
            yield settings.command("resume", status.id, *changed)
        yield from (describe.answer_command(hold, settings) for hold in status.holds)
    elif state == "created" and (seen.fresh or status.execution > 1):
        yield settings.command("resume", status.id)
    elif state == "created":
        yield settings.command("run", status.flow, "INPUT", "--id", status.id)
    elif state == "running" and (seen.holder is None or not seen.holder.alive):
        yield settings.command("resume", status.id, *changed)
    elif state == "running":
        yield from (describe.answer_command(hold, settings) for hold in status.holds)
        yield f"if that process hangs: {settings.command('takeover', status.id)}"
    elif state == "idle":
        yield settings.command("send", status.id, "MESSAGE")
    elif state in ENDED:
        yield settings.command("reset", status.id)
