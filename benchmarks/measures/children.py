"""How does a measure run what it measures in processes of their own, so that nothing of one disturbs another?

A process that is not at work is stopped: some libraries look into their database a thousand times a second.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Child"]

HERE = Path(__file__).parent


class Child:
    """A function of a module of `subjects`, which speaks in lines. A context manager, which kills it.

    Raises (where it is listened to):
        RuntimeError: it ended; with what it said on stderr.
    """

    def __init__(
        self,
        module: str,
        function: str,
        *arguments: object,
        folder: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        command = ["-m", f"{HERE.name}.subjects", module, function, *map(str, arguments)]
        self._said = folder / "stderr.txt"
        self._command = " ".join(["python", *command])
        with self._said.open("ab") as stderr:
            self._popen = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=folder,
                env={
                    **os.environ,
                    **(env or {}),
                    "PYTHONPATH": os.pathsep.join([str(HERE.parent), *filter(None, sys.path)]),
                },
            )
        self.pid = self._popen.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def hear(self) -> str:
        """The next line that it prints."""
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        if not line:
            code = self._popen.wait()
            said = self._said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RuntimeError(
                f"{self._command} ended with {code}: {said[-1] if said else 'it said nothing'}"
            )
        return line.strip()

    def tell(self, line: object) -> None:
        """Let it work on this line."""
        assert self._popen.stdin is not None
        os.kill(self.pid, signal.SIGCONT)
        self._popen.stdin.write(f"{line}\n")
        self._popen.stdin.flush()

    def asks(self, line: object) -> Any:
        """Let it work on this line, and stop it again; what it answers, read as JSON."""
        self.tell(line)
        answer = json.loads(self.hear())
        self.stop()
        return answer

    def stop(self) -> None:
        """SIGSTOP; returns when it has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def kill(self) -> None:
        """SIGKILL; returns when the kernel has taken away everything it held."""
        self._popen.kill()
        self._popen.wait()
        for stream in (self._popen.stdin, self._popen.stdout):
            assert stream is not None
            stream.close()
