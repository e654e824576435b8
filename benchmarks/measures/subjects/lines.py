"""How does a process that is measured speak to the one that measures? In lines, a JSON value in each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

__all__ = ["report", "rounds"]


def rounds() -> Iterator[int]:
    """What the other process asks for; the first number is asked for when this one is ready."""
    print("ready", flush=True)
    for line in sys.stdin:
        yield int(line)


def report(value: object) -> None:
    print(json.dumps(value), flush=True)
