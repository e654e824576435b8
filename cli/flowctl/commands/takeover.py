"""`flowctl takeover`: take a run from a process that lives but hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, goes_on, pass_settings, run_argument

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("takeover", cls=Verb)
@run_argument()
@goes_on
@pass_settings
def command(settings: Settings, run: str, drives: bool, flow: str | None) -> int:
    """Take RUN from a process that lives but hangs.

    What that process writes to the run from now on is refused. The command waits until the run settles.
    """

    async def work(rt: Runtime) -> int:
        from flowctl import settling

        run_id = wiring.known_run(rt.backend, run)
        wiring.use_flow(rt, flow, run=run_id)
        ack = await rt.takeover(run_id, **settings.asked)
        return await settling.after(rt, settings, ack, drives, f"{ack.run_id} is taken over")

    return wiring.drive(settings, work, drives=drives)
