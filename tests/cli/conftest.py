"""What the tests of the command line can ask for: flowctl in a folder of its own, as real processes."""

from __future__ import annotations

import json
import os
import select
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from .forked import LIMIT, Forks, Process

ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("FLOWCTL_DB", "NO_COLOR", "COLUMNS", "LINES")
} | {
    "PYTHONUNBUFFERED": "1",
    "PYTHONWARNINGS": "error",
    "TERM": "xterm-256color",
}

SAMPLES = {
    "sample_flows.py": "sample.py",
    "sample_agents.py": "agents.py",
    "sample_teams.py": "teams.py",
}


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Running:
    """A command that was left running; what it prints can be read meanwhile."""

    def __init__(self, process: Process, out: IO[str], err: IO[str]) -> None:
        self.process = process
        self.pid = process.pid
        self.out = out
        self.err = err

    def done(self) -> Done:
        """Wait for its end."""
        code = self.process.wait()
        return Done(code, self.out.read(), self.err.read())

    def close(self) -> None:
        self.process.close()
        self.out.close()
        self.err.close()


class Shell:
    """A folder with sample flows, where flowctl is run."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.folder = folder
        self.forks = forks
        self.environment = ENVIRONMENT
        self._running: list[Running] = []
        for flows, name in SAMPLES.items():
            shutil.copy(Path(__file__).with_name(flows), folder / name)

    def __call__(self, *words: str, **environment: str) -> Done:
        """Run flowctl to its end, with nothing on its standard input."""
        with (
            open(os.devnull) as nothing,
            tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as out,
            tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as err,
        ):
            descriptors = (nothing.fileno(), out.fileno(), err.fileno())
            process = self.forks.start(list(words), self.folder, self.environment | environment, descriptors)
            try:
                code = process.wait()
            finally:
                process.close()
            out.seek(0)
            err.seek(0)
            return Done(code, out.read(), err.read())

    def spawn(self, *words: str) -> Running:
        """Start flowctl and leave it running; it is ended with the test."""
        out, its_out = os.pipe()
        err, its_err = os.pipe()
        with open(os.devnull) as nothing:
            descriptors = (nothing.fileno(), its_out, its_err)
            process = self.forks.start(list(words), self.folder, self.environment, descriptors)
        os.close(its_out)
        os.close(its_err)
        running = Running(process, os.fdopen(out, encoding="utf-8"), os.fdopen(err, encoding="utf-8"))
        self._running.append(running)
        return running

    def end_children(self) -> None:
        for running in self._running:
            running.close()

    # --- what tests begin with -------------------------------------------------------------------------

    def held(self, run_id: str = "r1", flow: str = "announce", given: str = "pausing") -> str:
        """A run that waits for an answer; returns the id of its (first) hold."""
        return self.asked(f"sample.py:{flow}", given, run_id=run_id)

    def asked(self, flow: str, *given: str, run_id: str = "r1") -> str:
        """The same, of any flow."""
        done = self("run", flow, *given, "--id", run_id)
        assert done.code == 75, done
        return self.hold_of(run_id)

    def hold_of(self, run_id: str) -> str:
        done = self("holds", run_id, "--json")
        assert done.code == 0, done.err
        holds = done.json["holds"]
        assert holds, f"{run_id} asks nothing"
        return str(holds[0]["id"])

    def blocked(self, run_id: str = "b1", flow: str = "sample.py:blocked") -> tuple[Running, Gate]:
        """A process that runs a node or a step which waits; returns it and what lets that go on."""
        gate = Gate(self.folder / f"{run_id}.fifo")
        child = self.spawn("run", flow, str(gate.path), "--id", run_id)
        gate.wait_for_node(child)
        return child, gate


class Gate:
    """Two FIFOs: through one a node says that it runs, through the other it is let go on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ends = []
        for name in (f"{path}.ready", str(path)):
            os.mkfifo(name)
            self._ends.append(os.open(name, os.O_RDWR))  # both ways: no open of the node waits for ours

    def wait_for_node(self, driver: Running) -> None:
        """Wait until a node says that it runs, in this process."""
        ready, _ = self._ends
        began, _, _ = select.select([ready, driver.err], [], [], LIMIT)
        assert began == [ready], f"no node began: {driver.err.read() if began else 'nothing happened'}"
        assert os.read(ready, 1) == b"!"

    def let_go(self, text: str = "done") -> None:
        """Let one node go on with this text."""
        os.write(self._ends[1], f"{text}\n".encode())


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """The process that forks every flowctl of these tests."""
    forks = Forks(ENVIRONMENT)
    yield forks
    forks.close()


@pytest.fixture
def flowctl(tmp_path: Path, forks: Forks) -> Iterator[Shell]:
    """flowctl, in a fresh folder with the sample flows as `sample.py` and no store yet."""
    shell = Shell(tmp_path, forks)
    try:
        yield shell
    finally:
        shell.end_children()
