"""What does the same work cost as a graph, as an agent and as a team?

The work is that of `subjects/lives.py`: something before, one question, one effect. The subjects are the
kinds of flow, each in a process of its own, in turns.

- Verbs: `pause`, `resume`, `status` and `answer` of a run, in memory and in SQLite at full durability, from
  where to where `lives.live` says.
- Memory: bytes by which a process grows for each run that is paused by its question and that it drives.
- Disk: bytes of the database for each such run, without those of an empty one.
- Restart: a new process comes back to a store of paused runs: opens it, lists a page, answers one. Subjects
  are the numbers of runs; the largest is held against the smallest. What a `Runtime` loads when it is
  entered counts, the import of quiesce does not.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from .children import Child
from .series import Effort, Limit, Series

__all__ = ["measure"]

ROUNDS = 20
LIVES = 10
WARM = 60
"""Lives before those that are timed: commits into a log that still grows cost half as much again."""
HELD = (100, 1_000, 10_000)
STORED = (10, 10_000, 100_000)
RETURNS = 12
NO_MORE = 1.1
"""The budget is that a full store costs no more than an empty one; a tenth is the noise of medians."""


def measure(effort: Effort) -> Iterator[Series]:
    for store in ("memory", "SQLite"):
        yield from _verbs(effort, store)
        yield from _memory(effort, store)
    for kind in effort.backends:
        yield from _stored(effort, kind)


def _verbs(effort: Effort, store: str) -> Iterator[Series]:
    samples: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(dir=effort.folder) as name, ExitStack() as stack:
        children = {}
        for kind in effort.backends:
            folder = Path(name, kind)
            folder.mkdir()
            path = [folder / "flows.db"] if store == "SQLite" else []
            children[kind] = stack.enter_context(Child("lives", "live", kind, *path, folder=folder))
            children[kind].hear()
            children[kind].asks(effort.times(WARM))
        for _ in range(effort.times(ROUNDS)):
            for kind, child in children.items():
                for verb, seconds in child.asks(effort.times(LIVES, at_least=3)).items():
                    samples.setdefault(verb, {}).setdefault(kind, []).extend(seconds)
    for verb, by_kind in samples.items():
        for kind, taken in by_kind.items():
            yield Series("backends", f"{store}, {verb}", kind, "s", tuple(taken))


def _memory(effort: Effort, store: str) -> Iterator[Series]:
    for size in _sizes(effort, HELD, at_least=20):
        for kind in effort.backends:
            with tempfile.TemporaryDirectory(dir=effort.folder) as name:
                path = [Path(name, "flows.db")] if store == "SQLite" else []
                with Child("lives", "hold", kind, size, *path, folder=Path(name)) as child:
                    grown = float(child.hear())
            case = f"{store}, memory of a paused run, {size:,} of them"
            yield Series("backends", case, kind, "B", (grown,), size)


def _stored(effort: Effort, kind: str) -> Iterator[Series]:
    """Stores of paused runs of one kind, each grown out of the one before, and what comes back to them."""
    sizes = _sizes(effort, STORED, at_least=10)
    with tempfile.TemporaryDirectory(dir=effort.folder) as name:
        growing = Path(name, "growing.db")
        stores = {size: Path(name, f"{size}.db") for size in sizes}
        with Child("lives", "store", kind, growing, folder=Path(name)) as child:
            child.hear()
            empty = child.asks(0)
            there = 0
            for size, path in stores.items():
                grown = child.asks(size - there) - empty
                there = size
                shutil.copyfile(growing, path)
                case = f"{kind}, database of a paused run, {size:,} of them"
                yield Series("backends", case, "quiesce", "B", (grown / size,), size)
        samples: dict[str, dict[int, list[float]]] = {}
        for _ in range(effort.times(RETURNS, at_least=2)):
            for size, path in stores.items():
                with Child("lives", "return_to", kind, path, folder=Path(name)) as child:
                    for what, value in json.loads(child.hear()).items():
                        samples.setdefault(what, {}).setdefault(size, []).append(value)
    for what, by_size in samples.items():
        for size, values in by_size.items():
            yield Series(
                "backends",
                f"{kind}, back in a new process: {what}",
                _paused(size),
                "B" if what == "memory" else "s",
                tuple(values),
                size,
                Limit(_paused(sizes[0]), NO_MORE) if size == sizes[-1] != sizes[0] else None,
            )


def _paused(size: int) -> str:
    return f"{size:,} paused"


def _sizes(effort: Effort, sizes: tuple[int, ...], at_least: int) -> list[int]:
    """The sizes at this scale, each once."""
    return sorted({effort.times(size, at_least) for size in sizes})
