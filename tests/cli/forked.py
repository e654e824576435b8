"""How are hundreds of flowctl processes started without importing everything in each?

One process imports flowctl, opens nothing, and forks for every command. What runs is a process like any
other: its own pid, descriptors, folder and environment; it can be stopped, interrupted and killed. Only the
imports are shared, which `test_start_up.py` and the demo check in fresh interpreters.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

__all__ = ["Forks", "Process"]

LIMIT = 60  # seconds after which a command that hangs fails its test


class Process:
    """A flowctl that was forked. `code` is as `subprocess` has it: negative for a signal."""

    def __init__(self, status: int) -> None:
        self._status = status
        self.pid = int(self._read_line(LIMIT))
        self._code: int | None = None

    def _read_line(self, timeout: float) -> str:
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._status], [], [], timeout)[0]:
                raise TimeoutError(f"flowctl still runs after {timeout:g} s")
            read = os.read(self._status, 1)
            assert read, "the process that forks is gone"
            line += read
        return line.decode()

    def wait(self, timeout: float = LIMIT) -> int:
        if self._code is None:
            self._code = int(self._read_line(timeout))
        return self._code

    def send_signal(self, number: int) -> None:
        if self._code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As `kill -9`; returns when it is dead."""
        self.send_signal(signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        self.kill()
        os.close(self._status)


class Forks:
    """The process that forks, seen from a test."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, str(Path(__file__)), str(theirs.fileno())],
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def start(
        self,
        words: list[str],
        folder: Path,
        environment: dict[str, str],
        descriptors: tuple[int, int, int],
        *,
        terminal: bool = False,
    ) -> Process:
        """Start flowctl with these words and standard descriptors; `terminal`: they are its terminal."""
        status, told = os.pipe()
        request = {"words": words, "folder": str(folder), "environment": environment, "terminal": terminal}
        message = json.dumps(request).encode()
        socket.send_fds(self._socket, [len(message).to_bytes(4, "big")], [*descriptors, told])
        self._socket.sendall(message)
        os.close(told)
        return Process(status)

    def close(self) -> None:
        self._socket.close()
        self._server.wait(LIMIT)


# --- the other side ---------------------------------------------------------------------------------------


def _serve(connection: socket.socket) -> None:
    import anyio._backends._asyncio  # noqa: F401  # what commands load when they run

    import flowctl.main
    import flowctl.settling
    import quiesce_adapters.replay.backend
    import quiesce_adapters.sqlite.health
    import quiesce_adapters.sqlite.store  # noqa: F401

    for command in flowctl.main.main.commands.values():
        assert command.callback is not None
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        size, descriptors, _, _ = socket.recv_fds(connection, 4, 4)
        if not size:
            return
        request = json.loads(connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
        if os.fork() == 0:
            connection.close()
            _watch(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(request: dict[str, Any], descriptors: list[int]) -> None:
    """Fork the command, tell its pid, and when it has ended, how."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the test has gone
    told = descriptors.pop()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it
        os.close(told)
        _become(request, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    os.write(told, f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    from flowctl.main import main

    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # As at the start of an interpreter: what a stream is like depends on what the descriptor leads to.
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, "w", closefd=False), encoding="utf-8", write_through=True)
        for number in (1, 2)
    )
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["flowctl", *request["words"]]
    code: Any = 1
    try:
        main()
    except SystemExit as left:
        code = left.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _serve(connection)
