"""What does a runtime drive, hand back, refuse and report?"""

from __future__ import annotations

import logging

import pytest
from anyio import create_task_group, wait_all_tasks_blocked

from quiesce import Completed, Graph, Run, Runtime
from quiesce.errors import FlowNotFound, QuiesceError

from .kinds import FAILURES, Kind, Stage
from .subject import Subject, paused

pytestmark = pytest.mark.anyio


async def test_leaving_hands_work_back_without_a_change(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: leaving it hands work back: no state or generation changes."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        await stage.wait_came()
        before = await run.status()
        assert before.worker is not None
        assert before.recoverable == "live"
    assert stage.cancelled == 1
    async with subject.open(drive=False) as rt:
        status = await rt.status(run.id)
        assert (status.state, status.generation, status.execution) == ("running", 1, 1)
        assert (status.worker, status.recoverable) == (None, "stored")


async def test_a_worker_of_the_flow_claims_what_was_handed_back(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: a runtime with flows=[…] claims queued runs of them and finishes them."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        await stage.wait_came()
    stage.open()
    async with subject.open(flow) as rt:
        assert await (await rt.get(run.id)).settled() == Completed(2)
        assert (stage.came, stage.left) == (2, 1)
        assert (await rt.status(run.id)).generation == 1


async def test_what_another_process_records_is_claimed_at_once(subject: Subject, kind: Kind) -> None:
    """spec engine, 6: a worker that waits is rung when there is something to drive."""
    flow = kind.adds()
    async with subject.open(flow) as worker:
        subject.needs(worker, "cross_process")
        async with subject.open(flow, drive=False) as rt:
            run = await rt.start(flow, 1)
            assert await run.settled() == Completed(2)
            worked = await worker.status(run.id)
            assert worked.generation == 1
        await subject.seen(worker, run.id, "completed")


async def test_a_verb_that_only_records_drives_nothing(subject: Subject, kind: Kind) -> None:
    """spec engine, 7 (--no-drive): what makes a run runnable is recorded, nothing more."""
    flow = kind.adds()
    async with subject.open(flow, drive=False) as rt:
        run = await rt.start(flow, 1)
        await wait_all_tasks_blocked()
        assert (await run.status()).state == "running"
        await run.pause()
        await run.resume()
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.generation, status.worker) == ("running", 3, None)
        assert kind.evaluated == []


async def test_two_workers_never_drive_the_same_run(subject: Subject, kind: Kind) -> None:
    """spec engine, 2 (lease): the right to drive it is one's at a time."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as one:
        subject.needs(one, "cross_process")
        async with subject.open(flow) as two:
            runs = [await (one, two)[number % 2].start(flow, number) for number in range(6)]
            await stage.wait_came(6)
            await wait_all_tasks_blocked()
            stage.open()
            for number, run in enumerate(runs):
                assert await run.result() == number + 1
            assert stage.came == 6


async def test_the_other_worker_takes_over_what_one_leaves(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: leaving hands work back, and whoever serves the flow is rung."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as two:
        subject.needs(two, "cross_process")
        async with subject.open(flow) as one:
            run = await one.start(flow, 1)
            await stage.wait_came()
        await stage.wait_came(2)
        stage.open()
        assert await (await two.get(run.id)).result() == 2


async def test_an_error_that_nobody_awaited_is_reported(
    subject: Subject, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    """spec engine, 5: leaving reports errors that nobody awaited, under the logger `quiesce`."""
    flow = kind.fails(ValueError("boom"))
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await subject.seen(rt, run.id, "failed")
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.name == "quiesce"
    assert run.id in record.getMessage()
    assert "boom" in record.getMessage()


async def test_an_error_that_somebody_awaited_is_not_reported(
    subject: Subject, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    """spec engine, 5: only what nobody awaited."""
    flow = kind.fails(ValueError("boom"))
    async with subject.open(flow) as rt:
        with pytest.raises(FAILURES):
            await rt.run(flow, 1)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_run_that_ends_with_its_memory_is_reported(
    subject: Subject, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    """spec engine, 5: leaving reports memory bodies that end; a durable store keeps them."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        run = await rt.start(flow, 1)
        await paused(run)
        survives = subject.capabilities(rt).survives_restart
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any(run.id in message for message in told) == (not survives)


async def test_a_runtime_that_is_not_open_says_so(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: an async context manager; before and after it there is nothing to ask."""
    flow = kind.adds()
    rt = Runtime(subject.target, flows=[flow], clock=subject.clock)
    with pytest.raises(QuiesceError, match="async with"):
        await rt.start(flow, 1)
    async with rt:
        run = await rt.start(flow, 1)
        await run.settled()
    for late in (rt.list(), run.status(), run.settled(), rt.start(flow, 1)):
        with pytest.raises(QuiesceError, match="async with"):
            await late


async def test_the_error_of_the_block_comes_out_as_it_is(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: no group around what the user's own code raises."""
    stage = Stage()
    flow = kind.works(stage)
    boom = KeyError("mine")

    async def block() -> None:
        async with subject.open(flow) as rt:
            await rt.start(flow, 1)
            await stage.wait_came()
            raise boom

    with pytest.raises(KeyError) as caught:
        await block()
    assert caught.value is boom
    assert stage.cancelled == 1


async def test_a_flow_that_no_process_could_find_again_is_refused(subject: Subject) -> None:
    """spec engine, 5: FlowNotFound, naming flows=, where a store outlives the process."""
    graph = Graph("local")

    @graph.node(start=True)
    def only(x: int) -> int:
        return x

    graph.finish(only)
    async with subject.open() as rt:
        subject.needs(rt, "survives_restart")
        with pytest.raises(FlowNotFound, match="flows="):
            await rt.start(graph, 1)
        assert list(await rt.list()) == []


async def test_a_run_whose_flow_is_not_at_hand_is_not_made_runnable(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: FlowNotFound naming flows= if the stored flow cannot be imported; nothing changes."""
    flow = kind.asks()
    async with subject.open(flow) as rt:
        subject.needs(rt, "survives_restart")
        run = await rt.start(flow, 1)
        (hold,) = (await paused(run)).holds
    async with subject.open() as rt:
        there = Run(rt, run.id)
        for verb in (lambda: rt.answer(hold.id, 1), there.resume):
            async with subject.refused(rt, FlowNotFound, there) as caught:
                await verb()
            assert "flows=" in str(caught.value)
        ack = await there.pause()  # which makes nothing runnable
        assert ack.locked
        await there.cancel()


async def test_many_runs_at_a_time_are_all_driven(subject: Subject, kind: Kind) -> None:
    """spec engine, 5: a runtime drives what it starts, each in its own right."""
    stage = Stage()
    flow = kind.works(stage)
    async with subject.open(flow) as rt:
        runs: list[Run] = []

        async def start(number: int) -> None:
            runs.append(await rt.start(flow, number, run_id=f"run {number}".replace(" ", "-")))

        async with create_task_group() as group:
            for number in range(20):
                group.start_soon(start, number)
        await stage.wait_came(20)
        stage.open()
        values = {run.id: await run.result() for run in runs}
        assert values == {f"run-{number}": number + 1 for number in range(20)}


@pytest.mark.parametrize("run_id", ["", "a b", "x" * 201, "a\n", "\x1b[2J"])
async def test_a_run_id_can_be_printed_and_typed(subject: Subject, kind: Kind, run_id: str) -> None:
    """A run id is what a person types; what cannot be typed is refused before anything exists."""
    flow = kind.adds()
    async with subject.open(flow) as rt:
        for refused in (rt.start(flow, 1, run_id=run_id), rt.create(flow, run_id)):
            with pytest.raises(QuiesceError, match="run id"):
                await refused
        assert list(await rt.list()) == []
