"""What did the frontier look like before an earlier visit?

A durable run logs each visit with what followed it and references to the values. Carrying the same
transitions out again on a fresh walk gives the frontier at any point, without evaluating anything: the
values stay references. A fork begins there; what paused asks again, and what was in flight is evaluated.

Source: issue text "fork(at=visit)"; cases failures-agent-frameworks 59, 60, 62.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quiesce.graph.transitions import Case, Concurrency, Error, FanOut, Finish, Join, Next, Pause
from quiesce.graph.walk import Walk

__all__ = ["StoredValue", "frontier_before"]


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value that is in the store, under this reference of the run that is read."""

    ref: int | None


def frontier_before(
    concurrency: Concurrency, entry: str, input: int | None, visits: Iterable[Mapping[str, Any]], at: int
) -> Walk:
    """The walk as it was before visit number `at`; every branch that is not done is queued.

    Args:
        entry, input: the start node and the reference of the run's input.
        visits: the logged visits of one execution, in order.
        at: from 1; the first visit that the walk has still to do.

    Raises:
        ValueError: the run has fewer visits than that.
    """
    walk = Walk(concurrency)
    walk.begin(entry, StoredValue(input))
    done = 0
    for visit in visits:
        if done == at - 1:
            break
        done += 1
        branch = visit["branch"]
        walk.resume(())
        if branch in walk and walk[branch].state in ("paused", "waiting"):
            walk.wake(branch)
        while branch in walk and walk[branch].state != "running":
            if walk.take() is None:
                raise ValueError(f"visit {done} of branch {branch} does not follow from those before it")
        walk.apply(branch, _case(visit))
    if done < at - 1:
        raise ValueError(f"it has {done} visits, so visit {at} has no beginning")
    walk.resume()
    for running in walk.running:
        walk.requeue(running.id)
    return walk


def _case(visit: Mapping[str, Any]) -> Case:
    match visit["did"]:
        case "next":
            ((node, ref),) = visit["to"]
            return Next(node, StoredValue(ref), _concurrency(visit.get("concurrency")))
        case "fan_out":
            how = visit.get("each") or [None] * len(visit["to"])
            targets = tuple(
                Next(node, StoredValue(ref), _concurrency(own))
                for (node, ref), own in zip(visit["to"], how, strict=True)
            )
            return FanOut(
                targets, visit.get("join"), _concurrency(visit.get("concurrency")), visit.get("most")
            )
        case "join":
            ((node, ref),) = visit["to"]
            return Join(node, StoredValue(ref))
        case "finish":
            return Finish(StoredValue(visit.get("value")))
        case "pause":
            return Pause(visit.get("reason"))
        case _:
            return Error(visit.get("error", ""))


def _concurrency(name: str | None) -> Concurrency | None:
    return None if name is None else Concurrency(name)
