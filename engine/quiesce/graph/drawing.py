"""A graph as a picture, as Mermaid or DOT text, and where a run of it is.

What is declared is drawn: edges, joins, finishes, and the targets that a handler names with `to=`. A
handler that names none leads to a small cloud, dashed: only a run knows. Node names appear in labels
only, escaped; the ids are numbers, so any name can be drawn.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from quiesce.graph.decisions import Decision
    from quiesce.graph.definition import Graph

__all__ = ["dot", "mermaid"]

Where = Mapping[str, Mapping[str, int]]
"""Node name -> how many of its branches are "queued", "running", "paused" or "waiting"."""

_STATES = ("running", "paused", "waiting", "queued")  # the first that a node has gives its colour
_COLOURS = {
    "running": ("#d3f9d8", "#2b8a3e"),
    "paused": ("#ffec99", "#e67700"),
    "waiting": ("#d0ebff", "#1864ab"),
    "queued": ("#f1f3f5", "#495057"),
}


@dataclass(frozen=True, slots=True)
class _Box:
    id: str
    shape: Literal["node", "gate", "flow", "start", "finish", "unknown"]
    lines: tuple[str, ...]
    state: str | None = None


@dataclass(frozen=True, slots=True)
class _Arrow:
    source: str
    target: str
    label: str = ""
    dashed: bool = False


def mermaid(graph: Graph, where: Where | None = None) -> str:
    """The graph as a Mermaid flowchart; with `where`, the nodes at which a run is are marked."""
    boxes, arrows = _layout(graph, where or {})
    text = ["flowchart TD"]
    for box in boxes:
        label = '"' + "<br/>".join(map(_mermaid_text, box.lines)) + '"'
        left, right = _MERMAID_SHAPES[box.shape]
        text.append(f"    {box.id}{left}{label}{right}" + (f":::{box.state}" if box.state else ""))
    for arrow in arrows:
        line = "-.->" if arrow.dashed else "-->"
        label = f'|"{_mermaid_text(arrow.label)}"|' if arrow.label else ""
        text.append(f"    {arrow.source} {line}{label} {arrow.target}")
    for state in _STATES:
        if any(box.state == state for box in boxes):
            fill, stroke = _COLOURS[state]
            text.append(f"    classDef {state} fill:{fill},stroke:{stroke},stroke-width:3px,color:#212529")
    return "\n".join(text) + "\n"


def dot(graph: Graph, where: Where | None = None) -> str:
    """The graph in Graphviz' DOT language; with `where`, the nodes at which a run is are marked."""
    boxes, arrows = _layout(graph, where or {})
    text = [f"digraph {_dot_text(graph.name)} {{", "    node [fontname=sans, style=filled, fillcolor=white];"]
    for box in boxes:
        look = _DOT_SHAPES[box.shape]
        if box.state:
            fill, stroke = _COLOURS[box.state]
            look += f', fillcolor="{fill}", color="{stroke}", penwidth=3'
        text.append(f"    {box.id} [label={_dot_text(*box.lines)}, {look}];")
    for arrow in arrows:
        facts = [f"label={_dot_text(arrow.label)}"] * bool(arrow.label) + ["style=dashed"] * arrow.dashed
        text.append(
            f"    {arrow.source} -> {arrow.target}" + (f" [{', '.join(facts)}]" if facts else "") + ";"
        )
    return "\n".join([*text, "}"]) + "\n"


def _layout(graph: Graph, where: Where) -> tuple[list[_Box], list[_Arrow]]:
    ids = {name: f"n{index}" for index, name in enumerate(graph.nodes)}
    boxes: list[_Box] = []
    arrows: list[_Arrow] = []
    if graph.start_node is not None:
        boxes.append(_Box("start", "start", ("start",)))
        arrows.append(_Arrow("start", ids[graph.start_node.name]))
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
        shape: Literal["node", "gate", "flow"] = "node"
        if ref.gate is not None or ref.flow is not None:
            shape = "gate" if ref.gate is not None else "flow"
        boxes.append(_Box(ids[name], shape, tuple(lines), present[0] if present else None))
        if name in graph.decisions:
            arrows.extend(_arrows(ids, name, graph.decisions[name], ""))
        if name in graph.rejections:
            arrows.extend(_arrows(ids, name, graph.rejections[name], "rejected"))
    # A name that the graph does not have (the code changed while the run was paused) is shown, not lost.
    for index, name in enumerate(name for name in where if name not in ids):
        counts = {state: count for state, count in where[name].items() if count}
        told = ", ".join(f"{count} {state}" for state, count in counts.items())
        state = next((state for state in _STATES if state in counts), None)
        boxes.append(_Box(f"gone{index}", "node", (name, "no longer in this graph", told), state))
    used = {arrow.target for arrow in arrows}
    boxes += [
        _Box(f"u{ids[name]}", "unknown", ("decides at run time",)) for name in ids if f"u{ids[name]}" in used
    ]
    if "finish" in used:
        boxes.append(_Box("finish", "finish", ("finish",)))
    return boxes, arrows


def _arrows(ids: Mapping[str, str], name: str, decision: Decision, label: str) -> Iterator[_Arrow]:
    source = ids[name]
    if decision.kind == "finish":
        yield _Arrow(source, "finish", label)
    elif decision.kind != "handler":
        assert decision.to is not None
        yield _Arrow(source, ids[decision.to[0]], "join" if decision.kind == "join" else label)
    elif decision.to is None:
        yield _Arrow(source, f"u{source}", label, dashed=True)
    else:
        for target in decision.to:
            yield _Arrow(source, ids[target], label)


_MERMAID_SHAPES = {
    "node": ("[", "]"),
    "gate": ("{{", "}}"),
    "flow": ("[[", "]]"),
    "start": ("((", "))"),
    "finish": ("(((", ")))"),
    "unknown": ("([", "])"),
}
_DOT_SHAPES = {
    "node": "shape=box",
    "gate": "shape=hexagon",
    "flow": "shape=box, peripheries=2",
    "start": "shape=circle",
    "finish": "shape=doublecircle",
    "unknown": 'shape=box, style="rounded,dashed", fontsize=10',
}


def _mermaid_text(text: str) -> str:
    """Inside quotes Mermaid reads entities, in its own spelling of them: #quot; and #35; for #."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    escaped = html.escape(plain.replace("#", "\0"), quote=True).replace("&#x27;", "'").replace("&", "#")
    for letter in "`\\|{}[]":
        escaped = escaped.replace(letter, f"#{ord(letter)};")
    return escaped.replace("\0", "#35;")


def _dot_text(*lines: str) -> str:
    escaped = [
        "".join(letter if letter.isprintable() else " " for letter in line)
        .replace("\\", "\\\\")
        .replace('"', '\\"')
        for line in lines
    ]
    return '"' + "\\n".join(escaped) + '"'
