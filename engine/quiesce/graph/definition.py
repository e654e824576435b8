"""A graph: its nodes, what follows each of them, where it starts.

A definition, shared by all its runs, and frozen by the first of them: a later registration is refused
and nothing is lost. `graph.node` is in `registration.py`, the checks of types in `checks.py`.

    graph = Graph("workspace-architect")

    @graph.node(start=True)
    def survey(root: Path) -> Survey: ...

    review = graph.gate("review", asks="Write it?", expects=bool)

    @graph.transition(review)
    def decide(answered):
        draft, yes = answered
        return write.next(draft) if yes else Transition.finish(None)
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, Union, overload

from quiesce.errors import GraphError, MissingNode, MissingTransition, NoSteps
from quiesce.flows import DefinedIn
from quiesce.graph.checks import Checks, check_types, entrance_of
from quiesce.graph.decisions import Decision
from quiesce.graph.gates import Gate, gate_shape
from quiesce.graph.nodes import Family, Node, NodeRef
from quiesce.graph.registration import Registrar
from quiesce.graph.shapes import Shape, read_shape
from quiesce.graph.signature import digest_of, signature_of
from quiesce.graph.transitions import Concurrency, Deadline, JoinInput, OnDeadline, Transition

__all__ = ["Graph"]

T = TypeVar("T")
U = TypeVar("U")
Handler = TypeVar("Handler", bound=Callable[..., Transition | Awaitable[Transition]])
Target = NodeRef[Any, Any] | str


class Graph:
    """Nodes, one transition per node, one start node. Registering raises `GraphError` once it has run."""

    kind = "graph"

    def __init__(
        self, name: str, *, version: str | None = None, concurrency: Concurrency = Concurrency.SEQUENTIAL
    ) -> None:
        """An empty graph.

        Args:
            name: what a person calls it.
            version: what its runs are tied to; default is a digest of its signature.
            concurrency: of the first branch, and of each that follows a join.
        """
        if not name:
            raise GraphError("a graph needs a name")
        self.name = name
        self.version = version
        self.concurrency = Concurrency(concurrency)
        self.family = Family(name)
        """Shared with its clones, so that handlers written for one serve all."""
        self.defined_in = DefinedIn.of(sys._getframe(1).f_globals)
        self._nodes: dict[str, NodeRef[Any, Any]] = {}
        self._decisions: dict[str, Decision] = {}
        self._rejections: dict[str, Decision] = {}
        self._checks: Checks | None = None
        self._start: str | None = None
        self._frozen = False
        self._signature: dict[str, Any] | None = None
        self._digest: str | None = None

    # --- registering ---------------------------------------------------------------------------------

    @property
    def node(self) -> Registrar:
        """Register a function, an object with `evaluate`, or a flow: `@graph.node`, `graph.node(x)`.

        Options: `name`, `start`, `blocking`, `retries`, `backoff` and `timeout` (float seconds).
        Returns the `NodeRef`. Raises GraphError.
        """
        return Registrar(self, {})

    @overload
    def gate(
        self,
        name: str,
        *,
        asks: str | Callable[[Any], str],
        expects: type[U],
        payload: object = None,
        deadline: Deadline = None,
        on_deadline: OnDeadline = "hold",
        takes: Any = None,
        start: bool = False,
    ) -> NodeRef[Any, tuple[Any, U]]: ...
    @overload
    def gate(
        self,
        name: str,
        *,
        asks: str | Callable[[Any], str],
        expects: Any = None,
        payload: object = None,
        deadline: Deadline = None,
        on_deadline: OnDeadline = "hold",
        takes: Any = None,
        start: bool = False,
    ) -> NodeRef[Any, tuple[Any, Any]]: ...
    def gate(
        self,
        name: str,
        *,
        asks: str | Callable[[Any], str],
        expects: Any = None,
        payload: object = None,
        deadline: Deadline = None,
        on_deadline: OnDeadline = "hold",
        takes: Any = None,
        start: bool = False,
    ) -> NodeRef[Any, Any]:
        """A node that asks a person, and hands `(input, answer)` to its transition.

        A rejection fails its branch with `Rejected`, unless `graph.rejected(gate)` decides otherwise.

        Args:
            asks: the question, or a function of the input that words it.
            expects: the type of the answer; without one, a plain resume asks the same again.
            payload: what to show with it, or a function of the input.
            deadline, on_deadline: as in `Transition.pause`.
            takes: the type of the input; default is what `asks` or `payload` is annotated to take.
        """
        gate = Gate(asks, expects, payload, deadline, on_deadline)
        shape = gate_shape(name, gate, takes, sys._getframe(1).f_locals)
        return self._add(lambda index: Node(name, index, "gate", gate, shape), start)

    def start(self, node: Target) -> None:
        """Start with this node, whatever was the start before."""
        self._check_open("another start")
        self._start = self._own(node, "the start").name

    def transition(self, node: Target, *, to: Iterable[Target] | None = None) -> Callable[[Handler], Handler]:
        """Decorate the function that decides what follows `node`: f(output) or f(output, ctx).

        Args:
            to: the nodes that it may lead to. They are drawn, and any other is an error then.
        """
        declared = self._declared(to)
        source = self._own(node, "a transition")

        def register(handler: Handler) -> Handler:
            shape = read_shape(handler, f"the transition of node {source.name!r}", sys._getframe(1).f_locals)
            self._decide(source, Decision("handler", declared, handler, shape))
            return handler

        return register

    def rejected(self, gate: Target, *, to: Iterable[Target] | None = None) -> Callable[[Handler], Handler]:
        """Decorate the function that decides what follows when a person rejects: f(input, message)."""
        declared = self._declared(to)
        source = self._own(gate, "a rejection")
        if source.gate is None:
            raise GraphError(
                f"node {source.name!r} is no gate; when it is evaluated it sees a rejection as ctx.rejected"
            )

        def register(handler: Handler) -> Handler:
            what = f"the rejection of gate {source.name!r}"
            self._check_open(what)
            if source.name in self._rejections:
                raise GraphError(f"{what} is decided already")
            shape = read_shape(handler, what, sys._getframe(1).f_locals)
            self._rejections[source.name] = Decision("handler", declared, handler, shape)
            return handler

        return register

    def edge(self, source: NodeRef[Any, T] | str, target: NodeRef[T, Any] | str) -> None:
        """`target` follows `source`, with its output."""
        self._decide(self._own(source, "an edge"), Decision("edge", (self._own(target, "an edge").name,)))

    @overload
    def join(self, source: NodeRef[Any, T] | str, *, into: NodeRef[JoinInput[T], Any] | str) -> None: ...
    @overload
    def join(
        self,
        source: NodeRef[Any, T] | str,
        *,
        into: NodeRef[JoinInput[U], Any] | str,
        map: Callable[[T], Awaitable[U]] | Callable[[T], U],
    ) -> None: ...
    def join(
        self,
        source: NodeRef[Any, Any] | str,
        *,
        into: NodeRef[Any, Any] | str,
        map: Callable[[Any], Any] | None = None,
    ) -> None:
        """The branch arrives at the join `into` with `source`'s output, or what `map` makes of it."""
        node, target = self._own(source, "a join"), self._own(into, "a join")
        self._decide(
            node, Decision("join", (target.name,), map, self._map_shape(node, map, sys._getframe(1).f_locals))
        )

    def finish(self, source: NodeRef[Any, T] | str, map: Callable[[T], Any] | None = None) -> None:
        """The run completes with `source`'s output, or what `map` makes of it."""
        node = self._own(source, "a finish")
        self._decide(node, Decision("finish", (), map, self._map_shape(node, map, sys._getframe(1).f_locals)))

    # --- running -------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Whether it can run.

        Raises:
            NoSteps: it has no start.
            MissingTransition: a node has none; the first such node in the order of registration.
            GraphError: what a node gives cannot fit what follows it.
        """
        if self._start is None:
            raise NoSteps(
                f"graph {self.name!r} has no start: mark a node with start=True, or call graph.start(node)"
            )
        for ref in self._nodes.values():
            if ref.name not in self._decisions:
                raise MissingTransition(
                    f"node {ref.name!r} of graph {self.name!r} has no transition: give it graph.edge, "
                    "graph.join, graph.finish or @graph.transition"
                )
        if not self._frozen:
            for name, decision in self._decisions.items():
                check_types(self, self._nodes[name].node, decision)

    def freeze(self) -> None:
        """From now on nothing more can be registered."""
        self._frozen = True
        self._checks = self._checks or Checks(self)

    @property
    def checks(self) -> Checks:
        """What a returned transition is judged by."""
        # Before the first run, what a name in an annotation means may still become known.
        return self._checks or Checks(self)

    @property
    def frozen(self) -> bool:
        """It has run."""
        return self._frozen

    def clone(self) -> Graph:
        """The same graph, not yet run: handlers shared, objects copied (shallowly, by `copy.copy`)."""
        clone = Graph(self.name, version=self.version, concurrency=self.concurrency)
        clone.family = self.family
        clone.defined_in = self.defined_in
        clone._nodes = {
            name: NodeRef(clone, ref.node.cloned(), self.family) for name, ref in self._nodes.items()
        }
        clone._decisions = dict(self._decisions)
        clone._rejections = dict(self._rejections)
        clone._start = self._start
        return clone

    # --- what it is ------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, NodeRef[Any, Any]]:
        """Its nodes by name, in the order of registration."""
        return MappingProxyType(self._nodes)

    @property
    def start_node(self) -> NodeRef[Any, Any] | None:
        return None if self._start is None else self._nodes[self._start]

    @property
    def decisions(self) -> Mapping[str, Decision]:
        """What follows each node."""
        return MappingProxyType(self._decisions)

    @property
    def rejections(self) -> Mapping[str, Decision]:
        """What follows a gate when a person says no."""
        return MappingProxyType(self._rejections)

    @property
    def input_type(self) -> Any:
        """What the start node takes; None if it does not say."""
        return None if self._start is None else self._nodes[self._start].input_type

    @property
    def output_type(self) -> Any:
        """What it may complete with: what the nodes that `graph.finish` names give; None if nothing says it.

        A handler may finish with any value, and so may a node that does not say what it gives: `… | Any`.
        """
        given = [
            self.finish_type(name) for name, decision in self._decisions.items() if decision.kind == "finish"
        ]
        declared = [one for one in given if one is not None]
        if not declared:
            return None
        handlers = [d for d in self._decisions.values() if d.kind == "handler"] + [*self._rejections.values()]
        any_value = [Any] if handlers or len(declared) < len(given) else []
        return Union[(*declared, *any_value)]

    def finish_type(self, source: str) -> Any:
        """The declared type of a value with which `source` completes the run; None if nothing says it."""
        decision = self._decisions.get(source)
        if decision is None or decision.kind == "handler":
            return None
        return decision.payload(self._nodes[source].node.output).type

    def payload_type(self, source: str, join: str) -> Any:
        """The declared type of what `source` brings to `join`, or None.

        The join node's own `JoinInput[T]` comes first; else what the map or the source declares.
        """
        declared = entrance_of(self._nodes[join].node).payload if join in self._nodes else None
        return self.finish_type(source) if declared is None else declared

    def signature(self) -> dict[str, Any]:
        """What its runs depend on, as JSON: nodes, types, declared edges. The same in every process."""
        if self._signature is not None:
            return self._signature
        found = signature_of(self)
        if self._frozen:
            self._signature = found
        return found

    def version_digest(self) -> str:
        """A short digest of the signature."""
        if self._digest is not None:
            return self._digest
        found = digest_of(self.signature())
        if self._frozen:
            self._digest = found
        return found

    def __repr__(self) -> str:
        return f"<graph {self.name!r} of {len(self._nodes)} nodes>"

    # --- inside ------------------------------------------------------------------------------------------

    def _add(self, make: Callable[[int], Node], start: bool) -> NodeRef[Any, Any]:
        node = make(len(self._nodes))
        self._check_open(f"node {node.name!r}")
        if not node.name:
            raise GraphError(f"a node of graph {self.name!r} needs a name")
        if node.name in self._nodes:
            raise GraphError(
                f"graph {self.name!r} has a node {node.name!r} already; pass name= to call this one otherwise"
            )
        if start and self._start is not None:
            raise GraphError(
                f"graph {self.name!r} starts with node {self._start!r}; call graph.start(node) to change that"
            )
        ref: NodeRef[Any, Any] = NodeRef(self, node, self.family)
        self._nodes[node.name] = ref
        if start:
            self._start = node.name
        return ref

    def _decide(self, source: NodeRef[Any, Any], decision: Decision) -> None:
        self._check_open(f"a transition of node {source.name!r}")
        if source.name in self._decisions:
            raise GraphError(
                f"node {source.name!r} already has a registered transition "
                f"({_told(self._decisions[source.name])}); a node has one, which may choose"
            )
        check_types(self, source.node, decision)
        self._decisions[source.name] = decision

    def _check_open(self, what: str) -> None:
        if self._frozen:
            raise GraphError(
                f"graph {self.name!r} has run, so {what} cannot be added; clone() it, or register before "
                "the first run"
            )

    def _own(self, node: Target, what: str) -> NodeRef[Any, Any]:
        """The node of this graph that is meant."""
        if isinstance(node, str):
            if node not in self._nodes:
                raise MissingNode(
                    f"{what} names node {node!r}, which graph {self.name!r} does not have (yet)"
                )
        elif not isinstance(node, NodeRef):
            raise GraphError(f"{what} needs a node, as graph.node returns it, or its name; not {node!r}")
        elif node.family is not self.family:
            raise GraphError(
                f"{what} of graph {self.name!r} names node {node.name!r} of graph {node.graph.name!r}"
            )
        elif node.name not in self._nodes:
            raise MissingNode(f"{what} names node {node.name!r}, which this clone does not have")
        return self._nodes[node if isinstance(node, str) else node.name]

    def _declared(self, to: Iterable[Target] | None) -> tuple[str, ...] | None:
        if isinstance(to, str | NodeRef):
            to = [to]
        return None if to is None else tuple(self._own(node, "to=").name for node in to)

    def _map_shape(self, source: NodeRef[Any, Any], function: Any, locals: Mapping[str, Any]) -> Shape | None:
        if function is None:
            return None
        return read_shape(function, f"the map of node {source.name!r}", locals, most=1)


def _told(decision: Decision) -> str:
    if decision.kind in ("edge", "join"):
        assert decision.to is not None
        return f"{decision.kind} to {decision.to[0]!r}"
    return "it finishes" if decision.kind == "finish" else "a handler"
