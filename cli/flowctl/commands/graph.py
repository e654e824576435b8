"""`flowctl graph`: the drawing of a graph or a team, or of where a run is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings

if TYPE_CHECKING:
    from quiesce.local import LocalBackend

__all__ = ["command"]


@click.command("graph", cls=Plain)
@click.argument("flow_or_run")
@click.option(
    "--format", "form", type=click.Choice(["mermaid", "dot"]), default="mermaid", help="The language."
)
@click.option("--flow", metavar="FLOW", help="Where the flow of a run is now, if it moved.")
@pass_settings
def command(settings: Settings, flow_or_run: str, form: str, flow: str | None) -> None:
    """Draw a graph or a team; of a run, draw where it is.

    The output is Mermaid or Graphviz text.
    """
    if ":" in flow_or_run:
        text = _draw(flow_or_run, form)
    else:
        with wiring.reading(settings) as backend:
            status = backend.status(wiring.known_run(backend, flow_or_run))
            text = _draw(flow or status.flow, form, (backend, status.id))
    if settings.json:
        render.say_json({"format": form, "text": text})
    else:
        render.say(text.rstrip("\n"))


def _draw(text: str, form: str, run: tuple[LocalBackend, str] | None = None) -> str:
    from quiesce.graph import Graph, drawing
    from quiesce.team.definition import Team

    flow = wiring.load_flow(text)
    drawn: str
    if isinstance(flow, Graph):
        draw: Any = {"mermaid": drawing.mermaid, "dot": drawing.dot}[form]
        drawn = draw(flow, _where(*run)) if run else draw(flow)
    elif isinstance(flow, Team):
        from quiesce.team import drawing as of_teams

        draw = {"mermaid": of_teams.mermaid, "dot": of_teams.dot}[form]
        drawn = draw(flow, run[0].tasks(run[1]), run[0].turns(run[1])) if run else draw(flow)
    else:
        raise click.UsageError(f"{text} is an {flow.kind}, which has no drawing; name a graph or a team")
    return drawn


def _where(backend: LocalBackend, run_id: str) -> dict[str, dict[str, int]]:
    from quiesce.insight import where

    return where(backend.host, run_id)
