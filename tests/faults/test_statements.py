"""Does a statement that fails, any statement, leave all or nothing; and does trying again then work?

Each use of each flow is run with a fault at its k-th statement: once, or again and again until somebody
notices. At the next transaction the store must be as it was before the failed one. Source: cases
failures-durable-engines 61 to 65; the method is that of SQLite's own I/O error tests.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import fault_flows
import opentelemetry.trace  # noqa: F401 - with spans on more is read, and no fault in that may hurt
import pytest

from quiesce import Runtime, hosting
from quiesce.clock import ManualClock, SystemClock
from quiesce.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly
from quiesce_adapters.sqlite.checks import violations_of_file
from quiesce_adapters.sqlite.store import SqliteStore

from .uses import EXPECTED, USES, Stubborn

KINDS: dict[str, type[StoreError]] = {
    "SQLITE_BUSY": StoreBusy,
    "SQLITE_BUSY_SNAPSHOT": StoreBusy,
    "SQLITE_FULL": StoreFull,
    "SQLITE_READONLY": StoreReadOnly,
    "SQLITE_IOERR_WRITE": StoreError,
    "SQLITE_INTERRUPT": StoreError,
}
BACKENDS = ("asyncio", "trio")
IN_FLIGHT = 3
"""Visits that a use has in flight at most, and so loses when the store stops its driver."""
MOST = 12
"""How often a fault fires again if nobody notices."""
FOLLOWED = (
    "started",
    "asked",
    "answered",
    "paused",
    "completed",
    "failed",
    "retried",
    "cancelled",
    "reset",
)
"""Events that a user's verbs and the flow itself make; the others also tell who drove it."""


class Fault:
    """The hook of a store: counts its statements, and makes some of them fail."""

    def __init__(self, at: int = 0, kind: str = "", *, again: bool = False) -> None:
        self.at = at
        self.kind = kind
        self.again = again
        self.seen: list[str] = []
        self.fired = 0
        self.healed = False
        self.store: SqliteStore | None = None
        self._before: dict[str, Any] | None = None

    def __call__(self, label: str) -> None:
        self.seen.append(label)
        assert self.store is not None
        if label in ("begin", "begin-read") and self._before is not None:
            before, self._before = self._before, None
            assert dump(self.store.path) == before, f"{self.kind} at {self.at} left a part of a transaction"
        if len(self.seen) == self.at or (self.again and 0 < self.fired < MOST and not self.healed):
            self.fired += 1
            self._fail(label)

    def _fail(self, label: str) -> None:
        assert self.store is not None
        if self._before is None:
            self._before = dump(self.store.path)
        connection = self.store._connection
        if self.kind == "SQLITE_FULL" and connection.in_transaction:
            connection.execute("ROLLBACK")  # as SQLite itself does
        error = sqlite3.OperationalError(f"injected {self.kind} at {label}")
        error.sqlite_errorname = self.kind
        raise error

    def heal(self) -> None:
        """Somebody has noticed."""
        self.healed = True


def dump(path: Path) -> dict[str, Any]:
    """Every row that is committed."""
    connection = sqlite3.connect(path)
    try:
        tables = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
        ]
        return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    finally:
        connection.close()


class Done:
    """What one use of a flow came to."""

    def __init__(self, result: Any, path: Path, visits: Path, refused: list[StoreError]) -> None:
        self.result = result
        self.refused = [type(error) for error in refused]
        connection = sqlite3.connect(path)
        self.generations = dict(connection.execute("SELECT id, generation FROM runs").fetchall())
        self.events = Counter(
            (run, kind)
            for run, kind in connection.execute("SELECT run_id, kind FROM events")
            if kind in FOLLOWED
        )
        connection.close()
        self.visits = Counter(line.split()[0] for line in visits.read_text().splitlines())


Use = Callable[[str, Fault, str], Done]


@pytest.fixture
def use(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Runs a use of a flow in a fresh store under a fault."""
    number = 0
    monkeypatch.setattr(hosting, "TRY_AGAIN", 0.001)

    def use(name: str, fault: Fault, backend: str) -> Done:
        nonlocal number
        number += 1
        path, visits = tmp_path / f"{number}.db", tmp_path / f"{number}.visits"
        shutil.copyfile(template, path)
        visits.touch()
        monkeypatch.setenv("FAULT_VISITS", str(visits))
        fault_flows.STAGE.reset()

        async def main() -> tuple[Any, list[StoreError]]:
            clock = ManualClock() if name == "timed" else SystemClock()
            refused: list[StoreError] = []
            while True:
                fault.store = store = SqliteStore(
                    path, clock, durability="normal", busy_after=0.01, on_statement=fault
                )
                try:
                    async with Runtime(store, flows=fault_flows.FLOWS, clock=clock) as rt:
                        user = Stubborn(rt, clock, fault.heal)
                        with anyio.fail_after(30):
                            result = await USES[name](user)
                        return result, refused + user.refused
                except StoreError as error:  # of opening: everything else is tried again in there
                    refused.append(error)
                    fault.heal()

        result, refused = anyio.run(main, backend=backend)
        assert violations_of_file(path) == []
        return Done(result, path, visits, refused)

    return use


def check(name: str, fault: Fault, undisturbed: Done, done: Done) -> None:
    """The use came to the same, with one effect for each verb."""
    assert done.result == EXPECTED[name]
    assert fault.fired
    assert set(done.refused) <= {KINDS[fault.kind]}
    assert done.generations == undisturbed.generations
    assert done.events == undisturbed.events
    for visit, times in done.visits.items():
        assert times <= undisturbed.visits[visit] + fault.fired * IN_FLIGHT, visit


SAMPLE = 6
"""Statements of each use that the normal run disturbs; the full sweep disturbs all of them."""


def sweep(use: Use, name: str, step: int, kinds: Sequence[str]) -> None:
    plain = Fault()
    undisturbed = use(name, plain, "asyncio")
    assert undisturbed.result == EXPECTED[name]
    for turn, at in enumerate(range(1, len(plain.seen) + 1, step)):
        for kind in kinds or [list(KINDS)[turn % len(KINDS)]]:
            for again in (False, True):
                fault = Fault(at, kind, again=again)
                try:
                    done = use(name, fault, BACKENDS[turn % 2])
                    if fault.fired:  # what runs at the same time does not always come in the same order
                        check(name, fault, undisturbed, done)
                except BaseException as error:
                    error.add_note(f"{kind} at statement {at} ({label(plain, at)}), again={again}")
                    raise


def label(fault: Fault, at: int) -> str:
    return fault.seen[at - 1]


@pytest.mark.parametrize("name", USES)
def test_a_statement_that_fails_leaves_nothing_and_can_be_tried_again(use: Use, name: str) -> None:
    """spec engine, 6: nothing is acknowledged that is not kept, nothing is kept by halves (a sample).

    Of the use `crew` this is cases team 33 to 61: whatever a pause and a resume send may fail.
    """
    plain = Fault()
    use(name, plain, "asyncio")
    sweep(use, name, max(1, len(plain.seen) // SAMPLE), ())


@pytest.mark.slow
@pytest.mark.parametrize("name", USES)
def test_every_statement_that_fails_leaves_nothing_and_can_be_tried_again(use: Use, name: str) -> None:
    """spec engine, 6: every statement of every use, in every way, once and again (cases team 45, 61)."""
    sweep(use, name, 1, tuple(KINDS))


def test_a_store_that_is_busy_while_a_visit_is_prepared_is_no_failure_of_the_run(use: Use) -> None:
    """cases 61: the lock was held while an answer was READ, and the run became an error for it."""
    plain = Fault()
    undisturbed = use("linear", plain, "asyncio")
    answered = [at for at, label in enumerate(plain.seen, 1) if label == "hold.get"]
    assert answered
    for at in answered:
        for kind in ("SQLITE_BUSY", "SQLITE_FULL"):
            fault = Fault(at, kind, again=True)
            check("linear", fault, undisturbed, use("linear", fault, "asyncio"))
