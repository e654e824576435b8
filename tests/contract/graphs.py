"""The flows of the contract as graphs: what another kind has as statements is nodes and transitions here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quiesce import Concurrency, Graph, JoinInput, NodeContext, Transition

from .kinds import Stage

__all__ = ["Graphs"]


class Graphs:
    """Makes graphs; `evaluated` has the names of the nodes that were evaluated, in order."""

    name = "graph"

    def __init__(self) -> None:
        self.evaluated: list[str] = []
        self.inner: list[Any] = []
        self._made = 0

    def graph(self, name: str) -> Graph:
        self._made += 1
        return Graph(f"{name} {self._made}", concurrency=Concurrency.PARALLEL)

    def tree(self, run_id: str) -> list[str]:
        return [run_id]

    def adds(self) -> Graph:
        graph = self.graph("adds")

        @graph.node(start=True)
        def add(x: int) -> int:
            self.evaluated.append("add")
            return x + 1

        graph.finish(add)
        return graph

    def works(self, stage: Stage, *, after: Stage | None = None) -> Graph:
        graph = self.graph("works")

        @graph.node(start=True)
        async def work(x: int) -> int:
            self.evaluated.append("work")
            await stage.act()
            return x

        @graph.node
        async def then(x: int) -> int:
            self.evaluated.append("then")
            if after is not None:
                await after.act()
            return x + 1

        graph.edge(work, then)
        graph.finish(then)
        return graph

    def works_on(self, stage: Stage) -> Graph:
        graph = self.graph("works on")

        @graph.node(start=True)
        async def work(x: int) -> int:
            try:
                await stage.act()
            except BaseException:
                return x + 1  # what a body must not do
            return x + 1

        graph.finish(work)
        return graph

    def works_then_asks(self, stage: Stage) -> Graph:
        graph = self.graph("works, asks")

        @graph.node(start=True)
        async def work(x: object, ctx: NodeContext) -> NodeContext:
            self.evaluated.append("work")
            await stage.act()
            return ctx

        @graph.transition(work)
        def decide(ctx: NodeContext) -> Transition:
            if ctx.rejected is not None:
                return Transition.finish(["rejected", ctx.rejected])
            return Transition.finish(ctx.answer) if ctx.answered else self._pause({})

        return graph

    def works_then_fails(self, stage: Stage, error: Exception) -> Graph:
        graph = self.graph("works, fails")

        @graph.node(start=True)
        async def work(x: int) -> int:
            await stage.act()
            raise error

        graph.finish(work)
        return graph

    def fails(self, error: Exception, stage: Stage | None = None) -> Graph:
        return self._fails(lambda: error, stage)

    def mends(self, errors: list[Exception]) -> Graph:
        return self._fails(lambda: errors.pop(0) if errors else None, None)

    def _fails(self, next_error: Any, stage: Stage | None) -> Graph:
        graph = self.graph("fails")

        @graph.node(start=True)
        async def first(x: int) -> int:
            self.evaluated.append("first")
            if stage is not None:
                await stage.act()
            return x

        @graph.node
        def second(x: int) -> int:
            self.evaluated.append("second")
            error = next_error()
            if error is not None:
                raise error
            return x + 1

        graph.edge(first, second)
        graph.finish(second)
        return graph

    def asks(self, *, timeout: float | None = None, **question: Any) -> Graph:
        graph = self.graph("asks")

        @graph.node(start=True, timeout=timeout)
        async def ask(x: object, ctx: NodeContext) -> NodeContext:
            self.evaluated.append("ask")
            return ctx

        @graph.transition(ask)
        def decide(ctx: NodeContext) -> Transition:
            if ctx.rejected is not None:
                return Transition.finish(["rejected", ctx.rejected])
            return Transition.finish(["answered", ctx.answer]) if ctx.answered else self._pause(question)

        return graph

    def asks_in_turn(self, times: int, **question: Any) -> Graph:
        graph = self.graph("asks in turn")

        @graph.node(start=True)
        def ask(answers: list[Any], ctx: NodeContext) -> tuple[list[Any], NodeContext]:
            self.evaluated.append("ask")
            return answers, ctx

        @graph.transition(ask)
        def decide(asked: tuple[list[Any], NodeContext]) -> Transition:
            answers, ctx = asked
            if not ctx.answered:
                return self._pause(question)
            answers = [*answers, ctx.answer]
            return Transition.finish(answers) if len(answers) == times else ask.next(answers)

        return graph

    def asks_each(self, questions: Sequence[dict[str, Any]]) -> Graph:
        graph = self.graph("asks each")

        @graph.node(start=True)
        def spread(x: object) -> object:
            return x

        @graph.node
        def collect(answers: JoinInput[Any]) -> list[Any]:
            return list(answers)

        names = [f"ask{number}" for number in range(1, len(questions) + 1)]
        for name, question in zip(names, questions, strict=True):
            self._gate(graph, name, collect, question)

        @graph.transition(spread)
        def fan_out(x: object) -> Transition:
            return Transition.fan_out([(name, x) for name in names], join=collect)

        graph.finish(collect)
        return graph

    def _gate(self, graph: Graph, name: str, collect: Any, question: dict[str, Any]) -> None:
        @graph.node(name=name)
        def ask(x: object, ctx: NodeContext) -> NodeContext:
            self.evaluated.append(name)
            return ctx

        @graph.transition(ask)
        def decide(ctx: NodeContext) -> Transition:
            return Transition.join(collect, ctx.answer) if ctx.answered else self._pause(question)

    def asks_what(self, words: Sequence[str]) -> Graph:
        graph = self.graph("asks what")
        left = list(words)

        @graph.node(start=True)
        def ask(x: object, ctx: NodeContext) -> NodeContext:
            self.evaluated.append("ask")
            return ctx

        @graph.transition(ask)
        def decide(ctx: NodeContext) -> Transition:
            if ctx.answered:
                return Transition.finish(ctx.answer)
            return self._pause({"payload": left.pop(0) if len(left) > 1 else left[0]})

        return graph

    def asks_once(self) -> Graph:
        graph = self.graph("asks once")

        @graph.node(start=True)
        def ask(x: object) -> bool:
            self.evaluated.append("ask")
            return self.evaluated.count("ask") > 1

        @graph.node
        def then(x: object, ctx: NodeContext) -> NodeContext:
            return ctx

        @graph.transition(ask)
        def decide(enough: bool) -> Transition:
            return then.next(None) if enough else self._pause({"payload": "first"})

        @graph.transition(then)
        def ask_more(ctx: NodeContext) -> Transition:
            return Transition.finish(ctx.answer) if ctx.answered else self._pause({"payload": "second"})

        return graph

    def asks_beside(self, stage: Stage, inner: Any) -> Graph:
        return self._beside(stage, inner, [])

    def fails_beside(self, stage: Stage, inner: Any, error: Exception) -> Graph:
        return self._beside(stage, inner, [error])

    def _beside(self, stage: Stage, inner: Any, errors: list[Exception]) -> Graph:
        graph = self.graph("beside")

        @graph.node(start=True)
        def spread(x: object) -> object:
            self.evaluated.append("spread")
            return x

        @graph.node
        async def work(x: object) -> object:
            self.evaluated.append("work")
            await stage.act()
            if errors:
                raise errors.pop()
            return "worked"

        @graph.node
        def collect(values: JoinInput[Any]) -> list[Any]:
            return list(values)

        node = graph.node(inner, name="inner")

        @graph.transition(spread)
        def fan_out(x: object) -> Transition:
            return Transition.fan_out([(node, x), (work, x)], join=collect)

        graph.join(node, into=collect)
        graph.join(work, into=collect)
        graph.finish(collect)
        return graph

    def encloses(self, inner: Any) -> Graph:
        graph = self.graph("encloses")
        node = graph.node(inner, start=True, name="inner")
        graph.finish(node)
        return graph

    def echoes(self) -> Graph:
        graph = self.graph("echoes")

        @graph.node(start=True)
        def echo(x: object) -> object:
            self.evaluated.append("echo")
            return x

        graph.finish(echo)
        return graph

    def asks_over(self, inner: Any, stage: Stage) -> Graph:
        graph = self.graph("asks over")

        @graph.node(start=True)
        def spread(x: object) -> object:
            return x

        @graph.node
        async def ask(x: object, ctx: NodeContext) -> NodeContext:
            await stage.act()
            return ctx

        @graph.node
        def collect(values: JoinInput[Any]) -> list[Any]:
            return list(values)

        node = graph.node(inner, name="inner")

        @graph.transition(spread)
        def fan_out(x: object) -> Transition:
            return Transition.fan_out([(node, x), (ask, x)], join=collect)

        @graph.transition(ask)
        def decide(ctx: NodeContext) -> Transition:
            return Transition.join(collect, ctx.answer) if ctx.answered else self._pause({})

        graph.join(node, into=collect)
        graph.finish(collect)
        return graph

    def gives(self, value: Any) -> Graph:
        graph = self.graph("gives")

        @graph.node(start=True)
        def give(x: object) -> object:
            self.evaluated.append("give")
            return value

        @graph.node
        def count(given: object) -> int:
            self.evaluated.append("count")
            return 1

        graph.edge(give, count)
        graph.finish(count)
        return graph

    @staticmethod
    def _pause(question: dict[str, Any]) -> Transition:
        return Transition.pause(**({"reason": "which one?"} | question))
