"""What does a branch ask that pauses, and of which type is the answer?

A gate declares the type in the graph. A transition that pauses hands it over as a value, so only the driver
that got it knows it; the node is given the answer as JSON.

Source: spec graph, 1 (gates, `Transition.pause`); spec engine, 4 (answer).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from quiesce import codec
from quiesce.graph import Graph
from quiesce.graph.rows import Branch
from quiesce.graph.transitions import Pause
from quiesce.rules import holds

__all__ = ["answer_type", "check_answer", "question"]


def question(branch: Branch, pause: Pause, now: datetime) -> holds.Question:
    """The question of a branch.

    Raises:
        NotSerializable: what it shows has no JSON form. AnswerRejected, InputRejected: the answer that it
            gives itself at its deadline does not fit its own type.
    """
    deadline = pause.deadline
    if isinstance(deadline, timedelta):
        deadline = now + deadline
    elif deadline is not None and not isinstance(deadline, datetime):
        deadline = now + timedelta(seconds=deadline)
    on_deadline: Any = pause.on_deadline
    expects = codec.schema(pause.expects)
    if isinstance(on_deadline, tuple):
        on_deadline = ("answer", codec.jsonable(on_deadline[1], place="on_deadline"))
        if expects is not None:
            codec.check_schema(on_deadline[1], expects)
            codec.validate_json(on_deadline[1], pause.expects, place="on_deadline")
    return holds.Question(
        path=f"{branch.node}#{branch.id}" if branch.groups else branch.node,
        piece=branch.id,
        reason=pause.reason,
        key=pause.key,
        payload=codec.jsonable(pause.payload, place=f"payload of the question of node {branch.node!r}"),
        expects=expects,
        deadline=deadline,
        on_deadline=on_deadline,
    )


def answer_type(graph: Graph, path: str) -> Any:
    """The type that the gate at this path declared; None if it did not, or is no gate."""
    ref = graph.nodes.get(path.partition("#")[0])
    return None if ref is None or ref.gate is None else ref.gate.expects


def check_answer(declared: Any, value: Any) -> None:
    """Hold an answer against this type, if there is one. Raises InputRejected."""
    if declared is not None:
        codec.validate_json(value, declared)
