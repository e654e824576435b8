"""What is a job: a process that serves the body of a turn while that runs, and never longer.

A development server, a watcher, a database for the tests. A job is no effect and is not recorded: it runs
whenever the body runs behind the place that started it, and is ended, with its whole process group, whenever
the body stands: it asks, waits for another run, yields to a fence, ends, or loses its process. When the turn
goes on, in the same process or by replay in another one, the job is started again before the next effect.

Source: spec team, "drain" (child jobs and process groups); cases team 86, 91, 92.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from quiesce.agent.body import Unwind, this_body
from quiesce.agent.traps import Dismiss

__all__ = ["GRACE", "Job", "JobProcess", "make_job"]

GRACE = 3.0
"""Seconds between TERM and KILL."""


class JobProcess(Protocol):
    """One run of a job, as the mechanism that started it sees it."""

    pid: int

    def poll(self) -> int | None:
        """How it ended, as `subprocess` has it; None while anything of it may be alive."""
        ...


class Job:
    """A process of this turn, by `Turn.job`. As a context manager it is ended behind the block."""

    __slots__ = ("argv", "cwd", "env", "grace", "log", "process")

    def __init__(
        self,
        argv: Sequence[str],
        cwd: str | None,
        env: Mapping[str, str] | None,
        log: str | None,
        grace: float,
    ) -> None:
        self.argv = tuple(argv)
        self.cwd = cwd
        self.env = env
        self.log = log
        self.grace = grace
        self.process: JobProcess | None = None
        """The run of it that was started last."""

    @property
    def pid(self) -> int | None:
        """The process, which leads its group; None while it does not run."""
        return self.process.pid if self.process is not None and self.alive else None

    @property
    def alive(self) -> bool:
        """Whether anything of its group runs."""
        return self.process is not None and self.process.poll() is None

    @property
    def returncode(self) -> int | None:
        """How its last run ended, as `subprocess` has it; None while it runs, or never did."""
        return None if self.process is None else self.process.poll()

    def end(self) -> None:
        """End it for good: TERM to its process group, KILL to what is left after `grace`."""
        this_body("Job.end()").suspend(Dismiss(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Unwind):  # else the body is ended, and its jobs with it
            self.end()

    def __repr__(self) -> str:
        return f"<Job {' '.join(self.argv)!r}: {f'process {self.pid}' if self.alive else 'not running'}>"


def make_job(
    argv: Sequence[str | os.PathLike[str]],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    log: str | os.PathLike[str] | None,
    grace: float,
) -> Job:
    """A job that is not started. Raises ValueError: these make none."""
    words = [os.fspath(word) for word in argv]
    if not words:
        raise ValueError("job(): name the program and its arguments, as job('python', '-m', 'http.server')")
    wrong = [word for word in words if not isinstance(word, str) or "\0" in word]
    if wrong:
        raise ValueError(f"job(): an argument is text without NUL characters, not {wrong[0]!r}")
    if isinstance(grace, bool) or not isinstance(grace, int | float) or not 0 <= grace < float("inf"):
        raise ValueError(f"job(): grace is a number of seconds from 0, not {grace!r}")
    where = None if cwd is None else os.fspath(cwd)
    into = None if log is None else str(Path(os.fspath(log)).absolute())
    return Job(words, where, None if env is None else dict(env), into, float(grace))
