"""Errors of nodes and transitions, cancelled siblings, cancelled waiters. Source: cases graph, G."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from quiesce import Completed, Concurrency, Graph, RunState, Runtime, Transition
from quiesce.errors import IllegalTransition, NodeError, NotResumable, QuiesceError

from .conftest import Open
from .sketch import Boom, Sketch

pytestmark = pytest.mark.anyio
PARALLEL = Concurrency.PARALLEL


async def test_an_error_in_a_node_fails_the_run_with_the_node_and_the_error_itself(opened: Open) -> None:
    """Case 88."""
    sketch = Sketch()
    sketch.graph.edge(sketch.start(), sketch.fails("bad"))
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        with pytest.raises(NodeError) as failed:
            await run.settled()
        assert (failed.value.node, failed.value.branch) == ("bad", 1)
        assert isinstance(failed.value.__cause__, Boom)
        status = await run.status()
        assert (status.state, status.error) == (RunState.FAILED, str(failed.value))
        with pytest.raises(NodeError) as again:
            await run.settled()
        assert again.value is failed.value


async def test_an_error_inside_a_fan_out_fails_the_run(opened: Open) -> None:
    """Case 89."""
    sketch = Sketch()
    start, a, join = sketch.start(), sketch.add("a"), sketch.sum()
    sketch.graph.join(a, into=join)
    sketch.fan_out(start, a, sketch.fails("bad"), join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        with pytest.raises(NodeError) as failed:
            await rt.run(sketch.graph, 1)
        assert (failed.value.node, failed.value.branch) == ("bad", 3)


@pytest.mark.parametrize("cause", [Boom("no"), "no"], ids=["error", "text"])
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a fan-out"])
async def test_a_transition_may_say_that_its_node_failed(
    opened: Open, cause: Exception | str, inside: bool
) -> None:
    """Case 90: a plain text will do."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.sum()
    bad = sketch.node("bad")
    sketch.graph.transition(bad)(lambda x: Transition.error(cause))
    if inside:
        sketch.fan_out(start, bad, join=join)
    else:
        sketch.graph.edge(start, bad)
    async with opened(sketch.graph) as rt:
        with pytest.raises(NodeError, match=r"node 'bad' failed: .*no") as failed:
            await rt.run(sketch.graph, 1)
        assert failed.value.__cause__ is (cause if isinstance(cause, Exception) else None)


async def test_an_error_raised_in_a_handler_or_a_map_fails_the_run_like_one_in_the_node(opened: Open) -> None:
    """Spec graph: an exception from a node or a transition handler fails the run with NodeError."""
    for broken in ("handler", "async handler", "map", "result"):
        sketch = Sketch()
        node = sketch.node("bad", start=True)

        def raises(x: int) -> Transition:
            raise Boom("in it")

        async def raises_later(x: int) -> Transition:
            raise Boom("in it")

        if broken == "map":
            sketch.graph.finish(node, map=raises)
        elif broken == "result":
            sketch.graph.transition(node)(lambda x: None)
        else:
            sketch.graph.transition(node)(raises if broken == "handler" else raises_later)
        async with opened(sketch.graph) as rt:
            told = "did it forget to return" if broken == "result" else "in it"
            with pytest.raises(NodeError, match=told) as failed:
                await rt.run(sketch.graph, 1)
            assert failed.value.node == "bad"


async def test_an_error_cancels_the_siblings_and_waits_for_them(opened: Open) -> None:
    """Case 91."""
    sketch = Sketch()
    begun, unwound, done = anyio.Event(), anyio.Event(), anyio.Event()

    async def slow(x: int) -> int:
        begun.set()
        try:
            await anyio.sleep_forever()
            done.set()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            unwound.set()
        return x

    async def bad(x: int) -> int:
        await begun.wait()
        raise Boom("at once")

    start, join = sketch.start(), sketch.sum()
    a, b = sketch.node("a", slow), sketch.node("b", bad)
    for branch in (a, b):
        sketch.graph.join(branch, into=join)
    sketch.fan_out(start, a, b, join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        with pytest.raises(NodeError, match="at once"):
            await rt.run(sketch.graph, 1)
        assert unwound.is_set()
        assert not done.is_set()


@pytest.mark.parametrize("order", ["bad good", "good bad"])
async def test_what_was_taken_with_a_failing_visit_has_begun(opened: Open, order: str) -> None:
    """Case 92 is optional: in the crate a synchronous sibling after the failing one never begins."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.sum()
    good = sketch.node("good")
    sketch.graph.join(good, into=join)
    sketch.fails("bad")
    sketch.fan_out(start, *order.split(), join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        with pytest.raises(NodeError):
            await rt.run(sketch.graph, 1)
    assert sketch.log == ["S(1)", *(f"{name}(1)" for name in order.split())]


async def test_a_sequential_sibling_after_the_failing_one_never_begins(opened: Open) -> None:
    """Case 93."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.sum()
    a, c = sketch.node("a"), sketch.node("c")
    for branch in (a, c):
        sketch.graph.join(branch, into=join)
    sketch.fan_out(start, a, sketch.fails("bad"), c, join=join)
    async with opened(sketch.graph) as rt:
        with pytest.raises(NodeError):
            await rt.run(sketch.graph, 1)
    assert sketch.log == ["S(1)", "a(1)", "bad(1)"]


async def test_a_node_error_that_a_node_raises_is_wrapped_like_any_other(opened: Open) -> None:
    """Case 94."""
    sketch = Sketch()
    inner = NodeError("elsewhere", 77, "inner")

    def raises(x: int) -> int:
        raise inner

    bad = sketch.node("bad", raises, start=True)
    sketch.graph.finish(bad)
    async with opened(sketch.graph) as rt:
        with pytest.raises(NodeError) as failed:
            await rt.run(sketch.graph, 1)
        assert (failed.value.node, failed.value.branch) == ("bad", 1)
        assert failed.value.__cause__ is inner


async def test_the_text_of_a_node_error_names_the_node_and_the_error(opened: Open) -> None:
    """Case 95, in our words."""
    sketch = Sketch()
    sketch.graph.edge(sketch.start(), sketch.fails("bad"))
    async with opened(sketch.graph) as rt:
        with pytest.raises(NodeError) as failed:
            await rt.run(sketch.graph, 1)
    assert str(failed.value) == "node 'bad' failed: Boom: boom"


async def test_cancelling_a_waiter_only_stops_the_waiting(opened: Open) -> None:
    """Case 96. Deviation: in the crate it loses the run."""
    sketch = Sketch()
    begun, go = anyio.Event(), anyio.Event()

    async def slow(x: int) -> int:
        begun.set()
        await go.wait()
        return x + 1

    sketch.graph.finish(sketch.node("slow", slow, start=True))
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        async with anyio.create_task_group() as group:
            group.start_soon(run.settled)
            await begun.wait()
            group.cancel_scope.cancel()
        assert (await run.status()).state is RunState.RUNNING
        go.set()
        assert await run.settled() == Completed(2)
    assert sketch.log == ["slow(1)"]


async def test_a_cancelled_run_unwinds_its_visits_and_another_run_goes(opened: Open) -> None:
    """Cases 96 and 98: the verb cancel ends the run, and a reset brings its input back."""
    sketch = Sketch()
    begun, unwound, block = anyio.Event(), list[int](), [True]

    async def slow(x: int) -> int:
        if not block:
            return x
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            unwound.append(x)
        raise AssertionError("nobody wakes it")

    start, join = sketch.start(), sketch.sum()
    a, b = sketch.node("a", slow), sketch.node("b", slow)
    for branch in (a, b):
        sketch.graph.join(branch, into=join)
    sketch.fan_out(start, a, b, join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await begun.wait()
        await run.cancel()
        with pytest.raises(QuiesceError, match="was cancelled"):
            await run.settled()
        assert unwound == [1, 1]
        with pytest.raises(NotResumable):
            await run.resume()
        block.clear()
        assert await rt.run(sketch.graph, 2) == Completed(4)
        await run.reset()
        await run.resume()
        assert await run.settled() == Completed(2)


class Stop(BaseException):
    """Not for a node's handlers."""


@pytest.mark.parametrize("how", ["sync", "async", "branch"])
async def test_a_base_exception_goes_through_the_runtime_and_the_run_can_be_continued(
    on_disk: Open, how: str
) -> None:
    """Case 99. Deviation: the run is not lost; whoever opens the store next continues it."""
    sketch = Sketch()
    stops = [True]

    def stop(x: int) -> int:
        if stops:
            raise Stop
        return x

    async def stop_later(x: int) -> int:
        await anyio.lowlevel.checkpoint()
        return stop(x)

    start, join = sketch.start(), sketch.sum()
    bad, other = sketch.node("bad", stop if how == "sync" else stop_later), sketch.node("other")
    for branch in (bad, other):
        sketch.graph.join(branch, into=join)
    if how == "branch":
        sketch.fan_out(start, bad, other, join=join, concurrency=PARALLEL)
    else:
        sketch.fan_out(start, bad, join=join)
    with pytest.raises(Stop):
        async with on_disk(sketch.graph) as rt:
            await rt.run(sketch.graph, 1, run_id="one")
    stops.clear()
    async with on_disk(sketch.graph) as rt:
        assert await rt.run(sketch.graph, 1) == Completed(2 if how == "branch" else 1)
        run = await rt.get("one")
        assert await run.settled() == Completed(2 if how == "branch" else 1)
    assert sketch.log.count("S(1)") == 2


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio nobody can raise its Cancelled
async def test_a_node_that_ends_as_cancelled_though_nobody_cancels_it_fails_the_run(
    anyio_backend: str,
) -> None:
    """A run that nothing drives any more would wait for ever: the cancellation is the node's own error."""
    sketch = Sketch()

    async def leaks(x: int) -> int:
        raise anyio.get_cancelled_exc_class()

    start, join = sketch.start(), sketch.sum()
    bad, other = sketch.node("bad", leaks), sketch.node("other")
    for branch in (bad, other):
        sketch.graph.join(branch, into=join)
    sketch.graph.transition(start)(
        lambda x: bad.next(x) if x == 0 else Transition.fan_out([(bad, x), (other, x)], join=join)
    )
    async with Runtime() as rt:
        for value in (0, 1):
            run = await rt.start(sketch.graph, value)
            with pytest.raises(NodeError, match="'bad' failed: CancelledError"):
                await run.settled()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_node_may_await_a_task_that_somebody_else_cancelled(anyio_backend: str) -> None:
    """The same, as it happens: an error of this node, and no other run is hurt."""
    graph = Graph("awaits")

    @graph.node(start=True)
    async def awaits(x: int) -> int:
        task = asyncio.ensure_future(anyio.sleep_forever())
        asyncio.get_running_loop().call_soon(task.cancel)
        await task
        return x

    graph.finish(awaits)
    async with Runtime() as rt:
        with pytest.raises(NodeError, match="CancelledError"):
            await rt.run(graph, 1)


async def test_a_failed_run_is_not_started_again_but_can_be_reset_or_retried(opened: Open) -> None:
    """Spec graph, table: failed, start -> IllegalTransition."""
    sketch = Sketch()
    sketch.graph.edge(sketch.start(), sketch.fails("bad"))
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1, run_id="one")
        with pytest.raises(NodeError):
            await run.settled()
        with pytest.raises(IllegalTransition, match="legal here: cancel, reset, retry"):
            await rt.start(sketch.graph, 5, run_id="one")
        await run.retry()
        with pytest.raises(NodeError):
            await run.settled()
    assert sketch.log == ["S(1)", "bad(1)", "bad(1)"]


async def test_a_retry_finds_the_failed_branch_its_siblings_and_open_holds_as_they_were(opened: Open) -> None:
    """Spec graph, "Pause", 6."""
    sketch = Sketch()
    start, join = sketch.start(), sketch.collect()
    gate = sketch.gate("gate", lambda x: Transition.join(join, x))
    broken, go = [True], anyio.Event()

    async def slow(x: int) -> int:
        await go.wait()
        if broken:
            raise Boom("once")
        return x + 1

    b, done, c = sketch.node("b", slow), sketch.node("done"), sketch.node("c", slow)
    for branch in (b, done, c):
        sketch.graph.join(branch, into=join)
    sketch.fan_out(start, "gate", b, done, join=join, concurrency=PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        while not (holds := await rt.holds(run.id)):
            await anyio.lowlevel.checkpoint()
        go.set()
        with pytest.raises(NodeError, match="once"):
            await run.settled()
        with pytest.raises(IllegalTransition, match="retry it first"):
            await rt.answer(holds[0].id, None)
        broken.clear()
        gate.open = True
        await run.retry()
        outcome = await run.settled()
        assert [hold.id for hold in await rt.holds(run.id)] == [holds[0].id]
        assert outcome != Completed([1, 2, 1])
        await run.resume()
        assert await run.settled() == Completed([1, 2, 1])
    assert sketch.log == ["S(1)", "gate(1)", "b(1)", "done(1)", "b(1)", "gate(1)", "join([1, 2, 1])"]
