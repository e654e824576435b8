"""`flowctl events`: what happened, by whom; with --follow also what happens from now on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings, run_argument

if TYPE_CHECKING:
    from quiesce.runs import Event
    from quiesce.runtime import Runtime

__all__ = ["command"]


@click.command("events", cls=Plain)
@run_argument(required=False)
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Only after this number.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens from now on.")
@pass_settings
def command(settings: Settings, run: str | None, after: int, follow: bool) -> int:
    """What happened, by whom, in order.

    To RUN, or to all runs. With --json one object a line.
    """
    if follow:
        return wiring.drive(settings, lambda rt: _follow(rt, settings, run, after), drives=False)
    from quiesce.rules.status import event_value

    with wiring.reading(settings) as backend:
        run_id = None if run is None else backend.status(wiring.known_run(backend, run)).id

        def page(after: int) -> list[tuple[Any, ...]]:
            return backend.host.read(lambda tx: tx.events(run_id, after, 500))

        while rows := page(after):
            for row in rows:
                _print(event_value(row), settings)
            after = rows[-1][0]
    return 0


async def _follow(rt: Runtime, settings: Settings, run: str | None, after: int) -> int:
    import sys

    run_id = None if run is None else (await rt.get(wiring.known_run(rt.backend, run))).id
    async for event in rt.events(run_id, after):
        _print(event, settings)
        sys.stdout.flush()
    return 0


def _print(event: Event, settings: Settings) -> None:
    if settings.json:
        render.say_json(event.model_dump(mode="json"), line=True)
        return
    from flowctl import describe

    render.say(describe.event_line(event))
