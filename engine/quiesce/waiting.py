"""How does somebody wait for a run, or follow what happens?

A waiter reads the rows, and if they do not settle the matter waits until whoever drives the run, here or
in another process, has changed them. Cancelling a waiter only stops the waiting.

Source: spec engine, 5 (settled, result, events).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quiesce.claiming import claim_waiting
from quiesce.errors import IllegalTransition, RunCancelled, RunFailed
from quiesce.records import RunRecord
from quiesce.rules.requests import found
from quiesce.rules.status import drains, event_value, status
from quiesce.runs import Event, RunStatus
from quiesce.signals import Signal
from quiesce.states import ENDED, RunState
from quiesce.store import Reader

if TYPE_CHECKING:
    from quiesce.hosting import Hosting

__all__ = ["awaited_result", "ended", "events", "read_status", "settled", "settled_now"]


def read_status(host: Hosting, run_id: str) -> RunStatus:
    """The run as it is stored now. Raises RunNotFound."""
    durable = host.store.durable
    return host.read(lambda tx: status(tx, found(tx, run_id), durable=durable))


async def events(host: Hosting, run_id: str | None, after: int) -> AsyncIterator[Event]:
    """Every event after `after`, and then each new one as it is committed, by whatever process."""
    signal = Signal()
    host.listeners.add(signal)
    try:
        if host.store.shared:
            await host.follow()
        while True:
            rows = host.read(lambda tx: tx.events(run_id, after, 200))  # noqa: B023
            for row in rows:
                after = row[0]
                yield event_value(row)
            if not rows:
                await signal.wait()
    finally:
        host.listeners.discard(signal)


async def settled(host: Hosting, run_id: str) -> RunStatus:
    with _waiting_for(host, run_id) as signal:
        while True:
            now = settled_now(host, run_id)
            if now is not None:
                return now
            if host.store.shared and run_id not in host.drivers:
                await host.enlist()
                host.listen()
                await claim_waiting(host, [run_id])
                if (now := settled_now(host, run_id)) is not None:
                    return now
            await signal.wait()


def settled_now(host: Hosting, run_id: str) -> RunStatus | None:
    return host.read(lambda tx: _settled_now(host, tx, found(tx, run_id)))


def _settled_now(host: Hosting, tx: Reader, run: RunRecord) -> RunStatus | None:
    run_id = run.id
    if run.state in ENDED and run_id not in host.drivers:
        return ended(host, run)
    if run_id in host.broken and run.state is RunState.RUNNING:
        raise host.broken[run_id]
    if run.state is RunState.CREATED:
        raise IllegalTransition(
            run.id,
            run.state,
            "wait for",
            f"run {run.id!r} is created; start or resume it before you wait for it",
        )
    if run.state is RunState.IDLE or (run.state is RunState.PAUSED and not drains(tx, run)):
        return read_status(host, run_id)
    return None


def ended(host: Hosting, run: RunRecord) -> RunStatus:
    if run.state is RunState.CANCELLED:
        raise RunCancelled(run.id)
    if run.state is RunState.FAILED:
        host.unseen.discard(run.id)
        error = host.errors.get(run.id)
        if error is not None:
            raise error
        raise RunFailed(run.id, f"run {run.id!r} failed: {run.error}")
    return read_status(host, run.id)


async def awaited_result(host: Hosting, run_id: str) -> Any:
    """Wait through pauses for the value."""
    hears = not host.store.shared
    with _waiting_for(host, run_id) as signal:
        while True:
            now = await settled(host, run_id)
            if now.state is RunState.COMPLETED:
                return host.result(run_id)
            if hears:
                await signal.wait()
            else:  # whoever ends the pause may be another process; look once more after that
                await host.enlist()
                host.listen()
                hears = True


@contextmanager
def _waiting_for(host: Hosting, run_id: str) -> Iterator[Signal]:
    """Set whenever the rows of this run may have changed."""
    signal = Signal()
    host.waiters.setdefault(run_id, set()).add(signal)
    try:
        yield signal
    finally:
        waiting = host.waiters[run_id]
        waiting.discard(signal)
        if not waiting:
            del host.waiters[run_id]
