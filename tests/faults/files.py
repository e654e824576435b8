"""What the tests of bad stores do to a file behind the store's back, and ask of the error that follows."""

from __future__ import annotations

import sqlite3
from pathlib import Path

__all__ = ["one_line", "raw"]


def raw(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def one_line(error: BaseException, *words: str) -> None:
    text = str(error)
    assert "\n" not in text
    for word in words:
        assert word in text
