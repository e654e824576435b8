"""A team as boxes and arrows: who takes part, and of a run the tasks: whose, and after which others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from quiesce import drawing
from quiesce.drawing import Arrow, Box, Shape
from quiesce.team.definition import Team
from quiesce.team.values import Task, TurnStatus

__all__ = ["dot", "mermaid"]

_STATES = ("running", "waiting", "queued")  # the first that a participant has gives its colour
_LOOKS = {"pending": "queued", "in_progress": "running", "cancelled": "completed"}


def mermaid(team: Team, tasks: Sequence[Task] = (), turns: Sequence[TurnStatus] = ()) -> str:
    """The team as a Mermaid flowchart; with its tasks and turns, where a run of it is."""
    return drawing.mermaid(*_layout(team, tasks, turns))


def dot(team: Team, tasks: Sequence[Task] = (), turns: Sequence[TurnStatus] = ()) -> str:
    """The team in Graphviz' DOT language; with its tasks and turns, where a run of it is."""
    return drawing.dot(team.name, *_layout(team, tasks, turns))


def _layout(team: Team, tasks: Sequence[Task], turns: Sequence[TurnStatus]) -> tuple[list[Box], list[Arrow]]:
    owners = dict.fromkeys(task.owner for task in tasks if task.owner is not None)
    names = dict.fromkeys([*team.participants, *owners])
    ids = {name: f"p{index}" for index, name in enumerate(names)}
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    for name, box_id in ids.items():
        counts = Counter[str](turn.state for turn in turns if turn.participant == name)
        present = [state for state in _STATES if counts[state]]
        body = team.participants.get(name)
        lines = [name, "no longer in this team" if body is None else f"{body.kind} {body.name}"]
        if present:
            lines.append(", ".join(f"{counts[state]} {state}" for state in present))
        shape: Shape = "flow" if name == team.coordinator else "node"
        boxes.append(Box(box_id, shape, tuple(lines), present[0] if present else None))
        if name != team.coordinator:
            arrows.append(Arrow(ids[team.coordinator], box_id))
    for task in tasks:
        lines = [f"{task.id} {task.title}", task.state]
        boxes.append(Box(f"t{task.id}", "task", tuple(lines), _LOOKS.get(task.state, task.state)))
        if task.owner is not None:
            arrows.append(Arrow(ids[task.owner], f"t{task.id}", dashed=True))
        arrows += [Arrow(f"t{needed}", f"t{task.id}", "then") for needed in task.after]
    return boxes, arrows
