"""How long until nothing runs any more, beside the slowest body's own time? The measure `drain`, smaller.

`extra_info` has P50, P90 and the number of samples of each series, in seconds. `flowctl bench` takes the same
measure in full, and says which budgets are kept. Nothing is asserted about time.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from measures import drain
from measures.series import Effort

SCALE = (0.002, 0.1)


@pytest.mark.parametrize("backend", ["graph", "agent", "team"])
def test_drain(benchmark: BenchmarkFixture, tmp_path: Path, backend: str) -> None:
    """From the fence until quiescent, and from a pause until everybody has heard of it."""
    effort = Effort(tmp_path, SCALE[benchmark.enabled], (backend,))
    taken = benchmark.pedantic(lambda: list(drain.measure(effort)), rounds=1)
    for series in taken:
        name = f"{series.case}, {series.subject}, {series.size}"
        benchmark.extra_info[name] = (series.p50, series.at(90), len(series.samples))
