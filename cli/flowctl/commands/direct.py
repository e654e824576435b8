"""`flowctl direct`: give a member of a team a turn of its own, beside the team's work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, goes_on, pass_settings, run_argument

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("direct", cls=Verb)
@run_argument()
@click.argument("member")
@click.argument("prompt")
@goes_on
@pass_settings
def command(settings: Settings, run: str, member: str, prompt: str, drives: bool, flow: str | None) -> int:
    """Have MEMBER of the team's RUN do PROMPT, at the next place of its queue.

    It is user-directed: no pause holds it, and the team's tasks stay as they are.
    """

    async def work(rt: Runtime) -> int:
        from flowctl import teamwork

        run_id = teamwork.known_team(rt.backend, run)
        wiring.use_flow(rt, flow, run=run_id)
        return await teamwork.direct(rt, settings, run_id, member, prompt, drives)

    return wiring.drive(settings, work, drives=drives)
