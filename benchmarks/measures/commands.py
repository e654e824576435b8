"""How long does somebody wait for a command, in a process of its own each time?

`flowctl answer`: from its start until it has ended, with the run that the answer let go on driven to its
value. `flowctl status`: the same for one run. Beside each, in turns, a bare script that imports sqlite3 and
does the same to two tables. Imports are most of both.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

from quiesce import Paused, Runtime, agent, pause

from .bare import connect
from .series import Effort, Limit, Series

__all__ = ["asks_once", "measure"]

ROUNDS = 40
BARE = "a bare script"
ANSWER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA synchronous = FULL")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE holds SET state = 'answered', answer = 'true' WHERE id = ?", (sys.argv[2],))
connection.execute("COMMIT")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE runs SET state = 'completed' WHERE id = ?", (sys.argv[2],))
connection.execute("COMMIT")
print(sys.argv[2], "completed")
"""
STATUS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(*connection.execute("SELECT id, state FROM runs WHERE id = ?", (sys.argv[2],)).fetchone())
"""


@agent
def asks_once() -> bool:
    return bool(pause("go on?"))


def measure(effort: Effort) -> Iterator[Series]:
    """Both commands, if agents are measured."""
    if "agent" not in effort.backends:
        return
    rounds = effort.times(ROUNDS, at_least=2)
    with tempfile.TemporaryDirectory(dir=effort.folder) as name:
        folder = Path(name)
        holds = asyncio.run(_prepared(folder / "flows.db", rounds))
        _prepare_bare(folder / "bare.db", rounds)
        taken: dict[str, list[float]] = {}
        for number, hold in enumerate(holds):
            bare = str(folder / "bare.db"), f"r{number}"
            for what, command in (
                ("answer, quiesce", ["-m", "flowctl", "--db", "flows.db", "answer", hold, "true"]),
                ("answer, bare", ["-c", ANSWER, *bare]),
                ("status, quiesce", ["-m", "flowctl", "--db", "flows.db", "status", f"r{number}"]),
                ("status, bare", ["-c", STATUS, *bare]),
            ):
                taken.setdefault(what, []).append(_seconds(command, folder))
    for what, most in (("answer", 8.0), ("status", 6.0)):
        case = f"flowctl {what}, SQLite full, in a new process"
        ours, theirs = tuple(taken[f"{what}, quiesce"]), tuple(taken[f"{what}, bare"])
        yield Series("commands", case, "quiesce", "s", ours, limit=Limit(BARE, most))
        yield Series("commands", case, BARE, "s", theirs)


async def _prepared(path: Path, count: int) -> list[str]:
    """Runs r0, r1, … that ask; their holds."""
    holds = []
    async with Runtime(path) as runtime:
        for number in range(count):
            outcome = await runtime.run(asks_once, run_id=f"r{number}")
            assert isinstance(outcome, Paused)
            holds.append(outcome.holds[0].id)
    return holds


def _prepare_bare(path: Path, count: int) -> None:
    with closing(connect(path, "full")) as connection:
        connection.execute("CREATE TABLE runs (id TEXT PRIMARY KEY, state TEXT) STRICT")
        connection.execute("CREATE TABLE holds (id TEXT PRIMARY KEY, state TEXT, answer TEXT) STRICT")
        for number in range(count):
            connection.execute("INSERT INTO runs VALUES (?, 'paused')", (f"r{number}",))
            connection.execute("INSERT INTO holds VALUES (?, 'open', NULL)", (f"r{number}",))


def _seconds(command: list[str], folder: Path) -> float:
    """Of a process that does this. Raises RuntimeError: it failed."""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    started = perf_counter()
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = perf_counter() - started
    if done.returncode != 0 or not done.stdout:
        raise RuntimeError(f"python {' '.join(command[:6])} ended with {done.returncode}: {done.stderr}")
    return seconds
