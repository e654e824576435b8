"""Does a new process find, after a kill, a failure, a change of code or beside another, what it needs?

Each test is named for its entry in the cases; see `test_failures_of_agent_frameworks.py`. Every process is
a real one, and the witness of what ran is a file that each node appends to.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import Event, Hold, RunStatus, Runtime

from .sessions import events_of

HERE = Path(__file__).parent
LIMIT = 60  # seconds after which a process that hangs fails its test

STEPS = """
from one_process import act
from quiesce import Graph

graph = Graph("steps")

@graph.node(start=True)
def a(x: int) -> int:
    act("a")
    return x + 1

@graph.node
def b(x: int) -> int:
    act("b")
    return x * 10

graph.edge(a, b)
graph.finish(b)
"""
PAYMENT = """
from one_process import act
from quiesce import Graph, Transition

graph = Graph("payment")

@graph.node(start=True)
def draft(x: int) -> int:
    act("draft")
    return x + 1

approve = graph.gate("approve", asks="charge?", expects=bool)

@graph.node
def charge(x: int) -> int:
    act("charge")
    return x * 10

@graph.transition(approve)
def decide(answered: tuple[int, bool]) -> Transition:
    act(f"decide {answered[1]}".replace(" ", "-"))
    return charge.next(answered[0]) if answered[1] else Transition.finish("kept")

graph.edge(draft, approve)
graph.finish(charge)
"""
ASKS_FIRST = PAYMENT.replace(
    "graph.edge(draft, approve)",
    """
newsletter = graph.gate("newsletter", asks="newsletter?", expects=bool, takes=int)
graph.transition(newsletter)(lambda answered: approve.next(answered[0]))
graph.edge(draft, newsletter)
""",
)
RENAMED = PAYMENT.replace("charge", "pay").replace("pay?", "charge?")
REMOVED = (
    PAYMENT.replace('approve = graph.gate("approve", asks="charge?", expects=bool)', "")
    .replace("@graph.transition(approve)\n", "")
    .replace("graph.edge(draft, approve)", "graph.edge(draft, charge)")
)


class Processes:
    """A store, the file with the flow as it is now, and one process after another."""

    def __init__(self, db: Path, folder: Path, backend: str) -> None:
        self.db = db
        self.file = folder / "flow.py"
        self.witness = folder / "visits"
        self.backend = backend

    def write(self, source: str) -> None:
        self.file.write_text(source)

    def begin(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                sys.executable,
                "-W",
                "error",
                "-B",
                str(HERE / "one_process.py"),
                self.backend,
                str(self.db),
                *words,
            ],
            env={**os.environ, "FAULT_VISITS": str(self.witness), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def lines(self, *words: str, **environment: str) -> list[Any]:
        """What a process prints that ends by itself."""
        with self.begin(*words, **environment) as process:
            out, said = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, said
        return [json.loads(line) for line in out.splitlines()]

    def do(self, *words: str, **environment: str) -> Any:
        (found,) = self.lines(*words, **environment)
        return found

    def dies(self, *words: str, **environment: str) -> None:
        """A process that is killed with SIGKILL."""
        with self.begin(*words, **environment) as process:
            out, _ = process.communicate(timeout=LIMIT)
        assert (process.returncode, out) == (-signal.SIGKILL, "")

    def start(self, source: str, **environment: str) -> Any:
        self.write(source)
        return self.do("start", f"{self.file}:graph", "1", **environment)

    @property
    def ran(self) -> Counter[str]:
        """How often each node was evaluated, in whatever process."""
        return Counter(line.split()[0] for line in self.witness.read_text().splitlines())

    def stored(self) -> tuple[RunStatus, list[Hold], list[Event]]:
        """All of the run, read without driving anything."""

        async def read() -> tuple[RunStatus, list[Hold], list[Event]]:
            async with Runtime(self.db, drive=False) as rt:
                return await rt.status("r"), list(await rt.holds("r", None)), await events_of(rt, "r")

        return anyio.run(read)


@pytest.fixture
def processes(db: Path, tmp_path: Path, anyio_backend: str) -> Processes:
    return Processes(db, tmp_path, anyio_backend)


def test_agent_framework_case_03_a_crash_in_the_next_step_repeats_no_finished_one(
    processes: Processes,
) -> None:
    """Source: cases failures-agent-frameworks 03."""
    processes.write(STEPS)
    processes.dies("start", f"{processes.file}:graph", "1", DIES_OF="b")
    assert processes.ran == {"a": 1, "b": 1}
    assert [event.data["node"] for event in processes.stored()[2] if event.kind == "visit"] == ["a"]

    assert processes.do("resume") == {"outcome": "Completed", "value": 20}
    assert processes.ran == {"a": 1, "b": 2}


def test_agent_framework_case_09_of_two_processes_that_answer_one_pause_one_wins(
    processes: Processes,
) -> None:
    """Source: cases failures-agent-frameworks 09."""
    assert processes.start(PAYMENT)["outcome"] == "Paused"
    (hold,) = processes.stored()[1]
    with (
        processes.begin("answer", hold.id, "true") as one,
        processes.begin("answer", hold.id, "true") as other,
    ):
        both = (one, other)
        for process in both:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline()) == {"saw": "open"}
        for process in both:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate(timeout=LIMIT) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    found = [json.loads(out) for out, _ in said]
    assert [(each["outcome"], each["value"]) for each in found] == [("Completed", 20)] * 2
    (lost,) = [each["refused"] for each in found if "refused" in each]
    assert lost[0] == "AlreadyAnswered"
    assert "was answered by" in lost[1]
    assert processes.ran == {"draft": 1, "decide-True": 1, "charge": 1}


def test_agent_framework_case_19_a_question_put_before_an_open_one_does_not_get_its_answer(
    processes: Processes,
) -> None:
    """Source: cases failures-agent-frameworks 19."""
    assert processes.start(PAYMENT)["outcome"] == "Paused"
    before = processes.stored()
    (hold,) = before[1]
    processes.write(ASKS_FIRST)
    for words in (["resume", "true"], ["retry"]):
        found = processes.do(*words)
        assert found["refused"][0] == "FlowChanged"
        assert any("newsletter" in line for line in found["diff"])
        assert processes.stored() == before

    assert processes.do("accept", "false") == {"outcome": "Completed", "value": "kept"}
    after = processes.stored()[1]
    assert [(item.id, item.path, item.answer) for item in after] == [(hold.id, "approve", False)]
    assert processes.ran == {"draft": 1, "decide-False": 1}


def test_agent_framework_case_19_a_place_that_asks_something_else_now_asks_it_anew(
    processes: Processes,
) -> None:
    """Source: cases failures-agent-frameworks 19."""
    asks = PAYMENT.replace('asks="charge?", expects=bool', 'asks="charge?", payload={"euros": 5}')
    assert processes.start(asks)["outcome"] == "Paused"
    (hold,) = processes.stored()[1]
    processes.write(asks.replace('"euros": 5', '"euros": 500'))
    assert processes.do("resume")["outcome"] == "Paused"
    old, new = processes.stored()[1]
    assert (old.id, old.state, old.payload) == (hold.id, "withdrawn", {"euros": 5})
    assert (new.state, new.payload) == ("open", {"euros": 500})
    assert processes.ran == {"draft": 1}


@pytest.mark.parametrize("dies", [False, True])
def test_agent_framework_case_41_a_failure_after_the_answer_leaves_a_run_that_goes_on_with_it(
    processes: Processes, dies: bool
) -> None:
    """Source: cases failures-agent-frameworks 41."""
    assert processes.start(PAYMENT)["outcome"] == "Paused"
    (hold,) = processes.stored()[1]
    if dies:
        processes.dies("resume", "true", DIES_OF="charge")
    else:
        found = processes.do("resume", "true", FAILS_AT="charge")
        assert found["raised"][0] == "NodeError"
    status, holds, _ = processes.stored()
    assert status.state == ("running" if dies else "failed")
    assert [(item.id, item.state, item.answer) for item in holds] == [(hold.id, "answered", True)]

    assert processes.do("resume" if dies else "retry") == {"outcome": "Completed", "value": 20}
    assert processes.ran == {"draft": 1, "decide-True": 1, "charge": 2}
    assert [item.id for item in processes.stored()[1]] == [hold.id]


@pytest.mark.parametrize("dies", [False, True])
def test_agent_framework_case_41_a_failure_while_the_answer_is_read_does_not_lose_it(
    processes: Processes, dies: bool
) -> None:
    """Source: cases failures-agent-frameworks 41."""
    assert processes.start(PAYMENT)["outcome"] == "Paused"
    (hold,) = processes.stored()[1]
    if dies:
        processes.dies("resume", "true", DIES_OF="decide-True")
    else:
        processes.do("resume", "true", FAILS_AT="decide-True")
    events = [event.kind for event in processes.stored()[2]]
    assert events.index("answered") < events.index("resumed")

    assert processes.do("resume" if dies else "retry") == {"outcome": "Completed", "value": 20}
    assert processes.ran == {"draft": 1, "decide-True": 2, "charge": 1}
    assert [(item.id, item.state) for item in processes.stored()[1]] == [(hold.id, "answered")]


def test_agent_framework_case_42_a_step_renamed_while_paused_is_refused_with_what_changed(
    processes: Processes,
) -> None:
    """Source: cases failures-agent-frameworks 42."""
    assert processes.start(PAYMENT)["outcome"] == "Paused"
    before = processes.stored()
    processes.write(RENAMED)
    found = processes.do("resume", "true")
    assert found["refused"][0] == "FlowChanged"
    assert {"node 'charge' was removed", "node 'pay' was added"} <= set(found["diff"])
    assert processes.stored() == before

    assert processes.do("accept", "true") == {"outcome": "Completed", "value": 20}
    assert processes.ran == {"draft": 1, "decide-True": 1, "pay": 1}


def test_agent_framework_case_42_a_run_whose_place_was_removed_is_never_finished(
    processes: Processes,
) -> None:
    """Source: cases failures-agent-frameworks 42."""
    assert processes.start(PAYMENT)["outcome"] == "Paused"
    before = processes.stored()
    processes.write(REMOVED)
    found = processes.do("resume", "true")
    assert found["refused"][0] == "FlowChanged"
    assert "node 'approve' was removed" in found["diff"]
    assert processes.stored() == before

    assert processes.do("accept", "true")["outcome"] == "Paused"
    status = processes.stored()[0]
    assert (status.state, [lock.kind for lock in status.locks]) == ("paused", ["fault"])
    assert "approve" in (status.reason or "")
    assert processes.ran == {"draft": 1}

    processes.write(PAYMENT)
    assert processes.do("accept") == {"outcome": "Completed", "value": 20}
    assert processes.ran == {"draft": 1, "decide-True": 1, "charge": 1}


def test_agent_framework_case_46_a_span_of_a_paused_run_is_no_error(processes: Processes) -> None:
    """Source: cases failures-agent-frameworks 46."""
    pytest.importorskip("opentelemetry.sdk")
    processes.write(PAYMENT)
    found, spans = processes.lines("start", f"{processes.file}:graph", "1", TRACED="1")
    assert found == {"outcome": "Paused"}
    assert {name for name, *_ in spans} >= {"quiesce.run", "quiesce.visit"}
    assert [span for span in spans if span[1] == "ERROR" or span[3]] == []
    (run,) = [facts for name, _, facts, _ in spans if name == "quiesce.run"]
    assert run["quiesce.state"] == "paused"

    found, spans = processes.lines("resume", "true", TRACED="1", FAILS_AT="charge")
    assert found["raised"][0] == "NodeError"
    assert [name for name, status, _, _ in spans if status == "ERROR"] == ["quiesce.visit", "quiesce.run"]
