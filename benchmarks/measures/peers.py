"""How fast, and how right, is quiesce beside others that pause and go on?

Speed: one body asks again and again. Timed: each round trip, from the hand-over of an answer to the next
question, all subjects in turns, each in a process of its own that is stopped while another one works. The
first round trip of a turn is left out. Cases are pairs: ours, and one other.

Correctness: the story of `subjects/story.py`, killed (SIGKILL) in one place and told on by a new process,
which is given an answer; another one, if there was a first: who gave that may not have heard of an ack.
Counted for each telling: effects that were done again; answers that had their effect beside another one;
answers that had been taken (by an ack, or by having their effect) and are not what the story ends with.

The databases of all that are compared have the WAL and `synchronous` FULL, but that of DBOS as shipped.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from .children import Child
from .series import Effort, Limit, Series

__all__ = ["Missing", "measure", "missing"]

PACKAGES = {
    "langgraph": "langgraph",
    "langgraph-checkpoint-sqlite": "langgraph.checkpoint.sqlite",
    "dbos": "dbos",
}
"""What the peers need, by the module that shows whether it is there."""

ROUNDS = 20
TRIPS = 50
WARM = 400
"""Round trips before those that are timed: commits into a log that still grows cost half as much again."""
TELLINGS = 5
"""How often the story is killed in each place."""


class Missing(Exception):
    """The peers are not installed; the message has the command that installs them."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that is measured: `name` of `module`. `trips`: of a round, if they take too long for more."""

    label: str
    module: str
    name: str
    packages: tuple[str, ...] = ()
    trips: int | None = None
    note: str = ""

    def described(self) -> str:
        versions = [f"{package} {importlib.metadata.version(package)}" for package in self.packages]
        return "; ".join([*versions, *filter(None, [self.note])])


@dataclass(frozen=True, slots=True)
class Pair:
    """What ours is held against, and by which limit; `of` names the kinds that the limit is for."""

    other: Subject
    limit: Limit | None = None
    of: tuple[str, ...] = ("graph", "agent", "team")


OURS = {
    kind: Subject("quiesce", "ours", kind, ("quiesce",), note=f"{kind}, the public API")
    for kind in ("graph", "agent", "team")
}
GREENLET = "greenlet and one hop"
THREADS = "two-Event threads"
LANGGRAPH = "LangGraph"
DBOS = "DBOS, looks every ms"
_GRAPH = ("langgraph",)
_SAVED = ("langgraph", "langgraph-checkpoint-sqlite")
_SYNC = "SqliteSaver, durability sync, WAL, synchronous FULL"

IN_MEMORY = (
    Pair(
        Subject(GREENLET, "bare", "greenlet", ("greenlet",), note="a task waits for the answer"),
        Limit(GREENLET, 2.5),
        ("agent",),
    ),
    Pair(Subject(THREADS, "bare", "threads"), Limit(THREADS, 4, faster=True), ("agent",)),
    Pair(Subject("asyncio", "bare", "asyncio", note="a task waits for the answer")),
    Pair(Subject(LANGGRAPH, "of_langgraph", "graph", _GRAPH, note="InMemorySaver, durability sync")),
)
IN_SQLITE = (
    Pair(Subject(LANGGRAPH, "of_langgraph", "graph", _SAVED, note=_SYNC), Limit(LANGGRAPH, 6, faster=True)),
    Pair(
        Subject(DBOS, "of_dbos", "fast", ("dbos",), note="WAL, synchronous FULL"),
        Limit(DBOS, 15, faster=True),
    ),
    Pair(
        Subject(
            "DBOS as shipped",
            "of_dbos",
            "shipped",
            ("dbos",),
            trips=1,
            note="looks every second; rollback journal, synchronous FULL",
        )
    ),
)
TELLERS = {
    "agent": (
        OURS["agent"],
        Subject("quiesce, verify=", "ours", "looking", ("quiesce",), note="steps look before they repeat"),
        Subject(
            "LangGraph functions",
            "of_langgraph",
            "agent",
            _SAVED,
            note=f"@task; its question counts as open until the function ends; {_SYNC}",
        ),
        Subject(DBOS, "of_dbos", "fast", ("dbos",), note="WAL, synchronous FULL"),
    ),
    "graph": (
        OURS["graph"],
        Subject(LANGGRAPH, "of_langgraph", "graph", _SAVED, note=f"a node each, {_SYNC}"),
    ),
    "team": (OURS["team"],),
}
PLACES = {
    "reserve": "between the first effect and its record",
    "asks": "at the question",
    "answered": "after the ack of the answer",
    "charge": "between the second effect and its record",
}


def missing() -> str | None:
    """What to do so that the peers can be measured; None if they can."""
    absent = [package for package, module in PACKAGES.items() if not _is_there(module)]
    if not absent:
        return None
    return f"the peers need {', '.join(absent)}: python -m pip install 'quiesce[bench]'"


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False


def measure(effort: Effort) -> Iterator[Series]:
    """Round trips in memory and in SQLite, then the stories.

    Raises:
        Missing: the peers are not installed.
    """
    if (why := missing()) is not None:
        raise Missing(why)
    for kept, pairs in (("memory", IN_MEMORY), ("SQLite", IN_SQLITE)):
        yield from _round_trips(effort, kept, pairs)
    for kind in effort.backends:
        for place, told in PLACES.items():
            yield from _stories(effort, kind, place, told)


def _round_trips(effort: Effort, kept: str, pairs: tuple[Pair, ...]) -> Iterator[Series]:
    ours = [OURS[kind] for kind in effort.backends]
    subjects = [*ours, *(pair.other for pair in pairs)]
    samples: dict[Subject, list[float]] = {subject: [] for subject in subjects}
    with tempfile.TemporaryDirectory(dir=effort.folder) as name, ExitStack() as stack:
        children = {}
        for number, subject in enumerate(subjects):
            folder = Path(name, str(number))
            folder.mkdir()
            path = [folder / "flows.db"] if kept == "SQLite" else []
            child = Child(subject.module, "trips", subject.name, *path, folder=folder)
            children[subject] = stack.enter_context(child)
            child.hear()
            if subject.trips is None:
                child.asks(effort.times(WARM))
            else:
                child.stop()
        for _ in range(effort.times(ROUNDS, at_least=2)):
            for subject in subjects:
                trips = effort.times(TRIPS, at_least=3) if subject.trips is None else subject.trips
                samples[subject] += children[subject].asks(1 + trips)[1:]
    for kind, our in zip(effort.backends, ours, strict=True):
        for pair in pairs:
            case = f"{kind}, {kept}, beside {pair.other.label}"
            limit = pair.limit if kind in pair.of else None
            for subject in (our, pair.other):
                yield Series(
                    "peers",
                    case,
                    subject.label,
                    "s",
                    tuple(samples[subject]),
                    limit=limit if subject is our else None,
                    note=subject.described(),
                )


def _stories(effort: Effort, kind: str, place: str, told: str) -> Iterator[Series]:
    counts: dict[Subject, list[tuple[int, int, int]]] = {subject: [] for subject in TELLERS[kind]}
    for _ in range(effort.times(TELLINGS)):
        for subject, found in counts.items():
            found.append(_story(effort, subject, place))
    for number, counted in enumerate(
        ("effects done again", "answers with an effect beside another's", "answers lost")
    ):
        for subject, found in counts.items():
            yield Series(
                "peers",
                f"{kind}, killed {told}: {counted}",
                subject.label,
                "1",
                tuple(float(each[number]) for each in found),
                note=subject.described(),
            )


def _story(effort: Effort, subject: Subject, place: str) -> tuple[int, int, int]:
    """(effects done again, answers beside another, answers lost) of one telling that is killed there."""
    taken = place in ("answered", "charge")
    with tempfile.TemporaryDirectory(dir=effort.folder) as name:
        folder = Path(name)
        arguments = [subject.name, folder / "flows.db"]
        file = folder / "effects.txt"
        env = {"STORY_FILE": str(file), "STORY_PLACE": place}
        with Child(subject.module, "tell", *arguments, "first", folder=folder, env=env) as child:
            assert child.hear() == "there"
        answer, env["STORY_PLACE"] = "second" if taken else "first", ""
        with Child(subject.module, "tell", *arguments, answer, folder=folder, env=env) as child:
            value = child.hear().strip('"')
        effects = file.read_text(encoding="utf-8").splitlines()
    answers = {effect for effect in effects if effect.startswith("charge ")}
    return len(effects) - len(set(effects)), len(answers) - 1, int(value != "first")
