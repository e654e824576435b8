"""Which statements does the store have?

`queries.sql` and `checks.sql` hold them, each under `-- name` or `-- name: why`; this reads a file once
per process.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

__all__ = ["checks", "schema", "statements"]


@cache
def statements() -> dict[str, str]:
    """Every named statement of `queries.sql`."""
    return {name: sql for name, (_, sql) in _named("queries.sql").items()}


@cache
def checks() -> dict[str, tuple[str, str]]:
    """What `checks.sql` looks for: the sentence about what is wrong, and the statement that finds it."""
    return _named("checks.sql")


def schema() -> str:
    """The schema of version 1."""
    return _text("schema.sql")


def _named(file: str) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, list[str]]] = {}
    name = ""
    for line in _text(file).splitlines():
        head, _, why = line[3:].partition(":")
        if line.startswith("-- ") and "." in head and " " not in head:
            name = head
            found[name] = (why.strip(), [])
        elif name and not line.startswith("--"):
            found[name][1].append(line)
    return {name: (why, "\n".join(lines).strip()) for name, (why, lines) in found.items()}


@cache
def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
