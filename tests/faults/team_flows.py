"""A team whose members work until they are let go, for any process that the tests of faults start."""

from __future__ import annotations

import anyio

from quiesce import Team, Turn, step

__all__ = ["MEMBERS", "crew", "go"]

MEMBERS = 3
go: list[anyio.Event] = []
"""What lets all bodies of this process end; put here by the process that serves them."""


async def plan(turn: Turn) -> None:
    tasks = turn.tasks()
    if not tasks:
        for number in range(MEMBERS):
            turn.create_task(f"task {number}", owner=f"m{number}")
    elif all(task.state == "completed" for task in tasks):
        turn.finish([task.result for task in tasks])


@step
async def wait_a_little() -> bool:
    with anyio.move_on_after(0.001):
        await go[0].wait()
    return go[0].is_set()


async def member(turn: Turn) -> str:
    assert turn.task is not None
    while not await wait_a_little():
        pass
    return turn.task.title


crew = Team("crew", coordinator=plan, members={f"m{number}": member for number in range(MEMBERS)})
