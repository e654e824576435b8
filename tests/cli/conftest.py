"""What the tests of the command line can ask for: flowctl in a folder of its own, as real processes."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

LIMIT = 60  # seconds after which a command that hangs fails its test


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    """A folder with sample flows, where flowctl is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            name: value for name, value in os.environ.items() if name not in ("FLOWCTL_DB", "NO_COLOR")
        }
        self.environment |= {"PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "error", "TERM": "xterm-256color"}
        self._children: list[subprocess.Popen[str]] = []
        shutil.copy(Path(__file__).with_name("sample_flows.py"), folder / "sample.py")

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "flowctl", *words]

    def __call__(self, *words: str, **environment: str) -> Done:
        """Run flowctl to its end, with nothing on its standard input."""
        done = subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def spawn(self, *words: str) -> subprocess.Popen[str]:
        """Start flowctl and leave it running; it is ended with the test."""
        child = subprocess.Popen(
            self.command(*words),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._children.append(child)
        return child

    def end_children(self) -> None:
        for child in self._children:
            if child.poll() is None:
                child.kill()
            child.wait()
            for stream in (child.stdout, child.stderr):
                if stream is not None:
                    stream.close()

    # --- what tests begin with -------------------------------------------------------------------------

    def held(self, run_id: str = "r1", flow: str = "announce", given: str = "pausing") -> str:
        """A run that waits for an answer; returns the id of its (first) hold."""
        assert self("run", f"sample.py:{flow}", given, "--id", run_id).code == 75
        return self.hold_of(run_id)

    def hold_of(self, run_id: str) -> str:
        done = self("holds", run_id, "--json")
        assert done.code == 0, done.err
        holds = done.json["holds"]
        assert holds, f"{run_id} asks nothing"
        return str(holds[0]["id"])

    def blocked(self, run_id: str = "b1") -> tuple[subprocess.Popen[str], Gate]:
        """A process that runs a node which waits; returns it and what lets the node go on."""
        gate = Gate(self.folder / f"{run_id}.fifo")
        child = self.spawn("run", "sample.py:blocked", str(gate.path), "--id", run_id)
        gate.wait_for_node()
        return child, gate


class Gate:
    """Two FIFOs: through one a node says that it runs, through the other it is let go on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ends = []
        for name in (f"{path}.ready", str(path)):
            os.mkfifo(name)
            self._ends.append(os.open(name, os.O_RDWR))  # both ways: no open of the node waits for ours

    def wait_for_node(self) -> None:
        """Wait until a node says that it runs."""
        ready, _ = self._ends
        assert select.select([ready], [], [], LIMIT)[0], "no node began"
        assert os.read(ready, 1) == b"!"

    def let_go(self, text: str = "done") -> None:
        """Let one node go on with this text."""
        os.write(self._ends[1], f"{text}\n".encode())


@pytest.fixture
def flowctl(tmp_path: Path) -> Iterator[Shell]:
    """flowctl, in a fresh folder with the sample flows as `sample.py` and no store yet."""
    shell = Shell(tmp_path)
    try:
        yield shell
    finally:
        shell.end_children()
