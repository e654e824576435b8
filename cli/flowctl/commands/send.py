"""`flowctl send`: put a message into the box of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, goes_on, pass_settings, run_argument

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("send", cls=Verb)
@run_argument()
@click.argument("message")
@click.option("--to", metavar="MEMBER", help="Whose inbox; without it the coordinator's.")
@goes_on
@pass_settings
def command(
    settings: Settings, run: str, message: str, to: str | None, drives: bool, flow: str | None
) -> int:
    """Send the text MESSAGE to RUN; it is kept until a body takes it, and resumes nothing."""

    async def work(rt: Runtime) -> int:
        from flowctl import settling
        from quiesce.states import RunState

        run_id = wiring.known_run(rt.backend, run)
        wiring.use_flow(rt, flow, run=run_id)
        ack = await rt.send(run_id, message, to=to, **settings.asked)
        told = f"the message is in the box of {to or run_id}"
        goes = (await rt.status(run_id)).state is RunState.RUNNING
        return await settling.after(rt, settings, ack, drives and goes, told)

    return wiring.drive(settings, work, drives=drives)
