"""Which stores and kinds the contract is run over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quiesce_adapters.sqlite.checks import violations_of_file

from .agents import Agents
from .graphs import Graphs
from .kinds import Kind
from .subject import Subject
from .teams import Teams

STORES = {"memory": None, "sqlite": "sqlite:///{folder}/flows.db"}
KINDS: dict[str, Any] = {"graph": Graphs, "agent": Agents, "team": Teams}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store", metavar="URL", help="hold only this store against the contract")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_url" in metafunc.fixturenames:
        named = metafunc.config.getoption("--store", None)
        stores = STORES if named is None else {named.partition(":")[0]: named}
        metafunc.parametrize("store_url", stores.values(), ids=stores.keys())


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """The flows, as one kind writes them."""
    made: Kind = KINDS[request.param]()
    return made


@pytest.fixture
def subject(store_url: str | None, kind: Kind, tmp_path: Path) -> Iterator[Subject]:
    """A fresh store, and what can be asked of it; what a test leaves in it must be true together."""
    yield Subject(None if store_url is None else store_url.format(folder=tmp_path), kind)
    if (file := tmp_path / "flows.db").exists():
        assert violations_of_file(file) == []
