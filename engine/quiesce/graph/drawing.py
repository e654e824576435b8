"""A graph as boxes and arrows, and where a run of it is.

What is declared is drawn: edges, joins, finishes, and the targets that a handler names with `to=`. A
handler that names none leads to a small cloud, dashed: only a run knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from quiesce import drawing
from quiesce.drawing import Arrow, Box, Shape

if TYPE_CHECKING:
    from quiesce.graph.decisions import Decision
    from quiesce.graph.definition import Graph

__all__ = ["dot", "mermaid"]

Where = Mapping[str, Mapping[str, int]]
"""Node name -> how many of its branches are "queued", "running", "paused" or "waiting"."""

_STATES = ("running", "paused", "waiting", "queued")  # the first that a node has gives its colour


def mermaid(graph: Graph, where: Where | None = None) -> str:
    """The graph as a Mermaid flowchart; with `where`, the nodes at which a run is are marked."""
    return drawing.mermaid(*_layout(graph, where or {}))


def dot(graph: Graph, where: Where | None = None) -> str:
    """The graph in Graphviz' DOT language; with `where`, the nodes at which a run is are marked."""
    return drawing.dot(graph.name, *_layout(graph, where or {}))


def _layout(graph: Graph, where: Where) -> tuple[list[Box], list[Arrow]]:
    ids = {name: f"n{index}" for index, name in enumerate(graph.nodes)}
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    if graph.start_node is not None:
        boxes.append(Box("start", "start", ("start",)))
        arrows.append(Arrow("start", ids[graph.start_node.name]))
    for name, ref in graph.nodes.items():
        counts = {state: where.get(name, {}).get(state, 0) for state in _STATES}
        present = [state for state in _STATES if counts[state]]
        lines = [name]
        if ref.gate is not None and isinstance(ref.gate.asks, str):
            lines.append(ref.gate.asks)
        if ref.flow is not None:
            lines.append(f"{ref.flow.kind} {ref.flow.name}")
        if present:
            lines.append(", ".join(f"{counts[state]} {state}" for state in present))
        shape: Shape = "node"
        if ref.gate is not None or ref.flow is not None:
            shape = "gate" if ref.gate is not None else "flow"
        boxes.append(Box(ids[name], shape, tuple(lines), present[0] if present else None))
        if name in graph.decisions:
            arrows.extend(_arrows(ids, name, graph.decisions[name], ""))
        if name in graph.rejections:
            arrows.extend(_arrows(ids, name, graph.rejections[name], "rejected"))
    # A name that the graph does not have (the code changed while the run was paused) is shown, not lost.
    for index, name in enumerate(name for name in where if name not in ids):
        counts = {state: count for state, count in where[name].items() if count}
        told = ", ".join(f"{count} {state}" for state, count in counts.items())
        state = next((state for state in _STATES if state in counts), None)
        boxes.append(Box(f"gone{index}", "node", (name, "no longer in this graph", told), state))
    used = {arrow.target for arrow in arrows}
    boxes += [
        Box(f"u{ids[name]}", "unknown", ("decides at run time",)) for name in ids if f"u{ids[name]}" in used
    ]
    if "finish" in used:
        boxes.append(Box("finish", "finish", ("finish",)))
    return boxes, arrows


def _arrows(ids: Mapping[str, str], name: str, decision: Decision, label: str) -> Iterator[Arrow]:
    source = ids[name]
    if decision.kind == "finish":
        yield Arrow(source, "finish", label)
    elif decision.kind != "handler":
        assert decision.to is not None
        yield Arrow(source, ids[decision.to[0]], "join" if decision.kind == "join" else label)
    elif decision.to is None:
        yield Arrow(source, f"u{source}", label, dashed=True)
    else:
        for target in decision.to:
            yield Arrow(source, ids[target], label)
