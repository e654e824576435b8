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
