"""Does pyproject.toml describe what is in the tree, so that a built wheel holds and declares all of it?

Nothing is built here; `.ci/run` builds the wheel, compares its files with the tree and imports it elsewhere.
"""

from __future__ import annotations

import ast
import fnmatch
import importlib
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = {"engine": "quiesce", "adapters": "quiesce_adapters", "cli": "flowctl"}

# Where the distribution is not called as what is imported; pydantic pins its core itself.
DISTRIBUTION_OF = {"sqlite_utils": "sqlite-utils", "pydantic_core": "pydantic"}
# In the standard library of a later Python, imported only there.
LATER_STDLIB = {"annotationlib"}
# Used if it is installed, and never required.
OPTIONAL = {"matplotlib", "opentelemetry", "uvloop"}

ENTRY_POINTS: list[tuple[str, str]] = [
    *PROJECT["project"]["scripts"].items(),
    *(
        (f"{group}: {name}", target)
        for group, names in PROJECT["project"]["entry-points"].items()
        for name, target in names.items()
    ),
]


def files(root: str) -> list[Path]:
    return [path for path in (ROOT / root).rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def requirement_name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return found.group().lower()


def test_the_wheel_is_made_of_the_three_packages() -> None:
    expected = [f"{root}/{package}" for root, package in PACKAGES.items()]
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == expected


@pytest.mark.parametrize("root", PACKAGES)
def test_a_root_holds_its_package_and_nothing_else_to_import(root: str) -> None:
    """An editable install puts the whole root on sys.path, so whatever lies there could be imported."""
    importable = {
        path.name
        for path in (ROOT / root).iterdir()
        if path.suffix == ".py" or (path.is_dir() and path.name.isidentifier() and path.name != "__pycache__")
    }
    assert importable == {PACKAGES[root]}


@pytest.mark.parametrize("root", PACKAGES)
def test_packages_are_typed(root: str) -> None:
    assert (ROOT / root / PACKAGES[root] / "py.typed").is_file()


def test_no_ignore_pattern_drops_a_file_of_a_package() -> None:
    """The build honours .gitignore, and leaves out what it matches without a word."""
    patterns = [
        line.strip().rstrip("/")
        for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith(("#", "/"))
    ]
    dropped = [
        path.relative_to(ROOT).as_posix()
        for root in PACKAGES
        for path in files(root)
        if any(
            fnmatch.fnmatch(part, pattern) for part in path.relative_to(ROOT).parts for pattern in patterns
        )
    ]
    assert dropped == []


@pytest.mark.parametrize(("name", "target"), ENTRY_POINTS, ids=[name for name, _ in ENTRY_POINTS])
def test_entry_points_lead_somewhere(name: str, target: str) -> None:
    module, _, attribute = target.partition(":")
    assert callable(getattr(importlib.import_module(module), attribute))


def test_what_is_imported_is_declared_and_the_reverse() -> None:
    """A dependency that only comes along with another one is missing the day that one drops it."""
    declared = {requirement_name(text) for text in PROJECT["project"]["dependencies"]}
    imported = set()
    for root in PACKAGES:
        for path in (ROOT / root).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Import(names=names):
                        imported |= {alias.name.partition(".")[0] for alias in names}
                    case ast.ImportFrom(module=str(module), level=0):
                        imported.add(module.partition(".")[0])
    ours = sys.stdlib_module_names | set(PACKAGES.values()) | OPTIONAL | LATER_STDLIB
    assert {DISTRIBUTION_OF.get(name, name) for name in imported - ours} == declared


@pytest.mark.parametrize("requirement", PROJECT["project"]["dependencies"])
def test_dependencies_have_both_bounds(requirement: str) -> None:
    """The lowest version that was tried, and the next major version, which nobody has tried."""
    assert re.fullmatch(r"[a-z-]+>=[0-9.]+,<[0-9.]+", requirement)


def test_the_installed_version_is_the_declared_one() -> None:
    assert metadata.version("quiesce") == PROJECT["project"]["version"]


def test_declared_files_exist() -> None:
    for name in [PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]]:
        assert (ROOT / name).read_text(encoding="utf-8").strip()
