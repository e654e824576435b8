"""What do the rules see of a body: the one piece of an agent's run, as it is now.

A run in memory shows this object itself to the store (`attach`); a durable one writes its row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from quiesce.records import PieceRow

__all__ = ["PIECE", "BodyPiece"]

PIECE = 1
"""The number of the only piece of an agent's run."""


class BodyPiece:
    """The body: `queued` (it may go on), `running`, `held` (it asks), `waiting` (for `child`) or `failed`."""

    __slots__ = ("attempt", "child", "hold", "lost", "name", "place", "state", "value")

    def __init__(self, name: str, value: int | None) -> None:
        self.name = name
        self.value = value
        self.state = "queued"
        self.attempt = 0
        self.lost = 0
        self.hold: str | None = None
        self.child: str | None = None
        self.place: str | None = None
        """The line of a durable body where it stood last, as `file:line`."""

    def row(self) -> PieceRow:
        """The row of this moment."""
        return PieceRow(
            piece=PIECE,
            kind="body",
            state=self.state,
            name=self.name,
            position=1,
            value=self.value,
            detail=self.place,
            attempt=self.attempt,
            lost=self.lost,
            child=self.child,
            hold=self.hold,
        )

    def rows(self) -> Iterable[PieceRow]:
        return [self.row()]

    def counts(self) -> Mapping[str, int]:
        return {self.state: 1}

    def wake(self, pieces: Collection[int] | None, *, child: str | None = None) -> int:
        """Let a body that asks or waits go on."""
        if child is not None and (self.state != "waiting" or self.child != child):
            return 0
        if self.state == "held" or (self.state == "waiting" and pieces is not None):
            self.state = "queued"
            return 1
        return 0

    def requeue(self) -> int:
        """Let a body that ran or failed begin again."""
        if self.state not in ("running", "failed"):
            return 0
        self.state = "queued"
        return 1
