"""Is what a store holds true together?

Each rule that spans several rows, and that the schema alone cannot keep, is a statement of `checks.sql`
that finds its exceptions. They hold after every commit, whatever was running; so `flowctl doctor` can
look at a store in use, and the tests look at every store that they leave behind.

Source: spec engine, 3, 4 and 6; the words of the rules are the sentences in `checks.sql`.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from .statements import checks

__all__ = ["violations", "violations_of_file"]

LISTED = 20
"""Exceptions that are listed for one rule; the rest of them are counted."""


def violations(connection: sqlite3.Connection) -> list[str]:
    """What is wrong in the store of this connection, in sentences; empty if nothing is.

    The file's own integrity comes first: if SQLite finds it damaged, nothing else is asked.
    """
    damage = [text for (text,) in connection.execute("PRAGMA integrity_check(20)") if text != "ok"]
    if damage:
        return [f"the file is damaged: {text}" for text in damage]
    found = [
        f"row {rowid} of {table} refers to a row of {parent} that is not there"
        for table, rowid, parent, _ in connection.execute("PRAGMA foreign_key_check")
    ]
    # A broken JSON text would make other statements fail, so it is looked for first.
    broken = _exceptions(connection, "json.broken")
    if broken:
        return found + broken
    for name in checks():
        if name != "json.broken":
            found += _exceptions(connection, name)
    return found


def violations_of_file(path: str | Path) -> list[str]:
    """As `violations`, of the store in this file, which is opened for it."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=5.0)
    try:
        connection.execute("BEGIN")  # one view for all of it
        return violations(connection)
    finally:
        connection.close()


def _exceptions(connection: sqlite3.Connection, name: str) -> list[str]:
    sentence, statement = checks()[name]
    cursor = connection.execute(statement)
    columns = [column[0] for column in cursor.description]
    rows = cursor.fetchall()
    found = [
        sentence.format(**{key: _shown(value) for key, value in zip(columns, row, strict=True)})
        for row in rows[:LISTED]
    ]
    if len(rows) > LISTED:
        found.append(f"… and {len(rows) - LISTED} more like it ({name})")
    return found


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return json.dumps(value) if isinstance(value, str) and not value.isprintable() else str(value)
