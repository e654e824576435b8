"""Does an agent whose process is killed, anywhere, go on at the same statement in the next one?

The file to which effects are appended is the witness: it does not depend on the store. Source: spec agent,
"Steps and the journal": nothing recorded is done twice; a step that began is unknown, and has the same key.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .bodies import EXPECTED

HERE = Path(__file__).parent
AT_ONCE = 3
"""How many steps are under way at the same time."""


def sweep(name: str, step: int, template: Path, folder: Path) -> int:
    paths = os.pathsep.join([str(HERE), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, str(HERE / "killed_bodies.py"), str(template), str(folder), name, str(step)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kills = 0
    for line in done.stdout.splitlines():
        found = json.loads(line)
        assert "failed" not in found, f"killed before statement {found['at']}: {done.stderr[-3000:]}"
        at = f"killed before statement {found['at']}"
        assert found["wrong"] == [], at
        assert found["value"] == EXPECTED[name], at
        before, after = (Counter(map(tuple, found[when])) for when in ("before", "after"))
        assert not {key for _, key in after} & set(found["done"]), f"{at}: a recorded step was done again"
        assert (before & after).total() <= AT_ONCE, at
        assert max((before + after).values()) <= 2, at
        keys = {key for _, key in before + after}
        assert len(keys) == len({what for what, _ in before + after}), f"{at}: a key changed"
        kills += 1
    return kills


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_killed_process_leaves_an_agent_that_another_continues(
    name: str, template: Path, tmp_path: Path
) -> None:
    """spec agent, journal: kill -9 at any point, and go on in a new process (a sample)."""
    assert sweep(name, {"clerk": 23, "rounds": 7}[name], template, tmp_path) > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_process_killed_at_any_statement_leaves_an_agent_that_another_continues(
    name: str, template: Path, tmp_path: Path
) -> None:
    """spec agent, journal: the same, before every single statement."""
    assert sweep(name, 1, template, tmp_path) > 50


DRIVE = """
import sys
import anyio, bodies
from quiesce import Run, Runtime

async def main():
    async with Runtime(sys.argv[1], flows=[bodies.doomed]) as rt:
        if sys.argv[2] == "retry":
            await rt.retry("r")
        run = await rt.start(bodies.doomed, run_id="r", request_id="start")
        outcome = await run.settled()
        print(type(outcome).__name__, getattr(outcome, "reason", None) or getattr(outcome, "value", None))

anyio.run(main)
"""


def drive(
    db: Path, verb: str = "", script: str = DRIVE, **environment: str
) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(HERE), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-c", script, str(db), verb],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_step_that_kills_its_process_is_poison_after_three(db: Path, tmp_path: Path) -> None:
    """spec agent, journal: attempts are counted before user code runs; then the run is paused, not looped."""
    effects = tmp_path / "effects"
    for _ in range(3):
        assert drive(db, FAULT_DIES="1", FAULT_EFFECTS=str(effects)).returncode == -9
    held = drive(db, FAULT_DIES="1", FAULT_EFFECTS=str(effects))
    assert held.returncode == 0, held.stderr
    assert held.stdout.startswith("Paused doomed, in step 'die' (position 2): the process died 3 times")
    done = [line.split()[0] for line in effects.read_text().splitlines()]
    assert done == ["look_up:a", "die", "die", "die"]
    mended = drive(db, "retry", FAULT_EFFECTS=str(effects))
    assert mended.stdout == "Completed lived\n", mended.stderr
    keys = {line.split()[1] for line in effects.read_text().splitlines() if line.startswith("die")}
    assert len(keys) == 1


RESUME = """
import sys
import anyio
from quiesce import Run, Runtime

async def main():
    async with Runtime(sys.argv[1]) as rt:
        ack = await rt.resume("r")
        outcome = await Run(rt, "r").settled()
        print(type(outcome).__name__, getattr(outcome, "reason", None) or getattr(outcome, "value", None))

anyio.run(main)
"""


def test_a_resume_by_hand_counts_the_lost_processes_like_a_claim(db: Path, tmp_path: Path) -> None:
    """spec engine, 4 (resume of a running run) and spec agent (poison): no way around the count."""
    effects = tmp_path / "effects"
    told = {"FAULT_DIES": "1", "FAULT_EFFECTS": str(effects)}
    assert drive(db, **told).returncode == -9
    for _ in range(2):
        assert drive(db, script=RESUME, **told).returncode == -9
    held = drive(db, script=RESUME, **told)
    assert held.stdout.startswith("Paused doomed, in step 'die' (position 2): the process died 3 times")
    assert [line.split()[0] for line in effects.read_text().splitlines()].count("die") == 3


def test_an_agent_says_how_many_processes_it_may_lose(db: Path, tmp_path: Path) -> None:
    """spec agent, journal: `max_lost_attempts`, of which three is only the default."""
    script = DRIVE.replace("bodies.doomed", "bodies.doomed_at_once")
    assert drive(db, script=script, FAULT_DIES="1").returncode == -9
    held = drive(db, script=script, FAULT_DIES="1")
    assert held.stdout.startswith("Paused doomed_at_once, in step 'die' (position 1): the process died once")
