"""`flowctl list`: the runs of a store."""

from __future__ import annotations

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings

__all__ = ["command"]

STATES = ["created", "running", "idle", "paused", "completed", "failed", "cancelled"]


@click.command("list", cls=Plain)
@click.option(
    "--state", multiple=True, type=click.Choice(STATES), help="Only in this state; may be repeated."
)
@click.option("--kind", type=click.Choice(["graph", "agent", "team"]), help="Only of this kind.")
@click.option("--flow", metavar="FLOW", help="Only of this flow, as the store has it.")
@click.option("--parent", metavar="RUN", help="Only inside this run.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many.")
@click.option("--after", metavar="CURSOR", help="The page after this one.")
@pass_settings
def command(
    settings: Settings,
    state: tuple[str, ...],
    kind: str | None,
    flow: str | None,
    parent: str | None,
    limit: int,
    after: str | None,
) -> None:
    """The runs, newest first."""
    from quiesce.records import RunFilter

    with wiring.reading(settings) as backend:
        which = RunFilter(state or None, kind, flow, parent)
        page = backend.list(which, limit, after)
        now = backend.host.clock.now()
    if settings.json:
        render.say_json({"runs": [run.model_dump(mode="json") for run in page], "next": page.next})
        return
    if not page:
        render.note("no runs")
        return
    rows = [
        (
            run.id,
            run.state.value + (f" {run.phase}" if run.phase == "draining" else ""),
            run.flow.rpartition("/")[2],
            ", ".join(sorted(lock.kind for lock in run.locks)),
            (run.error or run.reason or "").partition("\n")[0],
            render.age(run.updated_at, now),
        )
        for run in page
    ]
    render.table(("run", "state", "flow", "locks", "why", "updated"), rows)
    if page.next:
        render.note(f"more: {settings.command('list', '--after', page.next)}")
