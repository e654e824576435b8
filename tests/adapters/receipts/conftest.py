"""Which stores the cases of teams are run over."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where the store is; None is memory."""
    return tmp_path / "flows.db" if request.param == "sqlite" else None
