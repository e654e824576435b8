"""Clones of a graph. Source: cases graph, H, and spec graph, `graph.clone()`."""

from __future__ import annotations

import pytest

from quiesce import Completed, Paused, Transition
from quiesce.errors import NotResumable

from .conftest import Open
from .sketch import Gate, Sketch

pytestmark = pytest.mark.anyio


async def test_a_clone_has_no_run_and_runs_apart_from_the_paused_original(opened: Open) -> None:
    """Case 100."""
    sketch = Sketch()
    gate = sketch.gate("gate", Transition.finish, start=True)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        assert isinstance(await run.settled(), Paused)
        clone = sketch.graph.clone()
    async with opened(sketch.graph, clone) as rt:
        other = await rt.create(clone)
        assert other.current_nodes(Gate).none
        with pytest.raises(NotResumable):
            await other.resume()
        await other.reset()
        with pytest.raises(NotResumable):
            await other.resume()
        another = await rt.start(clone, 50)
        assert isinstance(await another.settled(), Paused)
        assert another.current_nodes(Gate).one() is clone.nodes["gate"].body
        assert another.current_nodes(Gate).one() is not gate


async def test_the_original_is_still_paused_with_its_own_node_while_a_clone_runs(opened: Open) -> None:
    """Case 100, in one process."""
    sketch = Sketch()
    gate = sketch.gate("gate", Transition.finish, start=True)
    clone = sketch.graph.clone()
    async with opened(sketch.graph, clone) as rt:
        run, other = await rt.start(sketch.graph, 1), await rt.start(clone, 50)
        assert isinstance(await run.settled(), Paused)
        assert isinstance(await other.settled(), Paused)
        copied = other.current_nodes(Gate).one()
        assert run.current_nodes(Gate).one() is gate
        assert copied is not gate
        assert copied.log is gate.log  # copied by copy.copy: what objects refer to stays shared
        gate.open = True  # the handler, which is shared, looks at the original
        await run.resume()
        await other.resume()
        assert (await run.settled(), await other.settled()) == (Completed(1), Completed(50))


async def test_a_graph_built_once_may_be_cloned_for_each_run(opened: Open) -> None:
    """Case 102."""
    sketch = Sketch()
    a, b = sketch.add("a", start=True), sketch.add("b", 10)
    sketch.graph.edge(a, b)
    sketch.graph.finish(b)
    clones = [sketch.graph.clone() for _ in range(3)]
    async with opened(*clones) as rt:
        assert [await rt.run(clone, n) for n, clone in enumerate(clones)] == [
            Completed(11),
            Completed(12),
            Completed(13),
        ]
