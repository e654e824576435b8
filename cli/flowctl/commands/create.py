"""`flowctl create`: make a run without an input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, pass_settings

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("create", cls=Verb)
@click.argument("flow")
@click.option("--id", "run_id", metavar="ID", help="The id of the run.")
@pass_settings
def command(settings: Settings, flow: str, run_id: str | None) -> int:
    """Make a run of FLOW without an input.

    `flowctl run FLOW INPUT --id ID` gives it one and starts it.
    """
    definition = wiring.load_flow(flow)

    async def work(rt: Runtime) -> int:
        from flowctl import settling
        from quiesce.backend import Asked

        ack = await rt.backend.create(definition, run_id, Asked(**settings.asked))
        start = settings.command("run", flow, "INPUT", "--id", ack.run_id)
        return await settling.recorded(rt, settings, ack, f"{ack.run_id} is created; start it: {start}")

    return wiring.drive(settings, work, drives=False, makes=True)
