"""One runtime after another over the same store, as a user has them who comes back later.

In a file each runtime finds what is stored and nothing else; a store in memory has one runtime only, so
there the next session is the same one.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from anyio import create_task_group, wait_all_tasks_blocked

from quiesce import Event, Paused, Run, Runtime
from quiesce.clock import ManualClock

__all__ = ["Sessions", "events_of", "paused"]


class Sessions:
    """An async context manager: `rt = await sessions.next(flow)` closes the runtime before, if it can."""

    def __init__(self, store: Path | None) -> None:
        self.store = store
        self.clock = ManualClock()
        self._now: Runtime | None = None
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._open.__aexit__(kind, error, trace)

    async def next(self, *flows: Any) -> Runtime:
        if self._now is None or self.store is not None:
            await self._open.aclose()
            self._now = await self._open.enter_async_context(
                Runtime(self.store, flows=flows, clock=self.clock)
            )
        return self._now


async def paused(rt: Runtime, run_id: str) -> Paused:
    """The run settles as paused."""
    outcome = await Run(rt, run_id).settled()
    assert isinstance(outcome, Paused)
    return outcome


async def events_of(rt: Runtime, run_id: str) -> list[Event]:
    """What the log has of a run by now."""
    found: list[Event] = []

    async def follow() -> None:
        async with aclosing(rt.events(run_id)) as events:  # type: ignore[type-var]
            async for event in events:
                found.append(event)

    async with create_task_group() as group:
        group.start_soon(follow)
        await wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    return found
