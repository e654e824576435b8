"""How fast is what is not paused, and how long is a command waited for? `pace` and `commands`, smaller.

`extra_info` has the median of each series and its ratio to what its budget is held against. `flowctl bench`
takes the same measures in full. Nothing is asserted about time.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from measures import commands, pace
from measures.series import Effort
from measures.summary import summary

SCALES = (0.005, 0.1)


@pytest.mark.parametrize("backend", ["graph", "agent", "team"])
def test_pace(benchmark: BenchmarkFixture, tmp_path: Path, backend: str) -> None:
    """Visits, fan-outs, round trips, durable steps; nothing is sent to the store while a run is paused."""
    effort = Effort(tmp_path, SCALES[benchmark.enabled], (backend,))
    series = benchmark.pedantic(lambda: list(pace.measure(effort)), rounds=1)
    benchmark.extra_info.update(summary(series))
    assert [one.samples for one in series if "while paused" in one.case and one.subject == "quiesce"] == [
        (0.0,)
    ]


def test_commands(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """An answer and a status in processes of their own."""
    effort = Effort(tmp_path, SCALES[benchmark.enabled])
    series = benchmark.pedantic(lambda: list(commands.measure(effort)), rounds=1)
    benchmark.extra_info.update(summary(series))
