"""`flowctl answer`: settle one open hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, goes_on, hold_argument, pass_settings

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("answer", cls=Verb)
@hold_argument()
@click.argument("value", metavar="JSON")
@goes_on
@pass_settings
def command(settings: Settings, hold: str, value: str, drives: bool, flow: str | None) -> int:
    """Answer HOLD with JSON, once, and wait until its run settles.

    Text is JSON in double quotes: flowctl answer HOLD '"yes, but later"'
    """
    given = wiring.read_json(value, "answer")

    async def work(rt: Runtime) -> int:
        from flowctl import settling

        hold_id = wiring.known_hold(rt.backend, hold)
        wiring.use_flow(rt, flow, hold=hold_id)
        ack = await rt.answer(hold_id, given, **settings.asked)
        return await settling.after(rt, settings, ack, drives, f"{hold_id} is answered")

    return wiring.drive(settings, work, drives=drives)
