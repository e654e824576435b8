"""What can a run of a graph complete with, in memory and in a store?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from quiesce import Completed, Graph, Runtime, Transition

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Report:
    pages: int


@pytest.mark.parametrize("store", [None, "flows.db"])
@pytest.mark.parametrize("value", [None, "not published", Path("a"), Report(2), [1, (2, 3)]], ids=repr)
async def test_a_handler_may_finish_with_what_no_node_declares(
    value: object, store: str | None, tmp_path: Path
) -> None:
    """Spec graph: `Transition.finish(value)`; spec engine, 6: where no type is declared, by tags."""
    graph = Graph("finishes")

    @graph.node(start=True)
    def ask(x: int) -> int:
        return x

    @graph.node
    def publish(x: int) -> Report:
        return Report(x)

    @graph.transition(ask)
    def decide(x: int) -> Transition:
        return publish.next(x) if x else Transition.finish(value)

    graph.finish(publish)
    target = None if store is None else tmp_path / store
    async with Runtime(target, flows=[graph]) as rt:
        assert await rt.run(graph, 0) == Completed(value)
        assert await rt.run(graph, 3) == Completed(Report(3))
