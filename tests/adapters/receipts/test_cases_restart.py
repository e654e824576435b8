"""Does a team go on from its rows when the process that served it is gone?

Source: cases team 62 to 74; spec team, "restart"; W5, W7. Every statement of a use of a team is also
killed and failed in `tests/faults` (use `crew`), which covers cases 33 to 61.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from anyio import wait_all_tasks_blocked

from quiesce.rules import continuing
from quiesce.rules.requests import found

from .crew import Crew, task

pytestmark = pytest.mark.anyio

TWO = [task("a", "m0"), task("b", "m1")]


async def test_a_running_team_goes_on_in_a_new_runtime(tmp_path: Path) -> None:
    """Cases 66, 68: the same turns, under new leases; a recorded step is not done again."""
    crew = Crew(tmp_path / "flows.db", TWO)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        before = {turn.id: turn.child for turn in await run.turns()}
    crew.holds.set()
    async with crew.open() as rt:
        run = await rt.get("r")
        assert await run.result() == ["completed", "completed"]
        after = {turn.id: turn.child for turn in await run.turns()}
        assert before.items() <= after.items()


async def test_a_paused_team_is_resumed_by_a_new_runtime(tmp_path: Path) -> None:
    """Cases 63, 65: nothing is rebuilt from memory; the same receipts, one continuation each."""
    crew = Crew(tmp_path / "flows.db", TWO)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.pause()
    async with crew.open() as rt:
        run = await rt.get("r")
        status = await run.status()
        assert (status.state, status.phase, status.generation) == ("paused", "quiescent", 2)
        assert len(crew.began) == 2  # bodies are not rebuilt before somebody resumes
        crew.holds.set()
        ack = await run.resume()
        assert (ack.continued, ack.skipped) == (2, 0)
        assert await run.result() == ["completed", "completed"]


async def test_a_second_reconcile_changes_nothing(tmp_path: Path) -> None:
    """Case 69: and the work of a living process is not touched (case 71)."""
    crew = Crew(tmp_path / "flows.db", TWO)
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.pause()
        async with crew.open(drive=False) as other:
            host = other.backend.host
            assert await host.write(lambda tx: continuing.reconcile(tx, found(tx, "r"))) == 0
        assert (await run.status()).draining == 2
        crew.holds.set()
        await run.settled()
        await wait_all_tasks_blocked()


SERVES = """
import os, sys, time
import anyio
from quiesce import Runtime, Team, Turn, step

@step
def work() -> int:
    print("working", flush=True)
    if os.environ.get("HANGS"):
        time.sleep(600)
    return 1

async def plan(turn: Turn) -> None:
    tasks = turn.tasks()
    if not tasks:
        turn.create_task("a", owner="m")
    elif tasks[0].state == "completed":
        turn.finish(tasks[0].result)

async def member(turn: Turn) -> int:
    return work()

team = Team("team", coordinator=plan, members={"m": member})

async def main() -> None:
    async with Runtime(sys.argv[1], flows=[team]) as rt:
        run = await rt.start(team, run_id="r", request_id="start")
        if sys.argv[2] == "resume":
            print(await run.resume(), flush=True)
        print(await run.settled(), flush=True)

if __name__ == "__main__":
    anyio.run(main)
"""


def test_a_killed_holder_drains_no_more_and_its_turn_is_continued(tmp_path: Path) -> None:
    """Cases 63, 64, 71; W5: the death of the incarnation is the proof; the pause was another process's."""
    script, store = tmp_path / "serves.py", tmp_path / "flows.db"
    script.write_text(SERVES, encoding="utf-8")

    def environment(**more: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}

    def flowctl(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "flowctl", "--db", str(store), *words],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout + done.stderr

    served = subprocess.Popen(
        [sys.executable, str(script), str(store), "serve"],
        env=environment(HANGS="1"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert served.stdout is not None
    try:
        assert served.stdout.readline() == "working\n"
        flowctl("pause", "r")
        assert "draining" in flowctl("status", "r")
    finally:
        served.send_signal(signal.SIGKILL)
        served.wait()
        served.stdout.close()
    assert "r paused, quiescent" in flowctl("status", "r")
    done = subprocess.run(
        [sys.executable, str(script), str(store), "resume"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Completed(value=1)" in done.stdout, done.stdout + done.stderr
    assert flowctl("doctor").endswith("all is well\n")


async def test_what_a_user_directed_behind_a_captured_turn_begins_in_the_next_process(tmp_path: Path) -> None:
    """Spec team, "pause": user-directed turns may start under a paused team; N9, N14."""
    crew = Crew(tmp_path / "flows.db", [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        await run.pause()
        await run.direct("m0", "look")
        await wait_all_tasks_blocked()
        assert crew.began == [("m0", "a")]  # whose body drains
    async with crew.open():
        await crew.wait_began(2)
        assert crew.began[1:] == [("m0", "look")]
