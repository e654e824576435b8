"""What is under test: a way to open runtimes on one fresh store, and to see all that a run has there."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import pytest
from anyio import create_task_group, wait_all_tasks_blocked

from quiesce import Capabilities, Event, Hold, Paused, Receipt, Run, RunStatus, Runtime
from quiesce.clock import ManualClock

from .kinds import Kind

__all__ = ["QUIET", "Dump", "Subject", "locks", "only_child", "outermost", "paused"]


@dataclasses.dataclass(frozen=True)
class Dump:
    """All that can be read of a run and of the runs inside it."""

    status: RunStatus
    holds: list[Hold]
    receipts: list[Receipt]
    events: list[Event]
    children: list[Dump]


class Subject:
    """One store, opened as often as a test likes; time stands still until the test moves it."""

    def __init__(self, target: str | None, kind: Kind) -> None:
        self.target = target
        self.kind = kind
        self.clock = ManualClock()

    @asynccontextmanager
    async def open(self, *flows: Any, **options: Any) -> AsyncIterator[Runtime]:
        """A runtime on the store that drives `flows`, as their worker."""
        options = {"durability": "normal"} | options  # the disk's sync is no part of what is asked here
        async with Runtime(self.target, flows=[*flows, *self.kind.inner], clock=self.clock, **options) as rt:
            yield rt

    def capabilities(self, rt: Runtime) -> Capabilities:
        return rt.backend.capabilities(self.kind.name)

    def needs(self, rt: Runtime, *capabilities: str) -> None:
        """Leave the test out where the subject declares that it cannot do this."""
        for name in capabilities:
            if not getattr(self.capabilities(rt), name):
                pytest.skip(f"{self.target or 'memory'} declares {name} = False")

    def keeps_what_finished(self, rt: Runtime) -> None:
        """Leave the test out where a failed run has nothing that a retry could go on from."""
        can = self.capabilities(rt)
        if can.resumes_mid_statement and not can.survives_restart:
            pytest.skip("a body in memory keeps no journal: retried, it begins again")

    def inside(self, run_id: str, levels: int) -> list[str]:
        """The ids of a run and of all that are in it, outermost first, where flows enclose one another."""
        ids = self.kind.tree(run_id)
        for _ in range(levels):
            ids = [*ids, *self.kind.tree(f"{ids[-1]}.1")]
        return ids

    async def events(self, rt: Runtime, run_id: str | None = None, after: int = 0) -> list[Event]:
        """What the log has by now."""
        found: list[Event] = []

        async def follow() -> None:
            async for event in rt.events(run_id, after):
                found.append(event)

        async with create_task_group() as group:
            group.start_soon(follow)
            await wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        return found

    async def seen(self, rt: Runtime, run_id: str, kind: str) -> Event:
        """Wait until this runtime has seen that it happened to the run, whoever did it."""
        async with aclosing(cast("AsyncGenerator[Event, None]", rt.events(run_id))) as events:
            async for event in events:
                if event.kind == kind:
                    return event
        raise AssertionError("the events of a run never end")

    async def kinds_of_events(self, rt: Runtime, run_id: str, after: int = 0) -> list[str]:
        """What happened to a run, without its visits and claims, which a store may leave out."""
        return [event.kind for event in await self.events(rt, run_id, after) if event.kind not in QUIET]

    async def dump(self, rt: Runtime, run_id: str) -> Dump:
        """Everything that can be read of a run."""
        status = await rt.status(run_id)
        holds = list(await rt.holds(run_id, None))
        receipts = list(await rt.receipts(status.episode_id)) if status.episode_id else []
        events = await self.events(rt, run_id)
        return Dump(
            status, holds, receipts, events, [await self.dump(rt, child) for child in status.children]
        )

    @asynccontextmanager
    async def refused(
        self, rt: Runtime, error: type[BaseException], *runs: Run
    ) -> AsyncIterator[pytest.ExceptionInfo[BaseException]]:
        """The block raises exactly this error, and changes nothing that can be read of these runs."""
        await wait_all_tasks_blocked()
        before = [await self.dump(rt, run.id) for run in runs]
        with pytest.raises(error) as caught:
            yield caught
        assert type(caught.value) is error
        for run, dump in zip(runs, before, strict=True):
            assert await self.dump(rt, run.id) == dump


QUIET = frozenset({"visit", "claimed", "handed-back"})


async def paused(run: Run) -> Paused:
    """The run settles as paused, and this is what its waiter gets."""
    outcome = await run.settled()
    assert isinstance(outcome, Paused)
    return outcome


async def only_child(rt: Runtime, run: Run) -> Run:
    """The run inside this one, once it is there; of a team the one inside the body of its turn."""
    await wait_all_tasks_blocked()
    status = await run.status()
    (child_id,) = status.children
    child = await rt.get(child_id)
    return child if status.kind != "team" else await only_child(rt, child)


async def outermost(rt: Runtime, **which: Any) -> list[RunStatus]:
    """The runs that are inside no other one, newest first."""
    return [status for status in await rt.list(**which) if status.parent_id is None]


def locks(status: RunStatus) -> list[str]:
    """The kinds of locks that keep a run, sorted."""
    return sorted(lock.kind for lock in status.locks)
