"""`flowctl turns`: the turns of a team, and what became of each."""

from __future__ import annotations

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings, run_argument

__all__ = ["command"]


@click.command("turns", cls=Plain)
@run_argument()
@pass_settings
def command(settings: Settings, run: str) -> None:
    """The turns of the team's RUN, oldest first: who, why, and what became of it."""
    from flowctl import teamwork

    with wiring.reading(settings) as backend:
        turns = backend.turns(teamwork.known_team(backend, run))
    if settings.json:
        render.say_json({"turns": [turn.model_dump(mode="json") for turn in turns]})
    else:
        teamwork.turn_table(turns)
