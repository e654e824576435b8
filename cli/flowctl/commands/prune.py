"""`flowctl prune`: forget runs that ended long ago."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings

if TYPE_CHECKING:
    from quiesce.runtime import Runtime

__all__ = ["command"]

_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _age(ctx: click.Context, param: click.Parameter, value: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})\s*(s|min|h|d|w)", value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is no age; write 30d, 12h, 45min or 90s", ctx, param)
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


@click.command("prune", cls=Plain)
@click.option(
    "--older-than",
    callback=_age,
    required=True,
    metavar="AGE",
    help="How long ago they ended: 30d, 12h, 45min.",
)
@click.option("--dry-run", is_flag=True, help="Only say which runs would go.")
@pass_settings
def command(settings: Settings, older_than: timedelta, dry_run: bool) -> int:
    """Forget runs that ended long ago.

    Those that ended longer than AGE ago, each with the runs inside it. A run stays while one inside it
    has not ended. What a request id got as its reply is kept.
    """
    before = wiring.clock().now() - older_than
    if dry_run:
        from quiesce.rules.pruning import forgettable

        with wiring.reading(settings) as backend:
            _tell(backend.host.read(lambda tx: forgettable(tx, before)), settings, "would go")
        return 0

    async def work(rt: Runtime) -> int:
        _tell(await rt.prune(before), settings, "gone")
        return 0

    return wiring.drive(settings, work, drives=False)


def _tell(run_ids: list[str], settings: Settings, verdict: str) -> None:
    if settings.json:
        render.say_json({"runs": run_ids, "verdict": verdict})
        return
    for run_id in run_ids:
        render.say(f"{render.safe(run_id)} {verdict}")
    render.note(f"{len(run_ids)} run(s) {verdict}")
