"""A team on a real engine, whose every body ends when a test says so, beside a model of it.

`possible` lists what can happen next, `do` lets one of it happen, to the engine and to the model
(`team_rules.py`), and `check` compares the two. A world is small enough to be driven by a property test, by
a seed, or through every order.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from quiesce import Run, Runtime, Team, Turn, current_run, errors, step
from quiesce.clock import ManualClock
from quiesce_adapters.memory.store import MemoryStore
from quiesce_adapters.sqlite.checks import violations_of_file
from quiesce_adapters.sqlite.store import SqliteStore

from .team_rules import MEMBERS, Model

__all__ = ["Op", "Visit", "World"]

Op = tuple[Any, ...]
"""What happens, and to what."""

BOUND = 10.0
"""Seconds that a drain may take."""
MOST = 6
"""Tasks, and user-directed turns, of one world."""
LOSSES = 2
"""A third one is poison, which has tests of its own."""
WORLDS: dict[str, World] = {}
"""By the id of its run."""


# --- the team ----------------------------------------------------------------------------------------------


class Visit:
    """The work of one body, while it lasts."""

    def __init__(self, member: str, what: str) -> None:
        self.member, self.what = member, what
        self.may_end = anyio.Event()
        self.fails = False


@step
async def work(member: str, what: str) -> None:
    visits = WORLDS[current_run().id.split(".")[0]].visits
    visit = Visit(member, what)
    visits.append(visit)
    try:
        await visit.may_end.wait()
    finally:
        visits.remove(visit)
    if visit.fails:
        raise ValueError(f"{what} was to fail")


async def member(turn: Turn) -> None:
    await work(turn.participant, turn.task.title if turn.task is not None else str(turn.prompt))


async def leave_it_to_others(turn: Turn) -> None:
    """The tasks come from outside."""


crew = Team("crew", coordinator=leave_it_to_others, members=dict.fromkeys(MEMBERS, member))


# --- the engine --------------------------------------------------------------------------------------------


class World:
    """The team on a store: in memory without a path, else in a file of that folder."""

    def __init__(self, name: str, folder: Path | None) -> None:
        self.name, self.folder = name, folder
        self.clock = ManualClock()
        self.visits: list[Visit] = []
        self.model = Model()
        self.opened = 0
        self._count = self._directed = 0
        self._breaks = False
        """Whether the store breaks where a verb writes that it was served."""
        self.served: list[tuple[Callable[[], Awaitable[Any]], Any]] = []
        """Requests, and what they were told."""
        WORLDS[name] = self

    @property
    def path(self) -> Path | None:
        return None if self.folder is None else self.folder / f"{self.name}-{self.opened}.db"

    @property
    def rt(self) -> Runtime:
        return self._runtime

    @property
    def run(self) -> Run:
        return self._run

    def _store(self) -> MemoryStore | SqliteStore:
        if self.path is None:
            return MemoryStore(self.clock)
        return SqliteStore(self.path, self.clock, durability="normal", on_statement=self._statement)

    def _statement(self, label: str) -> None:
        if self._breaks and label == "request.insert":
            raise sqlite3.OperationalError("disk I/O error")

    async def begin(self) -> None:
        """Start the team; it has nothing to do."""
        await self._open()
        self._run = await self._runtime.start(crew, run_id=self.name)
        await anyio.wait_all_tasks_blocked()

    async def _open(self) -> None:
        self._runtime = Runtime(self._store(), flows=[crew], clock=self.clock, drain_timeout=BOUND)
        await self._runtime.__aenter__()

    async def close(self) -> None:
        await self._runtime.__aexit__(None, None, None)

    # --- what happens ----------------------------------------------------------------------------------

    def possible(self) -> list[Op]:
        """What can happen now, or is refused."""
        model, ops = self.model, list[Op]()
        alive = [item.what for _, item in model.items() if item.alive]
        ops += [("end", what, outcome) for what in alive for outcome in ("ok", "bad")]
        ops += [("pause",), ("resume",)]
        if len(model.tasks) < MOST:
            behind = [(), *((task,) for task in model.tasks)]
            ops += [("create", owner, after) for owner in MEMBERS for after in behind]
        if self._directed < MOST:
            ops += [("direct", name) for name in MEMBERS]
        for task, state in model.tasks.items():
            if state in ("pending", "in_progress"):
                ops += [("cancel", task), *(("assign", task, name) for name in MEMBERS)]
        if model.drains() - model.overdue:
            ops.append(("time",))
        ops += [("again", number) for number in range(max(0, len(self.served) - 4), len(self.served))]
        if self.folder is not None:
            ops += [("restart",), ("broken",)]
            if all(item.lost < LOSSES for _, item in model.items()):
                ops.append(("crash",))
        return ops

    async def do(self, op: Op) -> None:
        """Let it happen, to the engine and to the model, and wait until nothing moves."""
        what, *given = op
        await getattr(self, f"_{what}")(*given)
        await anyio.wait_all_tasks_blocked()

    async def _served(self, send: Callable[[str], Awaitable[Any]], refused: type[Exception] | None) -> bool:
        """Send a request; whether it is one that has an effect."""
        self._count += 1
        request = f"request {self._count}"
        if refused is not None:
            with pytest.raises(refused):
                await send(request)
            return False
        self.served.append((lambda: send(request), await send(request)))
        return True

    def _if_runs(self) -> type[Exception] | None:
        return errors.Fenced if self.model.state == "paused" else None

    async def _create(self, owner: str, after: tuple[int, ...]) -> None:
        task = len(self.model.tasks) + 1

        async def send(request: str) -> Any:
            made = await self.run.create_task(f"t{task}", owner=owner, after=after, request_id=request)
            return made.id

        if await self._served(send, self._if_runs()):
            self.model.create(task, owner, after)

    async def _direct(self, name: str) -> None:
        self._directed += 1
        what = f"d{self._directed}"

        async def send(request: str) -> Any:
            return (await self.run.direct(name, what, request_id=request)).id

        if await self._served(send, None):
            self.model.direct(name, what)

    async def _pause(self) -> None:
        model = self.model

        async def send(request: str) -> Any:
            return (await self.run.pause(request_id=request)).model_dump() | {"replayed": None}

        captured = sum(item.task is not None for _, item in model.items())
        moves = model.state == "running"
        if await self._served(send, errors.IllegalTransition if model.state == "idle" else None):
            ack = self.served[-1][1]
            assert ack["transitioned"] is moves
            if moves:
                model.pause()
                assert ack["captured"] >= captured
                assert ack["draining"] == len(model.drains())

    async def _resume(self) -> None:
        async def send(request: str) -> Any:
            return (await self.run.resume(request_id=request)).model_dump() | {"replayed": None}

        captured = sum(item.task is not None for _, item in self.model.items())
        if await self._served(send, None if self.model.state == "paused" else errors.NotResumable):
            assert self.served[-1][1]["continued"] == captured
            self.model.resume()

    async def _cancel(self, task: int) -> None:
        async def send(request: str) -> Any:
            return (await self.run.cancel_task(task, request_id=request)).id

        if await self._served(send, self._if_runs()):
            self.model.cancel(task)

    async def _assign(self, task: int, owner: str) -> None:
        async def send(request: str) -> Any:
            return (await self.run.assign(task, owner, request_id=request)).id

        if await self._served(send, self._if_runs()):
            self.model.assign(task, owner)

    async def _again(self, number: int) -> None:
        """A reply was lost: the same request is told the same, also long after, and changes nothing."""
        send, told = self.served[number]
        assert await send() == told

    async def _broken(self) -> None:
        """The store breaks in the middle of a verb, which is as if it had not been sent."""
        sent = {"paused": self.run.resume, "running": self.run.pause}.get(
            self.model.state, self._ask_for_more
        )
        self._breaks = True
        try:
            with pytest.raises(errors.StoreError):
                await sent()
        finally:
            self._breaks = False

    async def _ask_for_more(self) -> None:
        await self.run.create_task("never", owner=MEMBERS[0])

    async def _end(self, what: str, outcome: str) -> None:
        """A body comes to its end."""
        visit = next(visit for visit in self.visits if visit.what == what)
        visit.fails = outcome == "bad"
        visit.may_end.set()
        self.model.end(what, outcome)

    async def _time(self) -> None:
        self.clock.advance(BOUND)
        self.model.overdue |= self.model.drains()

    async def _restart(self) -> None:
        """The process ends as it should, and another one goes on."""
        await self.close()
        await self._taken_up()
        self.model.restart(lost=False)

    async def _crash(self) -> None:
        """The process is gone at this moment; another one goes on with what is in the file then."""
        before = self.path
        assert before is not None
        self.opened += 1
        for suffix in ("", "-wal"):
            if (part := Path(f"{before}{suffix}")).exists():
                shutil.copyfile(part, f"{self.path}{suffix}")
        await self.close()  # what this writes is in the old file
        await self._taken_up()
        self.model.restart(lost=True)

    async def _taken_up(self) -> None:
        await self._open()
        self._run = await self._runtime.get(self.name)

    # --- what must be so ------------------------------------------------------------------------------

    async def check(self) -> None:
        """The engine says what the model says."""
        model, status = self.model, await self.run.status()
        assert (status.state.value, status.generation) == (model.state, model.generation)
        assert {lock.kind for lock in status.locks} == ({"operator"} if model.state == "paused" else set())
        tasks = {task.id: (task.state, task.owner) for task in await self.run.tasks()}
        assert tasks == {task: (state, model.owners[task]) for task, state in model.tasks.items()}
        at_work = sorted((visit.member, visit.what) for visit in self.visits)
        assert at_work == sorted((name, item.what) for name, item in model.items() if item.alive)
        if model.state == "paused":
            assert (status.draining, status.overdue) == (
                len(model.drains() - model.overdue),
                len(model.overdue),
            )
            assert (status.phase == "draining") == bool(model.drains())
        originals = [turn.original for turn in await self.run.turns() if turn.original is not None]
        assert len(originals) == len(set(originals)), "N4: a turn was continued twice"
        if self.path is not None:
            assert violations_of_file(self.path) == []

    async def drain(self) -> None:
        """N14: let everything go on to its end; nothing that was accepted is left in no named state."""
        model = self.model
        if model.state == "paused":
            await self.do(("resume",))
        while self.visits:
            await self.do(("end", self.visits[0].what, "ok"))
            await self.check()
        assert all(not lane for lane in model.lanes.values())
        blocked = {task for task, state in model.tasks.items() if state == "pending"}
        for task in blocked:
            assert any(model.tasks[one] != "completed" for one in model.after[task])
