"""How are the jobs of a turn started and ended, so that none outlives its body, nor the next body meets it?

Each has a guardian (`guardian.py`), which ends it also if this process is killed. A lock file for each job,
held by whatever is alive of it, is the proof that it is gone: a body that is taken up after the death of its
process waits for those of its run before it begins, and tells their guardians to end them, which those of a
process that only hangs would not do by themselves.

Source: spec team, "drain" and N5; cases team 86, 91, 92.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio

from quiesce.clock import Clock
from quiesce.team.jobs import Job
from quiesce.threads import run_blocking

__all__ = ["Jobs"]

_GUARDIAN = Path(__file__).with_name("guardian.py")


class _Running:
    """A job and its guardian."""

    def __init__(self, job: Job, lock: Path) -> None:
        """Start both. Raises OSError."""
        self._lock = lock
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARDIAN), str(lock), str(job.grace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        lock.write_text(f"{self._guardian.pid}\n", encoding="ascii")
        asked = {"argv": job.argv, "cwd": job.cwd, "env": job.env, "log": job.log}
        assert self._guardian.stdin is not None
        assert self._guardian.stdout is not None
        try:
            self._guardian.stdin.write(json.dumps(asked).encode() + b"\n")
            self._guardian.stdin.flush()
            told = json.loads(self._guardian.stdout.readline() or b"{}")
        except OSError:
            told = {}
        self._guardian.stdout.close()
        if "pid" not in told:
            self.end()
            raise OSError(told.get("errno", 0), told.get("problem", f"no job was started: {job.argv[0]}"))
        self.pid = int(told["pid"])

    def poll(self) -> int | None:
        code = self._guardian.poll()
        return code if code is None or code <= 128 else 128 - code

    def end(self) -> None:
        """End the job, and wait until nothing of it is left."""
        assert self._guardian.stdin is not None
        try:
            self._guardian.stdin.close()
        except OSError:
            pass  # it has ended
        self._guardian.wait()
        _wait(self._lock, killing=getattr(self, "pid", None))


def _wait(lock: Path, *, killing: int | None = None) -> None:
    """Wait until nobody holds this lock, and remove it; `killing` is a group whose guardian was killed."""
    try:
        file = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if killing is not None:  # its guardian was killed
                _send(lambda: os.killpg(killing, signal.SIGKILL))
            elif (guardian := os.read(file, 20).strip()).isdigit() and _leads_a_session(int(guardian)):
                _send(lambda: os.kill(int(guardian), signal.SIGTERM))
            fcntl.flock(file, fcntl.LOCK_EX)
        lock.unlink(missing_ok=True)
    finally:
        os.close(file)


def _leads_a_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def _send(signalling: Callable[[], None]) -> None:
    try:
        signalling()
    except (ProcessLookupError, PermissionError):
        pass  # it has gone meanwhile


class Jobs:
    """The jobs of one run's body, in the order in which they were asked for."""

    __slots__ = ("_clock", "_folder", "_lock", "_run_id", "_running", "_temporary", "_wanted")

    def __init__(self, run_id: str, folder: Path | None, clock: Clock) -> None:
        """`folder` is where the store keeps what only the operating system reads; None: in memory."""
        self._run_id = run_id
        self._folder = None if folder is None else folder / "jobs"
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._clock = clock
        self._wanted: list[Job] = []
        self._running: dict[Job, _Running] = {}
        self._lock: anyio.Lock | None = None

    async def await_others(self) -> None:
        """Wait until what is alive of the jobs of a former body of this run is gone."""
        if self._folder is None or not self._folder.is_dir():
            return
        for lock in sorted(self._folder.glob(f"{self._name()}.*")):
            await run_blocking(partial(_wait, lock))

    async def add(self, job: Job, *, now: bool) -> None:
        """Want a job from now on; `now`: start it at once. Raises OSError: it cannot be started."""
        self._wanted.append(job)
        if now:
            try:
                await self.start()
            except OSError:
                self._wanted.remove(job)
                raise

    async def start(self) -> None:
        """Start what is wanted and was ended with the body, or never ran. Raises OSError."""
        if len(self._wanted) == len(self._running):
            return
        self._lock = self._lock or anyio.Lock()
        async with self._lock:
            for job in self._wanted:
                if job not in self._running:
                    lock = self._place() / f"{self._name()}.{self._clock.new_id('job')}"
                    with anyio.CancelScope(shield=True):
                        self._running[job] = await run_blocking(partial(_start, job, lock))
                    job.process = self._running[job]

    async def end(self) -> None:
        """End all, as the body stands; those that run still are started again when it goes on."""
        if not self._running:
            return
        self._wanted = [job for job in self._wanted if job not in self._running or job.alive]
        await self._end(list(self._running))

    async def remove(self, job: Job) -> None:
        """End this one for good."""
        self._wanted = [other for other in self._wanted if other is not job]
        await self._end([job])

    async def close(self) -> None:
        """End all for good."""
        self._wanted.clear()
        await self._end(list(self._running))
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _name(self) -> str:
        """What the files of this run begin with, whatever its id is made of."""
        return hashlib.sha256(self._run_id.encode()).hexdigest()[:24]

    def _place(self) -> Path:
        if self._folder is not None:
            return self._folder
        self._temporary = self._temporary or tempfile.TemporaryDirectory(prefix="quiesce-jobs-")
        return Path(self._temporary.name)

    async def _end(self, jobs: list[Job]) -> None:
        if not jobs:
            return
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for job in jobs:
                    if (running := self._running.pop(job, None)) is not None:
                        group.start_soon(run_blocking, running.end)


def _start(job: Job, lock: Path) -> _Running:
    lock.parent.mkdir(parents=True, exist_ok=True)
    return _Running(job, lock)
