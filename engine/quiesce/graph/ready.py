"""Which queued branch may begin its visit next?

The earliest in the queue that is not held back. Two things hold a branch back: a sequential visit
begins only while no other is in flight, and under a `max_parallelism` only so many visits are. Neither
stops the branches behind it. Source: spec graph, "Scheduling"; the deviation that a sequential visit
does not stall parallel ones in flight is stated there.

Theory of operation. There is one queue in the mind (the order numbers) and two lines in memory,
sequential and parallel, because a sequential branch waits for the turn, which says nothing about
parallel ones. A branch that comes to the front but finds one of its limits full leaves the line and is
parked at that limit; it comes back, to the place its order says, when a place may have become free. So
nobody scans: every step touches the heads of two lines and the limits of one branch.

The invariant that keeps a parked branch from being forgotten: of those parked at a limit (of each kind),
as many stand in a line as the limit has free places, the first ones. Each event that could break it
releases the next: a visit ends, or a branch leaves a line without taking a place, because another limit
parks it or because it is dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

from quiesce.graph.rows import Branch
from quiesce.graph.transitions import Concurrency

__all__ = ["Limit", "Ready"]

_SEQUENTIAL = Concurrency.SEQUENTIAL


Early = list[tuple[int, Branch]]
"""A heap of queued branches by their order."""


@dataclass(slots=True, eq=False)
class Limit:
    """A bound on the visits in flight of one group, and who waits for a place under it."""

    size: int
    in_flight: int = 0
    # Apart by concurrency: a sequential branch that got the place but not its turn must not
    # keep a parallel one from taking it.
    blocked_sequential: Early = field(default_factory=list)
    blocked_parallel: Early = field(default_factory=list)

    @property
    def full(self) -> bool:
        return self.in_flight >= self.size

    def blocked(self, concurrency: Concurrency) -> Early:
        return self.blocked_sequential if concurrency is Concurrency.SEQUENTIAL else self.blocked_parallel

    def released(self) -> list[Branch]:
        """The first that waits, of each kind, no longer counted among those that wait here."""
        found = []
        for heap in (self.blocked_sequential, self.blocked_parallel):
            while heap:
                branch = heappop(heap)[1]
                if branch.state == "queued":
                    found.append(branch)
                    break
        return found


class _Line:
    """Queued branches by order: most queue up at the end, some come back to an earlier place."""

    __slots__ = ("early", "queue")

    def __init__(self) -> None:
        self.queue: deque[Branch] = deque()
        self.early: Early = []

    def first(self) -> Branch | None:
        """The earliest that is still queued. What was dropped meanwhile is cleared away here."""
        queue = self.queue
        while queue and queue[0].state != "queued":
            queue.popleft()
        early = self.early
        if early:
            while early and early[0][1].state != "queued":
                heappop(early)
            if early and (not queue or early[0][0] < queue[0].order):
                return early[0][1]
        return queue[0] if queue else None

    def remove_first(self, branch: Branch) -> None:
        """Take away what `first` has just returned."""
        if self.queue and self.queue[0] is branch:
            self.queue.popleft()
        else:
            heappop(self.early)


class Ready:
    """The queue of a run, and what is in flight as far as that holds others back."""

    __slots__ = ("_parallel", "_sequential", "_turn")

    def __init__(self) -> None:
        self._sequential = _Line()
        self._parallel = _Line()
        self._turn: Branch | None = None
        """The sequential visit in flight."""

    def add(self, branch: Branch) -> None:
        """Queue up at the end; its order must be the highest."""
        line = self._sequential if branch.concurrency is _SEQUENTIAL else self._parallel
        line.queue.append(branch)

    def put_back(self, branch: Branch) -> None:
        """Queue at the place that its order says."""
        line = self._sequential if branch.concurrency is _SEQUENTIAL else self._parallel
        heappush(line.early, (branch.order, branch))

    def take(self) -> Branch | None:
        """The branch that begins now, or None if all that is queued is held back."""
        while True:
            line = self._parallel
            branch = line.first()
            if self._turn is None:
                sequential = self._sequential.first()
                if sequential is not None and (branch is None or sequential.order < branch.order):
                    line, branch = self._sequential, sequential
            if branch is None:
                return None
            line.remove_first(branch)
            if branch.limits and not self._claim_places(branch):
                continue
            if branch.concurrency is _SEQUENTIAL:
                self._turn = branch
            return branch

    def began(self, branch: Branch) -> None:
        """Count a visit that was in flight when the frontier was stored."""
        for limit in branch.limits:
            limit.in_flight += 1
        if branch.concurrency is _SEQUENTIAL:
            self._turn = branch

    def ended(self, branch: Branch) -> None:
        """A visit is over: give back the turn and its places. Before the branch changes in any way."""
        if self._turn is branch:
            self._turn = None
        for limit in branch.limits:
            limit.in_flight -= 1
        self._release(branch)

    def dropped(self, branch: Branch) -> None:
        """A queued branch is no more (its state says so already)."""
        self._release(branch)

    def _claim_places(self, branch: Branch) -> bool:
        """Count it under all its limits; or park it at the first full one."""
        for limit in branch.limits:
            if limit.full:
                heappush(limit.blocked(branch.concurrency), (branch.order, branch))
                self._release(branch)
                return False
        for limit in branch.limits:
            limit.in_flight += 1
        return True

    def _release(self, branch: Branch) -> None:
        """Let the next ones come forward wherever there is a place."""
        for limit in branch.limits:
            if not limit.full:
                for released in limit.released():
                    self.put_back(released)
