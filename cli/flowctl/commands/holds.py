"""`flowctl holds`, also called `flowctl inbox`: the open questions, and how each is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings, run_argument

if TYPE_CHECKING:
    from datetime import datetime

    from quiesce.runs import Hold, Page

__all__ = ["command"]

STATES = ["open", "answered", "rejected", "expired", "dropped", "withdrawn", "all"]


@click.command("holds", cls=Plain)
@run_argument(required=False)
@click.option("--state", type=click.Choice(STATES), default="open", show_default=True, help="Which holds.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many.")
@click.option("--after", metavar="CURSOR", help="The page after this one.")
@pass_settings
def command(settings: Settings, run: str | None, state: str, limit: int, after: str | None) -> None:
    """The open questions, and how each is answered.

    Of RUN and the runs inside it, or of the whole store; oldest first.
    """
    if after is not None and not after.isdecimal():
        raise click.UsageError(f"--after {after!r} is no cursor; the page before names it")
    with wiring.reading(settings) as backend:
        run_id = None if run is None else wiring.known_run(backend, run)
        page = backend.holds(run_id, None if state == "all" else state, limit, after)
        now = backend.host.clock.now()
    if settings.json:
        render.say_json({"holds": [hold.model_dump(mode="json") for hold in page], "next": page.next})
        return
    if not page:
        render.note("nothing is asked" if state == "open" else "no holds")
        return
    _tell(page, settings, now)
    if page.next:
        render.note(f"more: {settings.command('holds', '--after', page.next)}")


def _tell(page: Page[Hold], settings: Settings, now: datetime) -> None:
    from flowctl import describe

    if render.is_terminal():
        for hold in page:
            for line in describe.hold_lines(hold, settings, now, shown=0):
                render.say(line)
        return
    rows = [
        (
            hold.id,
            "late" if hold.late else hold.state,
            hold.run_id,
            hold.path,
            (hold.reason or "").partition("\n")[0],
            describe.answer_command(hold, settings) if hold.state == "open" else render.as_json(hold.answer),
        )
        for hold in page
    ]
    render.table(("hold", "state", "run", "at", "asks", "answer"), rows)
