"""How is one node evaluated: tries, time-outs, threads, context? Source: spec graph, "Model"."""

from __future__ import annotations

import threading
from contextlib import aclosing

import anyio
import pytest

from quiesce import Completed, Concurrency, Graph, NodeContext, Paused, Transition
from quiesce.clock import ManualClock
from quiesce.errors import GraphError, NodeError

from .conftest import Open
from .sketch import Boom, Sketch

pytestmark = pytest.mark.anyio


class Ticking(ManualClock):
    """A manual clock that says when somebody sleeps on it, and for how long."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep: list[float] = []
        self._slept = anyio.Event()

    async def sleep(self, seconds: float) -> None:
        self.asleep.append(seconds)
        self._slept.set()
        await super().sleep(seconds)

    async def slept(self) -> float:
        """Wait for the next sleeper; for how long it sleeps."""
        while not self.asleep:
            self._slept = anyio.Event()
            await self._slept.wait()
        return self.asleep.pop(0)


async def test_a_node_is_tried_again_with_doubling_backoff_as_often_as_it_says(opened: Open) -> None:
    """Node retries: each waits twice as long as the one before, by the injected clock."""
    graph, clock, attempts = Graph("tries"), Ticking(), list[int]()

    @graph.node(start=True, retries=3, backoff=0.5)
    def flaky(x: int, ctx: NodeContext) -> int:
        attempts.append(ctx.attempt)
        if ctx.attempt < 4:
            raise Boom(f"attempt {ctx.attempt}")
        return x

    graph.finish(flaky)
    async with opened(graph, clock=clock) as rt:
        run = await rt.start(graph, 1)
        for seconds in (0.5, 1.0, 2.0):
            assert await clock.slept() == seconds
            clock.advance(seconds)
        assert await run.settled() == Completed(1)
    assert attempts == [1, 2, 3, 4]


async def test_the_last_error_fails_the_run_when_all_tries_are_used_up(opened: Open) -> None:
    """Node retries."""
    graph, attempts = Graph("tries"), list[int]()

    @graph.node(start=True, retries=2)
    async def bad(x: int, ctx: NodeContext) -> int:
        attempts.append(ctx.attempt)
        raise Boom(f"attempt {ctx.attempt}")

    graph.finish(bad)
    async with opened(graph) as rt:
        run = await rt.start(graph, 1)
        with pytest.raises(NodeError, match="attempt 3"):
            await run.settled()
        assert attempts == [1, 2, 3]
        await run.retry()
        with pytest.raises(NodeError, match="attempt 3"):
            await run.settled()
    assert attempts == [1, 2, 3] * 2


async def test_a_pause_ends_a_backoff_and_the_resume_goes_on_with_the_next_try(opened: Open) -> None:
    """Spec graph, "Pause", 2: a try that has not begun does not begin after the fence."""
    graph, clock, attempts = Graph("tries"), Ticking(), list[int]()

    @graph.node(start=True, retries=1, backoff=60.0)
    def flaky(x: int, ctx: NodeContext) -> int:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            raise Boom("once")
        return x

    graph.finish(flaky)
    async with opened(graph, clock=clock) as rt:
        run = await rt.start(graph, 1)
        assert await clock.slept() == 60.0
        await run.pause()
        assert isinstance(await run.settled(), Paused)
        assert attempts == [1]
        await run.resume()
        assert await run.settled() == Completed(1)
    assert attempts == [1, 2]


async def test_another_event_of_the_run_cuts_no_backoff_short(opened: Open) -> None:
    """A driver that is told to look again finds that its run just goes on."""
    graph, clock, attempts = Graph("tries"), Ticking(), list[int]()

    @graph.node(start=True)
    def start(x: int) -> int:
        return x

    @graph.node(retries=1, backoff=60.0)
    def flaky(x: int, ctx: NodeContext) -> int:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            raise Boom("once")
        return x

    inner = Graph("inner")
    inner.finish(inner.node(lambda x: x, name="a", start=True))
    child = graph.node(inner)
    join = graph.node(lambda brought: sum(brought), name="join")
    graph.transition(start)(
        lambda x: Transition.fan_out([(flaky, x), (child, x)], join=join, concurrency=Concurrency.PARALLEL)
    )
    for branch in (flaky, child):
        graph.join(branch, into=join)
    graph.finish(join)
    async with opened(graph, inner, clock=clock) as rt:
        run = await rt.start(graph, 1)
        assert await clock.slept() == 60.0
        async with aclosing(rt.events(run.id)) as events:
            async for event in events:
                if event.kind == "child-ended":
                    break
        assert attempts == [1]
        clock.advance(60.0)
        assert await run.settled() == Completed(2)
    assert attempts == [1, 2]


@pytest.mark.parametrize("retries", [0, 1])
async def test_a_time_out_ends_a_try(opened: Open, retries: int) -> None:
    """`timeout` per node, by the injected clock; it counts as an error like any other."""
    graph, clock, unwound = Graph("slow"), Ticking(), list[int]()

    @graph.node(start=True, timeout=5.0, retries=retries)
    async def slow(x: int, ctx: NodeContext) -> int:
        if ctx.attempt == 2:
            return x
        try:
            await anyio.sleep_forever()
        finally:
            unwound.append(ctx.attempt)
        return x

    graph.finish(slow)
    async with opened(graph, clock=clock) as rt:
        run = await rt.start(graph, 1)
        assert await clock.slept() == 5.0
        assert unwound == []
        clock.advance(5.0)
        if retries:
            assert await run.settled() == Completed(1)
        else:
            told = "node 'slow' failed: TimeoutError: it took longer than its time-out of 5 s"
            with pytest.raises(NodeError, match=told) as failed:
                await run.settled()
            assert isinstance(failed.value.__cause__, TimeoutError)
    assert unwound == [1]


async def test_a_time_out_of_the_nodes_own_is_its_own_error(opened: Open) -> None:
    """A TimeoutError that a node raises is not taken for that of the runtime."""
    graph = Graph("own")

    @graph.node(start=True, timeout=60.0)
    async def slow(x: int) -> int:
        raise TimeoutError("the other side is slow")

    graph.finish(slow)
    async with opened(graph) as rt:
        with pytest.raises(NodeError, match="TimeoutError: the other side is slow"):
            await rt.run(graph, 1)


async def test_a_blocking_node_runs_in_a_thread_and_the_loop_goes_on(opened: Open) -> None:
    """`blocking=True`: two of them can wait for each other, and for what the loop does."""
    sketch = Sketch(Concurrency.PARALLEL)
    meeting, threads = threading.Barrier(3, timeout=30), set[int]()

    def meets(x: int) -> int:
        threads.add(threading.get_ident())
        meeting.wait()
        return x + 1

    async def lets(x: int) -> int:
        await anyio.to_thread.run_sync(meeting.wait)
        return x

    start, join = sketch.start(), sketch.sum()
    a, b = sketch.node("a", meets, blocking=True), sketch.node("b", meets, blocking=True)
    c = sketch.node("c", lets)
    for branch in (a, b, c):
        sketch.graph.join(branch, into=join)
    sketch.fan_out(start, a, b, c, join=join)
    async with opened(sketch.graph) as rt:
        assert await rt.run(sketch.graph, 1) == Completed(5)
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_a_blocking_node_that_takes_too_long_is_given_up(opened: Open) -> None:
    """A thread cannot be stopped: its result is dropped."""
    graph, clock = Graph("stuck"), Ticking()
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    @graph.node(start=True, blocking=True, timeout=5.0)
    def stuck(x: int) -> int:
        begun.set()
        go.wait(30)
        ended.set()
        return x

    graph.finish(stuck)
    async with opened(graph, clock=clock) as rt:
        run = await rt.start(graph, 1)
        assert await clock.slept() == 5.0
        assert await anyio.to_thread.run_sync(begun.wait, 30)
        clock.advance(5.0)
        try:
            with pytest.raises(NodeError, match="TimeoutError"):
                await run.settled()
        finally:
            go.set()
        assert await anyio.to_thread.run_sync(ended.wait, 30)


def test_what_cannot_be_timed_out_is_refused_when_it_is_registered() -> None:
    """Spec engine, 5: what cannot be done is refused with a clear error, never silently different."""
    graph = Graph("sync")
    with pytest.raises(GraphError, match="blocking=True"):

        @graph.node(start=True, timeout=1.0)
        def busy(x: int) -> int:
            return x


async def test_a_node_may_look_at_its_run_branch_and_attempt(opened: Open) -> None:
    """NodeContext: `run, branch, attempt, answered, answer, rejected`."""
    graph, seen = Graph("context"), list[NodeContext]()

    @graph.node(start=True)
    def start(x: int, ctx: NodeContext) -> int:
        seen.append(ctx)
        with pytest.raises(GraphError, match=r"see ctx.answered first"):
            ctx.answer  # noqa: B018
        return x

    @graph.transition(start)
    def decide(x: int, ctx: NodeContext) -> Transition:
        seen.append(ctx)
        return Transition.finish(ctx.branch)

    async with opened(graph) as rt:
        run = await rt.start(graph, 1)
        assert await run.settled() == Completed(1)
        ids = {ctx.run if isinstance(ctx.run, str) else ctx.run.id for ctx in seen}
        assert ids == {run.id}
    assert seen[0] is seen[1]
    assert (seen[0].branch, seen[0].attempt, seen[0].answered, seen[0].rejected) == (1, 1, False, None)


async def test_an_object_with_evaluate_may_be_async_and_take_the_context(opened: Open) -> None:
    """A node is a function or an object with `evaluate`."""

    class Adds:
        def __init__(self, n: int) -> None:
            self.n = n

        async def evaluate(self, x: int, ctx: NodeContext) -> int:
            await anyio.lowlevel.checkpoint()
            return x + self.n + ctx.branch

    graph = Graph("objects")
    first, second = graph.node(Adds(10), name="first", start=True), graph.node(Adds(100), name="second")
    graph.edge(first, second)
    graph.finish(second)
    async with opened(graph) as rt:
        assert await rt.run(graph, 1) == Completed(113)


async def test_a_result_that_the_store_cannot_keep_fails_the_run_and_names_the_node(on_disk: Open) -> None:
    """Spec engine, 6: what does not round-trip is refused at save, with the place."""
    graph = Graph("unstorable")

    @graph.node(start=True)
    def start(x: int) -> object:
        return object()

    @graph.node
    def last(x: object) -> int:
        return 1

    graph.edge(start, last)
    graph.finish(last)
    async with on_disk(graph) as rt:
        with pytest.raises(NodeError, match="input of node 'last' cannot be stored"):
            await rt.run(graph, 1)


async def test_an_operators_pause_lets_the_visits_in_flight_end_and_starts_no_other(opened: Open) -> None:
    """Spec graph, "Pause", 8."""
    sketch = Sketch()
    begun, go = anyio.Event(), anyio.Event()

    async def slow(x: int) -> int:
        begun.set()
        await go.wait()
        return x + 1

    first, second = sketch.node("first", slow, start=True), sketch.add("second")
    sketch.graph.edge(first, second)
    sketch.graph.finish(second)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await begun.wait()
        ack = await run.pause(reason="lunch", actor="ann")
        assert (ack.transitioned, ack.captured, ack.draining) == (True, 1, 1)
        go.set()
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert (outcome.reason, outcome.holds) == ("lunch", ())
        assert sketch.log == ["first(1)"]
        assert await outcome.resume() == Completed(3)
    assert sketch.log == ["first(1)", "second(2)"]


async def test_a_run_that_ends_while_it_is_paused_has_ended(opened: Open) -> None:
    """Spec engine, 3: a completion under way at the fence is applied, and the episode closes as ended."""
    sketch = Sketch()
    begun, go = anyio.Event(), anyio.Event()

    async def slow(x: int) -> int:
        begun.set()
        await go.wait()
        return x + 1

    sketch.graph.finish(sketch.node("only", slow, start=True))
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await begun.wait()
        ack = await run.pause()
        go.set()
        assert await run.settled() == Completed(2)
        assert ack.episode_id is not None
        assert [receipt.drain for receipt in await rt.receipts(ack.episode_id)] == ["released"]
