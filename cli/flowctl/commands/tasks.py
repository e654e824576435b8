"""`flowctl tasks`: the tasks of a team."""

from __future__ import annotations

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings, run_argument

__all__ = ["command"]


@click.command("tasks", cls=Plain)
@run_argument()
@pass_settings
def command(settings: Settings, run: str) -> None:
    """The tasks of the team's RUN: whose, in which state, after which others."""
    from flowctl import teamwork

    with wiring.reading(settings) as backend:
        tasks = backend.tasks(teamwork.known_team(backend, run))
    if settings.json:
        render.say_json({"tasks": [task.model_dump(mode="json") for task in tasks]})
    elif tasks:
        teamwork.task_table(tasks)
    else:
        render.note("no tasks")
