"""What does the same work cost as a graph, as an agent and as a team?

Timed and counted by `measures/backends.py`, which says from where to where; `extra_info` has its figures.
"""

from __future__ import annotations

from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture

from measures import backends
from measures.series import Effort
from measures.summary import summary

SCALES = (0.0001, 0.05)


def test_backends_compared(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Every verb is measured for every kind of flow, in memory and in SQLite."""
    effort = Effort(tmp_path, SCALES[benchmark.enabled])
    series = benchmark.pedantic(lambda: list(backends.measure(effort)), rounds=1)
    benchmark.extra_info.update(summary(series))
    for store in ("memory", "SQLite"):
        for verb in ("pause", "resume", "status", "answer"):
            subjects = [one.subject for one in series if one.case == f"{store}, {verb}"]
            assert subjects == ["graph", "agent", "team"]
