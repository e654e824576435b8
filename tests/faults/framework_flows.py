"""Small flows in the words of the reports: a batch of calls, a payment, a survey. `done` tells what ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quiesce import Concurrency, Graph, JoinInput, NodeContext, Transition

__all__ = ["around", "batch", "by_gate", "payment", "survey"]


def batch(done: list[str], *, expects: Any = bool) -> Graph:
    """Three calls of one step: a and b ask before they act, c just acts."""
    graph = Graph("batch", concurrency=Concurrency.PARALLEL)

    @graph.node(start=True)
    def split(x: int) -> int:
        return x

    @graph.node
    def collect(parts: JoinInput[Any]) -> list[Any]:
        return list(parts)

    @graph.node
    def c(x: int) -> str:
        done.append("c")
        return "c"

    graph.join(c, into=collect)
    for name in ("a", "b"):
        ask = graph.gate(name, asks=f"run {name}?", expects=expects)
        act = graph.node(acts(f"after {name}", done), name=f"after {name}")
        graph.transition(ask)(lambda pair, act=act: act.next(pair[1]))
        graph.join(act, into=collect)
    graph.transition(split)(lambda x: Transition.fan_out([(n, x) for n in ("a", "b", "c")], join=collect))
    graph.finish(collect)
    return graph


def acts(name: str, done: list[str]) -> Callable[[Any], Any]:
    def act(x: Any) -> Any:
        done.append(name)
        return x

    return act


def payment(done: list[str], **question: Any) -> Graph:
    """Drafts, asks, and charges only on a yes."""
    graph = Graph("payment")
    draft = graph.node(acts("draft", done), name="draft", start=True)
    approve = graph.gate("approve", asks="charge the card?", **({"expects": bool} | question))
    charge = graph.node(acts("charge", done), name="charge")
    graph.edge(draft, approve)
    graph.transition(approve)(lambda pair: charge.next(pair[0]) if pair[1] else Transition.finish("kept"))
    graph.finish(charge)
    return graph


def survey(times: int, seen: list[NodeContext], **question: Any) -> Graph:
    """Asks one question after the other in the same node; gives the answers."""
    graph = Graph("survey")

    @graph.node(start=True)
    def ask(answers: list[Any], ctx: NodeContext) -> tuple[list[Any], NodeContext]:
        seen.append(ctx)
        return answers, ctx

    @graph.transition(ask)
    def decide(asked: tuple[list[Any], NodeContext]) -> Transition:
        answers, ctx = asked
        if not ctx.answered:
            return Transition.pause(f"question {len(answers) + 1}", **question)
        given = [*answers, ctx.answer]
        return Transition.finish(given) if len(given) == times else ask.next(given)

    return graph


def around(inner: Graph) -> Graph:
    graph = Graph("around")
    graph.finish(graph.node(inner, start=True, name="inner"))
    return graph


def by_gate(outcome: Any) -> dict[str, str]:
    return {hold.path.rpartition("/")[2].partition("#")[0]: hold.id for hold in outcome.holds}
