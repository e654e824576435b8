"""What an agent's process does that is killed at one of its statements, and what the next one finds.

Run as a script: `killed_bodies.py TEMPLATE FOLDER FLOW STEP` forks, for every STEP-th statement, a process
that is killed right before it, and then another that takes over. It prints one line of JSON for each.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import bodies
from crashes import Killer, fork

from quiesce import Paused, Runtime
from quiesce.agent.journal import Journal
from quiesce.clock import SystemClock
from quiesce.records import RunFilter
from quiesce_adapters.sqlite.checks import violations_of_file
from quiesce_adapters.sqlite.store import SqliteStore

INPUTS = {"clerk": "a", "rounds": 1}
ANSWERS = {
    "go on?": True,
    "more about c?": "yes",
    "approve pay(amount=50)?": {"approve": True, "arguments": {"amount": 40}},
}


def done_keys(path: Path) -> list[str]:
    """The idempotency keys of the steps and actions that the journals say are done."""
    store, keys = SqliteStore(path, SystemClock()), []
    try:
        for run in store.read(lambda tx: tx.runs(RunFilter(), 10, None)[0]):
            entries = store.read(lambda tx: tx.journal(run.id))  # noqa: B023
            counters = store.read(lambda tx: tx.counters(run.id)) or {}  # noqa: B023
            journal = Journal((), f"{run.id}:{run.execution}:{counters.get('round', 1)}")
            named = [(entry, journal.key(entry)) for entry in entries if entry.kind in ("step", "action")]
            keys += [key for entry, key in named if entry.state in ("done", "committed")]
    finally:
        store.close()
    return keys


async def to_its_end(rt: Runtime, name: str) -> Any:
    """Start the run if nobody did, and answer whatever it asks."""
    flow = getattr(bodies, name)
    run = await rt.start(flow, INPUTS[name], run_id="r", request_id="start")
    while isinstance(outcome := await run.settled(), Paused):
        for hold in outcome.holds:
            await rt.answer(hold.id, ANSWERS[hold.reason or ""], request_id=hold.id)
    return outcome.value


def use(path: Path, name: str, hook: Callable[[str], None], backend: str) -> Any:
    async def main() -> Any:
        store = SqliteStore(path, SystemClock(), durability="normal", on_statement=hook)
        async with Runtime(store, flows=[bodies.clerk, bodies.assistant, bodies.rounds]) as rt:
            return await to_its_end(rt, name)

    return anyio.run(main, backend=backend)


def take_over(path: Path, name: str, effects: Path, backend: str) -> dict[str, Any]:
    wrong = violations_of_file(path)
    done = done_keys(path)
    pid = os.getpid()
    value = use(path, name, lambda label: None, backend)
    lines = [line.rsplit(" ", 2) for line in effects.read_text().splitlines()]
    return {
        "value": value,
        "wrong": wrong + violations_of_file(path),
        "done": done,
        "before": [[what, key] for what, key, by in lines if int(by) != pid],
        "after": [[what, key] for what, key, by in lines if int(by) == pid],
    }


def tell(at: int, path: Path, name: str, effects: Path, backend: str) -> None:
    print(json.dumps({"at": at, **take_over(path, name, effects, backend)}), flush=True)


def sweep(template: Path, folder: Path, name: str, step: int) -> None:
    for backend in ("asyncio", "trio"):  # so that what is imported late is there in every child
        path = folder / f"{name}-{backend}.db"
        shutil.copyfile(template, path)
        use(path, name, lambda label: None, backend)
    at, killed = 1, True
    while killed:
        backend = ("asyncio", "trio")[at // step % 2]
        path, effects = folder / f"{name}-{at}.db", folder / f"{name}-{at}.effects"
        shutil.copyfile(template, path)
        effects.touch()
        os.environ["FAULT_EFFECTS"] = str(effects)
        killed = os.WIFSIGNALED(fork(lambda: use(path, name, Killer(at), backend)))  # noqa: B023
        if killed:
            told = partial(tell, at, path, name, effects, backend)
            if status := fork(told):
                print(json.dumps({"at": at, "failed": status}), flush=True)
        for file in folder.glob(f"{name}-{at}.*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        at += step


if __name__ == "__main__":
    template, folder, name, step = sys.argv[1:]
    sweep(Path(template), Path(folder), name, int(step))
