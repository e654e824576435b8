"""How fast, and how right, is quiesce beside LangGraph, DBOS, threads and greenlets?

Timed and counted by `measures/peers.py`, which says from where to where; `extra_info` has its figures.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from measures import peers
from measures.series import Effort
from measures.summary import summary

SCALES = (0.01, 0.2)


@pytest.mark.skipif(peers.missing() is not None, reason=str(peers.missing()))
@pytest.mark.parametrize("kind", ["graph", "agent", "team"])
def test_beside_peers(benchmark: BenchmarkFixture, tmp_path: Path, kind: str) -> None:
    """No answer to quiesce is lost or has its effect twice; what looks first has no effect twice either."""
    effort = Effort(tmp_path, SCALES[benchmark.enabled], (kind,))
    series = benchmark.pedantic(lambda: list(peers.measure(effort)), rounds=1)
    benchmark.extra_info.update(summary(series))
    counted = [one for one in series if one.unit == "1" and one.subject.startswith("quiesce")]
    assert {one.case for one in counted} == {one.case for one in series if one.unit == "1"}
    for one in counted:
        if one.subject != "quiesce" or "effects" not in one.case:
            assert not any(one.samples), one
