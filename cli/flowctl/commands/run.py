"""`flowctl run`: start a run of a flow, wait until it settles, and ask what is held."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, pass_settings

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("run", cls=Verb)
@click.argument("flow")
@click.argument("input", required=False)
@click.option("--input", "from_json", metavar="JSON", help="The input as JSON.")
@click.option("--id", "run_id", metavar="ID", help="The id of the run; one that was created takes its input.")
@click.option("--detach", is_flag=True, help="Only record the run; a worker or a later resume drives it.")
@pass_settings
def command(
    settings: Settings, flow: str, input: str | None, from_json: str | None, run_id: str | None, detach: bool
) -> int:
    """Start a run of FLOW and wait until it settles.

    FLOW is package.module:name or path/file.py:name. INPUT is text, coerced to what the flow takes.
    On a terminal, what the run asks is asked here; else the command says how to go on, and exits with 75.
    """
    definition = wiring.load_flow(flow)
    value = wiring.read_input(definition, input, from_json)

    async def work(rt: Runtime) -> int:
        from flowctl import render, settling
        from quiesce.backend import Asked

        ack = await rt.backend.start(definition, value, run_id, Asked(**settings.asked))
        if detach:
            resume = settings.command("resume", ack.run_id)
            told = f"{ack.run_id} is recorded, and nothing drives it until a worker does, or: {resume}"
            return await settling.recorded(rt, settings, ack, told)
        if render.is_terminal(err=True) and not settings.json:
            render.note(f"run {ack.run_id}")
        return await settling.settle(rt, settings, ack, ack.run_id, asks=True)

    return wiring.drive(settings, work, drives=not detach, makes=True)
