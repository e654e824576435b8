"""`flowctl cancel`: end a run and every run inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, pass_settings, run_argument

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("cancel", cls=Verb)
@run_argument()
@pass_settings
def command(settings: Settings, run: str) -> int:
    """End RUN and every run inside it."""

    async def work(rt: Runtime) -> int:
        from flowctl import settling

        ack = await rt.cancel(wiring.known_run(rt.backend, run), **settings.asked)
        return await settling.recorded(rt, settings, ack, f"{ack.run_id} is cancelled")

    return wiring.drive(settings, work, drives=False)
