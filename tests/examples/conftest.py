"""Projects for the main example, and real processes that run examples and are killed."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest

from .reading import Make


@pytest.fixture(autouse=True)
def plain_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own writer is not part of any test."""
    monkeypatch.delenv("WORKSPACE_ARCHITECT_WRITER", raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Make:
    """Write these files into a folder of a project."""

    def make(files: dict[str, str | bytes]) -> Path:
        root = tmp_path / "project"
        root.mkdir(exist_ok=True)
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return make


@pytest.fixture(scope="session", params=["json", "email", "asyncio", "unittest"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a package of the standard library."""
    name = str(request.param)
    source = Path(sysconfig.get_path("stdlib"), name)
    target = tmp_path_factory.mktemp("stdlib") / name
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "test"))
    return target
