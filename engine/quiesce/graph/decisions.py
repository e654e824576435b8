"""What was declared to follow a node: a handler that decides, or an edge, a join or a finish.

One `Decision` per node. Edges, joins and finishes are known when the graph is built, so they are drawn
and checked then; a handler is known when it has returned, unless it declares where it may lead (`to=`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from quiesce.graph.nodes import Family
from quiesce.graph.shapes import Annotation, Shape
from quiesce.graph.transitions import Finish, Join, Next

__all__ = ["Decide", "Decision", "make_decide"]

Decide = Callable[[Any, Any], Any]
"""(output, context) -> a transition, or an awaitable of one."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows one node."""

    kind: Literal["handler", "edge", "join", "finish"]
    to: tuple[str, ...] | None = None
    """Where it may lead; None is anywhere, () to no other node."""
    function: Callable[..., Any] | None = None
    """The handler, or the map of a join or finish."""
    shape: Shape | None = None
    """Of that function."""

    @property
    def takes_context(self) -> bool:
        return self.kind == "handler" and self.shape is not None and self.shape.wants_context

    def payload(self, output: Annotation) -> Annotation:
        """The declared type of what it hands on, given that of the node's output."""
        return output if self.shape is None else self.shape.gives


def make_decide(decision: Decision, family: Family) -> Decide:
    """The function that a driver calls with a node's output."""
    function = decision.function
    if decision.kind == "handler":
        assert function is not None
        handler = function
        return handler if decision.takes_context else lambda output, ctx: handler(output)
    if decision.kind == "edge":
        assert decision.to is not None
        target = decision.to[0]
        return lambda output, ctx: Next(target, output, None, family)
    arrive: Callable[[Any], Any] = Finish
    if decision.kind == "join":
        assert decision.to is not None
        into = decision.to[0]
        arrive = lambda value: Join(into, value, family)  # noqa: E731
    if function is None:
        return lambda output, ctx: arrive(output)
    mapping = function

    def decide(output: Any, ctx: Any) -> Any:
        mapped = mapping(output)
        return _when_mapped(mapped, arrive) if isinstance(mapped, Awaitable) else arrive(mapped)

    return decide


async def _when_mapped(mapped: Awaitable[Any], arrive: Callable[[Any], Any]) -> Any:
    return arrive(await mapped)
