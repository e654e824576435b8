"""What does a memory store not keep? What only another process would need, to continue a run.

A graph's frontier is its driver's own; an agent's continuation is all that there is of its past.
"""

from __future__ import annotations

from collections.abc import Sequence

from quiesce.records import ArrivalRow, GroupRow, JournalEntry

__all__ = ["Unkept"]


class Unkept:
    """The part of a transaction that a memory store has no use for."""

    def groups(self, run_id: str) -> list[GroupRow]:
        return []

    def arrivals(self, run_id: str) -> list[ArrivalRow]:
        return []

    def put_groups(self, run_id: str, rows: Sequence[GroupRow]) -> None:
        pass

    def drop_groups(self, run_id: str, groups: Sequence[int] | None) -> None:
        pass

    def put_arrivals(self, run_id: str, rows: Sequence[ArrivalRow]) -> None:
        pass

    def journal(self, run_id: str, *, aside: bool = False) -> list[JournalEntry]:
        return []

    def put_entry(self, run_id: str, entry: JournalEntry, *, was: str | None = None) -> None:
        raise AssertionError("a body in memory has no journal")

    def set_aside(self, run_id: str, position: int) -> int:
        return 0

    def forget_journal(self, run_id: str) -> None:
        pass
