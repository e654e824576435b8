"""`flowctl reject`: settle one open hold with a no."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, goes_on, hold_argument, pass_settings

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("reject", cls=Verb)
@hold_argument()
@click.argument("message")
@goes_on
@pass_settings
def command(settings: Settings, hold: str, message: str, drives: bool, flow: str | None) -> int:
    """Refuse HOLD, saying why, and wait until its run settles."""

    async def work(rt: Runtime) -> int:
        from flowctl import settling

        hold_id = wiring.known_hold(rt.backend, hold)
        wiring.use_flow(rt, flow, hold=hold_id)
        ack = await rt.reject(hold_id, message, **settings.asked)
        return await settling.after(rt, settings, ack, drives, f"{hold_id} is refused")

    return wiring.drive(settings, work, drives=drives)
