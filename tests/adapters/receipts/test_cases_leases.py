"""Does only the current lease of a turn's body release it, and only what it names?

Source: cases team 75 to 83; spec team, "Model" (lease) and "drain"; W7, W9, W10; N5, N6, N13.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from quiesce import Run, Runtime
from quiesce.records import RunRecord
from quiesce.rules import claims, fence, turns
from quiesce.rules.requests import found

from .crew import Crew, dump, log_of, task

pytestmark = pytest.mark.anyio


async def body_of(rt: Runtime, run: Run, number: int) -> RunRecord:
    """The run of the body of the turn that works, or worked, on this task."""
    (child,) = {turn.child for turn in await run.turns() if turn.task == number and turn.child is not None}
    return rt.backend.host.read(lambda tx: found(tx, child))


@pytest.mark.parametrize("stale", ["epoch", "holder", "turn"])
async def test_a_release_that_is_not_current_changes_nothing(path: Path | None, stale: str) -> None:
    """Cases 76 to 79; N6: an older epoch, another holder, another body; then the right one, once."""
    crew = Crew(path, [task("a", "m0"), task("b", "m1")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.pause()
        host = rt.backend.host
        body = await body_of(rt, run, 1)
        wrong = {
            "epoch": replace(body, lease_epoch=body.lease_epoch - 1),
            "holder": replace(body, lease_holder=(body.lease_holder or 0) + 1),
            "turn": replace(body, id="r.1"),
        }[stale]
        before = await dump(rt)
        assert await host.write(lambda tx: tx.release_receipts("r", wrong, "released")) == []
        assert await dump(rt) == before
        first, _ = [turn.id for turn in await run.turns() if turn.task is not None]
        assert await host.write(lambda tx: tx.release_receipts("r", body, "released")) == [first]
        released = await dump(rt)
        assert await host.write(lambda tx: tx.release_receipts("r", body, "released")) == []
        assert await dump(rt) == released
        crew.holds.set()


@pytest.mark.parametrize("wrong", ["epoch", "holder"])
async def test_a_lease_that_is_not_current_hands_nothing_back(path: Path | None, wrong: str) -> None:
    """Case 75; N6: what an earlier lease gives up is not the body that is installed now."""
    crew = Crew(path, [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        body = await body_of(rt, run, 1)
        assert body.lease_holder is not None
        holder, epoch = body.lease_holder + (wrong == "holder"), body.lease_epoch - (wrong == "epoch")
        before = await dump(rt)
        await rt.backend.host.write(lambda tx: claims.hand_back(tx, body.id, holder, epoch))
        assert await dump(rt) == before
        crew.holds.set()
        assert await run.result() == ["completed"]


async def test_a_body_that_was_taken_over_writes_nothing_any_more(tmp_path: Path) -> None:
    """Case 75, 78; N5, N6: what the first process had under way returns late, under a lease that is over."""
    store = tmp_path / "flows.db"
    crew, late = Crew(store, [task("a", "m0")]), Crew(store, [task("a", "m0")])
    async with late.open() as first:
        await late.start(first)
        await late.wait_began(1)
        async with crew.open() as second:
            run = await second.get("r")
            await second.takeover("r")
            await crew.wait_began(1)
            before = await run.tasks(), await run.turns()
            late.holds.set()
            await wait_all_tasks_blocked()
            assert (await run.tasks(), await run.turns()) == before
            assert late.ended == []
            crew.holds.set()
            assert await run.result() == ["completed"]
    assert crew.ended == ["a"]


async def test_a_release_lets_its_continuation_begin_once(path: Path | None) -> None:
    """Case 79; N4: told of it twice, it has begun once."""
    crew = Crew(path, [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.pause()
        await run.resume()
        (continued,) = [turn.id for turn in await run.turns() if turn.source == "resume"]
        crew.holds.set()
        assert await run.result() == ["completed"]
        body = await body_of(rt, run, 1)
        await rt.backend.host.write(lambda tx: turns.yielded(tx, found(tx, "r"), body, "released"))
        rt.backend.host.tell(["r"])
        await wait_all_tasks_blocked()
        begun = [event for event in await log_of(rt, "r") if event.kind == "turn-running"]
        assert [event.data["turn"] for event in begun].count(continued) == 1


@pytest.mark.parametrize("begun", [False, True])
async def test_a_cancelled_turn_takes_no_later_one_with_it(path: Path | None, begun: bool) -> None:
    """Case 82; W10: a cancellation names its turn, whether that has begun or not; the next one runs."""
    crew = Crew(path, [task("a", "m0"), task("b", "m0"), task("c", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.cancel_task(1 if begun else 2)
        await run.create_task("d", owner="m0")
        crew.holds.set()
        assert await run.result() == [
            "cancelled" if item == (0 if begun else 1) else "completed" for item in range(4)
        ]
        assert crew.ended == (["b", "c", "d"] if begun else ["a", "c", "d"])


async def test_a_cancelled_continuation_takes_no_later_turn_with_it(path: Path | None) -> None:
    """Case 82; W10: of a continuation that stands behind its draining body, too."""
    crew = Crew(path, [task("a", "m0"), task("b", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.pause()
        await run.resume()
        await run.cancel_task(1)
        crew.holds.set()
        assert await run.result() == ["cancelled", "completed"]
        assert crew.ended == ["b"]


async def test_what_two_teardowns_do_is_done_once(tmp_path: Path) -> None:
    """Case 83; W7, W9: the bound of a drain is seen by each process that waits for it, and kept once."""
    crew = Crew(tmp_path / "flows.db", [task("a", "m0"), task("b", "m1")])
    async with crew.open(drain_timeout=5.0) as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        async with crew.open(drain_timeout=5.0, drive=False) as other:
            ack = await other.pause("r")
            await wait_all_tasks_blocked()
            crew.clock.advance(5)
            await wait_all_tasks_blocked()
            before = await dump(rt)
            host = other.backend.host
            assert await host.write(lambda tx: fence.mark_overdue(tx, ack.episode_id or "")) == 0
            assert await dump(rt) == before
        overdue = [event for event in await log_of(rt, "r") if event.kind == "overdue"]
        assert [event.data["pieces"] for event in overdue] == [2]
        crew.holds.set()
        await run.settled()


PAUSES = """
import os, signal, sys
import anyio
from quiesce import Runtime
from quiesce.clock import ManualClock

async def main() -> None:
    async with Runtime(sys.argv[1], drive=False, clock=ManualClock()) as rt:
        await rt.pause("r", request_id="P", drain_timeout=5.0)
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


async def test_a_drain_goes_on_when_the_process_that_began_it_is_dead(tmp_path: Path, start: Any) -> None:
    """Cases 63, 64; W7, W9: who paused is killed after its commit; its bound and every release are kept."""
    crew = Crew(tmp_path / "flows.db", [task("a", "m0"), task("b", "m1")])
    crew.gates["a"] = anyio.Event()
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        process = start(PAUSES, crew.path)
        assert await anyio.to_thread.run_sync(process.ended) == -9
        while (await run.status()).draining != 2 or not rt.backend.host.timers._drains:
            await wait_all_tasks_blocked()
        crew.gates["a"].set()
        await wait_all_tasks_blocked()
        assert (await run.status()).draining == 1
        crew.clock.advance(5)
        await wait_all_tasks_blocked()
        assert ((await run.status()).draining, (await run.status()).overdue) == (0, 1)
        again = await run.pause(request_id="P")
        assert (again.replayed, again.captured, again.generation) == (True, 2, 2)
        crew.holds.set()
        await wait_all_tasks_blocked()
        assert (await run.status()).phase == "quiescent"
        drains = {item.name: (item.drain, item.overdue_at is not None) for item in await rt.receipts("r:2")}
        assert drains == {"m0": ("released", False), "m1": ("released", True)}
        await run.resume()
        assert await run.result() == ["completed", "completed"]


async def test_a_body_that_drains_by_itself_is_not_overdue_before_its_own_bound(path: Path | None) -> None:
    """spec team, drain; W6: paused alone, it keeps the bound of that pause when its team rests."""
    crew = Crew(path, [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        body = await body_of(rt, run, 1)
        await rt.pause(body.id)
        assert (await run.status()).state == "paused"  # there is nothing else that it could do
        ack = await run.pause()
        assert (ack.transitioned, ack.captured, ack.draining, ack.overdue) == (False, 1, 1, 0)
        crew.holds.set()
        await run.settled()
        (receipt,) = await rt.receipts("r:2")
        assert (receipt.was, receipt.drain, receipt.overdue_at) == ("waiting", "released", None)
        await run.resume()
        await rt.resume(body.id)
        assert await run.result() == ["completed"]


async def test_a_turn_of_which_nothing_runs_any_more_is_absent_and_not_stuck(path: Path | None) -> None:
    """spec team, drain; W8: its body has yielded before the fence, so no drain waits for it."""
    crew = Crew(path, [task("a", "m0"), task("b", "m1")])
    crew.gates["a"] = anyio.Event()
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        body = await body_of(rt, run, 1)
        await rt.pause(body.id)
        crew.gates["a"].set()
        await wait_all_tasks_blocked()
        ack = await run.pause()
        assert (ack.captured, ack.draining) == (2, 1)
        receipts = [(item.name, item.was, item.drain) for item in await rt.receipts("r:2")]
        assert receipts == [("m0", "waiting", "absent"), ("m1", "running", "pending")]
        crew.holds.set()
        await run.settled()
        assert (await run.status()).phase == "quiescent"
        await run.resume()
        await rt.resume(body.id)
        assert await run.result() == ["completed", "completed"]
