"""`flowctl reset`: put a run back to its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, pass_settings, run_argument

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("reset", cls=Verb)
@run_argument()
@pass_settings
def command(settings: Settings, run: str) -> int:
    """Put RUN back to its start, with its last input.

    A resume then runs it.
    """

    async def work(rt: Runtime) -> int:
        from flowctl import settling

        ack = await rt.reset(wiring.known_run(rt.backend, run), **settings.asked)
        resume = settings.command("resume", ack.run_id)
        return await settling.recorded(rt, settings, ack, f"{ack.run_id} is at its start; run it: {resume}")

    return wiring.drive(settings, work, drives=False)
