"""How soon does a pause hold, beside the bare transaction? The measures `limits` and `fence`, smaller.

`extra_info` has P50, P90 and the number of samples of each series, in seconds or as a count. `flowctl bench`
takes the same measures in full, and says which budgets are kept. Nothing is asserted about time.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from measures import fence, limits
from measures.series import Effort

SCALE = (0.002, 0.02)


def test_limits(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """The disk, commits and fences by hand."""
    effort = Effort(tmp_path, SCALE[benchmark.enabled])
    taken = benchmark.pedantic(lambda: list(limits.measure(effort)), rounds=1)
    for series in taken:
        name = f"{series.case}, {series.subject}, {series.size}"
        benchmark.extra_info[name] = (series.p50, series.at(90), len(series.samples))


@pytest.mark.parametrize("backend", ["graph", "agent", "team"])
def test_fence(benchmark: BenchmarkFixture, tmp_path: Path, backend: str) -> None:
    """From the call of a pause until it returns, is read elsewhere, and nothing begins any more."""
    effort = Effort(tmp_path, SCALE[benchmark.enabled], (backend,))
    taken = benchmark.pedantic(lambda: list(fence.measure(effort)), rounds=1)
    for series in taken:
        name = f"{series.case}, {series.subject}, {series.size}"
        benchmark.extra_info[name] = (series.p50, series.at(90), len(series.samples))
