"""What is stored of a graph run: its frontier as rows, and which of them a step has touched.

The frontier is everything that a run still has to do: its branches (queued, in flight, paused or
waiting), the fan-out groups that have not joined yet with what has arrived at them, and four counters.
A store keeps exactly that, as rows; `Recorder` says which rows a step has touched, so that what did
not change is not written again. Source: seed "graph pause and resume", whose runtime state cannot be
stored; that is what these rows lift.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from quiesce.graph.transitions import Concurrency

if TYPE_CHECKING:
    from quiesce.graph.ready import Limit

__all__ = ["Arrival", "Branch", "BranchState", "Changes", "Counters", "Group", "Recorder"]

BranchState = Literal["queued", "running", "paused", "waiting", "ended"]
"""`running`: its visit is in flight; `waiting`: it hangs on a child run. No stored branch is `ended`."""


@dataclass(slots=True)
class Branch:
    """One line of execution: the node it is at, with the input for it."""

    id: int
    node: str
    input: object
    concurrency: Concurrency
    groups: tuple[tuple[int, int], ...] = ()
    """The fan-outs it is inside of, innermost last: (group id, its place in that group)."""
    state: BranchState = "queued"
    order: int = 0
    """Its place in the queue; kept while its visit is in flight, so that it can go back there."""
    attempt: int = 1
    """How often the driver has begun this visit, by its own count of retries."""
    limits: tuple[Limit, ...] = field(default=(), init=False, compare=False, repr=False)
    """The bounds on how many visits are in flight that hold for it, outermost first. Not stored."""


@dataclass(slots=True)
class Group:
    """One fan-out that is not over: who is expected at its join and what has arrived."""

    id: int
    join: str | None
    """The node that gets the `JoinInput`; None is a race."""
    size: int
    concurrency: Concurrency
    max_parallelism: int | None = None
    arrived: dict[int, object] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)
    """The node from which each payload came (its declared type is how it is stored)."""
    # Not stored: restore() finds these again from the branches.
    members: set[int] = field(default_factory=set, init=False, compare=False, repr=False)
    inner: set[int] = field(default_factory=set, init=False, compare=False, repr=False)
    limits: tuple[Limit, ...] = field(default=(), init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Counters:
    """What is left to number, and whether anything may begin."""

    next_branch: int = 1
    next_order: int = 1
    next_group: int = 1
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class Arrival:
    """A payload that has come to a group."""

    group: int
    index: int
    source: str
    payload: object


@dataclass(slots=True)
class Changes:
    """The rows to write, in any order but this: groups before what has arrived at them.

    The branches and groups are the live ones: encode them before the walk goes on.
    """

    put: list[Branch]
    """Written whole: new, or with another node and input."""
    moved: list[Branch]
    """Only `state`, `order` or `attempt` changed; the input need not be encoded again."""
    dropped: list[int]
    opened: list[Group]
    """New groups, without what has arrived."""
    arrivals: list[Arrival]
    closed: list[int]
    """Groups to delete, with everything that had arrived at them."""
    counters: Counters

    def __bool__(self) -> bool:
        return bool(self.put or self.moved or self.dropped or self.opened or self.arrivals or self.closed)


_NEW, _PUT, _MOVED = 0, 1, 2


class Recorder:
    """Collects what was touched since the last drain. What came and went in between leaves no trace."""

    def __init__(self) -> None:
        self._touched: dict[int, int] = {}
        self._dropped: list[int] = []
        self._opened: dict[int, Group] = {}
        self._closed: list[int] = []
        self._arrivals: dict[int, list[Arrival]] = {}

    def created(self, branch: Branch) -> None:
        self._touched[branch.id] = _NEW

    def put(self, branch: Branch) -> None:
        if self._touched.get(branch.id) != _NEW:
            self._touched[branch.id] = _PUT

    def moved(self, branch: Branch) -> None:
        self._touched.setdefault(branch.id, _MOVED)

    def dropped(self, branch: Branch) -> None:
        if self._touched.pop(branch.id, None) != _NEW:
            self._dropped.append(branch.id)

    def opened(self, group: Group) -> None:
        self._opened[group.id] = group

    def arrived(self, arrival: Arrival) -> None:
        self._arrivals.setdefault(arrival.group, []).append(arrival)

    def closed(self, group: Group) -> None:
        self._arrivals.pop(group.id, None)
        if self._opened.pop(group.id, None) is None:
            self._closed.append(group.id)

    def drain(self, branches: dict[int, Branch], counters: Counters) -> Changes:
        """Everything so far, and begin anew."""
        touched = self._touched
        changes = Changes(
            put=[branches[id] for id, how in touched.items() if how != _MOVED],
            moved=[branches[id] for id, how in touched.items() if how == _MOVED],
            dropped=self._dropped,
            opened=list(self._opened.values()),
            arrivals=[arrival for arrivals in self._arrivals.values() for arrival in arrivals],
            closed=self._closed,
            counters=counters,
        )
        self.__init__()  # type: ignore[misc]
        return changes
