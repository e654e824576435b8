"""How is it told why a team does not move, and what it goes on with? Lines of safe text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flowctl.render import safe
from quiesce.standstill import Blocked, Head, Next, Standing

__all__ = ["next_lines", "why_lines"]

LONGEST = 20
"""How many lines of a kind are told; `flowctl turns` and `flowctl tasks` have all."""

_HOW = {
    "begins": "its body begins",
    "stands": "its body goes on where it stands, in its process",
    "again": "its body goes on from what is recorded of it",
    "applied": "its body has ended; what it gave is applied",
}


def why_lines(team: Standing, state: str) -> Iterator[str]:
    """What runs, what waits for whom, and which tasks wait."""
    yield from _shortened([_head_line(head) for head in team.heads], "flowctl turns")
    if state == "idle":
        yield "nothing is under way and no task is ready: it waits for a message or for another task"
    yield from _shortened([_blocked_line(task) for task in team.blocked], "flowctl tasks")


def next_lines(team: Standing) -> Iterator[str]:
    """What becomes of each turn when the team is let go on."""
    yield from _shortened([_next_line(item) for item in team.next], "flowctl turns")


def _shortened(lines: Sequence[str], seen_in: str) -> Iterator[str]:
    yield from lines[:LONGEST]
    if len(lines) > LONGEST:
        yield f"… and {len(lines) - LONGEST} more: {seen_in}"


def _turn(number: int, participant: str, task: int | None, kind: str) -> str:
    what = f" (task {task})" if task is not None else " (user-directed)" if kind == "user_directed" else ""
    return f"turn {number} of {safe(participant)}{what}"


def _head_line(head: Head) -> str:
    told = _turn(head.turn, head.participant, head.task, head.kind)
    if head.state == "running":
        told += " runs" if head.alive else " has no living process"
    elif head.state == "queued":
        told += " is queued"
        if head.drains is not None:
            told += f", until what still runs of turn {head.drains} has yielded"
    elif head.holds:
        told += f" waits for run {safe(head.child)}, which asks {', '.join(map(safe, head.holds))}"
    else:
        locks = ", ".join(lock for lock in head.locks if lock != "parent")
        told += f" waits for run {safe(head.child)}" + (f", which is held by {locks}" if locks else "")
    if head.behind:
        behind = "1 turn is" if head.behind == 1 else f"{head.behind} turns are"
        told += f"; {behind} behind it"
    return told


def _blocked_line(task: Blocked) -> str:
    told = f"task {task.task} ({safe(task.title)})"
    if task.lost:
        return f"{told} waits for {_tasks(task.lost)} without a result; only the coordinator can change that"
    if task.opened:
        return f"{told} waits for {_tasks(task.opened, 'to be completed')}"
    return f"{told} has no owner"


def _tasks(numbers: Sequence[int], end: str | None = None) -> str:
    many = len(numbers) > 1
    named = ("tasks " if many else "task ") + ", ".join(map(str, numbers))
    return f"{named} {end}" if end else f"{named}, which ended"


def _next_line(item: Next) -> str:
    told = _turn(item.turn, item.participant, item.task, item.kind)
    if item.outcome == "skipped":
        return f"{told} is skipped: {item.reason}"
    if item.outcome == "carried":
        return f"{told} keeps its question; only an answer moves it"
    if item.outcome == "let_go":
        return f"{told} is let go: its question has no type, so its body goes on without an answer"
    told += " is continued: " if item.outcome == "continued" else ": "
    return told + _HOW[item.how] + (", once what still runs of it has yielded" if item.drains else "")
