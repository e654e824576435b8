"""`flowctl pause`: fence a run, and let what runs come to its next safe point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, pass_settings, run_argument

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("pause", cls=Verb)
@run_argument()
@click.option("--wait", is_flag=True, help="Wait until nothing of it runs; exit 7 if something is overdue.")
@click.option(
    "--drain-timeout",
    type=click.FloatRange(min=0.0),
    default=10.0,
    show_default=True,
    metavar="S",
    help="Seconds after which what still runs is overdue.",
)
@pass_settings
def command(settings: Settings, run: str, wait: bool, drain_timeout: float) -> int:
    """Pause RUN and every run inside it. It holds at once; what runs goes on to its next safe point."""

    async def work(rt: Runtime) -> int:
        from flowctl import describe, exits, render, settling
        from quiesce.errors import IllegalTransition
        from quiesce.states import RunState

        run_id = wiring.known_run(rt.backend, run)
        try:
            ack = await rt.pause(run_id, drain_timeout=drain_timeout, **settings.asked)
        except IllegalTransition as refused:
            if refused.state != RunState.IDLE:
                raise
            status = await rt.status(run_id)
            if settings.json:
                render.say_json({"ack": None, "status": status.model_dump(mode="json")})
            else:
                render.say(f"{render.safe(run_id)} is idle; nothing to pause")
            return exits.DONE
        if not wait:
            held = f"{ack.captured} piece(s) held, {ack.draining} still running"
            told = f"{run_id} is paused: {held}" if ack.transitioned else f"{run_id} was paused already"
            return await settling.recorded(rt, settings, ack, told)
        status = await settling.quiet(rt, run_id)
        if settings.json:
            render.say_json({"ack": ack.model_dump(mode="json"), "status": status.model_dump(mode="json")})
        else:
            render.say(describe.headline(status))
        if status.overdue:
            seen = settings.command("show", run_id)
            render.error(f"{status.overdue} piece(s) of {run_id} did not yield in time; see {seen}")
            return exits.OVERDUE
        return exits.DONE

    return wiring.drive(settings, work, drives=False, drain_timeout=drain_timeout)
