"""Can it be right? What the declared types say of a graph, and what a returned transition must satisfy.

Two moments. When the graph is built, whatever is annotated on both sides is compared: a misfit names
both nodes. When a value arrives at a node it is checked against what that node declares, whoever sends
it; the common case (the value's class is the declared one) costs a comparison. Source: spec graph,
"Building and checking".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args, get_origin

from quiesce.codec import fits, type_name, validate
from quiesce.errors import GraphError, InputRejected, MissingNode
from quiesce.graph.nodes import Family, Node
from quiesce.graph.transitions import (
    Case,
    Error,
    FanOut,
    Finish,
    Join,
    JoinInput,
    Next,
    Pause,
)

if TYPE_CHECKING:
    from quiesce.graph.decisions import Decision
    from quiesce.graph.definition import Graph

__all__ = ["Checks", "Entrance", "check_types", "entrance_of", "resolve"]


@dataclass(frozen=True, slots=True)
class Entrance:
    """What may come into a node."""

    declared: Any
    """The type of its input; None if nothing is declared."""
    joins: bool
    """It declares a `JoinInput`."""
    may_join: bool
    """A `JoinInput` is something that it could take."""
    payload: Any
    """The type of one payload of that `JoinInput`, or None."""


def entrance_of(node: Node) -> Entrance:
    declared = node.input.type
    joins = (get_origin(declared) or declared) is JoinInput
    arguments = get_args(declared) if joins else ()
    return Entrance(declared, joins, fits(JoinInput, declared), arguments[0] if arguments else None)


# --- when the graph is built -----------------------------------------------------------------------------


def check_types(graph: Graph, source: Node, decision: Decision) -> None:
    """Compare what a node gives with what its declared transition takes.

    Raises:
        GraphError: it certainly cannot fit.
    """
    for problem in _misfits(graph, source, decision):
        raise GraphError(problem)


def _misfits(graph: Graph, source: Node, decision: Decision) -> Iterator[str]:
    output, name = source.output.type, source.name
    if decision.shape is not None:
        what = f"the {'transition' if decision.kind == 'handler' else 'map'} of node {name!r}"
        if not fits(output, decision.shape.first.type):
            yield f"{what} takes {decision.shape.first.text}, but node {name!r} gives {source.output.text}"
    if decision.kind in ("handler", "finish"):
        return
    assert decision.to is not None
    target = graph.nodes[decision.to[0]].node
    payload = decision.payload(source.output)
    entrance = entrance_of(target)
    if decision.kind == "edge":
        if not fits(output, entrance.declared):
            yield (
                f"the edge from node {name!r} to node {target.name!r} cannot be: {name!r} gives "
                f"{source.output.text}, {target.name!r} takes {target.input.text}"
            )
    elif not entrance.may_join:
        yield _no_join(name, target)
    elif not fits(payload.type, entrance.payload):
        yield (
            f"the join of node {name!r} into node {target.name!r} cannot be: {name!r} brings "
            f"{payload.text}, {target.name!r} takes {target.input.text}"
        )


def _no_join(source: str, target: Node) -> str:
    return (
        f"node {source!r} joins node {target.name!r}, which takes {target.input.text}: "
        "a join node takes a JoinInput"
    )


# --- when a transition has been returned --------------------------------------------------------------------


class Checks:
    """What the transitions of one graph are judged by, looked up once for each node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.family = graph.family
        self.entrances = {name: entrance_of(ref.node) for name, ref in graph.nodes.items()}
        self.allowed: dict[str, frozenset[str]] = {}
        """Where the handlers of a node may lead, for those that declare it."""
        self.proven: set[str] = set()
        """Nodes whose edge or join declares the same type on both sides: no value needs a look."""
        for name, decision in graph.decisions.items():
            decisions = [decision, *filter(None, [graph.rejections.get(name)])]
            if any(one.kind == "handler" for one in decisions):
                to = [one.to for one in decisions if one.to is not None]
                if len(to) == len(decisions):
                    self.allowed[name] = frozenset().union(*to)
            elif decision.to:
                entrance = self.entrances[decision.to[0]]
                wanted = entrance.declared if decision.kind == "edge" else entrance.payload
                given = decision.payload(graph.nodes[name].node.output).type
                if given is not None and given == wanted:
                    self.proven.add(name)

    def entrance(self, source: str, node: str, owner: object) -> Entrance:
        """The entrance of the node that `source` leads to.

        Raises:
            MissingNode: it is none of this graph, or one that the handler did not declare.
        """
        if owner is not None and owner is not self.family:
            other = owner.name if isinstance(owner, Family) else "?"
            raise MissingNode(
                f"node {source!r} of graph {self.graph.name!r} leads to node {node!r} of graph {other!r}; "
                "a transition stays in its graph"
            )
        entrance = self.entrances.get(node)
        if entrance is None:
            raise MissingNode(
                f"node {source!r} leads to {node!r}, which graph {self.graph.name!r} does not have; "
                f"it has {', '.join(map(repr, self.entrances))}"
            )
        if source in self.allowed and node not in self.allowed[source]:
            raise GraphError(
                f"node {source!r} leads to {node!r}, but its transition declares "
                f"to={sorted(self.allowed[source])!r}"
            )
        return entrance

    def next(self, source: str, case: Next) -> Next:
        entrance = self.entrance(source, case.node, case.owner)
        if type(case.value) is entrance.declared or entrance.declared is None or source in self.proven:
            return case
        value = self._input(case.value, entrance, source, case.node)
        return case if value is case.value else replace(case, value=value)

    def join(self, source: str, case: Join) -> Join:
        entrance = self._join(source, case.node, case.owner)
        value = self._payload(case.value, entrance, source, case.node)
        return case if value is case.value else replace(case, value=value)

    def finish(self, source: str, case: Finish, into: str | None) -> Finish:
        if into is None:
            return case
        value = self._payload(case.value, self.entrances[into], source, into)
        return case if value is case.value else Finish(value)

    def fan_out(self, source: str, case: FanOut) -> FanOut:
        targets = tuple([self.next(source, target) for target in case.targets])
        if case.into is not None:
            self._join(source, case.into, case.owner)
        # Compared by identity: equal values may be of different types (1 and 1.0).
        same = all(new is old for new, old in zip(targets, case.targets, strict=True))
        return case if same else replace(case, targets=targets)

    def _join(self, source: str, node: str, owner: object) -> Entrance:
        entrance = self.entrance(source, node, owner)
        if not entrance.may_join:
            raise GraphError(_no_join(source, self.graph.nodes[node].node))
        return entrance

    def _input(self, value: object, entrance: Entrance, source: str, target: str) -> object:
        """The input for a node; an int where a float is declared becomes one."""
        if not entrance.joins:
            return _checked(value, entrance.declared, entrance, source, target)
        if isinstance(value, JoinInput):
            return value
        raise GraphError(_misfit(value, entrance, source, target))

    def _payload(self, value: object, entrance: Entrance, source: str, target: str) -> object:
        if entrance.payload is None or type(value) is entrance.payload or source in self.proven:
            return value
        return _checked(value, entrance.payload, entrance, source, target)


def resolve(graph: Graph, source: str, returned: object, into: str | None = None) -> Case:
    """The transition that `source` returned, fit to be applied.

    Args:
        into: the join that gets the value if the branch finishes (`Walk.arrives_at`); only looked at
            for a `Finish`.

    Raises:
        GraphError: it is no transition, or a value does not fit the node that it is for.
        MissingNode: it leads to no node of this graph.
    """
    match returned:
        case Next():
            return graph.checks.next(source, returned)
        case Join():
            return graph.checks.join(source, returned)
        case Finish():
            return graph.checks.finish(source, returned, into)
        case FanOut():
            return graph.checks.fan_out(source, returned)
        case Pause() | Error():
            return returned
        case _:
            raise GraphError(_no_transition(source, returned))


def _checked(value: object, declared: Any, entrance: Entrance, source: str, target: str) -> object:
    try:
        return validate(value, declared, place=f"node {target!r}")
    except InputRejected as error:
        raise GraphError(f"{_misfit(value, entrance, source, target)} ({error})") from error


def _misfit(value: object, entrance: Entrance, source: str, target: str) -> str:
    return (
        f"node {source!r} handed a value of type {type(value).__name__} to node {target!r}, "
        f"which takes {type_name(entrance.declared)}"
    )


def _no_transition(source: str, returned: object) -> str:
    hint = "; did it forget to return?" if returned is None else ""
    return (
        f"the transition of node {source!r} returned {returned!r} of type {type(returned).__name__}, "
        f"which is no Transition{hint}"
    )
