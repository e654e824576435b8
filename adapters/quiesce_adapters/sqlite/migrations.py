"""How does a file become a store of this version?

`PRAGMA user_version` says which version a store has, so that a process that finds the right one needs
nothing else; sqlite-utils, whose import costs more than a status, is loaded only to migrate. Migrations
run inside one BEGIN IMMEDIATE: two processes that open a new file at once would otherwise both apply them.

A released migration never changes; a new version appends one.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from quiesce.errors import StoreMismatch

from .statements import schema

__all__ = ["APPLICATION_ID", "VERSION", "check_identity", "migrate"]

APPLICATION_ID = 0x71756965  # "quie"
VERSION = 1


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file to `VERSION`; the caller has begun no transaction.

    Raises:
        StoreMismatch: it is another program's database, or a store of a newer quiesce.
    """
    if check_identity(connection, path):
        return
    from sqlite_utils import Database, Migrations

    migrations = Migrations("quiesce")

    @migrations()
    def v1_the_schema(db: Database) -> None:
        for statement in _split(schema()):
            db.execute(statement)

    connection.execute("BEGIN IMMEDIATE")
    try:
        if not check_identity(connection, path):
            migrations.apply(Database(connection, execute_plugins=False))
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_identity(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a store of this version; False if it is empty, or of an older one. Only reads.

    All of it in one view: between two, another process may make a store of the empty file.

    Raises:
        StoreMismatch: it is another program's database, or a store of a newer quiesce.
    """
    within = connection.in_transaction
    if not within:
        connection.execute("BEGIN")
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    finally:
        if not within:
            connection.execute("COMMIT")
    if application == APPLICATION_ID:
        if version > VERSION:
            raise StoreMismatch(
                f"{path} is a store of version {version}, written by a newer quiesce; this one knows version "
                f"{VERSION}: upgrade quiesce, or name another file with --db"
            )
        return bool(version == VERSION)
    if tables or application or version:
        raise StoreMismatch(
            f"{path} is another program's database (application id {application}, {tables} tables and "
            "indexes); nothing was changed: name another file with --db"
        )
    return False


def _split(script: str) -> list[str]:
    found: list[str] = []
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found
