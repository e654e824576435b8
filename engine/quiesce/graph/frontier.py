"""What is alive in a graph run: its branches and groups, in memory, and the moves that keep them right.

Each move changes one branch or one group together with everything that is derived from it (who is
queued, what is in flight, which group is inside which) and tells the recorder. The rules, that is which
move follows from a transition, are in `walk.py`; the rows that a store keeps in `rows.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self, assert_never

from quiesce.graph.ready import Limit, Ready
from quiesce.graph.rows import Branch, Changes, Counters, Group, Recorder
from quiesce.graph.transitions import Concurrency

__all__ = ["Frontier", "Place"]

Place = tuple[tuple[int, int], ...]
"""Inside which fan-outs something stands: (group id, place in it), innermost last."""


class Frontier:
    """All branches of one run, indexed so that no move looks at more than one of them."""

    def __init__(self, default: Concurrency = Concurrency.SEQUENTIAL, *, record: bool = True) -> None:
        """A walk that has not begun.

        Args:
            default: the concurrency of the root and of each branch that follows a join.
            record: remember what changes, for `drain`. Without a store nobody pays for it.
        """
        self._default = default
        self._branches: dict[int, Branch] = {}
        self._running: dict[int, Branch] = {}
        self._paused: dict[int, Branch] = {}
        self._waiting: dict[int, Branch] = {}
        self._groups: dict[int, Group] = {}
        self._ready = Ready()
        self._recorder = Recorder() if record else None
        self._next_branch = 1
        self._next_order = 1
        self._next_group = 1
        self._suspended = False

    @classmethod
    def restore(
        cls,
        default: Concurrency,
        branches: Iterable[Branch],
        groups: Iterable[Group],
        counters: Counters,
        *,
        record: bool = True,
    ) -> Self:
        """What these rows were drained from. It takes the values over, and changes them.

        Visits that were in flight still count as such; what became of them only the caller can know
        (`requeue` those that are lost).
        """
        self = cls(default, record=record)
        self._next_branch = counters.next_branch
        self._next_order = counters.next_order
        self._next_group = counters.next_group
        self._suspended = counters.suspended
        self._groups = {group.id: group for group in groups}
        branches = list(branches)
        places = {
            place[0]: branch.groups[:depth]
            for branch in branches
            for depth, place in enumerate(branch.groups)
        }
        for group_id in sorted(self._groups):  # an outer group is always older than those inside it
            outer = places[group_id]
            self._bound(self._groups[group_id], self._limits_at(outer))
            if outer:
                self._groups[outer[-1][0]].inner.add(group_id)
        for branch in sorted(branches, key=lambda branch: branch.order):
            self._branches[branch.id] = branch
            branch.limits = self._limits_at(branch.groups)
            if branch.groups:
                self._groups[branch.groups[-1][0]].members.add(branch.id)
            match branch.state:
                case "queued":
                    self._ready.add(branch)
                case "running":
                    self._running[branch.id] = branch
                    self._ready.began(branch)
                case "paused":
                    self._paused[branch.id] = branch
                case "waiting":
                    self._waiting[branch.id] = branch
                case "ended":
                    raise ValueError(f"branch {branch.id} has ended; it is no part of a frontier")
                case _:
                    assert_never(branch.state)
        return self

    # --- what it looks like ----------------------------------------------------------------------

    @property
    def queued(self) -> list[Branch]:
        """The branches that wait for their visit, first the next one."""
        found = [branch for branch in self._branches.values() if branch.state == "queued"]
        return sorted(found, key=lambda branch: branch.order)

    @property
    def running(self) -> list[Branch]:
        """The branches whose visits are in flight, by id."""
        return [self._running[id] for id in sorted(self._running)]

    @property
    def paused(self) -> list[Branch]:
        """The branches that pause, by id."""
        return [self._paused[id] for id in sorted(self._paused)]

    @property
    def waiting(self) -> list[Branch]:
        """The branches that hang on a child run, by id."""
        return [self._waiting[id] for id in sorted(self._waiting)]

    @property
    def groups(self) -> list[Group]:
        """The fan-outs that are not over, by id."""
        return [self._groups[id] for id in sorted(self._groups)]

    @property
    def counts(self) -> dict[str, int]:
        """How many branches there are of each state, without looking at them."""
        running, paused, waiting = len(self._running), len(self._paused), len(self._waiting)
        queued = len(self._branches) - running - paused - waiting
        return {"queued": queued, "running": running, "paused": paused, "waiting": waiting}

    @property
    def branches(self) -> list[Branch]:
        """Every branch that is not over, by id."""
        return [self._branches[id] for id in sorted(self._branches)]

    @property
    def sole(self) -> bool:
        """There is one branch, so nothing else could run beside it."""
        return len(self._branches) == 1

    @property
    def counters(self) -> Counters:
        return Counters(self._next_branch, self._next_order, self._next_group, self._suspended)

    @property
    def suspended(self) -> bool:
        """Nothing is taken until `resume`."""
        return self._suspended

    @property
    def quiescent(self) -> bool:
        """No visit is in flight."""
        return not self._running

    @property
    def at_rest(self) -> bool:
        """No visit is in flight and none may begin: only a verb from outside can change anything."""
        held = len(self._paused) + len(self._waiting)
        return not self._running and (self._suspended or len(self._branches) == held)

    @property
    def ended(self) -> bool:
        """It has begun, and there is nothing left to do."""
        return self._next_branch > 1 and not self._branches

    def __contains__(self, branch_id: int) -> bool:
        return branch_id in self._branches

    def __getitem__(self, branch_id: int) -> Branch:
        """The branch with this id.

        Raises:
            KeyError: it is over, or never was.
        """
        return self._branches[branch_id]

    def drain(self) -> Changes:
        """What changed since the last call, or since the walk was made; to be stored at once.

        Raises:
            ValueError: this walk does not record.
        """
        if self._recorder is None:
            raise ValueError("this walk was made with record=False, so it does not know what changed")
        return self._recorder.drain(self._branches, self.counters)

    # --- the moves ------------------------------------------------------------------------------------

    def _spawn(self, node: str, input: object, concurrency: Concurrency, place: Place) -> Branch:
        branch = Branch(self._next_branch, node, input, concurrency, place)
        self._next_branch += 1
        self._branches[branch.id] = branch
        if place:
            group = self._groups[place[-1][0]]
            group.members.add(branch.id)
            branch.limits = group.limits
        self._queue(branch)
        if self._recorder is not None:
            self._recorder.created(branch)
        return branch

    def _queue(self, branch: Branch) -> None:
        branch.state = "queued"
        branch.order = self._next_order
        self._next_order += 1
        self._ready.add(branch)

    def _move(self, branch: Branch, state: Literal["queued", "paused", "waiting"]) -> None:
        branch.state = state
        if self._recorder is not None:
            self._recorder.moved(branch)

    def _drop(self, branch: Branch) -> None:
        branch.state = "ended"
        del self._branches[branch.id]
        if branch.groups and (group := self._groups.get(branch.groups[-1][0])) is not None:
            group.members.discard(branch.id)
        if self._recorder is not None:
            self._recorder.dropped(branch)

    def _in_flight(self, branch_id: int) -> Branch:
        try:
            return self._running[branch_id]
        except KeyError:
            raise ValueError(f"no visit of branch {branch_id} is in flight") from None

    def _end_visit(self, branch: Branch) -> None:
        del self._running[branch.id]
        self._ready.ended(branch)

    def _open(self, branch: Branch, join: str | None, size: int, how: Concurrency, most: int | None) -> Group:
        """A group in the place of a branch that fans out."""
        group = Group(self._next_group, join, size, how, most)
        self._next_group += 1
        self._groups[group.id] = group
        self._bound(group, branch.limits)
        if branch.groups:
            self._groups[branch.groups[-1][0]].inner.add(group.id)
        if self._recorder is not None:
            self._recorder.opened(group)
        return group

    def _close(self, group: Group, place: Place) -> None:
        del self._groups[group.id]
        if place:
            self._groups[place[-1][0]].inner.discard(group.id)
        if self._recorder is not None:
            self._recorder.closed(group)

    def _bound(self, group: Group, outer: tuple[Limit, ...]) -> None:
        """Derive the bounds for its branches: those of the branch that fanned out, then its own."""
        own = () if group.max_parallelism is None else (Limit(group.max_parallelism),)
        group.limits = (*outer, *own)

    def _limits_at(self, place: Place) -> tuple[Limit, ...]:
        return self._groups[place[-1][0]].limits if place else ()
