"""Does what users of durable engines reported happen here: stale pauses, lost or doubled work, wrong owners?

Each test is named for its entry in the cases. What only several processes can show of an entry is in
`test_processes.py`, `test_kills.py` and `test_bad_stores.py`. The entries on SQLite are in the file beside
this one.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio import create_task_group, fail_after, wait_all_tasks_blocked

from quiesce import Completed, Paused, Run, RunState, Runtime
from quiesce.errors import (
    AlreadyAnswered,
    AmbiguousAnswer,
    IllegalTransition,
    RequestConflict,
    RunCancelled,
)

from .framework_flows import batch, by_gate, payment
from .model_flow import LIMIT, VISITS, story
from .sessions import Sessions, events_of, paused

import fault_flows as flows  # isort: skip

pytestmark = pytest.mark.anyio
ENTRIES = {1, 2, 3, 4, 5, 8, 9, 10, 12, 16, 20, 33, 34, 35, 61, 62, 65, 67, 69, 70}
"""The entries of the cases that this file and the one beside it show for graphs."""


@pytest.fixture(autouse=True)
def no_visits() -> Iterator[None]:
    VISITS.clear()
    yield
    VISITS.clear()


async def working(rt: Runtime, run_id: str = "r") -> Run:
    """A run whose first visit is in flight."""
    run = await rt.start(story, 0, run_id=run_id)
    await wait_all_tasks_blocked()
    assert in_flight(run_id) == 1
    return run


def in_flight(run_id: str = "r") -> int:
    return sum(not visit.over for visit in VISITS[run_id])


async def end_visit(run_id: str = "r", *, fails: bool = False) -> None:
    VISITS[run_id][-1].end(fails=fails)
    await wait_all_tasks_blocked()


async def kinds(rt: Runtime, run_id: str = "r") -> Counter[str]:
    return Counter(event.kind for event in await events_of(rt, run_id))


# --- pause, resume, status ------------------------------------------------------------------------------


async def test_durable_engine_case_01_after_a_pause_no_step_starts_and_status_agrees(
    sessions: Sessions,
) -> None:
    """Source: cases failures-durable-engines 01."""
    async with sessions:
        rt = await sessions.next(story)
        run = await working(rt)
        ack = await run.pause(reason="hold on")
        await end_visit()  # the step in flight completes under the fence
        status = await run.status()
        assert (status.state, status.generation) == (RunState.PAUSED, ack.generation)
        assert [lock.reason for lock in status.locks] == ["hold on"]
        assert status.phase == "quiescent"
        assert (await kinds(rt))["asked"] == 0  # the gate, which is next, did not begin
        assert (await run.resume()).transitioned
        assert isinstance(await run.settled(), Paused)


async def test_durable_engine_case_02_a_late_retry_of_a_verb_changes_nothing(sessions: Sessions) -> None:
    """Source: cases failures-durable-engines 02."""
    async with sessions:
        rt = await sessions.next(story)
        run = await working(rt)
        first = await run.pause(request_id="pause")
        lifted = await run.resume(request_id="resume")
        for _ in range(2):
            assert (await run.pause(request_id="pause")).model_dump() == first.model_dump() | {
                "replayed": True
            }
            assert (await run.resume(request_id="resume")).generation == lifted.generation
        assert (await run.status()).state is RunState.RUNNING
        with pytest.raises(RequestConflict):
            await run.cancel(request_id="pause")

        await run.reset(request_id="reset")  # and across a restart as a new execution
        await run.resume(request_id="again")
        rt = await sessions.next(story)
        run = await rt.get("r")
        assert (await run.pause(request_id="pause")).replayed
        assert (await run.reset(request_id="reset")).replayed
        status = await run.status()
        assert (status.state, status.execution) == (RunState.RUNNING, 2)


async def test_durable_engine_case_03_a_deadline_shows_and_runs_on_while_paused(sessions: Sessions) -> None:
    """Source: cases failures-durable-engines 03."""
    async with sessions:
        rt = await sessions.next(story)
        run = await working(rt)
        await end_visit()
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        (hold,) = outcome.holds
        assert hold.deadline is not None
        assert (hold.deadline - hold.opened_at).total_seconds() == LIMIT
        await run.pause()
        sessions.clock.advance(LIMIT)
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, {lock.kind for lock in status.locks}) == (RunState.PAUSED, {"operator"})
        await run.resume()  # it acts when the lock is lifted
        assert await run.settled() == Completed(1)


async def test_durable_engine_case_04_a_pause_from_outside_drains_until_the_boundary(
    sessions: Sessions,
) -> None:
    """Source: cases failures-durable-engines 04."""
    async with sessions:
        rt = await sessions.next(story)
        run = await working(rt)
        await run.pause()
        status = await run.status()
        assert (status.state, status.phase, status.draining) == (RunState.PAUSED, "draining", 1)
        await end_visit()
        assert (await run.status()).phase == "quiescent"
        assert in_flight() == 0
        assert (await run.resume()).transitioned


async def test_durable_engine_case_05_a_pause_is_no_failure(sessions: Sessions) -> None:
    """Source: cases failures-durable-engines 05."""
    async with sessions:
        rt = await sessions.next(story)
        run = await working(rt)
        await run.pause()
        await end_visit()
        assert isinstance(await run.settled(), Paused)
        seen = await kinds(rt)
        assert (seen["failed"], seen["cancelled"], seen["completed"]) == (0, 0, 0)
        assert (await run.status()).error is None
        await run.resume()


async def test_durable_engine_case_08_a_timer_of_an_answered_question_never_fires(sessions: Sessions) -> None:
    """Source: cases failures-durable-engines 08."""
    async with sessions:
        rt = await sessions.next(story)
        run = await working(rt)
        await end_visit()
        sessions.clock.advance(LIMIT / 2)
        await run.answer(1)
        await wait_all_tasks_blocked()
        assert in_flight() == 1  # the later step lasts longer than the timer
        sessions.clock.advance(LIMIT)
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.generation, in_flight()) == (RunState.RUNNING, 3, 1)
        (first,) = await rt.holds("r", state="answered")
        assert (first.answer, first.answered_by) != (0, "deadline")
        await end_visit()
        outcome = await run.settled()
        assert isinstance(outcome, Paused)
        assert outcome.holds[0].id != first.id


async def test_durable_engine_case_09_a_late_timeout_never_changes_an_ended_run(sessions: Sessions) -> None:
    """Source: cases failures-durable-engines 09."""
    async with sessions:
        rt = await sessions.next(story)
        run = await working(rt)
        await end_visit()
        await run.answer(0)
        assert await run.settled() == Completed(1)
        before = await run.status()
        sessions.clock.advance(2 * LIMIT)
        await wait_all_tasks_blocked()
        assert await run.status() == before


async def many_short_pauses(rt: Runtime, count: int) -> None:
    async def one(n: int) -> None:
        run = await rt.start(flows.linear, n, run_id=f"r{n}")
        await run.pause(request_id="p")
        await run.resume(request_id="u")
        while isinstance(outcome := await run.settled(), Paused):
            for hold in outcome.holds:
                await run.answer(True, hold=hold.id, request_id="a")
        assert outcome == Completed((n + 1) * 10)

    async with create_task_group() as group:
        for n in range(count):
            group.start_soon(one, n)


async def test_durable_engine_case_10_many_short_pauses_lose_nothing(sessions: Sessions) -> None:
    """Source: cases failures-durable-engines 10."""
    async with sessions:
        await many_short_pauses(await sessions.next(flows.linear), 150)


@pytest.mark.slow
async def test_durable_engine_case_10_ten_thousand_short_pauses_lose_nothing(sessions: Sessions) -> None:
    """Source: cases failures-durable-engines 10."""
    async with sessions:
        rt = await sessions.next(flows.linear)
        await many_short_pauses(rt, 10_000)


@pytest.mark.parametrize("at", ["visit", "question", "operator"])
async def test_durable_engine_case_12_cancel_ends_a_run_in_every_state(sessions: Sessions, at: str) -> None:
    """Source: cases failures-durable-engines 12."""
    async with sessions:
        rt = await sessions.next(story)
        run = await working(rt)
        if at == "question":
            await end_visit()
        if at == "operator":
            await run.pause()
        await run.cancel()
        with fail_after(10), pytest.raises(RunCancelled):
            await run.settled()
        assert in_flight() == 0
        assert await rt.holds("r") == []
        for verb in (run.pause, run.cancel, run.resume, run.retry):
            with pytest.raises(IllegalTransition):
                await verb()


async def test_durable_engine_case_16_a_bare_answer_to_two_questions_is_refused(sessions: Sessions) -> None:
    """Source: cases failures-durable-engines 16."""
    flow = batch([], expects=str)
    async with sessions:
        rt = await sessions.next(flow)
        run = await rt.start(flow, 1, run_id="r")
        holds = by_gate(await paused(rt, "r"))
        with pytest.raises(AmbiguousAnswer):
            await run.resume("which?")
        await run.resume("for b", hold=holds["b"])
        await paused(rt, "r")
        await run.resume("for a")
        assert await run.settled() == Completed(["for a", "for b", "c"])


@pytest.mark.parametrize("answer", [None, False, 0, "", [], {}], ids=repr)
async def test_durable_engine_case_20_a_falsy_answer_is_an_answer(sessions: Sessions, answer: Any) -> None:
    """Source: cases failures-durable-engines 20."""
    done: list[str] = []
    flow = payment(done, expects=None)
    async with sessions:
        rt = await sessions.next(flow)
        await rt.start(flow, 1, run_id="r")
        (hold,) = (await paused(rt, "r")).holds
        rt = await sessions.next(flow)
        await rt.answer(hold.id, answer)
        assert await Run(rt, "r").settled() == Completed("kept")  # it was not taken for a yes
        assert done == ["draft"]
        (told,) = await rt.holds("r", state="answered")
        assert told.answer == answer
        assert type(told.answer) is type(answer)


# --- owners -----------------------------------------------------------------------------------------------


async def test_durable_engine_case_33_two_workers_on_one_file_run_nothing_twice(db: Path) -> None:
    """Source: cases failures-durable-engines 33."""
    async with (
        Runtime(db, flows=[flows.short], durability="normal") as one,
        Runtime(db, flows=[flows.short], durability="normal") as two,
    ):
        async with create_task_group() as group:
            for n in range(60):
                group.start_soon(lambda n=n: (one, two)[n % 2].start(flows.short, n, run_id=f"r{n}"))
        for n in range(60):
            with fail_after(20):
                assert await Run((two, one)[n % 2], f"r{n}").settled() == Completed(n * 3)
        for n in range(60):
            seen = await kinds(one, f"r{n}")
            assert (seen["visit"], seen["claimed"], seen["completed"]) == (3, 1, 1)


async def test_durable_engine_case_34_of_two_that_recover_one_run_one_has_it(db: Path) -> None:
    """Source: cases failures-durable-engines 34."""
    async with Runtime(db, flows=[story], drive=False) as rt:
        await rt.start(story, 0, run_id="r")
    async with create_task_group() as group:
        ends: list[Any] = []

        async def recover() -> None:
            async with Runtime(db, flows=[story]) as rt:
                ends.append(await Run(rt, "r").settled())

        group.start_soon(recover)
        group.start_soon(recover)
        await wait_all_tasks_blocked()
        assert len(VISITS["r"]) == 1
        await end_visit()
    assert [type(end) for end in ends] == [Paused, Paused]
    async with Runtime(db, drive=False) as rt:
        assert (await kinds(rt))["claimed"] == 1


@pytest.mark.parametrize("how", ["cancelled", "taken over", "reset"])
async def test_durable_engine_case_35_a_late_worker_overwrites_nothing(db: Path, how: str) -> None:
    """Source: cases failures-durable-engines 35."""
    async with Runtime(db, flows=[story]) as late:
        await working(late)
        async with Runtime(db, flows=[story]) as rt:
            run = await rt.get("r")
            if how == "cancelled":
                await run.cancel()
            elif how == "reset":
                await run.reset()
            else:
                await run.takeover()
                await wait_all_tasks_blocked()
            before = await run.status()
            VISITS["r"][0].end(fails=False)  # the first worker's body goes on, whoever has the run
            await wait_all_tasks_blocked()
            after = await run.status()
            assert (after.state, after.generation, after.result) == (before.state, before.generation, None)
            if how == "taken over":
                await end_visit()
                (hold,) = (await paused(rt, "r")).holds
                await rt.answer(hold.id, 0)
                with pytest.raises(AlreadyAnswered):
                    await late.answer(hold.id, 1)
                assert await run.settled() == Completed(1)
            assert (await kinds(rt))["asked"] == (how == "taken over")


# --- all of them ------------------------------------------------------------------------------------------


def named_by_entry() -> list[tuple[int, str, str]]:
    """Each test that has the name of an entry: its number, its name, its docstring."""
    found = []
    for file in sorted(Path(__file__).parent.glob("test_failures_of_durable_engines*.py")):
        for item in ast.walk(ast.parse(file.read_text())):
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                match = re.fullmatch(r"test_durable_engine_case_(\d\d)_[a-z0-9_]+", item.name)
                if match:
                    found.append((int(match[1]), item.name, ast.get_docstring(item) or ""))
    return found


def test_every_entry_that_is_listed_has_a_test_of_its_name() -> None:
    """Source: cases failures-durable-engines; each kind, not only the instance, is covered by tests."""
    found = named_by_entry()
    assert {number for number, _, _ in found} == ENTRIES
    assert [
        name for number, name, said in found if said != f"Source: cases failures-durable-engines {number:02}."
    ] == []
    assert len({name for _, name, _ in found}) == len(found)
