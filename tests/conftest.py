"""What every test can ask for, and how many examples a property test draws.

`tests/contract` adds what its own tests share.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from quiesce_adapters.sqlite.checks import violations_of_file

# No deadline anywhere: a slow machine is not a failing property.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile(
    "sweep",
    deadline=None,
    max_examples=5_000,
    stateful_step_count=100,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")  # --hypothesis-profile overrides it

os.environ.pop("FLOWCTL_DB", None)  # a developer's own store is not part of any test


Start = Callable[..., "Process"]


class Process:
    """A Python script in a process of its own."""

    def __init__(self, script: str, *arguments: object) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._stdin, self._stdout = self._popen.stdin, self._popen.stdout
        self.pid = self._popen.pid

    def hear(self) -> str:
        """The next line that it prints; empty when it has ended."""
        return self._stdout.readline().strip()

    def say(self, line: str = "") -> None:
        self._stdin.write(line + "\n")
        self._stdin.flush()

    def kill(self) -> None:
        """SIGKILL; returns when the kernel has taken away everything it held."""
        self._popen.kill()
        self._popen.wait()

    def stop(self) -> None:
        """SIGSTOP; returns when it has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def ended(self) -> int:
        """Its exit code; fails if it does not end."""
        return self._popen.wait(timeout=30)

    def close(self) -> None:
        self.kill()
        self._stdin.close()
        self._stdout.close()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop: every async test runs on both."""
    return str(request.param)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Path]:
    """A path where no store is yet; a test that opens it twice sees what a restart sees.

    Whatever the test did, what it leaves there must be true together.
    """
    path = tmp_path / "flows.db"
    yield path
    if path.exists():
        assert violations_of_file(path) == []


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts scripts; what still runs at the end of the test is killed."""
    running: list[Process] = []

    def start(script: str, *arguments: object) -> Process:
        running.append(Process(script, *arguments))
        return running[-1]

    yield start
    for process in running:
        process.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow sweeps out, unless a marker expression or a test's own name asks for them."""
    if config.option.markexpr or any("::" in str(argument) for argument in config.args):
        return
    slow = {item for item in items if item.get_closest_marker("slow")}
    if slow:
        config.hook.pytest_deselected(items=list(slow))
        items[:] = [item for item in items if item not in slow]
