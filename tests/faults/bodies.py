"""The agents that are interrupted, as one importable module, so that any process finds them by reference.

Each effect adds a line to the file that `FAULT_EFFECTS` names: what was done is told by that file, not by
the journal that is being tested.
"""

from __future__ import annotations

import os
import signal

from quiesce import (
    action,
    agent,
    ask_human,
    current_run,
    current_step,
    gather,
    now,
    random,
    receive,
    send,
    sleep,
    spawn,
    step,
    uuid4,
)

__all__ = [
    "EXPECTED",
    "Declined",
    "asks_once",
    "assistant",
    "clerk",
    "did",
    "doomed",
    "doomed_at_once",
    "rounds",
]


class Declined(Exception):
    """An error of our own, with facts."""

    def __init__(self, amount: int) -> None:
        self.amount = amount
        super().__init__(amount)


def did(name: str) -> None:
    """Say that an effect happened, with its key; appended in one write, so that several processes can."""
    path = os.environ.get("FAULT_EFFECTS")
    if path:
        with open(path, "ab", buffering=0) as file:
            file.write(f"{name} {current_step().key} {os.getpid()}\n".encode())


@step
def look_up(name: str) -> str:
    did(f"look_up:{name}")
    return name.upper()


@step
async def score(number: int) -> int | None:
    did(f"score:{number}")
    return number or None


@step
def nothing() -> None:
    did("nothing")


@step
def empty() -> dict[str, int]:
    did("empty")
    return {}


@step
def decline(amount: int) -> int:
    did("decline")
    raise Declined(amount)


@action(approval=lambda amount: amount > 10)
def pay(amount: int) -> str:
    did(f"pay:{amount}")
    return f"paid {amount}"


@agent
def assistant(topic: str) -> str:
    return ask_human(f"more about {topic}?", expects=str) + look_up(topic)


@agent
def clerk(case: str) -> list[object]:
    """Everything that a journal keeps, once."""
    began, ticket, chance = now(), uuid4(), random()
    found: list[object] = [look_up(case)]
    found += gather(score(0), score(1), look_up.call("b"))
    found += [nothing(), empty()]
    try:
        decline(7)
    except Declined as error:
        found.append(error.amount)
    child = spawn(assistant, "c")
    send(current_run(), {"to": "myself"})
    found.append(receive())
    found.append(ask_human("go on?", expects=bool))
    found.append(child.result())
    sleep(0)
    found += [pay(5), pay(50)]
    again = look_up(f"{ticket} {chance} {began.isoformat()}")  # fails to be equal, were one drawn again
    return [*found, again == f"{ticket} {chance} {began.isoformat()}".upper()]


@agent
def rounds(number: int) -> int:
    """A long loop: each round has a fresh journal."""
    look_up(str(number))
    if number < 3:
        current_run().continue_as_new(number + 1)
    return number


@step
def die() -> str:
    did("die")
    if os.environ.get("FAULT_DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "lived"


@agent
def doomed() -> str:
    look_up("a")
    return die()


@agent(max_lost_attempts=1)
def doomed_at_once() -> str:
    return die()


EXPECTED = {
    "clerk": ["A", None, 1, "B", None, {}, 7, {"to": "myself"}, True, "yesC", "paid 5", "paid 40", True],
    "rounds": 3,
}


@agent
def asks_once() -> object:
    return ask_human("once?")
