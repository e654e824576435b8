"""`flowctl resume`: lift what keeps a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from flowctl import wiring
from flowctl.options import Settings, Verb, goes_on, pass_settings, run_argument

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("resume", cls=Verb)
@run_argument()
@click.option("--answer", metavar="JSON", help="Answer the open hold in the same step.")
@click.option("--hold", metavar="HOLD", help="Which hold the answer is for.")
@click.option("--episode", metavar="ID", help="Only if the run is still in this episode.")
@click.option("--accept-changes", is_flag=True, help="Go on although the flow's code has changed.")
@goes_on
@pass_settings
def command(
    settings: Settings,
    run: str,
    answer: str | None,
    hold: str | None,
    episode: str | None,
    accept_changes: bool,
    drives: bool,
    flow: str | None,
) -> int:
    """Lift what keeps RUN, and wait until it settles.

    On a terminal, what the run asks is asked here.
    """
    given = None if answer is None else wiring.read_json(answer, "--answer")
    if answer is None and hold is not None:
        raise click.UsageError("--hold names what --answer is for; give both")

    async def work(rt: Runtime) -> int:
        from flowctl import settling
        from quiesce.errors import AnswerRequired
        from quiesce.rules.requests import UNSET

        run_id = wiring.known_run(rt.backend, run)
        wiring.use_flow(rt, flow, run=run_id)
        if answer is not None and hold is None and episode is None and not sys.stdin.isatty():
            await _refuse_unbound(rt, run_id)
        hold_id = None if hold is None else wiring.known_hold(rt.backend, hold)
        value: Any = UNSET if answer is None else given
        try:
            ack = await rt.resume(
                run_id, value, hold=hold_id, episode=episode, accept_changes=accept_changes, **settings.asked
            )
        except AnswerRequired:
            if not (drives and settling.can_ask(settings)):
                raise
            return await settling.settle(rt, settings, None, run_id, asks=True)
        return await settling.after(rt, settings, ack, drives, f"{ack.run_id} is resumed", asks=True)

    return wiring.drive(settings, work, drives=drives)


async def _refuse_unbound(rt: Runtime, run_id: str) -> None:
    """Nobody saw what is open, so an answer must say what it is for.

    Raises:
        AnswerRequired: lists the open holds.
    """
    from quiesce.errors import AnswerRequired

    status = await rt.status(run_id)
    open_holds = [hold.id for hold in status.holds]
    bound = f"--episode {status.episode_id}" if status.episode_id else "--hold HOLD"
    raise AnswerRequired(
        f"an answer that nobody sees given must say what it is for: --hold HOLD or {bound}; "
        f"open are: {', '.join(open_holds) or 'none'}",
        open_holds=open_holds,
    )
