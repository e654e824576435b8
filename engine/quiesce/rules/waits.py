"""Would a run that waits for another one wait for itself?

Source: spec agent, "Concurrency" (two bodies that wait for each other are reported, not hung).
"""

from __future__ import annotations

from quiesce.states import ENDED
from quiesce.store import Reader

__all__ = ["circle"]


def circle(tx: Reader, run_id: str, target: str) -> list[str] | None:
    """The runs of which each would wait for the next, from this one back to it; None if it may wait."""
    seen: set[str] = set()
    paths = [[run_id, target]]
    while paths:
        path = paths.pop()
        last = path[-1]
        if last == run_id:
            return path
        if last in seen:
            continue
        seen.add(last)
        run = tx.run(last)
        if run is None or run.state in ENDED:
            continue
        paths += [[*path, row.child] for row in tx.pieces(last) if row.child and row.state != "queued"]
    return None
