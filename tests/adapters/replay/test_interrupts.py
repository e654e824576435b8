"""What if a verb comes while a visit is awaited, or while one still unwinds?

A run with a single branch awaits its visit in the driver itself; with several, each has a task. Both must
hear a cancel, a reset and a retry, and what still unwinds must not be driven beside what goes on.
"""

from __future__ import annotations

import anyio
import pytest

from quiesce import Completed, Concurrency, Paused, Run, RunState
from quiesce.errors import NodeError, RunCancelled

from .conftest import Open
from .sketch import Boom, Node, Sketch

pytestmark = pytest.mark.anyio


class Unwinding:
    """A node that waits for ever the first time, and takes its time to unwind."""

    def __init__(self, sketch: Sketch, *, alone: bool) -> None:
        self.sketch = sketch
        self.begun, self.unwinds, self.go = anyio.Event(), anyio.Event(), anyio.Event()
        self.waits = True
        start, join = sketch.start(), sketch.sum()
        self.slow, self.other = sketch.node("slow", self._slow), sketch.node("other", self._other)
        self.broken = False
        for branch in (self.slow, self.other):
            sketch.graph.join(branch, into=join)
        targets: list[Node] = [self.slow] if alone else [self.slow, self.other]
        sketch.fan_out(start, *targets, join=join, concurrency=Concurrency.PARALLEL)

    async def _slow(self, x: int) -> int:
        if not self.waits:
            return x
        self.begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.unwinds.set()
            with anyio.CancelScope(shield=True):
                await self.go.wait()
            self.sketch.log.append("unwound")
        return x

    async def _other(self, x: int) -> int:
        await self.begun.wait()
        if self.broken:
            raise Boom("beside it")
        return x


@pytest.fixture(params=[True, False], ids=["alone", "beside another"])
def unwinding(request: pytest.FixtureRequest) -> Unwinding:
    return Unwinding(Sketch(), alone=request.param)


async def started(unwinding: Unwinding, rt: object) -> Run:
    run = await rt.start(unwinding.sketch.graph, 1)  # type: ignore[attr-defined]
    await unwinding.begun.wait()
    return run  # type: ignore[no-any-return]


async def test_a_cancel_unwinds_the_visit_and_a_waiter_is_told_when_it_has(
    opened: Open, unwinding: Unwinding
) -> None:
    """Spec engine, 4 (cancel); the phase is `cancelling` until then."""
    async with opened(unwinding.sketch.graph) as rt:
        run = await started(unwinding, rt)
        await run.cancel()
        await unwinding.unwinds.wait()
        status = await run.status()
        assert (status.state, status.phase) == (RunState.CANCELLED, "cancelling")
        unwinding.go.set()
        with pytest.raises(RunCancelled):
            await run.settled()
        assert unwinding.sketch.log[-1] == "unwound"


async def test_a_reset_run_goes_on_when_what_it_ran_before_has_unwound(
    opened: Open, unwinding: Unwinding
) -> None:
    """Spec engine, 4 (reset): the next execution starts from the beginning, never beside the last one."""
    async with opened(unwinding.sketch.graph) as rt:
        run = await started(unwinding, rt)
        await run.reset()
        unwinding.waits = False
        await run.resume()
        await unwinding.unwinds.wait()
        assert unwinding.sketch.log.count("S(1)") == 1
        unwinding.go.set()
        await run.settled()
        log = unwinding.sketch.log
        assert log.count("S(1)") == 2
        assert log.index("unwound") < len(log) - 1 - log[::-1].index("S(1)")


async def test_a_retry_waits_for_the_siblings_of_the_failed_visit_to_unwind(opened: Open) -> None:
    """Spec engine, 4 (retry): visits in flight are cancelled and queued again."""
    unwinding = Unwinding(Sketch(), alone=False)
    unwinding.broken = True
    async with opened(unwinding.sketch.graph) as rt:
        run = await started(unwinding, rt)
        await unwinding.unwinds.wait()
        assert (await run.status()).state is RunState.FAILED
        unwinding.waits = unwinding.broken = False
        await run.retry()
        unwinding.go.set()
        assert await run.settled() == Completed(2)
        log = unwinding.sketch.log
        assert log.count("S(1)") == 1
        assert log.index("unwound") < len(log) - 1 - log[::-1].index("slow(1)")


@pytest.mark.parametrize("alone", [True, False])
async def test_an_error_in_flight_at_the_fence_fails_the_paused_run(opened: Open, alone: bool) -> None:
    """Spec engine, 3: a failure that arrives while a graph is paused is applied."""
    sketch = Sketch()
    begun, go = anyio.Event(), anyio.Event()

    async def bad(x: int) -> int:
        begun.set()
        await go.wait()
        raise Boom("late")

    start, join = sketch.start(), sketch.sum()
    b, other = sketch.node("bad", bad), sketch.node("other")
    for branch in (b, other):
        sketch.graph.join(branch, into=join)
    sketch.fan_out(start, *([b] if alone else [b, other]), join=join, concurrency=Concurrency.PARALLEL)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await begun.wait()
        ack = await run.pause()
        assert ack.episode_id is not None
        go.set()
        with pytest.raises(NodeError, match="late"):
            await run.settled()
        status = await run.status()
        assert (status.state, status.locks, status.episode_id) == (RunState.FAILED, (), None)
        drained = [receipt.drain for receipt in await rt.receipts(ack.episode_id) if receipt.name == "bad"]
        assert drained == ["released"]


async def test_a_visit_that_outlasts_a_resume_is_neither_lost_nor_begun_again(opened: Open) -> None:
    """Spec engine, 4: a piece that still drains keeps its lease, and is applied under the new generation."""
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
        for _ in range(3):
            assert (await run.pause()).draining == 1
            assert (await run.resume()).transitioned
        go.set()
        assert await run.settled() == Completed(3)
        assert (await run.status()).generation == 7
    assert sketch.log == ["first(1)", "second(2)"]


async def test_leaving_the_runtime_hands_a_visit_back_and_it_is_evaluated_again(on_disk: Open) -> None:
    """Spec engine, 5 (Runtime); a visit in flight is evaluated at least once."""
    unwinding = Unwinding(Sketch(), alone=False)
    unwinding.go.set()
    async with on_disk(unwinding.sketch.graph) as rt:
        run = await started(unwinding, rt)
        while "other(1)" not in unwinding.sketch.log:
            await anyio.lowlevel.checkpoint()
        before = await run.status()
    unwinding.waits = False
    async with on_disk(unwinding.sketch.graph) as rt:
        run = await rt.get(run.id)
        assert await run.settled() == Completed(2)
        assert (await run.status()).generation == before.generation
    assert unwinding.sketch.log.count("S(1)") == 1
    assert unwinding.sketch.log.count("slow(1)") == 2


async def test_a_paused_run_is_still_paused_when_the_runtime_is_left_while_it_drains(on_disk: Open) -> None:
    """Nothing changes state by leaving; the visit is absent then, and a resume evaluates it again."""
    unwinding = Unwinding(Sketch(), alone=True)
    unwinding.go.set()
    async with on_disk(unwinding.sketch.graph) as rt:
        run = await started(unwinding, rt)
        await run.pause()
    unwinding.waits = False
    async with on_disk(unwinding.sketch.graph) as rt:
        run = await rt.get(run.id)
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert (await run.status()).phase == "quiescent"
        assert await outcome.resume() == Completed(1)


async def test_what_loses_a_race_while_its_run_is_paused_is_not_waited_for(opened: Open) -> None:
    """Spec engine, 3 and 4: the result of a visit is applied under the fence; nothing else runs then."""
    sketch = Sketch()
    begun, go = anyio.Event(), anyio.Event()

    async def slow(x: int) -> int:
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError("nobody wakes it")

    async def quick(x: int) -> int:
        await go.wait()
        return x + 1

    start, join = sketch.start(), sketch.collect()
    racing, other = sketch.node("racing"), sketch.add("other", 10)
    a, b = sketch.node("a", slow), sketch.node("b", quick)
    sketch.fan_out(start, racing, other, join=join, concurrency=Concurrency.PARALLEL)
    sketch.fan_out(racing, a, b, join=None)
    for branch in (a, b):
        sketch.graph.finish(branch)
    sketch.graph.join(other, into=join)
    async with opened(sketch.graph) as rt:
        run = await rt.start(sketch.graph, 1)
        await begun.wait()
        await anyio.wait_all_tasks_blocked()
        ack = await run.pause()
        assert ack.draining == 2
        go.set()
        with anyio.fail_after(5):
            outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert (await run.status()).phase == "quiescent"
        assert {receipt.drain for receipt in await rt.receipts(outcome.episode)} == {"released"}
        assert await outcome.resume() == Completed([2, 11])
