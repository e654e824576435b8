"""What does a process do when a time comes: the deadline of a hold, the bound of a drain?

Nothing polls. One task sleeps until the next deadline of a hold whose flow this process knows; each drain
that is under way here has one that sleeps until its bound. All waiting is the clock's.

Source: spec engine, 4 (hold identity: deadlines; pause: drain).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import anyio

from quiesce.errors import StoreError
from quiesce.records import RunRecord
from quiesce.rules import fence, release
from quiesce.rules.requests import found
from quiesce.signals import Signal
from quiesce.states import RunState
from quiesce.store import Reader, Transaction

if TYPE_CHECKING:
    from quiesce.hosting import Hosting

__all__ = ["TRY_AGAIN", "Timers"]

log = logging.getLogger("quiesce")

TRY_AGAIN = 1.0
"""Seconds until what a busy or full store refused in the background is tried again; then twice as many."""


class Timers:
    """The deadlines and drains of one host."""

    def __init__(self, host: Hosting) -> None:
        self._host = host
        self._signal = Signal()
        self._drains: set[str] = set()

    async def watch_deadlines(self) -> None:
        """Do what holds say about their deadlines, as they pass."""
        while True:
            if not await self._host.tolerant(self._act_at_deadline):
                await self._wait_for_deadline(self._host.clock.now() + timedelta(seconds=TRY_AGAIN))

    async def _act_at_deadline(self) -> None:
        flows = list(self._host.flows.names())
        due = self._host.read(lambda tx: tx.next_deadline(flows))
        if due is None:
            await self._signal.wait()
        elif due > self._host.clock.now():
            await self._wait_for_deadline(due)
        else:
            await self._host.write(lambda tx: self._expire_due(tx, flows))

    async def _wait_for_deadline(self, due: datetime) -> None:
        """Until then, or until something about deadlines may have changed."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._sleep_until, due, group.cancel_scope)
            await self._signal.wait()
            group.cancel_scope.cancel()

    def _expire_due(self, tx: Transaction, flows: list[str]) -> None:
        for hold in tx.due_holds(tx.now, flows):
            release.expire(tx, hold, found(tx, hold.run_id))

    async def _sleep_until(self, due: datetime, scope: anyio.CancelScope) -> None:
        # Asked of the clock here, not before: it may have moved on since this task was made.
        await self._host.clock.sleep(max(0.0, (due - self._host.clock.now()).total_seconds()))
        scope.cancel()

    def changed(self) -> None:
        """A deadline may have come or gone."""
        self._signal.set()

    def drains_of(self, tx: Reader, runs: Iterable[RunRecord]) -> dict[str, float]:
        """The episodes of paused runs in which something runs, and the seconds until that is overdue."""
        paused = [
            run.id for run in runs if run.state is RunState.PAUSED and run.episode_id not in self._drains
        ]
        if not paused:
            return {}
        return {episode: max(0.0, (until - tx.now).total_seconds()) for episode, until in tx.draining(paused)}

    def watch_drains(self, drains: Mapping[str, float]) -> None:
        """Be there when these episodes' bounds come."""
        together: dict[float, list[str]] = {}
        for episode_id, seconds in drains.items():
            self._drains.add(episode_id)
            together.setdefault(seconds, []).append(episode_id)
        for seconds, episodes in together.items():
            self._host.tasks.start_soon(self._watch_drains, episodes, seconds)

    async def _watch_drains(self, episodes: list[str], seconds: float) -> None:
        """At the bound, record what of these episodes still runs as overdue."""

        def mark(tx: Transaction) -> None:
            for episode_id in episodes:
                fence.mark_overdue(tx, episode_id)

        try:
            await self._host.clock.sleep(seconds)
            await self._host.write(mark)
        except StoreError as error:  # nothing in a teardown may hurt whoever paused
            log.warning("could not record what is overdue of %s: %s", ", ".join(episodes), error)
        finally:
            self._drains.difference_update(episodes)
