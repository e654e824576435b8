"""What a process does that is killed at one of its statements, and what the next one finds and finishes.

Run as a script: `crashes.py TEMPLATE FOLDER USE STEP` forks, for every STEP-th statement, a process that is
killed right before it (which is right after the one before it), and then another that takes over. It
prints one line of JSON for each. `crashes.py --once PATH USE` is just the first process, unharmed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import fault_flows
from uses import EXPECTED, USES, Stubborn, go_on

from quiesce import Runtime
from quiesce.clock import ManualClock
from quiesce_adapters.sqlite.checks import violations_of_file
from quiesce_adapters.sqlite.store import SqliteStore

KEPT = """
SELECT json_extract(data, '$.node') FROM events
WHERE kind = 'visit' AND json_extract(data, '$.did') <> 'error'
UNION ALL SELECT name FROM journal WHERE kind = 'step' AND state = 'done'
"""
"""The visits and steps that are over, by the log; one that failed is evaluated again by a retry."""


class Killer:
    """The hook of a store: counts its statements, and kills the process before one of them."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0

    def __call__(self, label: str) -> None:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def use(path: Path, name: str, hook: Callable[[str], None], backend: str, durability: str = "normal") -> Any:
    """The use of a flow, in this process."""

    async def main() -> Any:
        clock = ManualClock()
        store = SqliteStore(path, clock, durability=durability, on_statement=hook)
        async with Runtime(store, flows=fault_flows.FLOWS, clock=clock) as rt:
            return await USES[name](Stubborn(rt, clock))

    return anyio.run(main, backend=backend)


def take_over(path: Path, name: str, visits: Path, backend: str) -> dict[str, Any]:
    """Look at what a dead process left, and bring it to its end."""
    wrong = violations_of_file(path)
    kept = Counter(_column(path, KEPT))
    answers = _column(path, "SELECT id || ' ' || answer FROM holds WHERE state = 'answered'")
    pid = os.getpid()

    async def main() -> Any:
        clock = ManualClock()
        async with Runtime(path, flows=fault_flows.FLOWS, clock=clock) as rt:
            with anyio.fail_after(30):
                return await go_on(Stubborn(rt, clock), name)

    result = anyio.run(main, backend=backend)
    wrong += violations_of_file(path)
    lines = [line.split() for line in visits.read_text().splitlines()]
    return {
        "result": repr(result),
        "wrong": wrong,
        "kept": kept,
        "lost_answers": sorted(
            set(answers)
            - set(_column(path, "SELECT id || ' ' || answer FROM holds WHERE state = 'answered'"))
        ),
        "before": Counter(visit for visit, by in lines if int(by) != pid),
        "after": Counter(visit for visit, by in lines if int(by) == pid),
    }


def _column(path: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return [value for (value,) in connection.execute(query)]
    finally:
        connection.close()


def fork(work: Callable[[], None]) -> int:
    """Run `work` in a child; its status."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitpid(child, 0)[1]


def sweep(template: Path, folder: Path, name: str, step: int) -> None:
    for backend in ("asyncio", "trio"):  # so that what is imported late is there in every child
        path = folder / f"{name}-{backend}.db"
        shutil.copyfile(template, path)
        use(path, name, lambda label: None, backend)
        fault_flows.STAGE.reset()
    at, killed = 1, True
    while killed:
        backend = ("asyncio", "trio")[at // step % 2]
        path, visits = folder / f"{name}-{at}.db", folder / f"{name}-{at}.visits"
        shutil.copyfile(template, path)
        visits.touch()
        os.environ["FAULT_VISITS"] = str(visits)
        status = fork(lambda: use(path, name, Killer(at), backend))  # noqa: B023
        killed = os.WIFSIGNALED(status)
        found: dict[str, Any] = {"at": at, "killed": killed, "status": status}
        if killed:
            print(json.dumps(found), end=" ", flush=True)
            status = fork(lambda: print(json.dumps(take_over(path, name, visits, backend)), flush=True))  # noqa: B023
            if status:
                print(json.dumps({"failed": status}), flush=True)
        for file in folder.glob(f"{name}-{at}.*"):
            if file.is_dir():
                shutil.rmtree(file)
            else:
                file.unlink()
        at += step


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--once", path, name]:
            print(repr(use(Path(path), name, lambda label: None, "asyncio", "full")))
        case ["--after", path, name, visits]:
            print(json.dumps(take_over(Path(path), name, Path(visits), "asyncio")))
        case [template, folder, name, step]:
            assert name in EXPECTED
            sweep(Path(template), Path(folder), name, int(step))
