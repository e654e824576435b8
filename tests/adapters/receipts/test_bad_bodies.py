"""What becomes of a turn whose body does not let itself be stopped?

That a body which never yields is overdue, and opens no second one, is in `test_cases_pause.py` (87 to 89).

Source: issue "teams" (bad input); spec team, "drain"; spec agent, "Body and lifecycle".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Runtime, Team, Turn, errors, step
from quiesce_adapters.sqlite.checks import violations_of_file

pytestmark = pytest.mark.anyio


def team_of(member: Any) -> Team:
    async def coordinator(turn: Turn) -> None:
        if not turn.tasks():
            turn.create_task("t", owner="m")
        elif all(task.state not in ("pending", "in_progress") for task in turn.tasks()):
            turn.finish([task.result for task in turn.tasks()])

    return Team("bad", coordinator=coordinator, members={"m": member})


async def test_a_body_that_catches_everything_yields_all_the_same(tmp_path: Path) -> None:
    """The suspension is no exception, so nothing can swallow it; the body goes on where it stood, once."""
    began, let = anyio.Event(), anyio.Event()
    done: list[str] = []

    @step
    async def work(what: str) -> str:
        began.set()
        await let.wait()
        done.append(what)
        return what

    async def member(turn: Turn) -> str:
        while True:
            try:
                given = await work("one")
                turn.checkpoint()
                done.append("behind")
                return given
            except BaseException as error:
                done.append(repr(error))

    team = team_of(member)
    async with Runtime(tmp_path / "flows.db", flows=[team]) as rt:
        run = await rt.start(team, run_id="r")
        await began.wait()
        await run.pause()
        let.set()
        await run.settled()
        assert ((await run.status()).phase, done) == ("quiescent", ["one"])
        await run.resume()
        assert await run.result() == ["one"]
    assert done == ["one", "behind"]
    assert violations_of_file(tmp_path / "flows.db") == []


async def test_a_body_that_swallows_its_end_is_ended_and_reported_and_the_team_stays_true(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not switched to again; its run and its team are cancelled, and another team runs on."""
    began = anyio.Event()

    async def member(turn: Turn) -> None:
        while True:
            try:
                began.set()
                await anyio.sleep_forever()
            except BaseException:
                pass

    team, db = team_of(member), tmp_path / "flows.db"
    async with Runtime(db, flows=[team], drain_timeout=0.05) as rt:
        run = await rt.start(team, run_id="r")
        await began.wait()
        await run.cancel()
        with pytest.raises(errors.RunCancelled):
            await run.settled()
        turns = await run.turns()
        assert {turn.state for turn in turns} <= {"cancelled", "completed"}
        assert [task.state for task in await run.tasks()] == ["cancelled"]
    assert "its body swallowed what ends it" in caplog.text
    assert violations_of_file(db) == []


@pytest.mark.parametrize("times", [1, 2])
async def test_a_body_that_swallows_that_its_process_leaves_goes_on_in_the_next_one(
    tmp_path: Path, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What ends a body that its process leaves is swallowed: the next one continues it from its journal."""
    entered = 0

    @step
    async def begun() -> int:
        nonlocal entered
        entered += 1
        return entered

    async def member(turn: Turn) -> int:
        number = await begun()
        for _ in range(times):
            try:
                turn.pause("go on?", expects=str)
            except Exception:
                raise
            except BaseException:
                pass
        return number

    team, db = team_of(member), tmp_path / "flows.db"
    async with Runtime(db, flows=[team]) as rt:
        run = await rt.start(team, run_id="r")
        (hold,) = (await run.settled()).holds
    async with Runtime(db, flows=[team]) as rt:
        run = await rt.get("r")
        for _ in range(times):
            (hold,) = (await run.settled()).holds
            await rt.answer(hold.id, "yes")
            await wait_all_tasks_blocked()
        assert await run.result() == [1]
    assert entered == 1
    assert violations_of_file(db) == []
