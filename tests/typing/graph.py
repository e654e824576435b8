"""What a type checker sees of a graph. Checked by mypy, not meant to be executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

from quiesce.graph import Graph, JoinInput, Next, NodeContext, NodeRef, Pause, Transition

graph = Graph("typed")


@graph.node(start=True)
def survey(root: Path) -> int:
    raise NotImplementedError


@graph.node
async def render(count: int) -> str:
    raise NotImplementedError


@graph.node(retries=2, timeout=1.0)
async def send(text: str, ctx: NodeContext) -> bytes:
    raise NotImplementedError


@graph.node
def total(payloads: JoinInput[int | str]) -> int:
    raise NotImplementedError


class Gate:
    def evaluate(self, input: bytes) -> float:
        raise NotImplementedError


class AsyncGate:
    async def evaluate(self, input: float, ctx: NodeContext) -> bool:
        raise NotImplementedError


gate = graph.node(Gate())
async_gate = graph.node(AsyncGate(), name="again")
child = graph.node(Graph("inner"))
asked = graph.gate("asked", asks="Write it?", expects=bool)

assert_type(survey, NodeRef[Path, int])
assert_type(render, NodeRef[int, str])
assert_type(send, NodeRef[str, bytes])
assert_type(total, NodeRef[JoinInput[int | str], int])
assert_type(gate, NodeRef[bytes, float])
assert_type(async_gate, NodeRef[float, bool])
assert_type(child, NodeRef[Any, Any])
assert_type(asked, NodeRef[Any, tuple[Any, bool]])
assert_type(render.next(1), Next)

graph.edge(survey, render)
graph.edge(render, survey)  # type: ignore[misc]
graph.join(survey, into=total)
graph.join(gate, into=total)  # type: ignore[misc]
graph.join(gate, into=total, map=int)
graph.finish(render, map=len)
graph.finish(survey, map=len)  # type: ignore[arg-type]

render.next("x")  # type: ignore[arg-type]
Transition.next(render, 1)
Transition.next(render, "x")  # type: ignore[misc]
Transition.fan_out([(survey, Path()), render.next(3)], join=total)
Transition.fan_out([survey.next(Path())], join=render)  # type: ignore[arg-type]
Transition.fan_out([survey.next(Path())])  # type: ignore[call-arg]


@graph.transition(survey)
def narrow(count: int) -> Next | Pause:
    return render.next(count) if count else Transition.pause("nothing there")


@graph.transition(survey)
async def later(count: int, ctx: NodeContext) -> Transition:
    return Transition.finish(ctx.answer)


@graph.transition(survey)  # type: ignore[type-var]
def wrong(count: int) -> int:
    return count


@graph.node
def summed(payloads: JoinInput[int | str]) -> int:
    assert_type(payloads[0], int | str)
    assert_type(payloads[1:], tuple[int | str, ...])
    assert_type(payloads.of(str), JoinInput[str])
    return sum(payloads.of(int))
