"""What is a node?

`NodeRef` is what registering a node returns: the handle by which transitions name it. `Node` is the
record behind it. A node's body is a function, an object with `evaluate`, another flow (its visit is a
child run) or a gate (a question to a person, ready made).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from quiesce.errors import GraphError
from quiesce.graph.gates import Gate
from quiesce.graph.shapes import NOT_ANNOTATED, Annotation, Shape
from quiesce.graph.transitions import Concurrency, Next

if TYPE_CHECKING:
    from quiesce.graph.definition import Graph

__all__ = ["Family", "Node", "NodeRef", "is_flow"]

I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A graph and its clones: what one of them calls a node is one in all of them."""

    name: str


@dataclass(slots=True)
class Node:
    """The record of one registered node."""

    name: str
    index: int
    """Its place in the order of registration, from 0."""
    kind: Literal["function", "object", "flow", "gate"]
    body: Any
    """What was registered: the function, the object itself, the flow, the `Gate`."""
    shape: Shape
    blocking: bool = False
    retries: int = 0
    backoff: float = 0.0
    timeout: float | None = None

    def __post_init__(self) -> None:
        what = f"node {self.name!r}"
        if self.retries < 0:
            raise GraphError(f"{what}: retries is a count from 0, not {self.retries}")
        if self.backoff < 0:
            raise GraphError(f"{what}: backoff is seconds from 0, not {self.backoff}")
        if self.timeout is not None and self.timeout <= 0:
            raise GraphError(f"{what}: timeout is seconds above 0, or None, not {self.timeout}")
        if self.blocking and self.shape.is_async:
            raise GraphError(f"{what} is async, so it cannot be blocking: that is for functions in a thread")
        if self.blocking and self.kind in ("flow", "gate"):
            raise GraphError(f"{what} is a {self.kind}, so it cannot be blocking")
        if self.kind == "flow" and (self.retries or self.timeout is not None):
            raise GraphError(
                f"{what} is a flow, and a run of it has neither retries nor a time-out of its own: "
                "give them to what is inside it"
            )
        if self.timeout is not None and not self.shape.is_async and not self.blocking:
            raise GraphError(
                f"{what} cannot have a time-out: it keeps the event loop until it returns; "
                "write it with async def, or pass blocking=True"
            )

    @property
    def call(self) -> Callable[..., Any]:
        """What is called with the input, and the context if the shape wants it."""
        return self.body.evaluate if self.kind in ("object", "gate") else self.body  # type: ignore[no-any-return]

    @property
    def input(self) -> Annotation:
        return _flow_type(self.body, "input_type") if self.kind == "flow" else self.shape.first

    @property
    def output(self) -> Annotation:
        return _flow_type(self.body, "output_type") if self.kind == "flow" else self.shape.gives

    def cloned(self) -> Node:
        """The same node with an object of its own; functions, flows and gates hold no state of a graph."""
        return replace(self, body=copy.copy(self.body)) if self.kind == "object" else self


class NodeRef(Generic[I_contra, O_co]):
    """A node of a graph, to name it in transitions. Calling it calls its function, as a plain test would."""

    __slots__ = ("family", "graph", "name", "node")

    def __init__(self, graph: Graph, node: Node, family: Family) -> None:
        self.graph = graph
        self.node = node
        self.family = family
        self.name = node.name

    def next(self, value: I_contra, *, concurrency: Concurrency | None = None) -> Next:
        """The transition to this node; see `Transition.next`."""
        return Next(self.name, value, concurrency, self.family)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.node.kind == "flow":
            raise GraphError(
                f"node {self.name!r} is the flow {self.node.body.name!r}; only a run evaluates it"
            )
        return self.node.call(*args, **kwargs)

    @property
    def body(self) -> Any:
        """The registered function, object, flow or gate itself."""
        return self.node.body

    @property
    def flow(self) -> Any | None:
        """The flow whose run is the visit of this node; None for every other node."""
        return self.node.body if self.node.kind == "flow" else None

    @property
    def gate(self) -> Gate | None:
        """The question, if the node is a gate."""
        return self.node.body if self.node.kind == "gate" else None

    @property
    def input_type(self) -> Any:
        """The declared type of its input, or None."""
        return self.node.input.type

    @property
    def output_type(self) -> Any:
        """The declared type of its output, or None."""
        return self.node.output.type

    @property
    def takes_context(self) -> bool:
        return self.node.shape.wants_context

    @property
    def is_async(self) -> bool:
        """It was written with `async def`. A plain function may still return an awaitable."""
        return self.node.shape.is_async

    @property
    def blocking(self) -> bool:
        return self.node.blocking

    @property
    def retries(self) -> int:
        return self.node.retries

    @property
    def backoff(self) -> float:
        """Seconds before the first retry."""
        return self.node.backoff

    @property
    def timeout(self) -> float | None:
        """Seconds that one evaluation may take."""
        return self.node.timeout

    def __repr__(self) -> str:
        return f"<node {self.name!r} of graph {self.graph.name!r}>"


def is_flow(candidate: object) -> bool:
    """Whether this is a flow, to be run as a child: it has a `kind` and a `name`, and does not evaluate."""
    if isinstance(candidate, type | NodeRef) or callable(getattr(candidate, "evaluate", None)):
        return False
    return all(isinstance(getattr(candidate, attribute, None), str) for attribute in ("kind", "name"))


def _flow_type(flow: Any, attribute: str) -> Annotation:
    declared = getattr(flow, attribute, None)
    return NOT_ANNOTATED if declared is None else Annotation.of(declared)
