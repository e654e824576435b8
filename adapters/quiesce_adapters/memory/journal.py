"""What does a memory store keep of an agent's journal? Nothing: the continuation itself is all there is."""

from __future__ import annotations

from quiesce.store import JournalEntry

__all__ = ["NoJournal"]


class NoJournal:
    """The journal's part of a transaction that keeps none."""

    def journal(self, run_id: str, *, aside: bool = False) -> list[JournalEntry]:
        return []

    def put_entry(self, run_id: str, entry: JournalEntry, *, was: str | None = None) -> None:
        raise AssertionError("a body in memory has no journal")

    def set_aside(self, run_id: str, position: int) -> int:
        return 0

    def forget_journal(self, run_id: str) -> None:
        """There is none."""
