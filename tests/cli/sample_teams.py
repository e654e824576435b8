"""Teams for the tests of the command line; copied as `teams.py` into the folder where flowctl runs.

Each effect adds a line to the file `effects`. `works` has a member that waits in a step until the test
writes to a FIFO, whose path is its input; two more turns of it are behind that one.
"""

from __future__ import annotations

from pathlib import Path

from quiesce import Team, Turn, agent, step

__all__ = ["idles", "stuck", "works"]


@step
def wait(fifo: str) -> str:
    with Path(f"{fifo}.ready").open("w") as ready:
        ready.write("!")
    with Path(fifo).open() as file:
        return file.readline().rstrip("\n")


@step
def do(what: str) -> str:
    with Path("effects").open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")
    return what


async def plan(turn: Turn) -> None:
    tasks = turn.tasks()
    if not tasks:
        first = turn.create_task("wait", goal=turn.prompt, owner="bob")
        turn.create_task("pack", owner="bob")
        turn.create_task("ship", owner="ann", after=[first])
    elif all(task.state == "completed" for task in tasks):
        turn.finish({task.title: task.result for task in tasks})


@agent
def ann(turn: Turn) -> str:
    if turn.kind == "user_directed":
        return f"ann does {turn.prompt}"
    return do(turn.task.title)


@agent
def bob(turn: Turn) -> str:
    if turn.task is not None and turn.task.title == "wait":
        return f"{do('began')} {wait(turn.task.goal)}"
    return do(turn.prompt or turn.task.title)


works = Team("works", coordinator=plan, members={"ann": ann, "bob": bob}, input=str)


# --- what stands still


async def plan_badly(turn: Turn) -> None:
    if not turn.tasks():
        broken = turn.create_task("broken", owner="bob")
        turn.create_task("behind it", owner="bob", after=[broken])
        turn.create_task("nobody's")


@agent
def breaks(turn: Turn) -> str:
    raise ValueError("no \x1b[31mluck")


idles = Team("idles", coordinator=plan_badly, members={"bob": breaks})


async def plan_a_question(turn: Turn) -> None:
    if not turn.tasks():
        asked = turn.create_task("ask", owner="bob")
        turn.create_task("also bob's", owner="bob")
        turn.create_task("after the answer", owner="ann", after=[asked])


@agent
def asks(turn: Turn) -> str:
    if turn.task.title != "ask":
        return do(turn.task.title)
    return turn.pause("which \x1b[31mone?", expects=str)


stuck = Team("stuck", coordinator=plan_a_question, members={"ann": ann, "bob": asks})
