"""Does a pause of a team capture what it must, and nothing else, once?

Source: cases team 1 to 16, 22 to 24, 87 to 89, 94, 99, 101; spec team, "pause".
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Idle, PauseAck, Paused, errors

from .crew import Crew, states, task

pytestmark = pytest.mark.anyio

WORK = [task("a", "m0"), task("b", "m1"), task("c", "m0")]


async def test_a_pause_captures_what_runs_and_what_is_queued(path: Path | None) -> None:
    """Cases 1, 8, 122; W4: a receipt each; queued turns go stale, running ones drain, tasks are untouched."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await wait_all_tasks_blocked()
        before = await run.tasks()
        ack = await run.pause()
        assert (ack.transitioned, ack.generation, ack.captured, ack.draining) == (True, 2, 3, 2)
        receipts = await rt.receipts(ack.episode_id or "")
        assert [(item.name, item.was, item.drain) for item in receipts] == [
            ("m0", "running", "pending"),
            ("m1", "running", "pending"),
            ("m0", "queued", "absent"),
        ]
        assert {turn.state for turn in await run.turns() if turn.task == 3} == {"stale"}
        status = await run.status()
        assert (status.phase, status.draining) == ("draining", 2)
        crew.holds.set()
        await run.settled()
        assert (await run.status()).phase == "quiescent"
        assert await run.tasks() == before
        assert crew.ended == []


async def test_user_directed_turns_are_never_captured(path: Path | None) -> None:
    """Case 7, 80; N9: queued and running ones are as they were."""
    crew = Crew(path, [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.direct("m1", "directed")
        await run.direct("m0", "behind")
        await crew.wait_began(2)
        ack = await run.pause()
        assert ack.captured == 1
        directed = [turn for turn in await run.turns() if turn.kind == "user_directed"]
        assert [turn.state for turn in directed] == ["running", "queued"]
        crew.holds.set()
        await run.settled()
        await wait_all_tasks_blocked()
        assert [turn.state for turn in await run.turns() if turn.kind == "user_directed"] == ["completed"] * 2
        assert sorted(crew.ended) == ["behind", "directed"]


async def test_an_idle_team_has_nothing_to_pause(path: Path | None) -> None:
    """Case 3: refused, nothing changed, the message names the state; new work wakes it, generation+1."""
    crew = Crew(path, [])
    async with crew.open() as rt:
        run = await crew.start(rt)
        assert isinstance(await run.settled(), Idle)
        before = await run.status()
        with pytest.raises(errors.IllegalTransition, match="nothing to pause"):
            await run.pause()
        assert await run.status() == before
        crew.holds.set()
        await run.create_task("late", owner="m0")
        assert (await run.status()).generation == before.generation + 1
        assert await run.result() == ["completed"]


async def test_a_request_is_served_once_for_ever(path: Path | None) -> None:
    """Cases 11 to 16; W2, W12, N12: also after its inverse; another id adds nothing."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        first = await run.pause(request_id="A")
        again = await run.pause(request_id="A")
        assert (again.replayed, again.episode_id, again.generation) == (True, first.episode_id, 2)
        other = await run.pause(request_id="B")
        assert (other.transitioned, other.episode_id, other.generation) == (False, first.episode_id, 2)
        crew.holds.set()
        await run.settled()
        resumed = await run.resume(request_id="R")
        turns = len(await run.turns())
        repeated = await run.resume(request_id="R")
        assert (repeated.replayed, repeated.generation, repeated.continued) == (True, 3, resumed.continued)
        assert len(await run.turns()) == turns
        old = await run.pause(request_id="A")
        assert (old.replayed, old.generation) == (True, 2)
        assert (await run.status()).generation == 3
        with pytest.raises(errors.RequestConflict):
            await run.resume(request_id="A")
        assert await run.result() == ["completed"] * 3


@pytest.mark.parametrize("same", [True, False])
async def test_of_many_pauses_at_once_one_fences(path: Path | None, same: bool) -> None:
    """Cases 22 and 23; N3: one episode, one step of the generation."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        acks: list[PauseAck] = []

        async def pause(number: int) -> None:
            acks.append(await run.pause(request_id="same" if same else f"p{number}"))

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(pause, number)
        assert {ack.episode_id for ack in acks} == {"r:2"}
        assert sum(ack.transitioned and not ack.replayed for ack in acks) == 1
        assert (await run.status()).generation == 2
        crew.holds.set()


async def test_while_paused_tasks_stay_as_they_are(path: Path | None) -> None:
    """Cases 94, 99, 101; N8, N11: refused; a message is kept and resumes nothing; reads answer."""
    crew = Crew(path, WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.pause()
        before = (await run.tasks(), await run.turns())
        for order in (
            run.create_task("more", owner="m0"),
            run.assign(3, "m1"),
            run.assign(3, "m0", after=[2]),
            run.cancel_task(1),
        ):
            with pytest.raises(errors.Fenced):
                await order
        await run.send("hello", to="m2")
        crew.holds.set()
        await run.settled()
        await wait_all_tasks_blocked()
        assert (await run.tasks()) == before[0]
        assert len(await run.turns()) == len(before[1])
        assert (await run.status()).generation == 2
        await run.resume()
        await run.result()
        assert [turn.state for turn in await run.turns() if turn.kind == "inbox"] == ["completed"]


async def test_a_body_that_does_not_yield_is_overdue_and_opens_no_second(path: Path | None) -> None:
    """Cases 87 to 89; W5, W6, N13: the evidence stays; its continuation waits for the proof."""
    crew = Crew(path, [task("a", "m0"), task("b", "m1")])
    async with crew.open(drain_timeout=5.0) as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        ack = await run.pause()
        await wait_all_tasks_blocked()
        crew.clock.advance(5)
        await wait_all_tasks_blocked()
        status = await run.status()
        assert (status.state, status.overdue) == ("paused", 2)
        await run.resume()
        await wait_all_tasks_blocked()
        assert {turn.state for turn in await run.turns() if turn.source == "resume"} == {"queued"}
        assert len(crew.began) == 2
        crew.holds.set()
        assert await run.result() == ["completed", "completed"]
        assert len(crew.began) == 2
        for receipt in await rt.receipts(ack.episode_id or ""):
            assert (receipt.drain, receipt.overdue_at is None, receipt.outcome) == (
                "released",
                False,
                "continued",
            )


async def test_a_second_pause_inherits_what_still_drains(path: Path | None) -> None:
    """W3, N4, N13: an obligation of an earlier episode is not forgotten; one continuation per original."""
    crew = Crew(path, [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.pause()
        await run.resume()
        ack = await run.pause()
        assert ack.draining > 0
        await run.resume()
        crew.holds.set()
        assert await run.result() == ["completed"]
        assert crew.began == [("m0", "a")]
        originals = [turn.original for turn in await run.turns() if turn.original is not None]
        assert len(originals) == len(set(originals))


async def test_the_states_of_turns_are_the_same_for_every_reader(tmp_path: Path) -> None:
    """Case 123: a second client reads the same from the store."""
    crew = Crew(tmp_path / "flows.db", WORK)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.pause()
        async with crew.open(drive=False) as other:
            theirs = await other.get("r")
            assert await states(theirs) == await states(run)
            assert (await theirs.status()).draining == 2
        crew.holds.set()


async def test_a_body_that_drains_still_is_counted_once_by_the_next_pause(path: Path | None) -> None:
    """Spec team, "pause": a queued continuation is absent, the obligation is its original's; W3, N13."""
    crew = Crew(path, [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.pause()
        await run.resume()
        ack = await run.pause()
        assert (ack.captured, ack.draining) == (2, 1)
        receipts = await rt.receipts(ack.episode_id or "")
        assert [(receipt.was, receipt.drain) for receipt in receipts] == [
            ("running", "pending"),
            ("queued", "absent"),
        ]
        crew.holds.set()
        assert isinstance(await run.settled(), Paused)
        await run.resume()
        assert await run.result() == ["completed"]
        assert crew.began == [("m0", "a")]
