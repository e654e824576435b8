"""Several real processes that do something at the same moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["ready_together"]


def ready_together(processes: Sequence[Any]) -> None:
    """Wait until every process says `ready`, then let all of them go."""
    for process in processes:
        assert process.hear() == "ready"
    for process in processes:
        process.say()
