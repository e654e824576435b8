"""Is each request served once, whoever repeats it, and is a wrong one refused before anything changes?

Source: cases team 2, 5, 6, 9, 10, 17, 18, 20, 124; spec engine, 4 (requests); W12; N1, N2, N12.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import Runtime, errors
from quiesce_adapters.sqlite.checks import violations_of_file

from .crew import Crew, dump, log_of, task

pytestmark = pytest.mark.anyio

WORK = [task("a", "m0"), task("b", "m1")]


async def test_a_pause_before_anything_was_admitted_holds_nothing(tmp_path: Path) -> None:
    """Cases 2, 112: running, with a task that has no turn yet; quiescent at once; the work begins later."""
    crew = Crew(tmp_path / "flows.db", [])
    crew.holds.set()
    async with crew.open() as rt:
        await (await crew.start(rt)).settled()
    async with Runtime(crew.path, drive=False, clock=crew.clock) as rt:
        run = await rt.get("r")
        await run.create_task("a", owner="m0")
        assert (await run.status()).state == "running"
        ack = await run.pause()
        assert (ack.transitioned, ack.captured, ack.draining) == (True, 0, 0)
        status = await run.status()
        assert (status.state, status.phase, status.generation) == ("paused", "quiescent", 3)
    async with crew.open() as rt:
        run = await rt.get("r")
        assert crew.began == []
        resumed = await run.resume()
        assert (resumed.continued, resumed.carried, resumed.skipped) == (0, 0, 0)
        assert await run.result() == ["completed"]


async def test_a_run_that_is_not_there_is_refused_and_not_made(path: Path | None) -> None:
    """Case 5: no verb makes a run of an unknown id."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        for verb in (rt.pause, rt.resume, rt.cancel):
            with pytest.raises(errors.RunNotFound, match="'none'"):
                await verb("none")
        assert await rt.list() == []


@pytest.mark.parametrize("request_id", ["", "x" * 201, "two\nlines", 7])
async def test_a_request_id_that_nobody_could_type_is_refused(path: Path | None, request_id: Any) -> None:
    """Case 6: before any transaction; any printable text of 1 to 200 characters will do."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        before = await dump(rt)
        for verb in (run.pause, run.resume, run.cancel):
            with pytest.raises(errors.QuiesceError, match="request id"):
                await verb(request_id=request_id)
        assert await dump(rt) == before
        await run.pause(request_id="ü " * 100)
        crew.holds.set()


async def test_a_pause_returns_before_any_body_has_yielded(path: Path | None) -> None:
    """Case 9: the fence is durable when the call returns; what does not yield is not waited for."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        with anyio.fail_after(20):
            ack = await run.pause()
        assert (ack.draining, (await run.status()).state) == (2, "paused")
        if path is not None:
            connection = sqlite3.connect(path)
            assert connection.execute("SELECT state FROM runs WHERE id = 'r'").fetchone() == ("paused",)
            connection.close()
        crew.holds.set()
        await run.settled()


async def test_an_episode_that_is_lost_is_noticed_and_nothing_is_made_up(tmp_path: Path) -> None:
    """Case 10; N1: paused by its row, and nothing says of what; pause and resume both refuse and say so."""
    crew = Crew(tmp_path / "flows.db", WORK)
    async with Runtime(crew.path, flows=[crew.team], clock=crew.clock) as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.pause()
        crew.holds.set()
        await run.settled()
    connection = sqlite3.connect(crew.path or "", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("DELETE FROM receipts")
    connection.execute("DELETE FROM episodes WHERE run_id = 'r'")
    connection.close()
    assert any("r" in text and "episode" in text for text in violations_of_file(crew.path or ""))
    async with Runtime(crew.path, flows=[crew.team], clock=crew.clock) as rt:
        before = await dump(rt)
        for verb in (rt.pause, rt.resume):
            with pytest.raises(errors.StoreError, match=r"r:2.*doctor"):
                await verb("r")
        assert await dump(rt) == before


async def test_one_id_is_one_request_of_one_run(path: Path | None) -> None:
    """Cases 17, 18; W12: for another verb of the run it is a conflict; for another run it is another one."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        runs = [await rt.start(crew.team, run_id=name) for name in ("p", "q")]
        await crew.wait_began(4)
        first = [await run.pause(request_id="one") for run in runs]
        assert [ack.episode_id for ack in first] == ["p:2", "q:2"]
        crew.holds.set()
        for run in runs:
            await run.settled()
            before = await dump(rt, run.id)
            for verb in (run.resume, run.cancel):
                with pytest.raises(errors.RequestConflict, match="'one' was used before, for pause"):
                    await verb(request_id="one")
            assert await dump(rt, run.id) == before
        for run in runs:
            ack = await run.resume(request_id="two")
            assert (ack.run_id, ack.generation, ack.continued, ack.replayed) == (run.id, 3, 2, False)
            assert await run.result() == ["completed", "completed"]


async def test_two_clicks_are_one_fence(path: Path | None) -> None:
    """Case 124: two ids, shortly after one another."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        first = await run.pause(request_id="first")
        crew.clock.advance(0.02)
        second = await run.pause(request_id="second")
        assert (first.transitioned, second.transitioned) == (True, False)
        assert {first.episode_id, second.episode_id} == {"r:2"}
        assert len(await rt.receipts("r:2")) == second.captured == 2
        crew.holds.set()
        await run.settled()


SENDS = """
import os, signal, sys
import anyio
from quiesce import Runtime

async def main() -> None:
    async with Runtime(sys.argv[1], drive=False) as rt:
        await getattr(rt, sys.argv[2])("r", request_id=sys.argv[2])
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


async def test_a_request_whose_reply_was_lost_has_had_its_effect_once(tmp_path: Path, start: Any) -> None:
    """Case 20; N2, N12: its client dies between the commit and the reply; sent again, it gets that ack."""
    crew = Crew(tmp_path / "flows.db", WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        for generation, verb in ((2, "pause"), (3, "resume")):
            assert await anyio.to_thread.run_sync(start(SENDS, crew.path, verb).ended) == -9
            begun = len(await run.turns())
            again = await getattr(run, verb)(request_id=verb)
            assert (again.replayed, again.generation) == (True, generation)
            assert ((await run.status()).generation, len(await run.turns())) == (generation, begun)
        kinds = [event.kind for event in await log_of(rt, "r") if event.kind in ("paused", "resumed")]
        assert kinds == ["paused", "resumed"]
        crew.holds.set()
        assert await run.result() == ["completed", "completed"]
        assert len(crew.began) == 2
