"""How long does it take until nothing runs any more?

Whole drain: from the fence to quiescent, both as stored, in transactions of one clock; of a tree, until the
last run of it is. The bodies (`busy.py`) come to a safe point every 1, 10 or 100 ms, each at a moment of its
own. Beside it the slowest body's own time to its next safe point, which is the least that it could take; the
budget of 1.1 times that and 5 ms; and the sum, which is what it would take one after the other.

Pause to quiescent: from the call of `Run.pause` until everybody who waits for it has heard that nothing runs,
of bodies that yield at once. Beside it the same by hand (`bare.py`): the fence, a task woken for each body,
one transaction that says that all have yielded.

A release: a team of 10 members with a safe point every 50 ms, its fence from the call until it returns, and
its whole drain.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, time

from quiesce import Run, Runtime

from .bare import BareFence, Rows, warm
from .busy import MEMBERS, all_at_work, busy, drained, work
from .series import Effort, Limit, Series

__all__ = ["measure"]

ROUNDS = 100
GAPS = (0.001, 0.01, 0.1)
"""Seconds between the safe points of a body."""
SIZES = (10, 100, 1_000)
LARGE = 100
"""Bodies from which on the pauses are as many as `SECONDS` allow, at least `FEWEST`."""
SECONDS = 20.0
FEWEST = 3
IDEAL = "slowest body's own time"
BUDGET = "1.1 x the slowest + 5 ms"
SUM = "one after the other"
BY_HAND = "by hand"
SEED = "budget of 250 ms"


@dataclass
class Taken:
    """Seconds of each pause."""

    fence: list[float] = field(default_factory=list)
    drain: list[float] = field(default_factory=list)
    slowest: list[float] = field(default_factory=list)
    sum: list[float] = field(default_factory=list)


def measure(effort: Effort) -> Iterator[Series]:
    """Whole drains by gap and size, pauses of bodies that yield at once, the release."""
    for backend in effort.backends:
        for gap in GAPS:
            for size in _sizes(effort, backend):
                case = f"{backend}, SQLite full, a safe point every {gap * 1e3:g} ms: whole drain"
                yield from _drains(case, size, _taken(effort, backend, size, gap, durable=True))
        for size in _sizes(effort, backend):
            case = f"{backend}, memory, a safe point every {GAPS[1] * 1e3:g} ms: whole drain"
            yield from _drains(case, size, _taken(effort, backend, size, GAPS[1], durable=False))
    for backend in effort.backends:
        for size in (10, 100 if backend != "team" else MEMBERS):
            yield from _at_once(effort, backend, size)
    if "team" in effort.backends:
        taken = _taken(effort, "team", 10, 0.05, durable=True)
        case = "team of 10, SQLite full, a safe point every 50 ms"
        yield Series("drain", f"{case}: fence", SEED, "s", (0.25,), 10)
        yield Series(
            "drain", f"{case}: fence", "quiesce", "s", tuple(taken.fence), 10, Limit(SEED, 1.0, "p90")
        )
        yield from _drains(f"{case}: whole drain", 10, taken)


def _sizes(effort: Effort, backend: str) -> list[int]:
    most = max(10.0, SIZES[-1] * effort.scale)
    sizes = [size for size in SIZES if size <= most]
    return sizes if backend != "team" else [min(size, MEMBERS) for size in sizes[:2]]


def _drains(case: str, size: int, taken: Taken) -> Iterator[Series]:
    limit = Limit(BUDGET, 1.0)
    budget = tuple(1.1 * seconds + 0.005 for seconds in taken.slowest)
    yield Series("drain", case, "quiesce", "s", tuple(taken.drain), size, limit)
    for subject, samples in ((IDEAL, taken.slowest), (BUDGET, budget), (SUM, taken.sum)):
        yield Series("drain", case, subject, "s", tuple(samples), size)


@asynccontextmanager
async def _opened(
    folder: Path, backend: str, size: int, bounds: tuple[float, float], *, durable: bool
) -> AsyncIterator[Run]:
    path = folder / "flows.db"
    async with Runtime(path if durable else None, drain_timeout=600.0) as runtime:
        if durable:
            warm(path)
        async with busy(runtime, backend, size, bounds) as run:
            yield run


def _taken(effort: Effort, backend: str, size: int, gap: float, *, durable: bool) -> Taken:
    with tempfile.TemporaryDirectory(dir=effort.folder) as name:
        return asyncio.run(_pauses(effort, Path(name), backend, size, gap, durable=durable))


async def _pauses(
    effort: Effort, folder: Path, backend: str, size: int, gap: float, *, durable: bool
) -> Taken:
    taken = Taken()
    until = perf_counter() + SECONDS * effort.scale
    async with _opened(folder, backend, size, (0.0, gap), durable=durable) as run:
        for number in range(effort.times(ROUNDS, at_least=FEWEST)):
            if size >= LARGE and number >= FEWEST and perf_counter() > until:
                break
            work.bounds = (gap, gap)  # from now on; those under way began at once, and end apart
            await asyncio.sleep(random.uniform(gap, 2 * gap))
            called = perf_counter()
            await run.pause()
            taken.fence.append(perf_counter() - called)
            ends, apart = work.ends(), time() - perf_counter()
            await drained(run)
            fenced, quiescent = await _stored(run)
            left = [max(0.0, end + apart - fenced) for end in ends]
            taken.drain.append(quiescent - fenced)
            taken.slowest.append(max(left, default=0.0))
            taken.sum.append(sum(left))
            begun, work.bounds = work.begun, (0.0, gap)
            await run.resume()
            await all_at_work(run, backend, size, begun)
    return taken


async def _stored(run: Run) -> tuple[float, float]:
    """When the run was fenced, and when the last run of its tree was quiescent; seconds since 1970."""
    status = await run.status()
    assert status.fenced_at is not None
    assert status.quiescent_at is not None
    quiescent = [status.quiescent_at]
    for child in status.children:
        below = await run.runtime.status(child)
        if below.quiescent_at is not None:
            quiescent.append(below.quiescent_at)
    return status.fenced_at.timestamp(), max(quiescent).timestamp()


def _at_once(effort: Effort, backend: str, size: int) -> Iterator[Series]:
    ours: list[float] = []
    with (
        tempfile.TemporaryDirectory(dir=effort.folder) as name,
        closing(BareFence(Path(name, "bare.db"), "full", Rows(running=size))) as bare,
    ):
        by_hand = asyncio.run(_pauses_at_once(effort, Path(name), backend, size, bare, ours))
    case = f"{backend}, SQLite full, bodies that yield at once: pause to quiescent"
    limit = Limit(BY_HAND, 2.0)
    yield Series("drain", case, "quiesce", "s", tuple(ours), size, limit)
    yield Series("drain", case, BY_HAND, "s", tuple(by_hand), size, note=str(bare.rows))


async def _pauses_at_once(
    effort: Effort, folder: Path, backend: str, size: int, bare: BareFence, ours: list[float]
) -> list[float]:
    by_hand = []
    async with _opened(folder, backend, size, (60.0, 60.0), durable=True) as run:
        children = (await run.status()).children if backend == "agent" else ()
        runs = [run, *[await run.runtime.get(child) for child in children]]
        for _ in range(effort.times(ROUNDS, at_least=FEWEST)):
            waiting = [asyncio.create_task(each.settled()) for each in runs]
            await asyncio.sleep(0.01)
            called = perf_counter()
            await run.pause()
            work.hurry()
            await asyncio.gather(*waiting)
            ours.append(perf_counter() - called)
            begun = work.begun
            await run.resume()
            await all_at_work(run, backend, size, begun)
            by_hand.append(await bare.pause_to_quiescent())
            bare.resume()
    return by_hand
