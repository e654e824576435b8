"""Does a record that was read from a memory store stay what it was, although no copy of it is made?

Source: `quiesce.store` (a read is one consistent view); `adapters/quiesce_adapters/memory/rows.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from quiesce.clock import ManualClock
from quiesce.records import HoldRecord, RunRecord
from quiesce.runs import Lock
from quiesce.states import RunState
from quiesce.store import Transaction
from quiesce_adapters.memory.store import MemoryStore

pytestmark = pytest.mark.anyio

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def record(run_id: str, parent: str | None = None) -> RunRecord:
    return RunRecord(run_id, "a:b", "1", "agent", "b", RunState.RUNNING, NOW, NOW, parent)


def fence_below(tx: Transaction) -> None:
    tx.fence_descendants("outer", Lock("parent", None, None, NOW), NOW)


def rebind(tx: Transaction) -> None:
    tx.rebind("inner", 7)


def withdraw(tx: Transaction) -> None:
    tx.withdraw_holds("inner")


def half_done(tx: Transaction) -> None:
    run, [child], [hold] = tx.run("inner"), tx.children("outer"), tx.open_holds("inner")
    assert run is not None
    for held in (run, child):
        held.state = RunState.FAILED
        held.locks["fault"] = Lock("fault", None, None, NOW)
    named, last = tx.hold("hold"), tx.last_hold("inner", 1, "b")
    assert named is not None
    assert last is not None
    for asked in (hold, named, last):
        asked.state = "answered"


@pytest.mark.parametrize("work", [fence_below, rebind, withdraw, half_done])
async def test_what_was_read_stays_as_it_was(work: Any) -> None:
    """A reader has the record itself, so whatever changes a row replaces it; a rule has a copy of its own."""
    store = MemoryStore(ManualClock())

    def make(tx: Transaction) -> None:
        tx.insert_run(record("outer"))
        tx.insert_run(record("inner", "outer"))
        tx.insert_hold(HoldRecord("hold", "inner", 1, "b", None, 1, 1, None, NOW))

    await store.write(make)
    run = store.read(lambda tx: tx.run("inner"))
    hold = store.read(lambda tx: tx.hold("hold"))
    shown = repr((run, hold))
    await store.write(work)
    assert repr((run, hold)) == shown


async def test_what_replaced_a_record_is_what_is_read_next() -> None:
    """spec engine, 4: a withdrawn hold is withdrawn by whichever name it is asked for."""
    store = MemoryStore(ManualClock())

    def make(tx: Transaction) -> None:
        tx.insert_run(record("outer"))
        tx.insert_run(record("inner", "outer"))
        tx.insert_hold(HoldRecord("hold", "inner", 1, "b", None, 1, 1, None, NOW))

    await store.write(make)
    for work in (fence_below, rebind, withdraw):
        await store.write(work)
    run, hold = store.read(lambda tx: tx.run("inner")), store.read(lambda tx: tx.hold("hold"))
    last = store.read(lambda tx: tx.last_hold("inner", 1, "b"))
    assert run is not None
    assert hold is not None
    assert last is not None
    assert (run.state, run.parent_piece, hold.state, last.state) == (
        RunState.PAUSED,
        7,
        "withdrawn",
        "withdrawn",
    )
