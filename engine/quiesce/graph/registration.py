"""How do a function, an object or a flow become a node? `graph.node`, with and without options.

It is an object and not a method so that its overloads, which tell a type checker what the node takes
and gives, are written once: `@graph.node` and `@graph.node(start=True)` are the same call.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar, Unpack, overload

from quiesce.errors import GraphError
from quiesce.graph.gates import NodeContext
from quiesce.graph.nodes import Node, NodeRef, is_flow
from quiesce.graph.shapes import NOT_ANNOTATED, Shape, read_shape

if TYPE_CHECKING:
    from quiesce.graph.definition import Graph

__all__ = ["Evaluates", "EvaluatesInContext", "Flow", "NodeOptions", "Registrar"]

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741
I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)


class NodeOptions(TypedDict, total=False):
    """What can be said of a node besides its body."""

    name: str | None
    """Default: the function's or the class's name."""
    start: bool
    """The graph starts here."""
    blocking: bool
    """Run it in a worker thread."""
    retries: int
    """How often it is tried again after an exception."""
    backoff: float
    """Seconds before the first retry."""
    timeout: float | None
    """Seconds that one evaluation may take."""


class Evaluates(Protocol[I_contra, O_co]):
    def evaluate(self, input: I_contra, /) -> O_co: ...


class EvaluatesInContext(Protocol[I_contra, O_co]):
    def evaluate(self, input: I_contra, ctx: NodeContext, /) -> O_co: ...


class Flow(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...


class Registrar:
    """What `graph.node` is."""

    __slots__ = ("_graph", "_options")

    def __init__(self, graph: Graph, options: NodeOptions) -> None:
        self._graph = graph
        self._options = options

    @overload
    def __call__(
        self, body: Callable[[I], Coroutine[Any, Any, O]], /, **options: Unpack[NodeOptions]
    ) -> NodeRef[I, O]: ...
    @overload
    def __call__(
        self, body: Callable[[I, NodeContext], Coroutine[Any, Any, O]], /, **options: Unpack[NodeOptions]
    ) -> NodeRef[I, O]: ...
    @overload
    def __call__(self, body: Callable[[I], O], /, **options: Unpack[NodeOptions]) -> NodeRef[I, O]: ...
    @overload
    def __call__(
        self, body: Callable[[I, NodeContext], O], /, **options: Unpack[NodeOptions]
    ) -> NodeRef[I, O]: ...
    @overload
    def __call__(
        self, body: Evaluates[I, Coroutine[Any, Any, O]], /, **options: Unpack[NodeOptions]
    ) -> NodeRef[I, O]: ...
    @overload
    def __call__(
        self, body: EvaluatesInContext[I, Coroutine[Any, Any, O]], /, **options: Unpack[NodeOptions]
    ) -> NodeRef[I, O]: ...
    @overload
    def __call__(self, body: Evaluates[I, O], /, **options: Unpack[NodeOptions]) -> NodeRef[I, O]: ...
    @overload
    def __call__(
        self, body: EvaluatesInContext[I, O], /, **options: Unpack[NodeOptions]
    ) -> NodeRef[I, O]: ...
    @overload
    def __call__(self, body: Flow, /, **options: Unpack[NodeOptions]) -> NodeRef[Any, Any]: ...
    @overload
    def __call__(self, body: None = None, /, **options: Unpack[NodeOptions]) -> Registrar: ...
    def __call__(self, body: Any = None, /, **options: Unpack[NodeOptions]) -> Any:
        """Register `body` as a node, or, without one, return the decorator with these options.

        Raises:
            GraphError: it cannot be a node, its name is taken, or the graph is frozen.
        """
        unknown = options.keys() - NodeOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"graph.node() has no option {', '.join(sorted(unknown))}")
        merged: NodeOptions = {**self._options, **options}
        if body is None:
            return Registrar(self._graph, merged)
        return self._graph._add(
            _make_node(body, merged, sys._getframe(1).f_locals), merged.get("start", False)
        )


def _make_node(body: Any, options: NodeOptions, locals: Mapping[str, Any]) -> Callable[[int], Node]:
    """The node, as soon as it is known which place it has."""
    if isinstance(body, NodeRef):
        raise GraphError(f"{body!r} is a node already; register its function or object: graph.node(ref.body)")
    name = options.get("name") or _default_name(body)
    what = f"node {name!r}"
    kind: Literal["function", "object", "flow"]
    if is_flow(body):
        kind = "flow"
        shape = Shape((NOT_ANNOTATED,), 1, NOT_ANNOTATED, is_async=False, wants_context=False)
    elif isinstance(body, type) and hasattr(body, "evaluate"):
        raise GraphError(f"{what} is the class {body.__name__}; register an object of it: {body.__name__}(…)")
    elif callable(getattr(body, "evaluate", None)):
        kind = "object"
        shape = read_shape(body.evaluate, what, locals)
    elif callable(body):
        kind = "function"
        shape = read_shape(body, what, locals)
    else:
        raise GraphError(
            f"{what} is {body!r}; a node is a function, an object with evaluate(input), or a flow"
        )
    how: dict[str, Any] = {key: value for key, value in options.items() if key not in ("name", "start")}
    return functools.partial(Node, name, kind=kind, body=body, shape=shape, **how)


def _default_name(body: Any) -> str:
    if is_flow(body):
        return str(body.name)
    while isinstance(body, functools.partial):
        body = body.func
    name = getattr(body, "__name__", None) if inspect.isroutine(body) or isinstance(body, type) else None
    if name == "<lambda>":
        raise GraphError("a lambda has no name that could be shown: pass name=")
    return str(name or type(body).__name__)
