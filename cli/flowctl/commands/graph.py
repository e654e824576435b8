"""`flowctl graph`: the drawing of a graph, or of where a run is in it."""

from __future__ import annotations

import click

from flowctl import render, wiring
from flowctl.options import Plain, Settings, pass_settings

__all__ = ["command"]


@click.command("graph", cls=Plain)
@click.argument("flow_or_run")
@click.option(
    "--format", "form", type=click.Choice(["mermaid", "dot"]), default="mermaid", help="The language."
)
@click.option("--flow", metavar="FLOW", help="Where the flow of a run is now, if it moved.")
@pass_settings
def command(settings: Settings, flow_or_run: str, form: str, flow: str | None) -> None:
    """Draw a flow; of a run, draw where it is.

    The output is Mermaid or Graphviz text.
    """
    from quiesce.graph.drawing import dot, mermaid

    draw = {"mermaid": mermaid, "dot": dot}[form]
    if ":" in flow_or_run:
        text = draw(_graph(flow_or_run))
    else:
        from quiesce.insight import where

        with wiring.reading(settings) as backend:
            status = backend.status(wiring.known_run(backend, flow_or_run))
            text = draw(_graph(flow or status.flow), where(backend.host, status.id))
    if settings.json:
        render.say_json({"format": form, "text": text})
    else:
        render.say(text.rstrip("\n"))


def _graph(text: str):  # type: ignore[no-untyped-def]
    from quiesce.graph import Graph

    flow = wiring.load_flow(text)
    if not isinstance(flow, Graph):
        raise click.UsageError(f"{text} is an {flow.kind}, which has no drawing; name a graph")
    return flow
