"""A team whose members do what a test lets them, and a store of each kind to run it on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio import wait_all_tasks_blocked

from quiesce import Event, Run, Runtime, Team, Turn, pause, step
from quiesce.clock import ManualClock
from quiesce_adapters.sqlite.checks import violations_of_file

__all__ = ["Crew", "dump", "log_of", "states", "task"]


class Crew:
    """The team, and what a test sees and lets go of it. `plan` is what the coordinator creates at first."""

    def __init__(
        self, path: Path | None, plan: list[dict[str, Any]], *, members: int = 3, **options: Any
    ) -> None:
        self.path = path
        self.clock = ManualClock()
        self.began: list[tuple[str, str]] = []
        """(member, what) for each body that began."""
        self.ended: list[str] = []
        self.holds = anyio.Event()
        self.gates: dict[str, anyio.Event] = {}
        """What lets single pieces of work go, where not `holds` does."""
        self.asks: set[str] = set()
        self.breaks: set[str] = set()
        self._plan = plan
        self._changed = anyio.Event()
        bodies = {name: self._member(name) for name in (f"m{number}" for number in range(members))}
        self.team = Team(
            "crew",
            coordinator=self._coordinator(),
            members=bodies,
            **options,
        )

    def _coordinator(self) -> Any:
        async def coordinator(turn: Turn) -> None:
            tasks = turn.tasks()
            if not tasks:
                for wanted in self._plan:
                    turn.create_task(**wanted)
            elif all(task.state not in ("pending", "in_progress") for task in tasks):
                turn.finish([task.state for task in tasks])

        return coordinator

    def _member(self, name: str) -> Any:
        @step
        async def work(what: str) -> str:
            self._say(name, what)
            await self.gates.get(what, self.holds).wait()
            return what

        async def member(turn: Turn) -> Any:
            if turn.kind == "inbox":
                return [message.value for message in turn.inbox()]
            what = turn.task.title if turn.task is not None else str(turn.prompt)
            if what in self.asks:
                self._say(name, what)
                return pause(f"{what}?", expects=str)
            await work(what)
            if what in self.breaks:
                raise ValueError(f"{what} broke")
            turn.checkpoint()
            self.ended.append(what)
            return what

        return member

    def _say(self, name: str, what: str) -> None:
        self.began.append((name, what))
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_began(self, count: int) -> None:
        """Wait until so many bodies have begun their work, and nothing else moves."""
        with anyio.fail_after(20):
            while len(self.began) < count:
                await self._changed.wait()
            await wait_all_tasks_blocked()  # the coordinator may have more to say

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator[Runtime]:
        """A runtime that serves the team; what it leaves behind must be true together."""
        options = {"durability": "normal"} | options  # the disk's sync is no part of what is asked here
        async with Runtime(self.path, flows=[self.team], clock=self.clock, **options) as rt:
            yield rt
        if self.path is not None:
            assert violations_of_file(self.path) == []

    async def start(self, rt: Runtime) -> Run:
        return await rt.start(self.team, run_id="r")


async def log_of(rt: Runtime, run_id: str | None = None) -> list[Event]:
    """What the log has by now."""
    found: list[Event] = []

    async def follow() -> None:
        async for event in rt.events(run_id):
            found.append(event)

    async with anyio.create_task_group() as group:
        group.start_soon(follow)
        await wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    return found


async def dump(rt: Runtime, run_id: str = "r") -> dict[str, Any]:
    """All that can be read of a team, of the runs inside it, and of what happened to them."""
    run = await rt.get(run_id)
    status = await run.status()
    episodes = [f"{run_id}:{generation}" for generation in range(1, status.generation + 1)]
    return {
        "status": status,
        "tasks": await run.tasks(),
        "turns": await run.turns(),
        "receipts": [list(await rt.receipts(episode)) for episode in episodes],
        "mail": rt.backend.host.read(lambda tx: tx.mail(run_id, None, unread=False)),
        "bodies": [await rt.status(child) for child in status.children],
        "log": [event for event in await log_of(rt) if event.run_id.split(".")[0] == run_id],
    }


async def states(run: Run) -> dict[int, str]:
    """The state of each turn, by id."""
    return {turn.id: turn.state for turn in await run.turns()}


def task(title: str, owner: str, *after: int) -> dict[str, Any]:
    """A task as the coordinator creates it."""
    return {"title": title, "owner": owner, "after": after}
