"""Do the examples of agents do what they say, also when they are killed in the middle?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import refund_desk

EXAMPLES = Path(__file__).parents[2] / "examples"

DIES = """
import json, os, runpy, signal, sys
import refund_desk
append = refund_desk.os.fsync
def fsync(number):
    append(number)
    if os.environ["DIES"] == "after paying":
        os.kill(os.getpid(), signal.SIGKILL)
refund_desk.os.fsync = fsync
sys.argv = ["flowctl", *sys.argv[1:]]
runpy.run_module("flowctl", run_name="__main__")
"""


def flowctl(folder: Path, *words: str, dies: str = "") -> subprocess.CompletedProcess[str]:
    """A command in a new process; with `dies`, one that kills itself right after its payment is written."""
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


def amounts(folder: Path) -> list[int | str]:
    return [line["amount"] for line in refund_desk.ledger(folder)]


def hold_id(folder: Path) -> str:
    (hold,) = json.loads(flowctl(folder, "holds", "--json").stdout)["holds"]
    return str(hold["id"])


def test_the_desk_pays_exactly_once_though_it_is_killed_right_after_each_payment(tmp_path: Path) -> None:
    """issue 4: killed and resumed; a real ledger, and the idempotency key of the call."""
    refund_desk.prepare(tmp_path)
    died = flowctl(tmp_path, "run", "refund_desk:desk", str(tmp_path), "--id", "r", dies="after paying")
    assert died.returncode == -signal.SIGKILL
    assert amounts(tmp_path) == [40]
    resumed = flowctl(tmp_path, "resume", "r")
    assert resumed.returncode == 75, resumed.stderr
    assert amounts(tmp_path) == [40], "it was unknown, ran again, and found its key"
    answer = json.dumps({"approve": True, "arguments": {"amount": 450}})
    died = flowctl(tmp_path, "answer", hold_id(tmp_path), answer, dies="after paying")
    assert died.returncode == -signal.SIGKILL
    assert amounts(tmp_path) == [40, 450]
    unknown = flowctl(tmp_path, "explain", "r")
    assert "action refund (position 7) began, and nobody knows whether it happened" in unknown.stdout
    assert flowctl(tmp_path, "resume", "r").returncode == 75
    assert amounts(tmp_path) == [40, 450]
    rejected = flowctl(tmp_path, "reject", hold_id(tmp_path), "one refund an order")
    assert rejected.returncode == 0, rejected.stderr
    assert amounts(tmp_path) == [40, 450]
    shown = flowctl(tmp_path, "show", "r").stdout
    assert "action refund" in shown
    assert "committed" in shown
    assert "rejected" in shown


def story(name: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_approver_stands_in_the_line_that_asks(tmp_path: Path) -> None:
    """The seed's agent: paused mid-statement, charged once, by another runtime."""
    told = story("approver", tmp_path)
    assert told[1] == "paused: approve charge of 5000?"
    assert told[2].endswith('approved = ask_human(f"approve charge of {amount}?", expects=bool)')
    assert told.count("charging 5000") == 1
    assert told[-1].startswith("charged 5000, receipt ")


def test_the_desk_tells_what_became_of_each_case(tmp_path: Path) -> None:
    """The story of the README."""
    assert story("refund_desk", tmp_path) == [
        "c2: refund 500 to ben?",
        "c4: refund 900 to ben?",
        "c1: refunded 40",
        "c2: refunded 450",
        "c3: refused: 20 was paid for o3",
        "c4: refused: one refund an order",
        "the ledger: [('c1', 40), ('c2', 450)]",
    ]


def test_an_agent_of_pydantic_ai_pauses_inside_its_tool(tmp_path: Path) -> None:
    """issue 4: the arguments are the model's, the amount a person's; the model is asked once a turn."""
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    assert story("pydantic_ai_desk", tmp_path) == [
        "the model is asked",
        "approve refund(order='o7', amount=30)?",
        "paying 20 for o7",
        "the model is asked",
        "Done: refunded 20 for o7.",
    ]
