"""Agents for the tests of the command line; copied as `agents.py` into the folder where flowctl runs.

Each effect adds a line to the file `effects`. `blocked` waits in its step until the test writes to a FIFO.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from quiesce import action, agent, ask_human, current_run, receive, spawn, step
from quiesce.agent import RunHandle

__all__ = ["approver", "blocked", "clerk", "delegate", "dies", "fragile", "mailbox", "manager", "ring"]


def did(what: str) -> None:
    with Path("effects").open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")


@step
def look_up(amount: int) -> int:
    did(f"look_up {amount}")
    return amount


@step
def charge(amount: int) -> str:
    did(f"charge {amount}")
    return f"charged {amount}"


@agent
def approver(amount: int) -> str:
    found = look_up(amount)
    if ask_human(f"charge {found}?", expects=bool):
        return charge(found)
    return "cancelled"


# --- a form, and the arguments of an action


class Decision(BaseModel):
    ok: bool
    amount: Annotated[int, Field(ge=1, le=100)]
    note: str | None = None


@action
def carry_out(decision: Decision, times: int) -> str:
    did(f"carry_out {decision.amount} x {times}")
    return f"{decision.amount * times}"


@agent
def clerk(times: int) -> str:
    decision = ask_human("your decision?", expects=Decision)
    return carry_out(decision, times)


# --- runs inside a run


@agent
def manager(amount: int) -> str:
    child = spawn(approver, amount)
    return str(child.result())


@agent
def delegate(fifo: str) -> str:
    child = spawn(blocked, fifo)
    receive()
    return str(child.result())


@agent
def third(first: str) -> Any:
    return RunHandle(first).result()


@agent
def second(first: str) -> Any:
    return spawn(third, first).result()


@agent
def ring() -> Any:
    return spawn(second, current_run().id).result()


# --- steps that wait, fail and die


@step
def wait(fifo: str) -> str:
    with open(f"{fifo}.ready", "w", encoding="utf-8") as file:
        file.write("!")  # the test hears that the step runs
    with open(fifo, encoding="utf-8") as file:  # and lets it go on
        return file.readline().rstrip("\n")


@agent
def blocked(fifo: str) -> str:
    found = look_up(1)
    text = wait(fifo)
    return f"{charge(found)} after {text}"


@step
def check() -> str:
    if not Path("mended").exists():
        raise ValueError("the file mended\nis missing")
    return "fine"


@agent
def fragile(amount: int) -> str:
    look_up(amount)
    return check()


@step
def die() -> str:
    if not Path("mended").exists():
        os.kill(os.getpid(), 9)
    return "lived"


@agent
def dies(amount: int) -> str:
    look_up(amount)
    return die()


@agent
def mailbox() -> Any:
    return receive()
