"""Boxes and arrows as Mermaid or DOT text, whatever they stand for.

Names appear in labels only, escaped; the ids are the caller's, so any name can be drawn.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Arrow", "Box", "Shape", "dot", "mermaid"]

Shape = Literal["node", "gate", "flow", "start", "finish", "unknown", "task"]

_COLOURS = {
    "running": ("#d3f9d8", "#2b8a3e"),
    "paused": ("#ffec99", "#e67700"),
    "waiting": ("#d0ebff", "#1864ab"),
    "queued": ("#f1f3f5", "#495057"),
    "completed": ("#e9ecef", "#adb5bd"),
    "failed": ("#ffe3e3", "#c92a2a"),
}


@dataclass(frozen=True, slots=True)
class Box:
    """One thing: what its lines say, and the state that gives it its colour."""

    id: str
    shape: Shape
    lines: tuple[str, ...]
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another, by their ids."""

    source: str
    target: str
    label: str = ""
    dashed: bool = False


def mermaid(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """A Mermaid flowchart."""
    text = ["flowchart TD"]
    for box in boxes:
        label = '"' + "<br/>".join(map(_mermaid_text, box.lines)) + '"'
        left, right = _MERMAID_SHAPES[box.shape]
        text.append(f"    {box.id}{left}{label}{right}" + (f":::{box.state}" if box.state else ""))
    for arrow in arrows:
        line = "-.->" if arrow.dashed else "-->"
        label = f'|"{_mermaid_text(arrow.label)}"|' if arrow.label else ""
        text.append(f"    {arrow.source} {line}{label} {arrow.target}")
    for state, (fill, stroke) in _COLOURS.items():
        if any(box.state == state for box in boxes):
            text.append(f"    classDef {state} fill:{fill},stroke:{stroke},stroke-width:3px,color:#212529")
    return "\n".join(text) + "\n"


def dot(name: str, boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """A graph in Graphviz' DOT language."""
    text = [f"digraph {_dot_text(name)} {{", "    node [fontname=sans, style=filled, fillcolor=white];"]
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


_MERMAID_SHAPES = {
    "node": ("[", "]"),
    "gate": ("{{", "}}"),
    "flow": ("[[", "]]"),
    "start": ("((", "))"),
    "finish": ("(((", ")))"),
    "unknown": ("([", "])"),
    "task": ("(", ")"),
}
_DOT_SHAPES = {
    "node": "shape=box",
    "gate": "shape=hexagon",
    "flow": "shape=box, peripheries=2",
    "start": "shape=circle",
    "finish": "shape=doublecircle",
    "unknown": 'shape=box, style="rounded,dashed", fontsize=10',
    "task": 'shape=box, style="rounded,filled"',
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
