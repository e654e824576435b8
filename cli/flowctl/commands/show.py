"""`flowctl show`: one run in full, for a person who has to find out what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings, run_argument

if TYPE_CHECKING:
    from datetime import datetime

    from quiesce.insight import View
    from quiesce.team.values import Task, TurnStatus

__all__ = ["command"]


@click.command("show", cls=Plain)
@run_argument()
@click.option("--events", type=click.IntRange(min=0), default=10, show_default=True, help="Newest events.")
@pass_settings
def command(settings: Settings, run: str, events: int) -> None:
    """RUN in full: locks, holds, pieces, receipts, events."""
    from quiesce.insight import view

    with wiring.reading(settings) as backend:
        run_id = wiring.known_run(backend, run)
        seen = view(backend.host, run_id, events=events)
        now = backend.host.clock.now()
        team = (backend.tasks(run_id), backend.turns(run_id)) if seen.status.kind == "team" else None
    if settings.json:
        told = seen.model_dump(mode="json")
        if team is not None:
            told["tasks"], told["turns"] = ([item.model_dump(mode="json") for item in rows] for rows in team)
        render.say_json(told)
        return
    from flowctl import describe

    for line in describe.status_lines(seen.status, settings, now, shown=None):
        render.say(line)
    if team is None:
        _tables(seen)
    else:
        _team_tables(seen, *team, now)
    if seen.events:
        render.say("\n" + render.paint("newest events", bold=True))
        for event in seen.events:
            render.say("  " + describe.event_line(event))


def _team_tables(seen: View, tasks: list[Task], turns: list[TurnStatus], now: datetime) -> None:
    from flowctl import teamwork

    if tasks:
        render.say("\n" + render.paint("tasks", bold=True))
        teamwork.task_table(tasks)
    if turns:
        render.say("\n" + render.paint("turns", bold=True))
        teamwork.turn_table(turns)
    if seen.receipts:
        render.say("\n" + render.paint("receipts of this pause", bold=True))
        teamwork.receipt_table(seen.receipts, turns, now)


def _tables(seen: View) -> None:
    if seen.pieces:
        render.say("\n" + render.paint("pieces", bold=True))
        rows = [
            (item.piece, item.name, item.state, item.attempt, item.lost or "", item.hold or item.child or "")
            for item in seen.pieces
        ]
        render.table((seen.pieces[0].kind, "at", "state", "attempt", "lost", "for"), rows)
    if (at := seen.stands_at) is not None:
        source = "" if at.source is None else f": {render.safe(at.source)}"
        render.say(f"\nits body stands at {render.safe(at.file)}, line {at.line}{source}")
    if seen.journal:
        render.say("\n" + render.paint("journal", bold=True))
        places = [
            (
                f"{item.position}" + (f" (aside {item.aside})" if item.aside else ""),
                f"{item.kind} {item.name}",
                item.state,
                item.attempt or "",
                "" if item.file is None else f"{item.file.rpartition('/')[2]}:{item.line}",
            )
            for item in seen.journal
        ]
        render.table(("position", "what", "state", "attempt", "at"), places)
    if seen.receipts:
        render.say("\n" + render.paint("receipts of this pause", bold=True))
        held = [
            (item.piece, item.name, item.was, item.drain, item.outcome or "", item.reason or "")
            for item in seen.receipts
        ]
        render.table(("piece", "at", "was", "drain", "outcome", "reason"), held, style_by="drain")
