"""How soon does a pause hold? From the call of `Run.pause` until

- it returns (the fence is committed),
- a second process, which looks all the time, reads that the run is paused (one clock counts for all
  processes of a machine); in rounds of their own, since who looks takes a core,
- the last visit or step of the run has begun, anywhere: 0 where none began after the call. All that are
  under way are made to end after the fence, so whatever could begin does.

The runs are those of `busy.py`, in all three backends, by the number of their active pieces; in memory and
in SQLite with both durabilities; alone, and beside ten processes that write as fast as they can. A pause
comes at a random moment after all pieces are at work; the next one after everything has drained and goes on.
In turns with it the transaction of `bare.py` with the same rows and durability, in a file of its own.

A large run drains for seconds, so there are fewer pauses of it: as many as a time allows.

Counted besides: the statements of a fence. Their number is the same for any number of pieces.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Literal

from quiesce import Run, Runtime
from quiesce.clock import SystemClock
from quiesce_adapters.sqlite.store import SqliteStore

from .bare import BareFence, warm
from .busy import all_at_work, busy, drained, rows_of, work
from .children import Child
from .series import Effort, Limit, Series

__all__ = ["measure"]

PAUSES = 1_000
SIZES = (1, 10, 100, 1_000, 10_000)
LARGE = 1_000
"""Pieces from which on the pauses are as many as `SECONDS` allow, at least `FEWEST`."""
SECONDS = 40.0
FEWEST = 10
MOST_TURNS = 1_000
"""Turns of a team that are measured: each new task looks at all the others, so more take minutes to make."""
LOOKED_AT = 5
"""Of so many pauses one is looked at by a second process."""
WRITERS = 10
BUDGET = "budget of 25 ms"
BARE = "bare transaction"
EACH = 0.01
"""Seconds from one start to the next, over all pieces, so that they leave the process time to pause them."""

Durability = Literal["full", "normal"]
DURABILITIES: tuple[Durability, ...] = ("full", "normal")


@dataclass
class Taken:
    """Seconds by what happened."""

    returned: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)


def measure(effort: Effort) -> Iterator[Series]:
    """Alone by size, beside writers, the statements."""
    for backend in effort.backends:
        for size in SIZES:
            if size > max(10.0, SIZES[-1] * effort.scale) or (backend == "team" and size > MOST_TURNS):
                continue
            for durability in (None, *DURABILITIES):
                taken = _case(effort, backend, size, durability, writers=0)
                yield from _told(backend, size, durability, taken, "alone")
    for backend in effort.backends:
        for durability in DURABILITIES:
            writers = effort.times(WRITERS, at_least=2)
            taken = _case(effort, backend, 10, durability, writers)
            yield from _told(backend, 10, durability, taken, f"{writers} writers")
    for backend in effort.backends:
        yield from _statements(effort, backend)


def _told(
    backend: str, size: int, durability: Durability | None, taken: Taken, beside: str
) -> Iterator[Series]:
    kept = "memory" if durability is None else f"SQLite {durability}"
    case = f"{backend}, {kept}, {beside}: until"
    limit = None
    if durability is not None and beside == "alone" and size > 1:
        limit = Limit(BARE, 2.0 if size < LARGE else 1.5)
    elif durability is not None and beside != "alone":
        limit = Limit(BUDGET, 1.0, of="p90")
        yield Series("fence", f"{case} it returns", BUDGET, "s", (0.025,), size)
    yield Series("fence", f"{case} it returns", "quiesce", "s", tuple(taken.returned), size, limit)
    if taken.bare:
        note = str(rows_of(backend, size))
        yield Series("fence", f"{case} it returns", BARE, "s", tuple(taken.bare), size, note=note)
    if taken.read:
        yield Series("fence", f"{case} another process reads it", "quiesce", "s", tuple(taken.read), size)
    yield Series("fence", f"{case} the last start", "quiesce", "s", tuple(taken.began), size)


def _case(effort: Effort, backend: str, size: int, durability: Durability | None, writers: int) -> Taken:
    with tempfile.TemporaryDirectory(dir=effort.folder) as name:
        return asyncio.run(_pauses(effort, Path(name), backend, size, durability, writers))


async def _pauses(
    effort: Effort, folder: Path, backend: str, size: int, durability: Durability | None, writers: int
) -> Taken:
    taken = Taken()
    path = folder / "flows.db"
    async with AsyncExitStack() as stack:
        runtime = Runtime(
            None if durability is None else path, durability=durability or "full", drain_timeout=600.0
        )
        await stack.enter_async_context(runtime)
        bare = None
        if durability is not None:
            warm(path)
            bare = BareFence(folder / "bare.db", durability, rows_of(backend, size))
            stack.enter_context(closing(bare))
        run = await stack.enter_async_context(busy(runtime, backend, size, (0.0, 2 * size * EACH)))
        looking = None
        if durability is not None:
            looking = stack.enter_context(Child("onlookers", "look", path, run.id, folder=folder))
        stack.enter_context(_writing(path, durability, writers, folder))
        await _in_turns(effort, run, backend, size, bare, looking, taken)
    return taken


async def _in_turns(
    effort: Effort,
    run: Run,
    backend: str,
    size: int,
    bare: BareFence | None,
    looking: Child | None,
    taken: Taken,
) -> None:
    until = perf_counter() + SECONDS * effort.scale
    for number in range(effort.times(PAUSES, at_least=FEWEST)):
        if size >= LARGE and number >= FEWEST and perf_counter() > until:
            break
        await asyncio.sleep(random.uniform(0.0, 2 * EACH))
        looked_at = looking is not None and number % LOOKED_AT == 0
        if looking is not None and looked_at:
            looking.tell((await run.status()).generation + 1)
            assert looking.hear() == "looking"
        begun = work.begun
        called = perf_counter()
        await run.pause()
        returned = perf_counter()
        if looking is not None and looked_at:
            taken.read.append(float(looking.hear()) - called)
        else:
            taken.returned.append(returned - called)
        work.hurry()
        await drained(run)
        taken.began.append(max(0.0, work.last - called) if work.begun > begun else 0.0)
        begun = work.begun
        await run.resume()
        await all_at_work(run, backend, size, begun)
        if bare is not None and not looked_at:
            taken.bare.append(bare.pause())
            bare.resume()


@contextmanager
def _writing(path: Path, durability: str | None, writers: int, folder: Path) -> Iterator[None]:
    with ExitStack() as stack:
        children = [
            stack.enter_context(Child("onlookers", "write", path, durability, folder=folder))
            for _ in range(writers)
        ]
        for child in children:
            child.hear()
        yield


def _statements(effort: Effort, backend: str) -> Iterator[Series]:
    few, many = 10, 40
    counts = {}
    for size in (few, many):
        with tempfile.TemporaryDirectory(dir=effort.folder) as name:
            counts[size] = asyncio.run(_counted(Path(name, "flows.db"), backend, size))
    case = f"{backend}, SQLite: statements of a fence"
    yield Series("fence", case, f"{few} pieces", "1", (float(counts[few]),))
    limit = Limit(f"{few} pieces", 1.0)
    yield Series("fence", case, f"{many} pieces", "1", (float(counts[many]),), limit=limit)


async def _counted(path: Path, backend: str, size: int) -> int:
    """From BEGIN to COMMIT, of the one transaction in which the pause is."""
    labels: list[str] = []
    store = SqliteStore(path, SystemClock(), on_statement=labels.append)
    async with Runtime(store) as runtime, busy(runtime, backend, size, (60.0, 60.0)) as run:
        labels.clear()
        await run.pause()
        counted = labels.index("commit") - labels.index("begin") + 1
        work.hurry()
        await drained(run)
        await run.resume()
    return counted
