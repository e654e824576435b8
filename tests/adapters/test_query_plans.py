"""Does any statement look at more of a table than it needs? SQLite's own plans say so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quiesce.clock import SystemClock
from quiesce_adapters.sqlite.statements import statements
from quiesce_adapters.sqlite.store import SqliteStore

GROWING = {
    "runs",
    "pieces",
    "blobs",
    "groups",
    "arrivals",
    "episodes",
    "receipts",
    "holds",
    "requests",
    "events",
}

MAY_SCAN = {
    "run.page": "a page, in the order of the index",
    "run.counts": "counts everything, by a covering index",
    "hold.page": "a page, in the order of the key",
    "hold.inbox": "a page of what is open, by the index of open holds",
    "hold.open_count": "counts what is open, by the index of open holds",
    "run.claimable": "what is queued that users directed, by the index of that",
    "episode.unquiet": "what is active, by the index of active episodes",
}


def scans(plan: list[str], sql: str) -> set[str]:
    """The growing tables that a plan reads from end to end, aliases resolved."""
    alias = {short: table for table, short in re.findall(r"(\w+) AS (\w+)", sql)}
    names = re.findall(r"SCAN (\w+)(?! VIRTUAL)", "\n".join(plan))
    return {alias.get(name, name) for name in names} & GROWING


@pytest.mark.parametrize("label", statements())
def test_no_statement_reads_a_growing_table_from_end_to_end(label: str, tmp_path: Path) -> None:
    """Source: spec engine, 8: a store with 100,000 paused runs costs no more than one with 100."""
    sql = statements()[label]
    store = SqliteStore(tmp_path / "plan.db", SystemClock())
    try:
        connection = store._connection
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS tree (id TEXT PRIMARY KEY, state TEXT)")
        named = re.findall(r"[^:]:([a-z]\w*)", sql)
        count = 1 if "?1" in sql and "?2" not in sql else 2 if "?2" in sql else sql.count("?")
        parameters: object = dict.fromkeys(named) if named else (None,) * count
        plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + sql, parameters)]  # type: ignore[arg-type]
    finally:
        store.close()
    if label not in MAY_SCAN:
        assert scans(plan, sql) == set(), plan


def test_what_may_scan_still_exists() -> None:
    """Source: house style: an exception that nothing needs is removed."""
    assert MAY_SCAN.keys() <= statements().keys()
