"""What the tests of faults share: flows that any process can import, and a store that is ready to copy."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

from quiesce.clock import SystemClock
from quiesce_adapters.sqlite.store import SqliteStore

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store; copying it costs less than making one."""
    path = tmp_path_factory.mktemp("template") / "flows.db"
    SqliteStore(path, SystemClock()).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path
