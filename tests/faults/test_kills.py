"""Does a process that is killed, anywhere, leave a store that the next one finishes as if nothing had been?

The file to which visits are appended is the witness: it does not depend on the store. Source: spec graph,
"Durable graphs": finished visits are not evaluated again, a visit in flight is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .uses import EXPECTED, USES

HERE = Path(__file__).parent
BRANCHES = {"crew": 2, "two_gates": 2, "fan": 3, "flaky": 2}
"""How many visits of a use can be begun and not over; one where it does not say."""


def crashes(*arguments: object, before: tuple[str, ...] = (), **environment: str) -> list[str]:
    """The lines that `crashes.py` prints."""
    paths = os.pathsep.join([str(HERE), *filter(None, sys.path)])
    done = subprocess.run(
        [*before, sys.executable, str(HERE / "crashes.py"), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode in (0, -9, 137), done.stderr
    return done.stdout.splitlines()


def check(name: str, found: dict[str, Any]) -> None:
    """A takeover brought the use to its end, and evaluated again only what was in flight."""
    assert found["wrong"] == []
    assert found["result"] == repr(EXPECTED[name])
    assert found["lost_answers"] == []
    in_flight = Counter(found["before"]) - Counter(found["kept"])
    assert in_flight.total() <= BRANCHES.get(name, 1)
    again = Counter(found["before"]) & Counter(found["after"])
    if name != "reset":  # which begins again, by intent
        assert again <= in_flight, f"{again} were evaluated again, only {in_flight} had not been kept"


def sweep(name: str, step: int, template: Path, folder: Path) -> int:
    kills = 0
    for line in crashes(template, folder, name, step):
        first, _, rest = line.partition("} {")
        found = json.loads(first + "}")
        try:
            assert rest, "the process that took over said nothing"
            check(name, json.loads("{" + rest))
        except AssertionError as error:
            error.add_note(f"killed before statement {found['at']} of {name}")
            raise
        kills += 1
    return kills


@pytest.mark.parametrize("name", USES)
def test_a_killed_process_leaves_a_run_that_another_finishes(
    name: str, template: Path, tmp_path: Path
) -> None:
    """spec graph, durable graphs: after a kill -9 at any point a new process continues (a sample).

    Of the use `crew` this is cases team 62 to 66, 68, 74: all of a pause, a resume or a turn, or none.
    """
    assert sweep(name, 53, template, tmp_path) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", USES)
def test_a_process_killed_at_any_statement_leaves_a_run_that_another_finishes(
    name: str, template: Path, tmp_path: Path
) -> None:
    """spec graph, durable graphs: before and after every statement."""
    assert sweep(name, 1, template, tmp_path) > 30


@pytest.mark.slow
@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
def test_a_process_killed_inside_a_commit_leaves_a_run_that_another_finishes(
    call: str, template: Path, tmp_path: Path
) -> None:
    """cases 67: between the writes of one commit, all of it is kept or nothing."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed here")
    kills = 0
    for when in range(1, 400):
        path, visits = tmp_path / f"{when}.db", tmp_path / f"{when}.visits"
        shutil.copyfile(template, path)
        visits.touch()
        inject = f"inject={call}:signal=SIGKILL:when={when}"
        traced = (strace, "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
        lines = crashes("--once", path, "linear", before=traced, FAULT_VISITS=str(visits))
        if lines:
            assert lines == [repr(EXPECTED["linear"])]
            break
        kills += 1
        (line,) = crashes("--after", path, "linear", visits, FAULT_VISITS=str(visits))
        check("linear", json.loads(line))
    assert kills > 5, f"{strace} could not kill at {call}"
