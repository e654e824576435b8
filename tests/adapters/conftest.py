"""Real processes for the tests of what the operating system does: they talk in lines, and are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

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
