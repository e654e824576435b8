"""What can follow a node: the transitions as values, and what a join node is given.

A transition handler returns one of six cases. Each is a small frozen value that `match` takes apart;
`Transition` is their common base and the place of their constructors, so `-> Transition` is the
annotation of a handler. Nothing here knows a run: `checks.resolve` judges a case against a graph and
`walk.Walk.apply` carries it out.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from quiesce.errors import GraphError

if TYPE_CHECKING:
    from quiesce.graph.nodes import NodeRef

__all__ = [
    "Case",
    "Concurrency",
    "Deadline",
    "Error",
    "FanOut",
    "Finish",
    "Join",
    "JoinInput",
    "Next",
    "OnDeadline",
    "Pause",
    "Transition",
    "check_deadline",
]

I = TypeVar("I")  # noqa: E741
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

Deadline = datetime | timedelta | float | None
"""An aware instant, a duration from now (a timedelta or float seconds), or none."""

OnDeadline = Literal["hold", "fail"] | tuple[Literal["answer"], Any]
"""What a passed deadline does: leave the hold open, fail the branch, or answer with a value."""


class Concurrency(enum.Enum):
    """How the visits of a branch are taken off the queue."""

    SEQUENTIAL = "sequential"
    """One sequential visit at a time in the whole run, in rotation."""

    PARALLEL = "parallel"
    """As many at a time as there are."""


class Transition:
    """What follows a node. Made by these constructors, or by `node.next(value)`."""

    __slots__ = ()

    @overload
    @staticmethod
    def next(node: NodeRef[I, Any], value: I, *, concurrency: Concurrency | None = None) -> Next: ...
    @overload
    @staticmethod
    def next(node: str, value: object, *, concurrency: Concurrency | None = None) -> Next: ...
    @staticmethod
    def next(node: NodeRef[Any, Any] | str, value: object, *, concurrency: Concurrency | None = None) -> Next:
        """The same branch goes on with `node` and `value`; `concurrency` overrides the branch's own."""
        name, owner = _target(node)
        return Next(name, value, concurrency, owner)

    @staticmethod
    def pause(
        reason: str | None = None,
        *,
        expects: Any = None,
        payload: object = None,
        key: str | None = None,
        deadline: Deadline = None,
        on_deadline: OnDeadline = "hold",
    ) -> Pause:
        """The run pauses here; the node is evaluated again with the same input when it goes on.

        Args:
            reason: what is waited for, in words for a person.
            expects: the type of the answer. Without one, a plain resume is answer enough.
            payload: what the person who answers should see.
            key: names the hold, where one node asks several different things.
            deadline: an aware datetime, a timedelta, or float seconds from now.
            on_deadline: "hold", "fail" or ("answer", value).

        Raises:
            GraphError: a naive or impossible deadline, or an unknown `on_deadline`.
        """
        check_deadline(deadline, on_deadline)
        return Pause(reason, expects, payload, key, deadline, on_deadline)

    @staticmethod
    def fan_out(
        branches: Iterable[tuple[NodeRef[Any, Any] | str, object] | Next],
        *,
        join: NodeRef[JoinInput[Any], Any] | str | None,
        concurrency: Concurrency | None = None,
        max_parallelism: int | None = None,
    ) -> FanOut:
        """The branch ends and one new branch begins for each of `branches`.

        Args:
            branches: pairs of a node and its input, or `node.next(value)`.
            join: the node that gets what all of them bring, as a `JoinInput`. None is a race: the
                first branch that finishes wins, the others are cancelled.
            concurrency: how the new branches are taken; default is how this one was.
            max_parallelism: at most so many visits of these branches, and of all that begins under
                them, are in flight at a time.

        Raises:
            GraphError: a race of nobody, or `max_parallelism` below 1.
        """
        targets = []
        for branch in branches:
            if isinstance(branch, Next):
                targets.append(branch)
            else:
                node, value = branch
                name, owner = _target(node)
                targets.append(Next(name, value, None, owner))
        into, into_owner = (None, None) if join is None else _target(join)
        if join is None and not targets:
            raise GraphError(
                "a race needs at least one branch: fan_out([], join=None) has nobody who could finish"
            )
        if max_parallelism is not None and max_parallelism < 1:
            raise GraphError(f"max_parallelism is at least 1, or None for no bound; it was {max_parallelism}")
        return FanOut(tuple(targets), into, concurrency, max_parallelism, into_owner)

    @staticmethod
    def join(node: NodeRef[JoinInput[Any], Any] | str, value: object) -> Join:
        """The branch ends and brings `value` to the join `node` of its fan-out."""
        name, owner = _target(node)
        return Join(name, value, owner)

    @staticmethod
    def finish(value: object = None) -> Finish:
        """The run completes with `value`; inside a joined fan-out the branch has arrived with it."""
        return Finish(value)

    @staticmethod
    def error(cause: Exception | str) -> Error:
        """The run fails with `cause`, as if this node had raised it."""
        return Error(cause)


@dataclass(frozen=True, slots=True)
class Next(Transition):
    """The branch goes on with another node, or the same."""

    node: str
    value: object
    concurrency: Concurrency | None = None
    owner: object = field(default=None, compare=False, repr=False)
    """Which graph the node was named in; None if it was named by a string."""


@dataclass(frozen=True, slots=True)
class Pause(Transition):
    """The run pauses, and a hold is open until it is answered. Fields as in `Transition.pause`."""

    reason: str | None = None
    expects: Any = None
    payload: object = None
    key: str | None = None
    deadline: Deadline = None
    on_deadline: OnDeadline = "hold"


@dataclass(frozen=True, slots=True)
class FanOut(Transition):
    """The branch becomes several. `into` is the join node; None is a race."""

    targets: tuple[Next, ...]
    into: str | None
    concurrency: Concurrency | None = None
    max_parallelism: int | None = None
    owner: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Join(Transition):
    """The branch has arrived at the join of its fan-out."""

    node: str
    value: object
    owner: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Finish(Transition):
    """The run is complete, or the branch is, inside a fan-out."""

    value: object


@dataclass(frozen=True, slots=True)
class Error(Transition):
    """The run fails."""

    cause: Exception | str


Case = Next | Pause | FanOut | Join | Finish | Error
"""Every transition there is, for `match`."""


class JoinInput(Generic[T_co]):
    """What the branches of a fan-out brought, in the order in which they were created.

    Iterate it as often as you like, index it, count it, or pick by type with `of`.
    """

    __slots__ = ("_values", "sources")

    def __init__(self, values: Iterable[T_co] = (), *, sources: Sequence[str] = ()) -> None:
        self._values = tuple(values)
        self.sources = tuple(sources)
        """The node that each value came from; empty for one that was made by hand."""

    def of(self, kind: type[U]) -> JoinInput[U]:
        """Only the values that are instances of `kind`, in the same order."""
        picked = [index for index, value in enumerate(self._values) if isinstance(value, kind)]
        values: list[Any] = [self._values[index] for index in picked]
        return JoinInput(values, sources=[self.sources[index] for index in picked] if self.sources else ())

    def __iter__(self) -> Iterator[T_co]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        return self._values[index]

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, JoinInput) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return f"JoinInput({list(self._values)!r})"


def check_deadline(deadline: Deadline, on_deadline: OnDeadline) -> None:
    """Refuse a deadline that means nothing, where it is written and not when it passes.

    Raises:
        GraphError: it is naive, negative or not a number; or `on_deadline` is none of the three.
    """
    if isinstance(deadline, datetime):
        if deadline.utcoffset() is None:
            raise GraphError(
                f"the deadline {deadline.isoformat()} has no time zone: give an aware datetime "
                "(datetime.now(UTC) + …), a timedelta or float seconds from now"
            )
    elif deadline is not None:
        seconds = deadline.total_seconds() if isinstance(deadline, timedelta) else deadline
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise GraphError(
                f"a deadline is a datetime, a timedelta or float seconds from now, not {deadline!r}"
            )
        if not (math.isfinite(seconds) and seconds >= 0):
            raise GraphError(f"a deadline lies ahead; {deadline!r} does not")
    if on_deadline in ("hold", "fail"):
        return
    if not (isinstance(on_deadline, tuple) and len(on_deadline) == 2 and on_deadline[0] == "answer"):
        raise GraphError(f'on_deadline is "hold", "fail" or ("answer", value), not {on_deadline!r}')


def _target(node: NodeRef[Any, Any] | str) -> tuple[str, object]:
    """The name of the node that is meant, and of which graph."""
    if isinstance(node, str):
        return node, None
    try:
        return node.name, node.family
    except AttributeError:
        raise GraphError(
            f"a transition leads to a node of the graph (or its name), not to {node!r}"
        ) from None
