"""Graph runs by node replay, over a store in memory and one on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quiesce import Runtime

Open = Callable[..., Runtime]


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a runtime for these flows; on disk, each time on the same store."""
    target = None if request.param == "memory" else tmp_path / "flows.db"

    def opened(*flows: Any, **options: Any) -> Runtime:
        return Runtime(target, flows=flows, **options)

    return opened


@pytest.fixture
def on_disk(tmp_path: Path) -> Open:
    """Opens a runtime for these flows, each time on the same store on disk."""

    def opened(*flows: Any, **options: Any) -> Runtime:
        return Runtime(tmp_path / "flows.db", flows=flows, **options)

    return opened
