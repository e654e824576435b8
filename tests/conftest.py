"""What every test can ask for, and how many examples a property test draws.

`tests/contract` adds what its own tests share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from quiesce_adapters.sqlite.checks import violations_of_file

# No deadline anywhere: a slow machine is not a failing property.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile(
    "sweep",
    deadline=None,
    max_examples=5_000,
    stateful_step_count=100,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")  # --hypothesis-profile overrides it

os.environ.pop("FLOWCTL_DB", None)  # a developer's own store is not part of any test


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop: every async test runs on both."""
    return str(request.param)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Path]:
    """A path where no store is yet; a test that opens it twice sees what a restart sees.

    Whatever the test did, what it leaves there must be true together.
    """
    path = tmp_path / "flows.db"
    yield path
    if path.exists():
        assert violations_of_file(path) == []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow sweeps out, unless a marker expression or a test's own name asks for them."""
    if config.option.markexpr or any("::" in str(argument) for argument in config.args):
        return
    slow = {item for item in items if item.get_closest_marker("slow")}
    if slow:
        config.hook.pytest_deselected(items=list(slow))
        items[:] = [item for item in items if item not in slow]
