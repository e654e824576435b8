"""`flowctl status`: what a run is, or the whole store at a glance."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings, run_argument

if TYPE_CHECKING:
    from datetime import datetime

    from quiesce.insight import Overview
    from quiesce.local import LocalBackend
    from quiesce.runs import RunStatus

__all__ = ["command"]


@click.command("status", cls=Plain)
@run_argument(required=False)
@pass_settings
def command(settings: Settings, run: str | None) -> None:
    """What RUN is; without RUN, the store at a glance."""
    with wiring.reading(settings) as backend:
        if run is None:
            from quiesce.insight import overview

            _show_store(overview(backend.host), settings)
            return
        status = backend.status(wiring.known_run(backend, run))
        if settings.json:
            render.say_json(status.model_dump(mode="json"))
            return
        from flowctl import describe

        now = backend.host.clock.now()
        for line in describe.status_lines(status, settings, now):
            render.say(line)
        if status.kind == "team":
            _show_team(backend, status, now)


def _show_team(backend: LocalBackend, status: RunStatus, now: datetime) -> None:
    from flowctl import teamwork

    tasks, turns = backend.tasks(status.id), backend.turns(status.id)
    counts = Counter(task.state for task in tasks)
    if tasks:
        render.say("tasks: " + ", ".join(f"{count} {state}" for state, count in counts.items()))
    if queues := list(teamwork.queue_lines(turns)):
        render.say("queues:")
        for line in queues:
            render.say(line)
    if status.episode_id is not None:
        receipts = backend.receipts(status.episode_id)
        render.say("receipts of this pause:" if receipts else "no turn was held by this pause")
        if receipts:
            teamwork.receipt_table(receipts, turns, now)


def _show_store(seen: Overview, settings: Settings) -> None:
    if settings.json:
        render.say_json(seen.model_dump(mode="json"))
        return
    from flowctl import describe

    states = ", ".join(
        render.paint(f"{count} {state}", **render.state_style(state)) for state, count in seen.counts.items()
    )
    living = [worker for worker in seen.workers if worker.alive]
    holds = f"{seen.open_holds} open: {settings.command('holds')}" if seen.open_holds else "none open"
    pairs = [
        ("store", render.safe(seen.store)),
        ("runs", states or "none"),
        ("holds", holds),
        ("draining", render.safe(", ".join(seen.draining))),
        ("unclaimed", render.safe(", ".join(seen.unclaimed))),
        ("dead holder", render.safe(", ".join(seen.dead))),
        ("processes", render.safe(", ".join(f"{worker.pid}@{worker.host}" for worker in living))),
    ]
    for line in describe.fields(pairs):
        render.say(line)
    for run_id in (*seen.dead, *seen.unclaimed):
        render.say(f"go on:  {settings.command('resume', run_id)}")
