"""A gate: the ready-made node that asks a person; and what any node may know of an answer.

A gate is evaluated until there is an answer: without one it gives the pause that asks, with one it hands
`(input, answer)` to its transition. A rejection is no answer, so it never reaches that transition: it
goes to what `graph.rejected(gate)` registered, or fails the branch with `Rejected`. Source: spec graph,
"Model", and spec engine, 4, "answer".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from quiesce.errors import GraphError
from quiesce.graph.shapes import NOT_ANNOTATED, Annotation, Shape, read_shape
from quiesce.graph.transitions import Deadline, OnDeadline, Pause, check_deadline

__all__ = ["Gate", "NodeContext", "RejectedAnswer", "gate_shape"]


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What a node or a transition handler may know of its visit, if it takes a second parameter."""

    run: Any
    branch: int = 1
    attempt: int = 1
    """1, and one more for each retry of this visit."""
    answered: bool = False
    """This visit follows an answer to what the branch asked."""
    given: Any = field(default=None, repr=False)
    """The answer, if there is one; read it as `answer`."""
    rejected: str | None = None
    """The message of a rejection, if this visit follows one."""

    @property
    def answer(self) -> Any:
        """The answer.

        Raises:
            GraphError: there is none: check `answered` first, since None is an answer too.
        """
        if not self.answered:
            raise GraphError(
                "ctx.answer was read, but nothing has been answered here; see ctx.answered first"
            )
        return self.given


@dataclass(frozen=True, slots=True)
class RejectedAnswer:
    """What a gate gives instead of an answer when a person said no."""

    input: Any
    message: str


@dataclass(frozen=True, slots=True)
class Gate:
    """A question to a person: what it asks, and what of the input it shows."""

    asks: str | Callable[[Any], str]
    expects: Any = None
    payload: Any = None
    deadline: Deadline = None
    on_deadline: OnDeadline = "hold"

    def __post_init__(self) -> None:
        check_deadline(self.deadline, self.on_deadline)

    @property
    def is_fixed(self) -> bool:
        """Whether it asks the same of every input."""
        return not callable(self.asks) and not callable(self.payload)

    def evaluate(self, input: Any, ctx: NodeContext) -> Any:
        """(input, answer) if there is an answer; else the pause that asks for one."""
        if ctx.rejected is not None:
            return RejectedAnswer(input, ctx.rejected)
        if ctx.answered:
            return (input, ctx.answer)
        return Pause(
            self.asks(input) if callable(self.asks) else self.asks,
            self.expects,
            self.payload(input) if callable(self.payload) else self.payload,
            None,
            self.deadline,
            self.on_deadline,
        )


def gate_shape(name: str, gate: Gate, takes: Any, locals: Mapping[str, Any]) -> Shape:
    """What the gate takes, by `takes` or else by its functions' annotations, and gives.

    Raises:
        GraphError: a function of it is async, or takes something else than the input.
    """
    given = Annotation.of(takes)
    for what, function in (("asks", gate.asks), ("payload", gate.payload)):
        if callable(function):
            shape = read_shape(function, f"{what}= of gate {name!r}", locals, most=1)
            if shape.is_async:
                raise GraphError(f"{what}= of gate {name!r} is async; let the node before it fetch that")
            given = shape.first if given.text is None else given
    gives = NOT_ANNOTATED
    if given.type is not None or gate.expects is not None:
        answer = Any if gate.expects is None else gate.expects
        gives = Annotation.of(tuple[given.type or Any, answer])  # type: ignore[misc]
    return Shape((given,), 1, gives, is_async=False, wants_context=True)
