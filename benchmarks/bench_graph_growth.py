"""Does the cost of a large graph grow with its size, or with its square?

Timed: a whole run, from `Runtime.run` to its outcome, in memory and on SQLite (durability "normal", so
that the disk's sync does not hide the engine). Each scenario runs at three sizes, ten times apart in all;
`extra_info` has microseconds and bytes in the store per piece, and their ratio to the smallest size: near
1 is linear, near 10 would be quadratic. Nothing is asserted about time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from quiesce import Completed, Concurrency, Graph, JoinInput, Runtime, Transition

SIZES = {"visits": (1_000, 10_000, 100_000), "branches": (1_000, 3_000, 10_000), "megabytes": (5, 15, 50)}

loop = Graph("loop")


@loop.node(start=True)
def count(state: tuple[int, int]) -> tuple[int, int]:
    return state[0] + 1, state[1]


@loop.transition(count)
def again(state: tuple[int, int]) -> Transition:
    return count.next(state) if state[0] < state[1] else Transition.finish(state[0])


wide = Graph("wide", concurrency=Concurrency.PARALLEL)


@wide.node(start=True)
def spread(size: int) -> int:
    return size


@wide.node
def one(number: int) -> int:
    return number


@wide.node
def total(numbers: JoinInput[int]) -> int:
    return sum(numbers)


@wide.transition(spread)
def to_all(size: int) -> Transition:
    return Transition.fan_out([(one, number) for number in range(size)], join=total)


wide.join(one, into=total)
wide.finish(total)

heavy = Graph("heavy")


@heavy.node(start=True)
def fill(megabytes: int) -> tuple[int, str]:
    return megabytes, "x" * 1_000_000


@heavy.node
def keep(load: tuple[int, str]) -> tuple[int, str]:
    return load[0] - 1, load[1]


@heavy.transition(keep)
def until_none(load: tuple[int, str]) -> Transition:
    return keep.next(load) if load[0] else Transition.finish(0)


heavy.edge(fill, keep)

SCENARIOS: dict[str, tuple[Graph, Callable[[int], Any]]] = {
    "visits": (loop, lambda size: (0, size)),
    "branches": (wide, lambda size: size),
    "megabytes": (heavy, lambda size: size),
}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_growth(benchmark: BenchmarkFixture, tmp_path: Path, scenario: str, store: str) -> None:
    """A run ten times as large costs about ten times as much."""
    graph, make_input = SCENARIOS[scenario]
    sizes = SIZES[scenario] if benchmark.enabled else SIZES[scenario][:1]
    per_piece: dict[int, float] = {}
    bytes_each: dict[int, float] = {}

    async def run(size: int, path: Path | None) -> None:
        async with Runtime(path, durability="normal", flows=[graph]) as rt:
            assert isinstance(await rt.run(graph, make_input(size)), Completed)

    for size in sizes:
        path = tmp_path / f"{size}.db" if store == "sqlite" else None
        if size == sizes[-1]:
            benchmark.pedantic(lambda size=size, path=path: asyncio.run(run(size, path)), rounds=1)
            seconds = benchmark.stats.stats.mean if benchmark.stats else 0.0
        else:
            started = time.perf_counter()
            asyncio.run(run(size, path))
            seconds = time.perf_counter() - started
        per_piece[size] = seconds / size * 1e6
        if path is not None:
            bytes_each[size] = path.stat().st_size / size
    smallest = per_piece[sizes[0]] or 1.0
    benchmark.extra_info["microseconds per piece"] = {s: round(v, 2) for s, v in per_piece.items()}
    benchmark.extra_info["ratio to the smallest"] = {s: round(v / smallest, 2) for s, v in per_piece.items()}
    if bytes_each:
        benchmark.extra_info["bytes per piece"] = {s: round(v) for s, v in bytes_each.items()}
