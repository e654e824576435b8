"""Flows for the tests of the command line; copied as `sample.py` into the folder where flowctl runs.

`blocked` waits in its node until the test writes to a FIFO, so tests decide when it yields.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from quiesce import Concurrency, Graph, JoinInput, Transition

__all__ = ["announce", "blocked", "counts", "fragile", "hostile", "pair", "verdicts"]


# --- a typed question

announce = Graph("announce")


@announce.node(start=True)
def draft(topic: str) -> str:
    return f"We now support {topic}."


review = announce.gate("review", asks=lambda text: f"Publish {text!r}?", expects=bool)


@announce.node
def publish(text: str) -> str:
    return f"published: {text}"


announce.edge(draft, review)
announce.finish(publish)


@announce.transition(review)
def decide(reviewed: tuple[str, bool]) -> Transition:
    text, approved = reviewed
    return publish.next(text) if approved else Transition.finish("not published")


# --- two questions at once, of no type

pair = Graph("pair", concurrency=Concurrency.PARALLEL)
anything = pair.gate("anything", asks="Anything to say?")


@pair.node(start=True)
def split(count: int) -> int:
    return count


@pair.node
def collect(answers: JoinInput) -> list[Any]:
    return list(answers)


@pair.transition(split)
def fan_out(count: int) -> Transition:
    return Transition.fan_out([(anything, number) for number in range(count)], join=collect)


@pair.transition(anything)
def heard(said: tuple[int, Any]) -> Transition:
    return Transition.join(collect, said[1])


pair.finish(collect)


# --- a question with a form


class Level(Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Note:
    count: int
    text: str = "none"


@dataclass
class Verdict:
    ok: bool
    level: Level
    score: float
    tags: list[str]
    note: Note
    comment: str | None = None


verdicts = Graph("verdicts")
judge = verdicts.gate("judge", asks="Your verdict?", expects=Verdict, takes=int)
verdicts.start(judge)


@verdicts.node
def told(verdict: Verdict) -> Verdict:
    return verdict


@verdicts.transition(judge)
def judged(given: tuple[int, Verdict]) -> Transition:
    return told.next(given[1])


verdicts.finish(told)


# --- values that must not reach a terminal

HOSTILE = "\x1b[31mred\x1b]0;title\x07 \u202etxt.exe\u2066 \x9b1m\rover"

hostile = Graph("hostile")


@hostile.node(start=True)
def begin(text: str) -> str:
    return text + HOSTILE


asked = hostile.gate("asked", asks=lambda text: text, payload=lambda text: {"shown": text}, expects=bool)


@hostile.node
def say(text: str) -> str:
    return text


hostile.edge(begin, asked)
hostile.finish(say)


@hostile.transition(asked)
def hear(given: tuple[str, bool]) -> Transition:
    if not given[1]:
        raise ValueError(given[0])
    return say.next(given[0])


# --- nodes that fail, wait and count

fragile = Graph("fragile")


@fragile.node(start=True)
def prepare(text: str) -> str:
    with Path("prepared").open("a", encoding="utf-8") as file:
        file.write("once\n")
    return text


@fragile.node
def check(text: str) -> str:
    if not Path("mended").exists():
        raise ValueError("the file mended\nis missing")
    return f"{text} is fine"


fragile.edge(prepare, check)
fragile.finish(check)


blocked = Graph("blocked")


@blocked.node(start=True, blocking=True)
def wait(fifo: str) -> str:
    with open(f"{fifo}.ready", "w", encoding="utf-8") as file:
        file.write("!")  # the test hears that the node runs
    with open(fifo, encoding="utf-8") as file:  # and lets it go on
        return file.readline().rstrip("\n")


@blocked.node
def after(text: str) -> str:
    return f"after {text}"


blocked.edge(wait, after)
blocked.finish(after)


counts = Graph("counts")


@counts.node(start=True)
def double(number: int) -> int:
    return number * 2


counts.finish(double)
