"""`flowctl retry`: continue a failed run from the point that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, goes_on, pass_settings, run_argument

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("retry", cls=Verb)
@run_argument()
@click.option("--accept-changes", is_flag=True, help="Go on although the flow's code has changed.")
@goes_on
@pass_settings
def command(settings: Settings, run: str, accept_changes: bool, drives: bool, flow: str | None) -> int:
    """Continue RUN from the point that failed.

    What is done is not done again. The command waits until the run settles.
    """

    async def work(rt: Runtime) -> int:
        from flowctl import settling

        run_id = wiring.known_run(rt.backend, run)
        wiring.use_flow(rt, flow, run=run_id)
        ack = await rt.retry(run_id, accept_changes=accept_changes, **settings.asked)
        return await settling.after(rt, settings, ack, drives, f"{ack.run_id} is retried")

    return wiring.drive(settings, work, drives=drives)
