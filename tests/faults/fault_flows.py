"""The flows that are interrupted, as one importable module, so that any process finds them by reference.

Each visit of a plain node adds a line to the file that `FAULT_VISITS` names: what ran is told by that file,
not by the store that is being tested.
"""

from __future__ import annotations

import os
from typing import Any

import anyio

from quiesce import Concurrency, Graph, JoinInput, Team, Transition, Turn, step

__all__ = [
    "FLOWS",
    "STAGE",
    "came",
    "crew",
    "fan",
    "flaky",
    "linear",
    "outer",
    "short",
    "stuck",
    "timed",
    "two_gates",
    "work",
]


def came(name: str) -> None:
    """Say that a visit began; appended in one write, so that several processes can."""
    path = os.environ.get("FAULT_VISITS")
    if path:
        with open(path, "ab", buffering=0) as file:
            file.write(f"{name} {os.getpid()}\n".encode())


class Stage:
    """Where a test meets a body: the body says that it came, and goes on when it may."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.came = anyio.Event()
        self.go = anyio.Event()
        self.fails = False


STAGE = Stage()

linear = Graph("linear")


@linear.node(start=True)
def draft(x: int) -> int:
    came("draft")
    return x + 1


review = linear.gate("review", asks="publish it?", expects=bool)


@linear.node
def publish(x: int) -> int:
    came("publish")
    return x * 10


linear.edge(draft, review)
linear.transition(review)(lambda pair: publish.next(pair[0] if pair[1] else -pair[0]))
linear.finish(publish)


work = Graph("work")


@work.node(start=True)
def prepare(x: int) -> int:
    came("prepare")
    return x + 1


@work.node
async def labour(x: int) -> int:
    came("labour")
    STAGE.came.set()
    await STAGE.go.wait()
    return x + 1


@work.node
def finish(x: int) -> int:
    came("finish")
    return x * 10


work.edge(prepare, labour)
work.edge(labour, finish)
work.finish(finish)


two_gates = Graph("two_gates", concurrency=Concurrency.PARALLEL)


@two_gates.node(start=True)
def split(x: int) -> int:
    came("split")
    return x


left = two_gates.gate("left", asks="left?", expects=int, takes=int)
right = two_gates.gate("right", asks="right?", expects=int, takes=int)


@two_gates.node
def total(parts: JoinInput[int]) -> int:
    came("total")
    return sum(parts)


two_gates.transition(split)(lambda x: Transition.fan_out([(left, x), (right, x * 100)], join=total))
two_gates.join(left, into=total, map=lambda pair: pair[0] + pair[1])
two_gates.join(right, into=total, map=lambda pair: pair[0] + pair[1])
two_gates.finish(total)


fan = Graph("fan", concurrency=Concurrency.PARALLEL)


@fan.node(start=True)
def deal(x: int) -> int:
    came("deal")
    return x


@fan.node
async def square(x: int) -> int:
    came("square")
    await anyio.lowlevel.checkpoint()
    return x * x


@fan.node
def gather(parts: JoinInput[int]) -> int:
    came("gather")
    return sum(parts)


fan.transition(deal)(lambda x: Transition.fan_out([(square, x + i) for i in range(3)], join=gather))
fan.join(square, into=gather)
fan.finish(gather)


flaky = Graph("flaky")


@flaky.node(start=True)
def first(x: int) -> int:
    came("first")
    return x + 1


@flaky.node
def breaks(x: int) -> int:
    came("breaks")
    if STAGE.fails:
        raise ValueError("it broke")
    return x * 10


flaky.edge(first, breaks)
flaky.finish(breaks)


outer = Graph("outer")


@outer.node(start=True)
def before(x: int) -> int:
    came("before")
    return x + 1


inside = outer.node(linear)


@outer.node
def after(x: int) -> int:
    came("after")
    return x + 1


outer.edge(before, inside)
outer.edge(inside, after)
outer.finish(after)


timed = Graph("timed")


@timed.node(start=True)
def ask(x: int) -> int:
    came("ask")
    return x + 1


wait = timed.gate("wait", asks="in time?", expects=bool, deadline=5.0, on_deadline=("answer", False))


@timed.node
def act(x: int) -> int:
    came("act")
    return x * 10


timed.edge(ask, wait)
timed.transition(wait)(lambda pair: act.next(pair[0] if pair[1] else -pair[0]))
timed.finish(act)


stuck = Graph("stuck")


@stuck.node(start=True)
def block(x: int) -> int:
    """Keep the whole process busy until somebody writes to `FAULT_PIPE`, where that is set."""
    came("block")
    pipe = os.environ.get("FAULT_PIPE")
    if pipe:
        with open(pipe) as file:
            file.read()
    return x + 1


confirm = stuck.gate("confirm", asks="go on?", expects=bool, takes=int)
stuck.edge(block, confirm)
stuck.transition(confirm)(lambda pair: Transition.finish(pair[0] if pair[1] else -pair[0]))


short = Graph("short")


@short.node(start=True)
def one(x: int) -> int:
    came(f"one-{x}")
    return x


@short.node
async def two(x: int) -> int:
    came(f"two-{x}")
    await anyio.lowlevel.checkpoint()
    return x


@short.node
def three(x: int) -> int:
    came(f"three-{x}")
    return x * 3


short.edge(one, two)
short.edge(two, three)
short.finish(three)


@step
async def planned() -> None:
    came("planned")


@step
async def greeted() -> None:
    came("greeted")


@step
async def laboured() -> None:
    came("laboured")
    STAGE.came.set()
    await STAGE.go.wait()


async def plan(turn: Turn) -> None:
    tasks = turn.tasks()
    if not tasks:
        await planned()
        begun = turn.create_task("first", owner="ann")
        turn.create_task("second", owner="bea", after=[begun])
    elif all(task.state == "completed" for task in tasks):
        turn.finish(sum(task.result for task in tasks))


async def ann(turn: Turn) -> int:
    await greeted()
    return 10 if turn.pause("go on?", expects=bool) else 0


async def bea(turn: Turn) -> int:
    await laboured()
    return 1


crew = Team("crew", coordinator=plan, members={"ann": ann, "bea": bea})

FLOWS: list[Any] = [linear, work, two_gates, fan, flaky, outer, timed, stuck, short, crew]
