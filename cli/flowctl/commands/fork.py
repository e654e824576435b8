"""`flowctl fork`: a new run that goes on from an earlier point of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, goes_on, pass_settings, run_argument

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("fork", cls=Verb)
@run_argument()
@click.option(
    "--at", type=int, required=True, help="The first visit that the new run does itself; events show them."
)
@click.option("--id", "new_id", metavar="ID", help="The id of the new run.")
@goes_on
@pass_settings
def command(settings: Settings, run: str, at: int, new_id: str | None, drives: bool, flow: str | None) -> int:
    """Make a new run that goes on from an earlier visit of RUN.

    What finished before that visit is not done again; what asked after it asks again. RUN stays as it is.
    """

    async def work(rt: Runtime) -> int:
        from flowctl import settling
        from quiesce.backend import Asked

        run_id = wiring.known_run(rt.backend, run)
        wiring.use_flow(rt, flow, run=run_id)
        ack = await rt.backend.fork(run_id, at, new_id, Asked(**settings.asked))
        return await settling.after(rt, settings, ack, drives, f"{ack.run_id} is forked from {run_id}")

    return wiring.drive(settings, work, drives=drives)
