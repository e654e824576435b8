"""Projects for the main example, and real processes that run examples and are killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from quiesce import RunStatus, Runtime

from .reading import Make

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNTED = Path(__file__).with_name("counted.py")

Done = subprocess.CompletedProcess[str]
Living = subprocess.Popen[str]


@pytest.fixture(autouse=True)
def plain_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own writer is not part of any test."""
    monkeypatch.delenv("WORKSPACE_ARCHITECT_WRITER", raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Make:
    """Write these files into a folder of a project."""

    def make(files: dict[str, str | bytes]) -> Path:
        root = tmp_path / "project"
        root.mkdir(exist_ok=True)
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return make


@pytest.fixture(scope="session", params=["json", "email", "asyncio", "unittest"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a package of the standard library."""
    name = str(request.param)
    source = Path(sysconfig.get_path("stdlib"), name)
    target = tmp_path_factory.mktemp("stdlib") / name
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "test"))
    return target


class Example:
    """An example over one store, in processes of its own that count what they evaluate."""

    def __init__(self, name: str, folder: Path) -> None:
        self.script = EXAMPLES / f"{name}.py"
        self.flow = f"{self.script}:graph"
        self.folder = folder
        self.log = folder / "evaluated.log"
        self.db = folder / "flows.db"

    def command(self, *words: object) -> list[str]:
        return [sys.executable, "-W", "error", str(COUNTED), str(self.log), *map(str, words)]

    def flowctl(self, *words: object, **environment: str) -> Done:
        """A command in a new process, in a pipe."""
        return self._done(self.command("flowctl", "--db", self.db, *words), environment)

    def script_run(self, *words: object, **environment: str) -> Done:
        """The example as a script, in a new process."""
        return self._done(self.command(self.script, *words), environment)

    def _done(self, command: list[str], environment: dict[str, str]) -> Done:
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, "COLUMNS": "100", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    @contextmanager
    def living(self, *words: object) -> Iterator[Living]:
        """A process that stays; it is killed with SIGKILL at the end, if not before."""
        with subprocess.Popen(
            self.command(*words),
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def held(self, run_id: str, input: object) -> Iterator[Living]:
        """A run in a process that lives, paused."""
        with self.living("hold", self.db, self.flow, run_id, json.dumps(input)) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "Paused\n"
            yield process

    @property
    def evaluated(self) -> list[str]:
        """The nodes that were evaluated, in order, in whatever process."""
        return [line.split()[1] for line in self.log.read_text().splitlines()]

    @property
    def evaluating(self) -> list[int]:
        """The processes that evaluated them."""
        return [int(line.split()[0]) for line in self.log.read_text().splitlines()]

    def status(self, run_id: str) -> RunStatus:
        """What is stored; reading it drives nothing."""

        async def read() -> RunStatus:
            async with Runtime(self.db, drive=False) as rt:
                return await rt.status(run_id)

        return anyio.run(read)

    def holds(self, run_id: str) -> dict[str, str]:
        """The ids of the open holds, by the gate that asks."""
        return {hold.path.partition("#")[0]: hold.id for hold in self.status(run_id).holds}

    def visits(self, run_id: str) -> list[str]:
        """The visits that were stored, in order."""
        lines = self.flowctl("events", run_id, "--json").stdout.splitlines()
        return [event["data"]["node"] for event in map(json.loads, lines) if event["kind"] == "visit"]


@pytest.fixture
def example(tmp_path: Path) -> Callable[[str], Example]:
    return lambda name: Example(name, tmp_path)
