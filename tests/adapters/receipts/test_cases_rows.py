"""Does a verb that finds a row not as it must be keep nothing at all?

A trigger makes SQLite pass over the rows that a statement should write, which is what a lost race or a
damaged row looks like. Source: cases team 36 to 43 and 49 to 59; spec team, "pause" and "resume"; W11.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from quiesce import Run, errors
from quiesce.rules.requests import found

from .crew import Crew, dump, task

pytestmark = pytest.mark.anyio

PAUSE = [
    "UPDATE ON runs WHEN old.id = 'r'",
    "UPDATE ON runs WHEN old.id <> 'r'",
    "INSERT ON episodes",
    "INSERT ON receipts",
    "UPDATE ON turns",
    "DELETE ON pieces",
    "INSERT ON requests",
]
RESUME = [
    "UPDATE ON runs WHEN old.id = 'r'",
    "UPDATE ON episodes WHEN old.run_id = 'r'",
    "UPDATE ON receipts",
    "INSERT ON turns",
    "INSERT ON pieces",
    "UPDATE ON participants",
    "INSERT ON requests",
]


async def refused(crew: Crew, run: Run, verb: str, what: str) -> None:
    """The verb raises while the trigger is there and changes nothing; without it, it does its work."""
    before = await dump(run.runtime)
    connection = sqlite3.connect(crew.path or "", isolation_level=None, timeout=20)
    connection.execute(f"CREATE TRIGGER passes_over BEFORE {what} BEGIN SELECT RAISE(IGNORE); END")
    try:
        with pytest.raises(errors.QuiesceError):
            await getattr(run, verb)(request_id=verb)
        assert await dump(run.runtime) == before
    finally:
        connection.execute("DROP TRIGGER passes_over")
        connection.close()
    assert not (await getattr(run, verb)(request_id=verb)).replayed


@pytest.mark.parametrize("what", PAUSE)
async def test_a_pause_that_changes_fewer_rows_than_it_must_changes_none(tmp_path: Path, what: str) -> None:
    """Cases 36 to 38, 40 to 43; W11: guarded, and the row counts are checked; sent again, it is done."""
    crew = Crew(tmp_path / "flows.db", [task("a", "m0"), task("b", "m1"), task("c", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await refused(crew, run, "pause", what)
        crew.holds.set()
        await run.settled()


@pytest.mark.parametrize("what", RESUME)
async def test_a_resume_that_changes_fewer_rows_than_it_must_changes_none(tmp_path: Path, what: str) -> None:
    """Cases 49, 52, 55 to 59; W11: it stays paused, the same episode is active, no place was taken."""
    crew = Crew(tmp_path / "flows.db", [task("a", "m0"), task("b", "m1"), task("c", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(2)
        await run.pause()
        crew.holds.set()
        await run.settled()
        await refused(crew, run, "resume", what)
        assert await run.result() == ["completed"] * 3
        assert max(turn.sequence for turn in await run.turns() if turn.participant == "m0") == 4


async def test_no_two_turns_of_a_member_have_one_place(tmp_path: Path) -> None:
    """N10: one queue of each member over all kinds of turns; the schema holds it, whoever writes."""
    crew = Crew(tmp_path / "flows.db", [task("a", "m0"), task("b", "m0")])
    async with crew.open() as rt:
        await crew.start(rt)
        await crew.wait_began(1)
        with closing(sqlite3.connect(crew.path or "", isolation_level=None)) as connection:
            both = "UPDATE pieces SET position = 1 WHERE run_id = 'r' AND name = 'm0'"
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(both)


async def test_a_run_that_has_moved_on_is_not_written_over(tmp_path: Path) -> None:
    """N2, N7: what was read in an older generation is refused, and nothing is changed."""
    crew = Crew(tmp_path / "flows.db", [task("a", "m0")])
    async with crew.open() as rt:
        run = await crew.start(rt)
        await crew.wait_began(1)
        host = rt.backend.host
        seen = host.read(lambda tx: found(tx, "r"))
        await run.pause()
        before = await dump(rt)
        with pytest.raises(errors.StaleGeneration):
            await host.write(lambda tx: tx.save_run(seen, generation=seen.generation))
        assert await dump(rt) == before
