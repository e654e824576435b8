"""`flowctl holds`, also called `flowctl inbox`: the open questions, and how each is answered."""

from __future__ import annotations

import click

from flowctl import render, wiring
from flowctl.options import Inspect, Settings, pass_settings

__all__ = ["command"]

STATES = ["open", "answered", "rejected", "expired", "dropped", "withdrawn", "all"]


@click.command("holds", cls=Inspect)
@click.argument("run", required=False)
@click.option("--state", type=click.Choice(STATES), default="open", show_default=True, help="Which holds.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many.")
@click.option("--after", metavar="CURSOR", help="The page after this one.")
@pass_settings
def command(settings: Settings, run: str | None, state: str, limit: int, after: str | None) -> None:
    """The open questions of RUN and the runs inside it, or of the whole store, oldest first."""
    if after is not None and not after.isdecimal():
        raise click.UsageError(f"--after {after!r} is no cursor; the page before names it")
    with wiring.reading(settings) as backend:
        run_id = None if run is None else wiring.known_run(backend, run)
        page = backend.holds(run_id, None if state == "all" else state, limit, after)
    if settings.json:
        render.say_json({"holds": [hold.model_dump(mode="json") for hold in page], "next": page.next})
        return
    if not page:
        render.note("nothing is asked" if state == "open" else "no holds")
        return
    from flowctl import describe

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
    if page.next:
        render.note(f"more: {settings.command('holds', '--after', page.next)}")
