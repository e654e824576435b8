"""The frontier of a graph run: what begins next, and what a node's transition does to it.

Theory of operation. A walk never waits and evaluates nothing. A driver asks it with `take` for the
branch whose visit begins now, evaluates that node and its transition (any number at a time), and hands
the transition back with `apply`. The state is the branches, the fan-out groups and four counters, all
kept by `frontier.py` and written by a store as the rows of `rows.py`; `restore` makes an equal walk of
them in another process. Which branch is next is `ready.py`'s question. The rules of the branches:

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

from collections.abc import Collection
from dataclasses import dataclass
from typing import assert_never

from quiesce.errors import GraphError
from quiesce.graph.frontier import Frontier, Place
from quiesce.graph.rows import Arrival, Branch, Group
from quiesce.graph.transitions import Case, Error, FanOut, Finish, Join, JoinInput, Next, Pause

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


class Walk(Frontier):
    """The branches of one run of a graph, and the rules they follow. Not for several threads."""

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
        group = self._open(branch, fan.into, len(fan.targets), concurrency, fan.max_parallelism)
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

    def _record_arrival(self, group: Group, arrival: Arrival, place: Place) -> None:
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

    def _end_race(self, race: Group, place: Place, cancelled: list[int], abandoned: list[int]) -> None:
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
