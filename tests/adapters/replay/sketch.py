"""Small graphs in the words of the cases: nodes that log what they are evaluated with, and gates."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from quiesce import Concurrency, Graph, Transition
from quiesce.graph import NodeRef

__all__ = ["Boom", "Gate", "Sketch", "same"]

Node = NodeRef[Any, Any]


class Boom(Exception):
    """What a failing node raises."""


class Gate:
    """x -> x; whether it is open is its transition's business."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.open = False

    def evaluate(self, x: Any) -> Any:
        self.log.append(f"{self.name}({x})")
        return x


def same(x: Any) -> Any:
    return x


class Sketch:
    """A graph whose nodes log `name(input)` when their evaluation begins."""

    def __init__(self, concurrency: Concurrency = Concurrency.SEQUENTIAL) -> None:
        self.graph = Graph("sketch", concurrency=concurrency)
        self.log: list[str] = []

    def node(self, name: str, function: Callable[[Any], Any] = same, **options: Any) -> Node:
        """A node that logs, then does this."""
        if inspect.iscoroutinefunction(function):

            async def waits(x: Any) -> Any:
                self.log.append(f"{name}({_shown(x)})")
                return await function(x)

            return self.graph.node(waits, name=name, **options)

        def computes(x: Any) -> Any:
            self.log.append(f"{name}({_shown(x)})")
            return function(x)

        return self.graph.node(computes, name=name, **options)

    def add(self, name: str, n: int = 1, **options: Any) -> Node:
        """x -> x + n."""
        return self.node(name, lambda x: x + n, **options)

    def start(self, name: str = "S") -> Node:
        """The node that the graph starts with: x -> x."""
        return self.node(name, start=True)

    def fails(self, name: str) -> Node:
        def fail(x: Any) -> Any:
            raise Boom("boom")

        node = self.node(name, fail)
        self.graph.finish(node)
        return node

    def sum(self, name: str = "sum") -> Node:
        """The join that adds up, and finishes."""
        node = self.node(name, lambda brought: sum(brought))
        self.graph.finish(node)
        return node

    def collect(self, name: str = "join") -> Node:
        """The join that lists what it gets, in order, and finishes."""
        node = self.node(name, list)
        self.graph.finish(node)
        return node

    def gate(self, name: str, then: Callable[[Any], Transition], **options: Any) -> Gate:
        """A node of the class Gate that pauses while it is closed."""
        gate = Gate(name, self.log)
        ref = self.graph.node(gate, name=name, **options)

        @self.graph.transition(ref)
        def decide(x: Any) -> Transition:
            return then(x) if gate.open else Transition.pause(f"{name} is closed")

        return gate

    def fan_out(self, source: Node | str, *targets: Node | str, join: Node | str | None, **how: Any) -> None:
        """Each target gets the output of the source."""
        self.graph.transition(source)(
            lambda x: Transition.fan_out([(target, x) for target in targets], join=join, **how)
        )


def _shown(x: Any) -> Any:
    return list(x) if hasattr(x, "sources") else x
