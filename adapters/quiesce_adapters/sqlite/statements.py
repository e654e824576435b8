"""Which statements does the store have?

`queries.sql` holds them, each under `-- name` or `-- name: why`; this reads the file once per process.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

__all__ = ["schema", "statements"]


@cache
def statements() -> dict[str, str]:
    """Every named statement of `queries.sql`."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in _text("queries.sql").splitlines():
        if line.startswith("-- ") and "." in (head := line[3:].split(":", 1)[0]) and " " not in head:
            name = head
            found[name] = []
        elif name and not line.startswith("--"):
            found[name].append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def schema() -> str:
    """The schema of version 1."""
    return _text("schema.sql")


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
