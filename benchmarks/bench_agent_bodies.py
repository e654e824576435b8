"""What does a paused body cost, and a pause with its answer, beside the least that they could?

- Bytes: what the process grows by (resident set) for each agent that is paused by a question in a memory
  store, beside one greenlet that is suspended with an asyncio task that waits. Both in processes of their
  own, so that neither finds what the other freed.
- Round trip: from `Runtime.answer` to the moment at which the same body has asked its next question
  (`Run.settled`), in memory and on SQLite; beside a switch into a greenlet and back with one hop of the
  event loop, and beside two threads that wake one another by two Events. `extra_info` has the ratios.
- Commits: the write transactions of one durable round trip, counted, beside the time of one commit of a
  bare sqlite3 connection with the same pragmas and a log that does not grow any more.

Nothing is asserted about time.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import greenlet
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from quiesce import Paused, Runtime, agent, pause
from quiesce.clock import SystemClock
from quiesce_adapters.sqlite.store import SqliteStore

BODIES = (500, 20_000)
ROUNDS = (20, 2_000)
WARM = (2, 400)
"""Round trips, or commits of the bare connection, before those that are timed: a young log that still grows
makes each commit cost half as much again."""


@agent
def asker(times: int) -> int:
    for number in range(times):
        pause(f"question {number}")
    return times


GROWTH = """
import asyncio, resource, sys
from bench_agent_bodies import grow_agents, grow_greenlets
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
asyncio.run({"agents": grow_agents, "greenlets": grow_greenlets}[sys.argv[1]](int(sys.argv[2])))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * (1 if sys.platform == "darwin" else 1024))
"""


async def grow_agents(count: int) -> None:
    """Have so many agents paused at once."""
    async with Runtime() as rt:
        for _ in range(count):
            assert isinstance(await rt.run(asker, 1), Paused)
        for status in await rt.list(state="paused", limit=count):
            await rt.cancel(status.id)


async def grow_greenlets(count: int) -> None:
    """The least that could hold as much: a suspended greenlet, and a task that waits for a future."""
    loop = asyncio.get_running_loop()
    kept: list[Any] = []

    async def drive(body: greenlet.greenlet, future: asyncio.Future[None]) -> None:
        body.switch()
        await future
        body.switch()

    for _ in range(count):
        body = greenlet.greenlet(lambda: greenlet.getcurrent().parent.switch())
        future: asyncio.Future[None] = loop.create_future()
        kept.append((asyncio.create_task(drive(body, future)), future))
        await asyncio.sleep(0)
    for task, future in kept:
        future.set_result(None)
        await task


def growth(what: str, count: int) -> int:
    """Bytes by which a process of its own grows."""
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, what, str(count)],
        cwd=Path(__file__).parent,
        env={"PYTHONPATH": ":".join([str(Path(__file__).parent), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout.split()[-1])


def test_bytes_of_a_paused_body(benchmark: BenchmarkFixture) -> None:
    """How many bytes a paused agent takes, and how many times those of a greenlet with a task."""
    count = BODIES[benchmark.enabled]
    bare = growth("greenlets", count) / count
    ours = benchmark.pedantic(lambda: growth("agents", count) / count, rounds=1)
    benchmark.extra_info["bytes of a paused body"] = round(ours)
    benchmark.extra_info["bytes of greenlet and task"] = round(bare)
    benchmark.extra_info["ratio"] = round(ours / bare, 2) if bare else None


async def round_trips(store: SqliteStore | None, times: int, warm: int) -> float:
    """Seconds for one answer and the next question."""
    async with Runtime(store) as rt:
        run = await rt.start(asker, warm + times + 1)
        outcome = await run.settled()
        started = 0.0
        for number in range(warm + times):
            if number == warm:
                started = time.perf_counter()
            assert isinstance(outcome, Paused)
            outcome = await outcome.resume(True)
        seconds = (time.perf_counter() - started) / times
        await run.cancel()
        return seconds


async def greenlet_hops(times: int) -> float:
    """Seconds for a switch into a greenlet and back, with one hop of the loop."""

    def body() -> None:
        while True:
            greenlet.getcurrent().parent.switch()

    inner = greenlet.greenlet(body)
    inner.switch()
    started = time.perf_counter()
    for _ in range(times):
        await asyncio.sleep(0)
        inner.switch()
    return (time.perf_counter() - started) / times


def event_pairs(times: int) -> float:
    """Seconds for two threads to wake one another once each."""
    go, went = threading.Event(), threading.Event()

    def body() -> None:
        for _ in range(times):
            go.wait()
            go.clear()
            went.set()

    thread = threading.Thread(target=body)
    thread.start()
    started = time.perf_counter()
    for _ in range(times):
        go.set()
        went.wait()
        went.clear()
    thread.join()
    return (time.perf_counter() - started) / times


def commits(path: Path, times: int, warm: int) -> float:
    """Seconds for one small commit with the pragmas of a store."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
    started = 0.0
    for number in range(warm + times):
        if number == warm:
            started = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t (body) VALUES (?)", ("x" * 200,))
        connection.execute("COMMIT")
    seconds = (time.perf_counter() - started) / times
    connection.close()
    return seconds


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_round_trip(benchmark: BenchmarkFixture, tmp_path: Path, store: str) -> None:
    """How long an answer and the next question take, and how many times the least that they could."""
    times = ROUNDS[benchmark.enabled] // (4 if store == "sqlite" else 1)
    warm = WARM[benchmark.enabled]
    labels: list[str] = []
    kept = None
    if store == "sqlite":
        kept = SqliteStore(tmp_path / "flows.db", SystemClock(), on_statement=labels.append)
    ours = benchmark.pedantic(lambda: asyncio.run(round_trips(kept, times, warm)), rounds=1)
    beside = {
        "greenlet and one hop": asyncio.run(greenlet_hops(times)),
        "two-Event threads": event_pairs(times),
    }
    if store == "sqlite":
        beside = {"one commit": commits(tmp_path / "bare.db", times, 3 * warm)}
        # Beside those of the start and the end, of which there are fewer than round trips.
        benchmark.extra_info["commits"] = labels.count("commit") // (warm + times)
    benchmark.extra_info["microseconds"] = round(ours * 1e6, 1)
    for name, seconds in beside.items():
        benchmark.extra_info[f"{name}, microseconds"] = round(seconds * 1e6, 1)
        benchmark.extra_info[f"times {name}"] = round(ours / seconds, 2)
