"""The frontier of a graph run: what begins next, and what a node's transition does to it.

Theory of operation. A walk never waits and evaluates nothing. A driver asks it with `take` for the
branch whose visit begins now, evaluates that node and its transition (any number at a time), and hands
the transition back with `apply`. The state is the branches, the fan-out groups and four counters, all
kept by `frontier.py` as what a store writes; `restore` makes an equal walk from those rows in another
process. Which branch is next is `ready.py`'s question; here are the rules of the branches themselves:

- A branch is {id, node, input, concurrency, groups}. The root has id 1; a fan-out of k ends its branch
  and takes the next k ids, in order; a join takes the next; `next` keeps the branch. The join branch
  stands where the branch stood that fanned out, so fan-outs nest.
- A joined group waits for all its branches and gives their payloads in the order of creation. A branch
  that finishes inside it has arrived with that value. In a race (no join) the first to finish ends the
  whole group, with everything that began under it, and finishes one level further out.
- A pause keeps node and input of its branch; nothing more is taken until `resume`, while visits in
  flight run to their end and are applied. An error does the same and puts every visit in flight back
  into the queue, so a retry finds the failed branch with its input and everything else as it was.

Nothing scans all branches per visit, and nothing is kept of a branch that is over. Source of the
order of things: seed "graph pause and resume" and spec graph, "Scheduling" and "Pause".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, assert_never

from quiesce.errors import GraphError
from quiesce.graph.frontier import Arrival, Branch, Changes, Counters, Group, Limit, Recorder
from quiesce.graph.ready import Ready
from quiesce.graph.transitions import (
    Case,
    Concurrency,
    Error,
    FanOut,
    Finish,
    Join,
    JoinInput,
    Next,
    Pause,
)

__all__ = ["Applied", "Walk"]


@dataclass(frozen=True, slots=True)
class Applied:
    """What the driver has to know of an applied transition; all of it empty if the walk just goes on."""

    finished: Finish | None = None
    """The run is complete, with this value."""
    error: Exception | str | None = None
    """The run has failed with this."""
    paused: bool = False
    """The branch pauses, and with it the run."""
    cancelled: tuple[int, ...] = ()
    """Branches whose visits are in flight and no longer wanted; never apply their results."""
    abandoned: tuple[int, ...] = ()
    """Branches that were paused, or waited for a child run, and are gone: withdraw what they asked."""


_GOES_ON = Applied()
_PAUSED = Applied(paused=True)


class Walk:
    """The branches of one run of a graph, and the rules they follow. Not for several threads."""

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
    ) -> Walk:
        """The walk that these rows were drained from. It takes the values over, and changes them.

        Visits that were in flight still count as such; what became of them only the caller can know
        (`requeue` those that are lost).
        """
        walk = cls(default, record=record)
        walk._next_branch = counters.next_branch
        walk._next_order = counters.next_order
        walk._next_group = counters.next_group
        walk._suspended = counters.suspended
        walk._groups = {group.id: group for group in groups}
        branches = list(branches)
        places = {
            place[0]: branch.groups[:depth]
            for branch in branches
            for depth, place in enumerate(branch.groups)
        }
        for group_id in sorted(walk._groups):  # an outer group is always older than those inside it
            outer = places[group_id]
            walk._groups[group_id].place_under(walk._limits_at(outer))
            if outer:
                walk._groups[outer[-1][0]].inner.add(group_id)
        for branch in sorted(branches, key=lambda branch: branch.order):
            walk._branches[branch.id] = branch
            branch.limits = walk._limits_at(branch.groups)
            if branch.groups:
                walk._groups[branch.groups[-1][0]].members.add(branch.id)
            match branch.state:
                case "queued":
                    walk._ready.add(branch)
                case "running":
                    walk._running[branch.id] = branch
                    walk._ready.began(branch)
                case "paused":
                    walk._paused[branch.id] = branch
                case "waiting":
                    walk._waiting[branch.id] = branch
                case "ended":
                    raise ValueError(f"branch {branch.id} has ended; it is no part of a frontier")
                case _:
                    assert_never(branch.state)
        return walk

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

    def arrives_at(self, branch_id: int) -> str | None:
        """The join node that gets the value if this branch finishes; None if the run completes with it."""
        for group_id, _ in reversed(self._branches[branch_id].groups):
            if (join := self._groups[group_id].join) is not None:
                return join
        return None

    # --- what a driver does -----------------------------------------------------------------------

    def begin(self, node: str, input: object) -> Branch:
        """Queue the root branch, with id 1."""
        if self._next_branch > 1:
            raise ValueError("a walk begins once; another run, or a reset, is another walk")
        return self._spawn(node, input, self._default, ())

    def take(self) -> Branch | None:
        """The branch whose visit begins now, or None if none may. Call it until it gives None."""
        if self._suspended:
            return None
        branch = self._ready.take()
        if branch is not None:
            branch.state = "running"
            self._running[branch.id] = branch
            if self._recorder is not None:
                self._recorder.moved(branch)
        return branch

    def apply(self, branch_id: int, case: Case) -> Applied:
        """Carry out the transition that ended a visit.

        Raises:
            GraphError: the branch joins where it cannot. Nothing was changed; apply an `Error` then.
            ValueError: no visit of this branch is in flight.
        """
        branch = self._in_flight(branch_id)
        match case:
            case Next(node, value, concurrency):
                self._end_visit(branch)
                branch.node = node
                branch.input = value
                branch.attempt = 1
                if concurrency is not None:
                    branch.concurrency = concurrency
                self._queue(branch)
                if self._recorder is not None:
                    self._recorder.put(branch)
                return _GOES_ON
            case Join(node, value):
                self._check_join(branch, node)
                return self._arrive(branch, value)
            case Finish(value):
                return self._arrive(branch, value)
            case FanOut():
                return self._fan_out(branch, case)
            case Pause():
                self._end_visit(branch)
                self._suspended = True
                self._move(branch, "paused")
                self._paused[branch.id] = branch
                return _PAUSED
            case Error(cause):
                self._suspended = True
                lost = sorted(self._running)
                for id in lost:
                    self.requeue(id)
                lost.remove(branch_id)
                return Applied(error=cause, cancelled=tuple(lost))
            case _:
                assert_never(case)

    def suspend(self) -> None:
        """Take nothing more until `resume`; visits in flight are applied as ever."""
        self._suspended = True

    def resume(self, branches: Collection[int] | None = None) -> list[Branch]:
        """Let the walk go on: what is queued first, in order, then these paused branches by id.

        Args:
            branches: ids of the paused branches to evaluate again; None is all of them, and `()`
                none. The others stay paused.

        Returns:
            The branches that were paused and are queued again.

        Raises:
            ValueError: one of them is not paused. Nothing was changed.
        """
        ids = sorted(self._paused if branches is None else branches)
        if wrong := [id for id in ids if id not in self._paused]:
            raise ValueError(f"not paused: branches {wrong}")
        self._suspended = False
        return [self.wake(id) for id in ids]

    def wake(self, branch_id: int) -> Branch:
        """Queue one branch that was paused or waiting, at the end, and start nothing by it.

        Raises:
            ValueError: it is neither.
        """
        branch = self._paused.pop(branch_id, None) or self._waiting.pop(branch_id, None)
        if branch is None:
            raise ValueError(f"branch {branch_id} is neither paused nor waiting")
        branch.attempt = 1
        self._queue(branch)
        if self._recorder is not None:
            self._recorder.moved(branch)
        return branch

    def requeue(self, branch_id: int, *, attempt: int | None = None) -> Branch:
        """Put a visit that was lost or is tried again back to its place in the queue, input and all.

        Args:
            attempt: the count to give it; None keeps the one it has.

        Raises:
            ValueError: no visit of this branch is in flight.
        """
        branch = self._in_flight(branch_id)
        self._end_visit(branch)
        if attempt is not None:
            branch.attempt = attempt
        self._move(branch, "queued")
        self._ready.put_back(branch)
        return branch

    def hang(self, branch_id: int) -> Branch:
        """The visit in flight waits for a child run now, and holds no place; `wake` queues it again.

        Raises:
            ValueError: no visit of this branch is in flight.
        """
        branch = self._in_flight(branch_id)
        self._end_visit(branch)
        self._move(branch, "waiting")
        self._waiting[branch.id] = branch
        return branch

    def drain(self) -> Changes:
        """What changed since the last call, or since the walk was made; to be stored at once.

        Raises:
            ValueError: this walk does not record.
        """
        if self._recorder is None:
            raise ValueError("this walk was made with record=False, so it does not know what changed")
        return self._recorder.drain(self._branches, self.counters)

    # --- the rules ------------------------------------------------------------------------------------

    def _fan_out(self, branch: Branch, fan: FanOut) -> Applied:
        if not fan.targets and fan.into is None:
            raise GraphError(f"node {branch.node!r} fanned out to nobody without a join")
        self._end_visit(branch)
        self._drop(branch)
        if not fan.targets:
            assert fan.into is not None
            self._spawn(fan.into, JoinInput(), self._default, branch.groups)
            return _GOES_ON
        concurrency = fan.concurrency or branch.concurrency
        group = Group(self._next_group, fan.into, len(fan.targets), concurrency, fan.max_parallelism)
        self._next_group += 1
        self._groups[group.id] = group
        group.place_under(branch.limits)
        if branch.groups:
            self._groups[branch.groups[-1][0]].inner.add(group.id)
        if self._recorder is not None:
            self._recorder.opened(group)
        for index, target in enumerate(fan.targets):
            place = (*branch.groups, (group.id, index))
            self._spawn(target.node, target.value, target.concurrency or concurrency, place)
        return _GOES_ON

    def _check_join(self, branch: Branch, node: str) -> None:
        expected = self.arrives_at(branch.id)
        if expected is None:
            raise GraphError(
                f"node {branch.node!r} joins {node!r}, but its branch belongs to no fan-out that joins: "
                "only what was fanned out with join=… can arrive there"
            )
        if expected != node:
            raise GraphError(
                f"node {branch.node!r} joins {node!r}, but the fan-out of its branch joins {expected!r}"
            )

    def _arrive(self, branch: Branch, value: object) -> Applied:
        """The branch is over with `value`: win every race it is in, then arrive, or complete the run."""
        self._end_visit(branch)
        self._drop(branch)
        cancelled: list[int] = []
        abandoned: list[int] = []
        finished: Finish | None = Finish(value)
        place = branch.groups
        while place:
            group_id, index = place[-1]
            place = place[:-1]
            group = self._groups[group_id]
            if group.join is not None:
                self._record_arrival(group, Arrival(group_id, index, branch.node, value), place)
                finished = None
                break
            self._end_race(group, place, cancelled, abandoned)
        if finished is None and not cancelled and not abandoned:
            return _GOES_ON
        return Applied(finished, None, False, tuple(sorted(cancelled)), tuple(sorted(abandoned)))

    def _record_arrival(self, group: Group, arrival: Arrival, place: tuple[tuple[int, int], ...]) -> None:
        group.arrived[arrival.index] = arrival.payload
        group.sources[arrival.index] = arrival.source
        if self._recorder is not None:
            self._recorder.arrived(arrival)
        if len(group.arrived) < group.size:
            return
        assert group.join is not None
        self._close(group, place)
        brought = range(group.size)
        payloads = JoinInput(
            [group.arrived[index] for index in brought], sources=[group.sources[index] for index in brought]
        )
        self._spawn(group.join, payloads, self._default, place)

    def _end_race(
        self, race: Group, place: tuple[tuple[int, int], ...], cancelled: list[int], abandoned: list[int]
    ) -> None:
        """Drop all that is still under way in it, however deep."""
        self._close(race, place)
        under = [race]
        while under:
            group = under.pop()
            for branch in [self._branches[id] for id in group.members]:
                if branch.state == "running":
                    cancelled.append(branch.id)
                    self._end_visit(branch)
                elif branch.state != "queued":
                    abandoned.append(branch.id)
                    self._paused.pop(branch.id, None)
                    self._waiting.pop(branch.id, None)
                self._drop(branch)
                self._ready.dropped(branch)
            for inner_id in group.inner:
                inner = self._groups.pop(inner_id)
                under.append(inner)
                if self._recorder is not None:
                    self._recorder.closed(inner)

    def _close(self, group: Group, place: tuple[tuple[int, int], ...]) -> None:
        del self._groups[group.id]
        if place:
            self._groups[place[-1][0]].inner.discard(group.id)
        if self._recorder is not None:
            self._recorder.closed(group)

    # --- single branches -----------------------------------------------------------------------------

    def _spawn(
        self, node: str, input: object, concurrency: Concurrency, place: tuple[tuple[int, int], ...]
    ) -> Branch:
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

    def _limits_at(self, place: tuple[tuple[int, int], ...]) -> tuple[Limit, ...]:
        return self._groups[place[-1][0]].limits if place else ()
