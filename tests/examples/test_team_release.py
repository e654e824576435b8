"""Does the team release a package once, whoever is killed or pauses it in between?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import team_release

EXAMPLES = Path(__file__).parents[2] / "examples"

DIES = """
import os, runpy, signal, sys
import team_release
journal = team_release.journal
def dying(folder, what):
    journal(folder, what)
    if what.split()[0] == os.environ["DIES"]:
        os.kill(os.getpid(), signal.SIGKILL)
team_release.journal = dying
sys.argv = ["flowctl", *sys.argv[1:]]
runpy.run_module("flowctl", run_name="__main__")
"""


def flowctl(folder: Path, *words: str, dies: str = "") -> subprocess.CompletedProcess[str]:
    """A command in a new process; with `dies`, one that kills itself right after that effect."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", DIES, "--db", str(folder / "flows.db"), *words],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *filter(None, sys.path)]),
            "DIES": dies,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("dies", ["version", "tests", "wheel", "published"])
def test_every_task_is_done_once_though_its_process_is_killed_right_after_the_effect(
    tmp_path: Path, dies: str
) -> None:
    """issue "teams", example: paused in the middle, killed, resumed; every task is done once."""
    team_release.make_package(tmp_path)
    first = flowctl(tmp_path, "run", "team_release:release", str(tmp_path), "--id", "r", dies=dies)
    if dies != "published":
        assert first.returncode == -9
        assert flowctl(tmp_path, "resume", "r").returncode == 75
    assert flowctl(tmp_path, "pause", "r").returncode == 0
    (hold,) = json.loads(flowctl(tmp_path, "holds", "--json").stdout)["holds"]
    assert hold["payload"]["contents"][0] == "tally/__init__.py"
    assert flowctl(tmp_path, "answer", hold["id"], "true", "--no-drive").returncode == 0
    last = flowctl(tmp_path, "resume", "r", dies=dies)
    if dies == "published":
        assert last.returncode == -9
        last = flowctl(tmp_path, "resume", "r")
    assert last.returncode == 0, last.stderr
    tasks = json.loads(flowctl(tmp_path, "tasks", "r", "--json").stdout)["tasks"]
    assert [(task["state"], task["attempts"]) for task in tasks] == [("completed", 1)] * 4
    lines = (tmp_path / "release.log").read_text(encoding="utf-8").splitlines()
    assert lines.count("version 1.2.1") == 1
    assert {line.split()[0] for line in lines} == {"version", "tests", "wheel", "published"}
    repeated = {line.split()[0] for line in lines if lines.count(line) > 1}
    assert repeated <= {dies}  # at least once: the process died between the effect and its record
    (wheel,) = (tmp_path / "published").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
    assert flowctl(tmp_path, "doctor").stdout.endswith("all is well\n")
